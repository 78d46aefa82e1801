/*
 * navigable.c - adds edges to an index where searches end far from their target.
 *
 * Few edges connect tight clusters. A row that takes the place of another row takes its edges out
 * of the cluster from its neighbors there. So each change leaves a cluster with fewer different
 * edges to other clusters, and in the end searches miss the cluster though every row is reachable.
 * A build that merges parts has the same trouble and the same cure (graph/construct/navigable.c):
 * search for nodes as a query does, and where a search ends too early, give the nearest found node
 * an edge to the target.
 *
 * An insert relies on edges that it has read or written a moment ago (link.c). So vacuum changes
 * edges while no insert runs, a few at a time. Vacuum reads the records before, so that waiting
 * inserts do not wait for a disk.
 */
#include "am/write/navigable.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "am/cache.h"
#include "am/entries.h"
#include "am/page.h"
#include "am/page_store.h"
#include "am/write/edit.h"
#include "am/write/link.h"
#include "am/write/lock.h"
#include "am/write/maintenance.h"
#include "graph/stored/prune.h"

/*
 * Searches of a round. Another round follows as long as a search of the round fails and adds an
 * edge. The first round has at most one search for FIRST_SHARE ids, at little cost beside the
 * vacuum. All rounds together have at most one search for SHARE ids, and one for each changed row,
 * because in some data searches fail whatever the edges are.
 */
#define ROUND 128
#define FIRST_SHARE 64
#define SHARE 8
#define MOST_TRIALS 8192		/* of all rounds together */
#define FIRST_EF 8				/* a search with FIRST_EF finds nearly all; */
#define LAST_EF 32				/* the rest are tried again with LAST_EF */
#define NEAR_SHARE 4			/* a search must find one of this part of the list */
#define EDGES_AT_ONCE 8			/* while inserts wait */

/* A search that ended too early. */
typedef struct Failed
{
	uint32		target;
	uint16		version;		/* version of target */
	uint32		end;			/* the nearest node found */
	uint32		spare;			/* neighbor that a full end gives up */
	uint32		by;				/* neighbor of end that leads to spare */
} Failed;

typedef struct Trials
{
	Relation	index;
	const GrnndIndex *ix;
	BufferAccessStrategy strategy;
	GrnndEntries *entries;
	MemoryContext context;		/* reset after each search */
	GrnRecord  *target;			/* copies */
	GrnRecord  *end;
	GrnRecord  *other;
	uint64		changed;		/* rows since the last vacuum; other numbers lead to other targets */
	uint64		drawn;			/* targets so far */
	uint32		nfailed;
	Failed		failed[ROUND];
} Trials;

/* ---- edges ---- */

/*
 * Reads f->end and f->target into t->end and t->target. Returns false if no edge is missing between
 * them.
 */
static bool
read_ends(Trials *t, const Failed *f)
{
	CHECK_FOR_INTERRUPTS();
	return grnnd_copy_record(t->index, t->ix, f->target, t->target, t->strategy) == GRN_NODE &&
		t->target->version == f->version &&
		grnnd_copy_record(t->index, t->ix, f->end, t->end, t->strategy) == GRN_NODE &&
		grn_find_id(grn_rec_ids(&t->ix->layout, t->end), t->end->count, f->target) < 0;
}

/* The position in the list of t->end for the edge, or -1; no insert runs. */
static int
position_for(Trials *t, const Failed *f)
{
	const GrnLayout *l = &t->ix->layout;
	const uint32 *ids = grn_rec_ids(l, t->end);

	if (t->end->count < l->degree)
		return t->end->count;
	if (f->spare == GRN_INVALID_ID || grn_find_id(ids, t->end->count, f->by) < 0 ||
		grnnd_copy_record(t->index, t->ix, f->by, t->other, t->strategy) != GRN_NODE ||
		grn_find_id(grn_rec_ids(l, t->other), t->other->count, f->spare) < 0)
		return -1;
	return grn_find_id(ids, t->end->count, f->spare);
}

/* Gives f->end an edge to f->target, if both live and f->end has room or an edge to give up. */
static bool
add_edge(Trials *t, const Failed *f)
{
	const GrnLayout *l = &t->ix->layout;
	int			at = read_ends(t, f) ? position_for(t, f) : -1;
	GrnndEdge	edge;
	GrnRecord  *rec;
	GrnndEdit	e;

	if (at < 0)
		return false;
	edge = grnnd_own_edge(l, t->target, f->target);
	grnnd_edit_begin(&e, t->index, t->ix, f->end);
	rec = grnnd_edit_change(&e);
	if (at == rec->count)
		rec->count++;
	/* as the last edge, because target is usually the farthest */
	grnnd_shift_edges(l, rec, at, rec->count - 1);
	grnnd_set_edge(l, rec, rec->count - 1, &edge);
	grnnd_edit_end(&e);
	return true;
}

/* Adds an edge for each failed search of the round. Returns the number of edges. */
static uint32
add_edges(Trials *t)
{
	uint32		added = 0;
	uint32		end;

	for (uint32 begin = 0; begin < t->nfailed; begin = end)
	{
		end = Min(begin + EDGES_AT_ONCE, t->nfailed);
		for (uint32 i = begin; i < end; i++)
		{
			Failed	   *f = &t->failed[i];
			int			at = -1;

			grnnd_delay_point();
			if (read_ends(t, f) && t->end->count == t->ix->layout.degree)
				at = grnnd_spare_edge(t->index, t->ix, t->end, t->strategy, &f->by);
			f->spare = at >= 0 ? grn_rec_ids(&t->ix->layout, t->end)[at] : GRN_INVALID_ID;
		}
		grnnd_lock(t->index, GRNND_WRITERS_LOCK, ExclusiveLock);
		for (uint32 i = begin; i < end; i++)
			added += add_edge(t, &t->failed[i]);
		grnnd_unlock(t->index, GRNND_WRITERS_LOCK, ExclusiveLock);
	}
	return added;
}

/* ---- searches ---- */

/*
 * Returns whether a search for point p comes near node id, whose record is t->target. Sets *nearest
 * to the nearest node found, perhaps GRN_INVALID_ID.
 */
static bool
arrives(const Trials *t, GrnndStore *store, const GrnndPoint *p, uint32 id, uint32 ef, uint32 *nearest)
{
	const uint32 *ids = grn_rec_ids(&t->ix->layout, t->target);
	uint32		nnear = (t->target->count + NEAR_SHARE - 1) / NEAR_SHARE;
	GrnndNear  *near = grnnd_find_near(store, p, ef, t->entries);
	uint32		nfound;
	const GrnFound *found = grn_search_found(grnnd_near_search(near, &nfound));
	bool		result = false;

	*nearest = nfound > 0 ? found[0].id : GRN_INVALID_ID;
	for (uint32 i = 0; i < nfound && !result; i++)
		result = found[i].id == id || grn_find_id(ids, nnear, found[i].id) >= 0;
	grnnd_near_end(near);
	return result;
}

/* Searches for node id, if the record is a node, and notes where the search ends too early. */
static void
try_node(Trials *t, uint32 id)
{
	float	   *x = palloc(t->ix->meta.dim * sizeof(float));
	GrnndStore	store;
	GrnndPoint	p;
	GrnState	state;
	uint16		version;
	float		error;
	uint32		nearest;

	grnnd_store_init(&store, t->index, t->ix, CurrentMemoryContext);
	store.strategy = t->strategy;
	/* first the read that raises no error for a free slot or a page of zeroes */
	if (!grnnd_store_fetch(&store, id, x, &state, &version, &error) || state != GRN_NODE ||
		grnnd_copy_record(t->index, t->ix, id, t->target, t->strategy) != GRN_NODE ||
		t->target->version != version)
		return;
	grnnd_make_point(t->ix, x, error, &p);
	if (!arrives(t, &store, &p, id, FIRST_EF, &nearest) &&
		!arrives(t, &store, &p, id, LAST_EF, &nearest) && nearest != GRN_INVALID_ID)
		t->failed[t->nfailed++] = (Failed) {.target = id, .version = version, .end = nearest};
}

static void
search_round(Trials *t, uint32 limit, uint32 round)
{
	MemoryContext old = MemoryContextSwitchTo(t->context);

	t->nfailed = 0;
	for (uint32 i = 0; i < round; i++)
	{
		grnnd_delay_point();
		try_node(t, (uint32) (grn_random(t->ix->meta.params.seed, t->changed, t->drawn++) % limit));
		MemoryContextReset(t->context);
	}
	MemoryContextSwitchTo(old);
}

void
grnnd_make_navigable(Relation index, BufferAccessStrategy strategy, double changed)
{
	const GrnndIndex *ix = grnnd_index(index);
	uint32		limit = grnnd_id_limit(index, ix);
	uint32		round = Min(limit / FIRST_SHARE + 1, ROUND);
	double		most = Min(Min(limit / SHARE, MOST_TRIALS), changed);
	Trials	   *t = palloc(sizeof(Trials));

	/* records of an unfinished fit may have no codes yet */
	if (ix->meta.fit_state == GRNND_FILLING)
		return;
	t->index = index;
	t->ix = ix;
	t->strategy = strategy;
	t->changed = (uint64) changed;
	t->drawn = 0;
	t->entries = grnnd_get_entries(index, ix);
	t->target = palloc(grnnd_copy_bytes(ix));
	t->end = palloc(grnnd_copy_bytes(ix));
	t->other = palloc(grnnd_copy_bytes(ix));
	t->context = AllocSetContextCreate(CurrentMemoryContext, "grnnd trial", ALLOCSET_DEFAULT_SIZES);
	for (uint32 done = 0; done < most; done += round, round = ROUND)
	{
		search_round(t, limit, round);
		if (add_edges(t) == 0)
			break;
	}
	MemoryContextDelete(t->context);
}
