/*
 * pipeline_nearest.c - lists of the nearest rows of every row, made instead of an index.
 *
 * All threads take nodes in turn.  A thread writes its lists one behind the next into chunks of
 * RESULT.  Lists have different lengths.  Consecutive nodes are near each other, so successive
 * searches of a thread mostly visit the same rows.
 */
#include "builder/pipeline_impl.h"

#include <math.h>
#include <string.h>

#include "graph/graph.h"
#include "memory/memory.h"

/* Items of RESULT that a thread reserves at once. */
#define CHUNK_ITEMS 65536

typedef struct Writer
{
	uint64_t	at,				/* own chunk: next item, and end */
				end;
	void	   *work;
	GrnNear    *lists;			/* [GRN_NEAREST_BLOCK][k] */
} Writer;

typedef struct NearestLists
{
	GrnPipeline *p;
	GrnNearest	n;
	const uint32_t *vertex;		/* [m] vertex of each node */
	uint64_t	nchunks;		/* chunks taken */
	Writer	   *writers;		/* [nworkers] */
	bool		failed;
	GrnFailure	failure;
} NearestLists;

static uint64_t
bytes_of_chunks(const NearestLists *f, uint64_t nchunks)
{
	return grn_pipeline_place_result(f->p, NULL).bytes + nchunks * CHUNK_ITEMS * sizeof(GrnNear);
}

/* Whether a node is in its own list: it has several rows. */
static bool
lists_itself(const NearestLists *f, size_t node)
{
	const uint32_t *start = f->p->out.row_start;

	return start[node + 1] - start[node] > 1;
}

/*
 * Makes sure that the thread's chunk has room for `count` items, and takes a new chunk if
 * necessary.  Returns false if memory is short.
 */
static bool
reserve_items(NearestLists *f, Writer *w, uint32_t count)
{
	GrnFailure	failure;
	uint64_t	chunk;

	if (w->end - w->at >= count)
		return true;
	chunk = __atomic_fetch_add(&f->nchunks, 1, __ATOMIC_RELAXED);
	if (!grn_pipeline_need(f->p, GRN_SEG_RESULT, bytes_of_chunks(f, chunk + 1), &failure))
	{
		if (!__atomic_exchange_n(&f->failed, true, __ATOMIC_RELAXED))
			f->failure = failure;
		return false;
	}
	w->at = chunk * CHUNK_ITEMS;
	w->end = w->at + CHUNK_ITEMS;
	return true;
}

_Static_assert(GRN_MOST_NEAR <= CHUNK_ITEMS, "a list fits a chunk");

/* Writes a node's list, by node ids, without items beyond the farthest distance. */
static void
write_list(NearestLists *f, Writer *w, size_t node, const GrnNear *list, uint32_t count)
{
	GrnPipeline *p = f->p;
	double		farthest = p->build->spec->near.farthest;
	GrnNear    *items;

	while (count > 0 && p->metric->value(list[count - 1].compared) > farthest)
		count--;
	p->out.near_count[node] = 0;
	if (count == 0 || !reserve_items(f, w, count))
		return;
	items = p->out.near + w->at;
	for (uint32_t i = 0; i < count; i++)
		items[i] = (GrnNear) {p->position[list[i].id], list[i].compared};
	p->out.near_start[node] = w->at;
	p->out.near_count[node] = count;
	w->at += count;
}

/* GrnRangeFns over nodes. */
static void
search_range(void *arg, int worker, size_t begin, size_t end)
{
	NearestLists *f = arg;
	Writer	   *w = &f->writers[worker];

	for (size_t node = begin; node < end && !__atomic_load_n(&f->failed, __ATOMIC_RELAXED); node++)
		write_list(f, w, node, w->lists,
				   grn_nearest_search(&f->n, w->work, f->vertex[node], lists_itself(f, node), w->lists));
}

static void
exact_range(void *arg, int worker, size_t begin, size_t end)
{
	NearestLists *f = arg;
	Writer	   *w = &f->writers[worker];
	bool		own[GRN_NEAREST_BLOCK] = {false};
	uint32_t	counts[GRN_NEAREST_BLOCK];

	if (__atomic_load_n(&f->failed, __ATOMIC_RELAXED))
		return;
	/* In exact builds the number of a node is the number of its vertex. */
	for (size_t node = begin; node < end; node++)
		own[node - begin] = lists_itself(f, node);
	grn_nearest_exact(&f->n, w->work, begin, (uint32_t) (end - begin), own, w->lists, counts);
	for (size_t node = begin; node < end; node++)
		write_list(f, w, node, w->lists + (node - begin) * f->n.k, counts[node - begin]);
}

/* Reserves the threads' memory in WORK, behind the arrays of the pipeline. */
static bool
make_writers(NearestLists *f, bool exact, GrnFailure *failure)
{
	GrnPipeline *p = f->p;
	int			nworkers = p->parallel->nworkers;
	size_t		work_bytes = exact ? grn_nearest_exact_bytes(&f->n) : grn_nearest_search_bytes(&f->n);
	size_t		list_bytes = grn_aligned((exact ? GRN_NEAREST_BLOCK : 1) * (size_t) f->n.k * sizeof(GrnNear));
	uint64_t	each = grn_aligned(work_bytes) + list_bytes;
	uint64_t	offset = grn_aligned(p->work.kept_bytes);
	char	   *w;

	f->writers = grn_alloc_zeroed((size_t) nworkers, sizeof(*f->writers));
	if (f->writers == NULL)
		return grn_fail(failure, "53200", "", "the builder process is out of memory");
	w = grn_pipeline_need(p, GRN_SEG_WORK, offset + (uint64_t) nworkers * each, failure);
	if (w == NULL)
		return false;
	for (int i = 0; i < nworkers; i++)
	{
		f->writers[i].work = w + offset + (uint64_t) i * each;
		f->writers[i].lists = (GrnNear *) ((char *) f->writers[i].work + grn_aligned(work_bytes));
		if (!exact)
			memset(f->writers[i].work, 0, work_bytes);
	}
	return true;
}

/*
 * Orders the nodes, by the page order of the graph, so that consecutive nodes are near each other.
 * Returns the vertex of each node.
 */
static const uint32_t *
order_nodes(GrnPipeline *p, bool exact)
{
	uint32_t   *vertex = (uint32_t *) p->factors;	/* free, because builds of lists have no codes */
	uint32_t	m = (uint32_t) p->rows.n;

	if (exact)
		for (uint32_t v = 0; v < m; v++)
			p->position[v] = v;
	else
		grn_finish_order(&p->finish);
	for (uint32_t v = 0; v < m; v++)
		vertex[p->position[v]] = v;
	return vertex;
}

_Static_assert(sizeof(GrnFactor) >= sizeof(uint32_t), "factors leave room for vertices");

bool
grn_pipeline_write_nearest(GrnPipeline *p, GrnFailure *failure)
{
	const GrnNearSpec *spec = &p->build->spec->near;
	GrnBuildResult *r = p->result;
	bool		exact = spec->exact;
	uint64_t	m = p->rows.n;
	NearestLists f = {.p = p};
	void	   *out;
	bool		fine;

	f.n = (GrnNearest) {.rows = &p->rows, .comparison = p->metric->comparison, .k = spec->k,
						.graph = &p->graph, .ef = spec->ef, .entries = r->entries,
						.nentries = r->nentries};
	f.vertex = order_nodes(p, exact);
	out = grn_pipeline_need(p, GRN_SEG_RESULT, bytes_of_chunks(&f, 0), failure);
	if (!out)
		return false;
	p->out = grn_pipeline_place_result(p, out);
	/* Without a farthest distance the size of all lists is known. */
	if (isinf(spec->farthest))
		p->build->host->expect(p->build->host->ctx, GRN_SEG_RESULT,
							   bytes_of_chunks(&f, m * (spec->k < m ? spec->k : m) / CHUNK_ITEMS + 1));
	grn_pipeline_write_rows(p);
	fine = make_writers(&f, exact, failure);
	if (fine)
	{
		grn_progress_phase(&p->progress, GRN_STEP_CODES, m);
		p->progress.loop_share = 1;
		p->parallel->run(p->parallel, m, exact ? GRN_NEAREST_BLOCK : GRN_GRAIN,
						 exact ? exact_range : search_range, &f);
		r->near_items = f.nchunks * CHUNK_ITEMS;
	}
	grn_free(f.writers);
	if (f.failed)
		*failure = f.failure;
	return fine && !f.failed;
}
