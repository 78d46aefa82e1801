/*
 * pipeline_records.c - the finished graph as records in memory, for what searches the graph as the
 * index will be searched: recall measurements, and edges between the parts of a build.
 */
#include "builder/pipeline_impl.h"

#include <stdlib.h>
#include <string.h>

#include "store/search.h"

/*
 * Own items of all rows take so many bytes at most, since the build's plan of memory does not have
 * them.  (A million rows of 128 dimensions in layout compact take 72 MB.)
 */
#define MOST_ITEM_BYTES (UINT64_C(128) << 20)

/*
 * Searches of the first round, after which most graphs are finished, and of a later round; one
 * search for each TRIALS_SHARE vertices, so that small graphs cost little; and rounds, at most.  12
 * rounds raise recall from .72 to .99 for 200 clusters in 51 parts.  20,000 sentences and image
 * patches have the same recall and visits with half and twice of each constant.
 */
#define FIRST_TRIALS 128
#define MOST_TRIALS 1024
#define TRIALS_SHARE 32
#define MOST_ROUNDS 64

#define USUAL_PAYLOAD 8160		/* bytes of records on a page, for graphs without an index */

typedef enum ItemState
{
	ITEM_MISSING,
	ITEM_IN_WORK,				/* a thread makes the item */
	ITEM_MADE
} ItemState;

/* The index among rows, or among own items, that belongs to an id. */
static uint64_t
index_of(const GrnPipeline *p, uint32_t id, bool of_item)
{
	if (p->out.rows == NULL)
		return p->rows.order == NULL || (of_item && p->plan.regime != GRN_ROUNDED) ? id : p->rows.order[id];
	if (p->out.moved != NULL)
		id = p->out.moved[id];
	else
		id = p->out.rows[p->out.row_start[id]];
	/* moved[] has vertices if vertices have own items beside their rows */
	return p->own && p->plan.regime != GRN_ROUNDED && !of_item && p->rows.order ? p->rows.order[id] : id;
}

const void *
grn_records_row(const GrnRecords *r, uint32_t id)
{
	const GrnPipeline *p = r->p;

	return (const char *) p->rows.base + index_of(p, id, false) * p->rows.row_bytes;
}

/*
 * The own item of an id.  Searches come to the same nodes again and again, and to make an item of
 * few bits takes 10 to 30 times as long as the rest of a visit.  Returns NULL while another thread
 * makes the item.
 */
static const uint8_t *
item_of(GrnRecordStore *s, uint32_t id)
{
	const GrnRecords *r = s->records;
	uint8_t    *item = r->items + (size_t) id * r->item_bytes;
	uint8_t		state = ITEM_MISSING;

	if (__atomic_compare_exchange_n(&r->item_states[id], &state, ITEM_IN_WORK, false,
									__ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE))
	{
		grn_own_item_make(&r->layout, grn_row_values(&r->p->rows, grn_records_row(r, id), s->scratch), item);
		__atomic_store_n(&r->item_states[id], ITEM_MADE, __ATOMIC_RELEASE);
		return item;
	}
	return state == ITEM_MADE ? item : NULL;
}

static void
form_record(GrnRecordStore *s, uint32_t id)
{
	const GrnRecords *r = s->records;
	const GrnLayout *l = &r->layout;
	const GrnPipeline *p = r->p;
	const uint8_t tid[GRN_TID_BYTES] = {0, 0, 0, 0, 1, 0};
	GrnRecordSource src = grn_result_record(&r->at, l, id);

	if (s->base.skips_neighbors)
		src.count = 0;
	src.tids = tid;
	src.ntids = 1;
	if (p->own)
	{
		src.stored = p->own + index_of(p, id, true) * p->own_bytes;
		src.error = grn_own_item_error(l->form, l->dim, src.stored);
	}
	else if (p->rows.form == l->form)
		src.stored = grn_records_row(r, id);
	else if (r->items != NULL && (src.stored = item_of(s, id)) != NULL)
		src.error = grn_own_item_error(l->form, l->dim, src.stored);
	else
		src.x = grn_row_values(&p->rows, grn_records_row(r, id), s->scratch);
	grn_record_write(l, &src, s->record);
}

/* GrnStore.visit() */
static bool
visit(GrnStore *self, uint32_t id, GrnVisitFn fn, void *arg)
{
	GrnRecordStore *s = (GrnRecordStore *) self;
	const GrnRecord *seen;

	form_record(s, id);
	seen = grn_absent_view(self->absent, id, (const GrnRecord *) s->record);
	if (seen != NULL)
		fn(arg, seen, s->record + s->records->layout.off_vec);
	return seen != NULL;
}

static float
distance(const GrnRecords *r, uint32_t a, uint32_t b)
{
	return grn_row_distance(&r->p->rows, grn_records_row(r, a), grn_records_row(r, b));
}

/* GrnStore.edit().  Lists are nearest first, so a new last edge moves to its place. */
static void
edit(GrnStore *self, uint32_t id, GrnEditFn fn, void *arg)
{
	GrnRecordStore *s = (GrnRecordStore *) self;
	const GrnRecords *r = s->records;
	GrnRecord  *rec = (GrnRecord *) s->record;
	uint32_t   *ids = r->at.ids + (uint64_t) id * r->layout.degree;
	uint32_t	at;
	uint32_t	new;

	form_record(s, id);
	fn(arg, rec);
	at = r->at.counts[id] = rec->count;
	memcpy(ids, grn_rec_ids(&r->layout, rec), at * sizeof(uint32_t));
	for (new = ids[--at]; at > 0 && distance(r, id, ids[at - 1]) > distance(r, id, new); at--)
		ids[at] = ids[at - 1];
	ids[at] = new;
}

static void *
store_alloc(GrnStore *self, size_t bytes)
{
	void	   *p = grn_alloc(bytes > 0 ? bytes : 1);

	(void) self;
	if (p == NULL)
		/*
		 * A search cannot continue without memory; the leader reports the end of the builder.  In a
		 * backend grn_alloc() has raised an error before.
		 */
		abort();
	return p;
}

static void
store_free(GrnStore *self, void *p)
{
	(void) self;
	grn_free(p);
}

static bool
begin_store(GrnRecords *r, GrnStore **store)
{
	GrnRecordStore *s = grn_alloc_zeroed(1, sizeof(*s));

	*store = (GrnStore *) s;
	if (s == NULL)
		return false;
	s->base = (GrnStore) {.visit = visit, .edit = edit, .alloc = store_alloc, .free = store_free};
	s->records = r;
	s->record = grn_alloc_zeroed(1, r->layout.record_bytes);
	s->scratch = grn_alloc(r->p->rows.dim * sizeof(float));
	return s->record != NULL && s->scratch != NULL;
}

bool
grn_records_begin(GrnRecords *r, GrnPipeline *p)
{
	const GrnBuildResult *result = p->result;
	GrnLayoutSpec of = grn_result_layout_spec(p->build->spec, result);
	int			threads = p->parallel->nworkers;
	size_t		bytes;
	bool		fine;

	memset(r, 0, sizeof(*r));
	r->p = p;
	of.attr_bytes = of.sig_bytes = 0;
	if (p->out.rows == NULL)
		of.degree = p->graph.degree;
	if (!grn_layout_of(&r->layout, &of))
		return false;
	grn_layout_set_center(&r->layout, &r->center, p->metric->comparison, p->center);
	r->at = p->out;
	if (p->out.rows == NULL)
		r->at = (GrnResultArrays) {.ids = p->graph.ids, .counts = p->graph.counts,
								   .codes = r->layout.code_bytes > 0 ? p->codes : NULL, .factors = p->factors};
	bytes = r->layout.code_bytes;
	for (uint32_t e = 0; bytes > 0 && e < result->nentries; e++)
	{
		memcpy(r->entry_codes + e * bytes, r->at.codes + result->entries[e] * bytes, bytes);
		r->entry_factors[e] = r->at.factors[result->entries[e]];
	}
	r->graph = (GrnStoredGraph) {.layout = &r->layout, .codec = &p->codec, .metric = p->metric,
								 .entries = result->entries, .entry_codes = r->entry_codes, .entry_factors = r->entry_factors,
								 .nentries = result->nentries};
	r->item_bytes = grn_own_item_bytes(r->layout.form, r->layout.dim);
	if (!p->own && p->rows.form != r->layout.form && p->graph.n * r->item_bytes <= MOST_ITEM_BYTES)
	{
		r->items = grn_alloc(p->graph.n * r->item_bytes);
		r->item_states = grn_alloc_zeroed(p->graph.n, 1);
	}
	if (r->item_states == NULL)
	{
		grn_free(r->items);
		r->items = NULL;
	}
	r->stores = grn_alloc_zeroed((size_t) threads, sizeof(*r->stores));
	r->graph.stores = r->stores;
	fine = r->stores != NULL;
	for (int i = 0; fine && i < threads; i++)
		fine = begin_store(r, &r->stores[i]);
	return fine;
}

void
grn_records_end(GrnRecords *r)
{
	for (int i = 0; r->stores != NULL && i < r->p->parallel->nworkers && r->stores[i] != NULL; i++)
	{
		grn_free(((GrnRecordStore *) r->stores[i])->record);
		grn_free(((GrnRecordStore *) r->stores[i])->scratch);
		grn_free(r->stores[i]);
	}
	grn_free(r->stores);
	grn_free(r->items);
	grn_free(r->item_states);
}

void
grn_pipeline_make_navigable(GrnPipeline *p)
{
	GrnRecords	r;
	uint32_t	round = p->graph.n / TRIALS_SHARE + 1;

	round = round < MOST_TRIALS ? round : MOST_TRIALS;
	/* without memory for searches the graph stays as the merge has left it */
	if (grn_records_begin(&r, p))
		grn_make_navigable(&(GrnNavigation) {
											 .upkeep = {.graph = r.graph, .parallel = p->parallel}, .seed = p->build->spec->params.seed,
											 .stream = UINT64_C(0x6E617669), .ids = p->graph.n,
											 .first = round < FIRST_TRIALS ? round : FIRST_TRIALS, .round = round,
											 .most = (double) round * MOST_ROUNDS});
	grn_records_end(&r);
}

/* ---- graphs without codes ---- */

typedef struct BareGraph
{
	GrnBuildSpec spec;
	GrnBuild	build;
	GrnBuildResult result;
	GrnPipeline p;
} BareGraph;

static void
begin_bare(BareGraph *b, const GrnFinish *f)
{
	*b = (BareGraph) {
					  .spec = {.dim = f->rows->dim, .payload = USUAL_PAYLOAD}, .build = {.spec = &b->spec},
					  .result = {.degree = f->graph->degree, .form = f->rows->form, .entries = {f->entry}, .nentries = 1},
					  .p = {.build = &b->build, .metric = f->metric, .codec.norm_unit = f->norm_unit, .codec.power = f->power,
							.result = &b->result, .rows = *f->rows, .graph = *f->graph, .parallel = f->parallel}
		};
}

void
grn_make_graph_navigable(const GrnFinish *f, uint64_t seed)
{
	BareGraph	b;

	begin_bare(&b, f);
	b.spec.params.seed = seed;
	grn_pipeline_make_navigable(&b.p);
}

static void
reach(void *arg, uint32_t id)
{
	GrnFinish  *f = arg;
	uint64_t   *reached = f->scratch;

	(void) grn_reach(f->graph, id, reached, (uint32_t *) (reached + GRN_REACH_WORDS(f->graph->n)));
	f->connected++;
}

bool
grn_connect_graph(GrnFinish *f)
{
	GrnRecords	r;
	BareGraph	b;
	bool		fine;

	begin_bare(&b, f);
	fine = grn_records_begin(&r, &b.p);
	if (fine)
		grn_connect_nodes(&(GrnUpkeep) {.graph = r.graph, .parallel = f->parallel, .reached = f->scratch,
										.limit = f->graph->n, .arg = f}, f->entry, reach);
	grn_records_end(&r);
	return fine;
}
