/*
 * fit_recall.c - measures the recall of searches anew in an index that was changed row by row.
 *
 * The method is the build's (store/recall.c), with one reading of all records. All searches take a
 * few times as long as the reading. The queries that scans have left in a sample (query_sample.c)
 * are the queries instead of nodes, if there are enough.
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

#include "access/table.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "am/index/index.h"
#include "am/scan/scan.h"
#include "store/recall.h"

/*
 * Recall is measured again when searches may need a width larger by this factor: seven times while
 * an index grows to ten times its size by inserts, 13 times with 1.075, three times with 1.3.
 */
#define MOST_STRETCH 1.15
#define LEAST_IDS 1000			/* smaller indexes are not measured */

/*
 * The number of queries is as large as MULTIPLICATIONS allow (at a million rows of 128 dimensions
 * the least number, about a second); recall.h says how well it tells recall.
 */
#define LEAST_QUERIES 24
#define MULTIPLICATIONS 2e9

/*
 * Nothing is measured if more than this share of slots is free: the rows that will fill the slots
 * change recall, and nothing counts these rows.
 */
#define MOST_FREE 0.3

typedef struct Measure
{
	GrnRecall	recall;
	GrnStoredGraph graph;
	GrnStore   *store;
	Fit		   *f;
	Datum		sampled[GRNND_SAMPLED_QUERIES]; /* the queries of scans */
	uint32		drawn;			/* slots read */
	uint32		nfree;			/* free slots among these */
	/* while all records are read */
	GrnQueries *now;
	uint32		id;				/* the record being visited */
	float	   *scratch;		/* [dim] */
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

static bool
is_free(Fit *f, uint32 id)
{
	Buffer		buffer = grnnd_read(f->index, grnnd_node_block(&f->ix, id), BUFFER_LOCK_SHARE, GRNND_NODES, NULL);
	Page		page = BufferGetPage(buffer);
	bool		result = PageIsNew(page) ||
		grnnd_page_record(page, &f->ix, grn_node_slot(&f->ix.layout, id))->state == GRN_FREE;

	UnlockReleaseBuffer(buffer);
	return result;
}

/* GrnRecall.takes(): all nodes, of which grnnd_fit_visit() tells. */
static bool
may_be_query(void *arg, uint32 id)
{
	Measure    *m = arg;

	grnnd_fit_check_interrupts(m->f);
	m->drawn++;
	m->nfree += is_free(m->f, id);
	return grnnd_fit_visit(m->f, id, false);
}

/* GrnRecall.load(), of a node */
static void
load_node(void *arg, uint32 i, float *x)
{
	Measure    *m = arg;

	(void) grnnd_fit_visit(m->f, m->recall.ids[i], true);
	memcpy(x, m->f->x, m->f->ix.meta.dim * sizeof(float));
}

/* GrnRecall.load(), of a scan's query */
static void
load_sampled(void *arg, uint32 i, float *x)
{
	Measure    *m = arg;

	(void) grnnd_form_vector(&m->f->ix.key, m->f->ix.meta.column_dim, m->sampled[i], x, NULL);
}

/* Takes queries of scans instead of nodes, if there are enough. */
static void
take_sampled(Measure *m)
{
	Fit		   *f = m->f;
	Relation	heap = table_open(f->index->rd_index->indrelid, NoLock);
	int			n = grnnd_sampled_queries(heap, &f->ix, m->sampled);

	table_close(heap, NoLock);
	if (n < GRNND_LEAST_SAMPLE)
		return;
	m->recall.of_scans = true;
	m->recall.load = load_sampled;
	m->recall.n = 0;
	for (int i = 0; i < n; i++)
		if (grnnd_form_vector(&f->ix.key, f->ix.meta.column_dim, m->sampled[i], f->x, NULL))
		{
			m->sampled[m->recall.n] = m->sampled[i];
			m->recall.ids[m->recall.n++] = GRN_INVALID_ID;
		}
}

/* ---- the truth ---- */

/* A GrnVisitFn, arg a Measure: compares a row with all queries. */
static void
compare(void *arg, const GrnRecord *rec, const void *vec)
{
	Measure    *m = arg;

	if (rec->state == GRN_NODE)
		grn_queries_compare_row(m->now, 0, m->id, vec, m->scratch);
}

/* GrnRecall.read() */
static void
read_records(void *arg, GrnQueries *q)
{
	Measure    *m = arg;

	m->now = q;
	for (m->id = 0; m->id < m->f->limit; m->id++)
	{
		if (m->id % 64 == 0)
			grnnd_fit_check_interrupts(m->f);
		(void) m->store->visit(m->store, m->id, compare, m);
	}
}

/* ---- the whole ---- */

/*
 * Measures with nodes, or with queries of scans instead if there are enough, at the cost of one
 * reading of all records. The curve has no queries if recall cannot be measured. *free: the share
 * of free slots.
 */
static void
measure(Measure *m, GrnRecallCurve *curve, GrnContrast *contrast, double *free)
{
	Fit		   *f = m->f;
	GrnRecall  *r = &m->recall;
	double		room = MULTIPLICATIONS / ((double) f->limit * f->ix.meta.dim);

	m->store = &f->store.base;
	m->graph = grnnd_stored_graph(f->index, &f->ix, &m->store);
	m->scratch = palloc(f->ix.meta.dim * sizeof(float));
	r->graph = &m->graph;
	r->parallel = &f->alone;
	r->rows = &f->ix.layout;
	r->load = load_node;
	r->read = read_records;
	r->arg = m;
	grn_recall_draw(r, f->ix.meta.params.seed, f->limit, (uint32) Min(Max(room, LEAST_QUERIES), GRN_MOST_QUERIES), may_be_query);
	*free = (double) m->nfree / Max(m->drawn, 1);
	if (*free > MOST_FREE)
		r->n = 0;
	else
		take_sampled(m);
	if (r->n > 0)
		grn_recall_measure(r, 0, r->n, palloc_extended(grn_recall_bytes(r, r->n), MCXT_ALLOC_HUGE));
	grn_recall_sum_up(r, r->n, curve, contrast);
}

bool
grnnd_fit_measure(Fit *f)
{
	GrnndMeasured *measured = &f->ix.notes.measured;
	GrnndQueried *queried = &f->ix.notes.queried;
	MemoryContext context;
	MemoryContext old;
	Measure    *m;
	GrnRecallCurve curve;
	GrnContrast contrast;
	double		free;
	bool		of_scans;

	if (f->limit < LEAST_IDS)
		return false;
	context = AllocSetContextCreate(CurrentMemoryContext, "grnnd recall", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(context);
	m = palloc0(sizeof(Measure));
	m->f = f;
	measure(m, &curve, &contrast, &free);
	of_scans = m->recall.of_scans;
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	grnnd_query_sample_done(&f->ix.meta);
	if (curve.queries == 0)
		return false;
	measured->curve = curve;
	measured->ids = f->limit;
	measured->inserted = (float) Max(grnnd_inserted(&f->ix.notes, f->limit) - free, 0);
	measured->stretch = (float) grnnd_stretch(&f->ix.notes, f->limit);
	measured->crc = grnnd_measured_crc(measured);
	queried->sampled = of_scans ? curve.queries : 0;
	queried->measured = contrast;
	queried->crc = grnnd_queried_crc(queried);
	return true;
}
