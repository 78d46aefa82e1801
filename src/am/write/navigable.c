/*
 * navigable.c - edges where searches of an index end far from what they look for.
 *
 * Rows of tight clusters hang together with other clusters by few edges.  A row that takes another
 * one's place takes its way out of its neighbours there, so each change leaves a cluster with fewer
 * different ones, and in the end searches do not come to it though every row is reachable.  A build
 * has the same trouble where it merges parts, and the same cure (graph/construct/navigable.c):
 * nodes are searched for as a query searches.  Where a search ends too early, the nearest node
 * that it has found gets an edge to the one that it looks for.
 *
 * An insert counts on edges that it has read or written a moment ago (link.c).  So edges change
 * while none is at work, a few at a time.  The records that this takes are read before, so that the
 * inserts that wait meanwhile do not wait for a disk.
 */
#include "am/write/navigable.h"

#include "common/pg_prng.h"
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
 * Searches of a round; as long as one fails and brings an edge, there is another round.  The first
 * has one for so many ids at most, which costs little beside the vacuum.  All rounds together have
 * one for so many ids at most, and one for each row that has changed, since there is data in which
 * some searches fail whatever the edges are.
 */
#define ROUND 128
#define FIRST_SHARE 64
#define SHARE 8
#define MOST_TRIALS 8192		/* of all rounds */
#define FIRST_EF 8				/* of a search, which finds nearly all; those that it does not */
#define LAST_EF 32				/* are searched for once more */
#define NEAR_SHARE 4			/* of a node's list is as near as a search has to come */
#define EDGES_AT_ONCE 8			/* while inserts wait */

/* A search that ended too early. */
typedef struct Failed
{
	uint32		target;
	uint16		version;		/* of target */
	uint32		end;			/* the nearest node that it found */
	uint32		spare;			/* neighbour of a full end that may give way, */
	uint32		by;				/* and another one that leads to it */
} Failed;

typedef struct Trials
{
	Relation	index;
	const GrnndIndex *ix;
	BufferAccessStrategy strategy;
	GrnndEntries *entries;
	MemoryContext context;		/* of one search */
	GrnRecord  *target;			/* copies */
	GrnRecord  *end;
	GrnRecord  *other;
	uint32		nfailed;
	Failed		failed[ROUND];
} Trials;

/* ---- edges ---- */

/*
 * Chooses the neighbour of the full node t->end that gives way: the one that most of the others
 * lead to, so that the node stays reachable and searches find another way to it.  False: there is
 * none.
 */
static bool
choose_spare(Trials *t, Failed *f)
{
	const GrnLayout *l = &t->ix->layout;
	const uint32 *ids = grn_rec_ids(l, t->end);
	uint32		leading[GRN_MAX_DEGREE] = {0};
	uint32		by[GRN_MAX_DEGREE];
	int			spare = -1;

	for (uint32 i = 0; i < t->end->count; i++)
	{
		if (grnnd_copy_record(t->index, t->ix, ids[i], t->other, t->strategy) != GRN_NODE)
			continue;
		for (uint32 j = 0; j < t->end->count; j++)
			if (j != i && grn_find_id(grn_rec_ids(l, t->other), t->other->count, ids[j]) >= 0)
			{
				leading[j]++;
				by[j] = ids[i];
			}
	}
	for (uint32 j = 0; j < t->end->count; j++)
		if (leading[j] > 0 && (spare < 0 || leading[j] >= leading[spare]))
			spare = (int) j;
	if (spare < 0)
		return false;
	f->spare = ids[spare];
	f->by = by[spare];
	return true;
}

/* Reads f->end and f->target to t->end and t->target.  False: no edge is missing between them. */
static bool
read_ends(Trials *t, const Failed *f)
{
	CHECK_FOR_INTERRUPTS();
	return grnnd_copy_record(t->index, t->ix, f->target, t->target, t->strategy) == GRN_NODE &&
		t->target->version == f->version &&
		grnnd_copy_record(t->index, t->ix, f->end, t->end, t->strategy) == GRN_NODE &&
		grn_find_id(grn_rec_ids(&t->ix->layout, t->end), t->end->count, f->target) < 0;
}

/* The position in the list of t->end that the edge takes, or -1; no insert is at work. */
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

/* Gives f->end an edge to f->target, if both live and it has room or an edge to spare. */
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
	/* as the last one: it is the farthest, as a rule */
	grnnd_shift_edges(l, rec, at, rec->count - 1);
	grnnd_set_edge(l, rec, rec->count - 1, &edge);
	grnnd_edit_end(&e);
	return true;
}

/* An edge for each search of the round that failed.  Returns how many there are. */
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

			grnnd_delay_point();
			if (!read_ends(t, f) || t->end->count < t->ix->layout.degree || !choose_spare(t, f))
				f->spare = GRN_INVALID_ID;
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
 * Does a search for point p, node id, whose record is t->target, come near?  Sets *nearest to what
 * it has found, which may be GRN_INVALID_ID.
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

/* Searches for node id, if it is one, and notes where the search ends too early. */
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
	/* first what is no error where there is nothing: in a free slot, or a page of zeros */
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
		try_node(t, (uint32) pg_prng_uint64_range(&pg_global_prng_state, 0, limit - 1));
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

	/* what an unfinished fit has left may have no codes yet */
	if (ix->meta.fit_state == GRNND_FILLING)
		return;
	t->index = index;
	t->ix = ix;
	t->strategy = strategy;
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
