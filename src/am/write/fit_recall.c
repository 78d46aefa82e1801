/*
 * fit_recall.c - measures the recall of searches anew in an index that was changed row by row.
 *
 * The method is the build's (pipeline_recall.c): some nodes of the index are queries, each absent
 * from its own searches (absent.c); one reading of all records finds their nearest rows; the
 * searches run as scans do. All searches take a few times as long as the reading. The queries that
 * scans have left in a sample (query_sample.c) are the queries instead, if there are enough.
 *
 * How much recall inserted rows cost differs from data to data: at twice the rows searches needed
 * 1.1 to 2.3 times the width (test/bench/recall/results.md). So the guess of width.c serves only
 * between two measurements.
 *
 * Distances are computed from stored vectors, also of a few bits, for queries and for the truth.
 * Recall by the table's rows is farther from the recall of scans, which read more rows than they
 * return: test/bench/decisions.md, "Truth of recall in an index of rounded vectors".
 */
#include "am/write/fit_impl.h"

#include <math.h>

#include "access/table.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "am/index/index.h"
#include "am/scan/scan.h"

/*
 * Recall is measured again when searches may need a width larger by this factor: seven times while
 * an index grows to ten times its size by inserts, 13 times with 1.075, three times with 1.3.
 */
#define MOST_STRETCH 1.15
#define LEAST_IDS 1000			/* smaller indexes are not measured */

/*
 * The number of queries is as large as MULTIPLICATIONS allow (at a million rows of 128 dimensions
 * the least number, about a second).  Recall .95 is known to .019 by 24 queries, to .027 by half
 * and .013 by twice as many; by 400 to .005, by half to .007, by twice to .003
 * (grnnd_recall_chance()).
 */
#define LEAST_QUERIES 24
#define MOST_QUERIES 400
#define MULTIPLICATIONS 2e9
#define DRAWS 8					/* random ids for each query, so that the loop ends if few live */
/*
 * Every fourth query runs at all widths; the rest run until they have found their nearest 10. Of
 * the fewer queries of scans all run at all widths.  VACUUM of 6,000 sentences, half inserted,
 * takes .28 s, with every second query .33, with every eighth .23.
 */
#define WIDE_EVERY 4

/*
 * Nothing is measured if more than this share of slots is free: the rows that will fill the slots
 * change recall, and nothing counts these rows.
 */
#define MOST_FREE 0.3

#define ALIGNMENT 64			/* as grn_query_make() requires */

static const uint32 widths[GRN_CURVE_POINTS] = GRN_CURVE_WIDTHS;
static const uint32 ks[GRN_CURVE_KS] = GRN_CURVE_K;

typedef struct TestQuery
{
	uint32		id;				/* GRN_INVALID_ID: a query of a scan */
	float	   *x;				/* [dim] */
	void	   *made;			/* x prepared by grn_query_make(), or NULL */
	uint32		n;
	float		nearest[GRN_CURVE_MOST_K];	/* [n] smallest distances, sorted */
} TestQuery;

/* Results of queries: sums, and in the end averages. */
typedef struct Outcome
{
	GrnRecallCurve curve;
	GrnContrast contrast;
	uint32		contrasts[GRN_CURVE_POINTS];	/* number of known contrasts */
	bool		sampled;		/* the queries are of scans */
	double		squares[GRN_CURVE_POINTS];	/* of each query's recall of the ten nearest */
} Outcome;

typedef struct Measure
{
	Fit		   *f;
	uint32		wide_every;		/* WIDE_EVERY or 1 */
	uint32		nqueries;
	TestQuery	queries[MOST_QUERIES];
	uint32		drawn;			/* slots read */
	uint32		nfree;			/* free slots among these */
	uint32		id;				/* id of the record being visited */
} Measure;

bool
grnnd_recall_due(Relation index, const GrnndMeta *meta, const GrnndNotes *notes, uint32 limit)
{
	double		before = notes->measured.ids > 0 ? notes->measured.stretch : 1;

	return limit >= LEAST_IDS && (grnnd_curve(notes)->queries == 0 ||
								  grnnd_stretch(notes, limit) > MOST_STRETCH * before ||
								  grnnd_query_sample_due(meta));
}

/* ---- queries ---- */

/* A GrnVisitFn, arg a Measure: takes a node of a single row, as most nodes are. */
static void
take_query(void *arg, const GrnRecord *rec, const void *vec)
{
	Measure    *m = arg;
	TestQuery  *q = &m->queries[m->nqueries];

	if (rec->state != GRN_NODE || rec->ntids != 1 || rec->next != GRN_INVALID_ID)
		return;
	grn_own_load(&m->f->ix.layout, vec, q->x);
	q->id = m->id;
	q->n = 0;
	m->nqueries++;
}

static bool
is_free(Fit *f, uint32 id)
{
	Buffer		buffer = ReadBufferExtended(f->index, MAIN_FORKNUM, grnnd_node_block(&f->ix, id),
											RBM_NORMAL, f->store.strategy);
	Page		page = BufferGetPage(buffer);
	bool		result;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	grnnd_check_page(f->index, buffer, GRNND_NODES);
	result = PageIsNew(page) ||
		grnnd_page_record(page, &f->ix, grn_node_slot(&f->ix.layout, id))->state == GRN_FREE;
	UnlockReleaseBuffer(buffer);
	return result;
}

/* Draws n nodes at random, each once, but no entry points: searches need them. */
static void
draw(Measure *m, const GrnndEntries *entries, uint32 n)
{
	Fit		   *f = m->f;
	float	   *rows = palloc_extended((Size) n * f->ix.meta.dim * sizeof(float), MCXT_ALLOC_HUGE);

	for (uint64 i = 0; i < (uint64) n * DRAWS && m->nqueries < n; i++)
	{
		bool		known = false;

		m->id = (uint32) (grn_random(f->ix.meta.params.seed, f->limit, i) % f->limit);
		for (uint32 j = 0; j < m->nqueries; j++)
			known |= m->queries[j].id == m->id;
		for (uint32 j = 0; j < entries->count; j++)
			known |= entries->ids[j] == m->id;
		if (known)
			continue;
		grnnd_fit_check_interrupts(f);
		m->drawn++;
		m->nfree += is_free(f, m->id);
		m->queries[m->nqueries].x = rows + (Size) m->nqueries * f->ix.meta.dim;
		(void) f->store.base.visit(&f->store.base, m->id, take_query, m);
	}
}

/* Takes queries of scans instead of nodes.  Returns false if there are too few. */
static bool
take_sampled(Measure *m)
{
	Fit		   *f = m->f;
	Relation	heap = table_open(f->index->rd_index->indrelid, NoLock);
	Datum		values[GRNND_SAMPLED_QUERIES];
	int			n = grnnd_sampled_queries(heap, &f->ix, values);

	table_close(heap, NoLock);
	if (n < GRNND_LEAST_SAMPLE)
		return false;
	m->nqueries = 0;
	m->wide_every = 1;
	for (int i = 0; i < n; i++)
	{
		TestQuery  *q = &m->queries[m->nqueries];

		memset(q, 0, sizeof(*q));
		q->id = GRN_INVALID_ID;
		q->x = palloc(f->ix.meta.dim * sizeof(float));
		m->nqueries += grnnd_form_vector(&f->ix.key, f->ix.meta.column_dim, values[i], q->x, NULL);
	}
	return true;
}

/* Prepares the queries as searches do, so that distances are the same. */
static void
make_ready(Measure *m)
{
	const GrnLayout *l = &m->f->ix.layout;
	Size		bytes = grn_query_bytes(m->f->ix.key.metric->comparison, l->form, l->dim);

	for (uint32 i = 0; i < m->nqueries && bytes > 0; i++)
	{
		TestQuery  *q = &m->queries[i];

		q->made = (void *) TYPEALIGN(ALIGNMENT, palloc(bytes + ALIGNMENT));
		if (!grn_own_query(l, q->x, q->made))
			q->made = NULL;
	}
}

/* ---- the truth ---- */

static void
keep(TestQuery *q, float d)
{
	uint32		at;

	if (isnan(d) || (q->n == GRN_CURVE_MOST_K && !(d < q->nearest[GRN_CURVE_MOST_K - 1])))
		return;
	at = q->n < GRN_CURVE_MOST_K ? q->n++ : GRN_CURVE_MOST_K - 1;
	for (; at > 0 && q->nearest[at - 1] > d; at--)
		q->nearest[at] = q->nearest[at - 1];
	q->nearest[at] = d;
}

/* A GrnVisitFn, arg a Measure: compares a row with all queries. */
static void
compare(void *arg, const GrnRecord *rec, const void *vec)
{
	Measure    *m = arg;
	const GrnLayout *l = &m->f->ix.layout;
	GrnComparison comparison = m->f->ix.key.metric->comparison;

	if (rec->state != GRN_NODE)
		return;
	for (uint32 i = 0; i < m->nqueries; i++)
	{
		TestQuery  *q = &m->queries[i];

		if (q->id != m->id)
			keep(q, q->made != NULL ? grn_query_compare(comparison, l->form, q->made, vec, l->dim)
				 : grn_compare(comparison, l->form, q->x, vec, l->dim));
	}
}

/* ---- searches ---- */

/* A distance, or more by the rounding of searches that compare a sparse row in another order. */
static float
rounded_up(float d)
{
	return d + fabsf(d) * 1e-5f;
}

/* Returns how many of the k nearest were found. */
static uint32
hits(const TestQuery *q, const GrnSearch *s, uint32 nfound, uint32 k)
{
	const GrnFound *found = grn_search_found(s);
	uint32		count = 0;
	uint32		taken = 0;

	for (uint32 i = 0; i < nfound && taken < k; i++)
		if (found[i].id != q->id)
		{
			taken++;
			count += found[i].distance <= rounded_up(q->nearest[k - 1]);
		}
	return count;
}

/*
 * The curve of rows has their mean contrast. Queries of scans may be of several kinds, and the
 * curve is of the mix, so only queries with less contrast than any of these need more than the
 * curve says.
 */
static void
add_contrast(Outcome *sums, int point, float contrast)
{
	float	   *c = &sums->contrast.at[point];

	sums->contrasts[point]++;
	if (!sums->sampled)
		*c += logf(contrast);
	else if (*c == 0 || contrast < *c)
		*c = contrast;
}

/* Adds the results of query i at each width to the sums. */
static void
search(Measure *m, uint32 i, const GrnndEntries *entries, Outcome *sums)
{
	Fit		   *f = m->f;
	const TestQuery *q = &m->queries[i];
	bool		wide = i % m->wide_every == 0;
	uint32		few = Min(ks[0], q->n);
	uint32		found = 0;		/* found among the few nearest */

	if (q->id != GRN_INVALID_ID)
		f->store.absent = grn_absent_begin(&f->store.base, &f->ix.layout, &f->ix.codec, q->id);
	for (int point = 0; point < GRN_CURVE_POINTS && q->n > 0; point++)
	{
		/* wider searches find all rows that a narrow search finds */
		if (wide || found < few)
		{
			GrnSearchParams params = {
				.layout = &f->ix.layout,
				.codec = &f->ix.codec,
				.metric = f->ix.key.metric,
				.ef = widths[point] * grnnd_beam(&f->ix),
				.ef_exact = widths[point],
				.wanted = (uint32_t) ks[0],
				.dead_limit = GRN_DEAD_LIMIT(widths[point] * grnnd_beam(&f->ix))
			};
			GrnSearch  *s = grn_search_begin(&params, &f->store.base, q->x);
			uint32		n;

			grn_search_entries(s, entries->ids, entries->codes, entries->factors, entries->count);
			n = grn_search_run(s);
			found = hits(q, s, n, few);
			if (wide)
			{
				sums->curve.recall[1][point] += (float) hits(q, s, n, Min(ks[1], q->n)) /
					(float) Min(ks[1], q->n);
				sums->curve.visits[point] += (float) grn_search_visits(s);
				if (n >= widths[point])
				{
					float		contrast = grn_contrast(grn_search_found(s)[widths[point] / GRN_CONTRAST_PART - 1].distance,
														grn_search_found(s)[widths[point] - 1].distance);

					if (contrast > 0)
						add_contrast(sums, point, contrast);
				}
			}
			grn_search_end(s);
		}
		sums->curve.recall[0][point] += (float) found / (float) few;
		sums->squares[point] += pow((double) found / few, 2);
	}
	grn_absent_end(&f->store.base, f->store.absent);
	f->store.absent = NULL;
}

/*
 * Measures with n nodes, or with queries of scans instead if there are enough, at the cost of one
 * reading of all records.
 */
static void
measure_queries(Measure *m, const GrnndEntries *entries, uint32 n, Outcome *sums)
{
	Fit		   *f = m->f;

	draw(m, entries, n);
	if (m->nfree > MOST_FREE * m->drawn)
	{
		m->nqueries = 0;
		return;
	}
	sums->sampled = take_sampled(m);
	make_ready(m);
	for (m->id = 0; m->id < f->limit; m->id++)
	{
		if (m->id % 64 == 0)
			grnnd_fit_check_interrupts(f);
		(void) f->store.base.visit(&f->store.base, m->id, compare, m);
	}
	for (uint32 i = 0; i < m->nqueries; i++)
	{
		grnnd_fit_check_interrupts(f);
		search(m, i, entries, sums);
	}
}

/*
 * The number of queries with the usual variance that would measure recall as precisely as these n.
 * Where some queries miss all of their rows, the variance is up to ten times as large. The sums are
 * not divided yet.
 */
static uint32
queries_worth(const Outcome *sums, uint32 n)
{
	double		worth = 0;
	int			points = 0;

	for (int i = 0; i < GRN_CURVE_POINTS; i++)
	{
		double		r = sums->curve.recall[0][i] / n;
		double		variance = sums->squares[i] / n - r * r;

		if (r < 1 && variance > 0)
		{
			double		usual = pow(grnnd_recall_chance(r, 1), 2);

			worth += Min(usual / variance, 1);
			points++;
		}
	}
	return points == 0 ? n : Max((uint32) (n * worth / points), 1);
}

/*
 * Measures the curve of recall; the curve has no queries if recall cannot be measured. *free: the
 * share of free slots.
 */
static void
measure(Fit *f, Outcome *out, double *free)
{
	GrnRecallCurve *curve = &out->curve;
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "grnnd recall",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	Measure    *m = palloc0(sizeof(Measure));
	GrnndEntries *entries;
	double		room = MULTIPLICATIONS / ((double) f->limit * f->ix.meta.dim);

	memset(out, 0, sizeof(*out));
	m->f = f;
	m->wide_every = WIDE_EVERY;
	entries = grnnd_get_entries(f->index, &f->ix);
	measure_queries(m, entries, (uint32) Min(Max(room, LEAST_QUERIES), MOST_QUERIES), out);
	if (m->nqueries > 0)
	{
		uint32		nwide = (m->nqueries + m->wide_every - 1) / m->wide_every;

		curve->queries = out->sampled ? queries_worth(out, m->nqueries) : m->nqueries;
		for (int i = 0; i < GRN_CURVE_POINTS; i++)
		{
			curve->recall[0][i] /= (float) m->nqueries;
			curve->recall[1][i] /= (float) nwide;
			curve->visits[i] /= (float) nwide;
			if (out->contrasts[i] > 0 && !out->sampled)
				out->contrast.at[i] = expf(out->contrast.at[i] / (float) out->contrasts[i]);
		}
	}
	*free = (double) m->nfree / Max(m->drawn, 1);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

bool
grnnd_fit_measure(Fit *f)
{
	GrnndMeasured *measured = &f->ix.notes.measured;
	GrnndQueried *queried = &f->ix.notes.queried;
	Outcome		out;
	double		free;

	if (f->limit < LEAST_IDS)
		return false;
	measure(f, &out, &free);
	grnnd_query_sample_done(&f->ix.meta);
	if (out.curve.queries == 0)
		return false;
	measured->curve = out.curve;
	measured->ids = f->limit;
	measured->inserted = (float) Max(grnnd_inserted(&f->ix.notes, f->limit) - free, 0);
	measured->stretch = (float) grnnd_stretch(&f->ix.notes, f->limit);
	measured->crc = grnnd_measured_crc(measured);
	queried->sampled = out.sampled ? out.curve.queries : 0;
	queried->measured = out.contrast;
	queried->crc = grnnd_queried_crc(queried);
	return true;
}
