/*
 * navigable.c - edges where searches of an index end far from what they look for.
 *
 * Rows of tight clusters hang together with other clusters by few edges.  A row that takes another
 * one's place takes its way out of its neighbours there, so each change leaves a cluster with fewer
 * different ones, and in the end searches do not come to it though every row is reachable.  A build
 * has the same trouble where it merges parts, and the same cure (graph/build/navigable.c): nodes
 * are searched for as a query searches.  Where a search ends too early, the nearest node that it
 * has found gets an edge to the one that it looks for.
 */
#include "am/write/navigable.h"

#include "common/pg_prng.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "am/cache.h"
#include "am/entries.h"
#include "am/page.h"
#include "am/page_store.h"
#include "am/write/edit.h"
#include "am/write/link.h"
#include "am/write/maintenance.h"
#include "graph/stored/prune.h"

/*
 * Searches of a round; as long as one fails, there is another round.  The first has one for so many
 * ids at most, which costs little beside the vacuum, and all of them one for so many.
 */
#define ROUND 128
#define FIRST_SHARE 64
#define SHARE 4
#define MOST_TRIALS 8192		/* of all rounds */
#define FIRST_EF 8				/* of a search, which finds nearly all; those that it does not */
#define LAST_EF 32				/* are searched for once more */
#define NEAR_SHARE 4			/* of a node's list is as near as a search has to come */

typedef struct Trials
{
	Relation	index;
	const GrnndIndex *ix;
	GrnndEntries *entries;
	GrnRecord  *target;			/* copies */
	GrnRecord  *end;
	GrnRecord  *other;
} Trials;

/*
 * Which edge of the full node t->end gives way: the one to the node that most of the others lead
 * to, so that this stays reachable and searches find another way to it.  -1: there is none.
 */
static int
choose_spare(Trials *t)
{
	const GrnLayout *l = &t->ix->layout;
	const uint32 *ids = grn_rec_ids(l, t->end);
	uint32		leading[GRN_MAX_DEGREE] = {0};
	int			spare = -1;

	for (uint32 i = 0; i < t->end->count; i++)
	{
		if (grnnd_copy_record(t->index, t->ix, ids[i], t->other, NULL) != GRN_NODE)
			continue;
		for (uint32 j = 0; j < t->end->count; j++)
			leading[j] += j != i && grn_find_id(grn_rec_ids(l, t->other), t->other->count, ids[j]) >= 0;
	}
	for (uint32 j = 0; j < t->end->count; j++)
		if (leading[j] > 0 && (spare < 0 || leading[j] >= leading[spare]))
			spare = (int) j;
	return spare;
}

/* Gives node `from` an edge to t->target, unless it changes meanwhile or has no edge to spare. */
static void
add_edge(Trials *t, uint32 from, uint32 target)
{
	const GrnLayout *l = &t->ix->layout;
	GrnndEdge	edge = grnnd_own_edge(l, t->target, target);
	const uint32 *ids = grn_rec_ids(l, t->end);
	int			at;
	GrnndEdit	e;

	if (grnnd_copy_record(t->index, t->ix, from, t->end, NULL) != GRN_NODE ||
		grn_find_id(ids, t->end->count, target) >= 0)
		return;
	at = t->end->count < l->degree ? t->end->count : choose_spare(t);
	if (at < 0)
		return;
	grnnd_edit_begin(&e, t->index, t->ix, from);
	if (e.rec->state == GRN_NODE && e.rec->version == t->end->version &&
		e.rec->count == t->end->count &&
		memcmp(grn_rec_ids(l, e.rec), ids, e.rec->count * sizeof(uint32)) == 0)
	{
		GrnRecord  *rec = grnnd_edit_change(&e);

		/* as the last one: it is the farthest, as a rule */
		if (at == rec->count)
			rec->count++;
		for (; at + 1 < rec->count; at++)
		{
			GrnndEdge	next = grnnd_get_edge(l, rec, at + 1);

			grnnd_set_edge(l, rec, at, &next);
		}
		grnnd_set_edge(l, rec, at, &edge);
	}
	grnnd_edit_end(&e);
}

/*
 * Does a search for point p, node id, whose record is t->target, come near?  Sets *nearest to what
 * it has found, which may be GRN_INVALID_ID.
 */
static bool
arrives(const Trials *t, GrnndStore *store, const GrnndPoint *p, uint32 id, uint32 ef, uint32 *nearest)
{
	const uint32 *ids = grn_rec_ids(&t->ix->layout, t->target);
	uint32		near = (t->target->count + NEAR_SHARE - 1) / NEAR_SHARE;
	uint32		nfound;
	GrnSearch  *search = grnnd_find_near(store, p, ef, t->entries, &nfound);
	const GrnFound *found = grn_search_found(search);
	bool		result = false;

	*nearest = nfound > 0 ? found[0].id : GRN_INVALID_ID;
	for (uint32 i = 0; i < nfound && !result; i++)
		result = found[i].id == id || grn_find_id(ids, near, found[i].id) >= 0;
	grn_search_end(search);
	return result;
}

/* Searches for node id.  False: the search ended too early, and where it ended is an edge now. */
static bool
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
	if (grnnd_copy_record(t->index, t->ix, id, t->target, NULL) != GRN_NODE ||
		!grnnd_store_fetch(&store, id, x, &state, &version, &error) ||
		state != GRN_NODE || version != t->target->version)
		return true;
	grnnd_make_point(t->ix, x, error, &p);
	if (arrives(t, &store, &p, id, FIRST_EF, &nearest) ||
		arrives(t, &store, &p, id, LAST_EF, &nearest))
		return true;
	if (nearest != GRN_INVALID_ID)
		add_edge(t, nearest, id);
	return false;
}

/* Is it an index that can be read?  One that is damaged is no reason to stop VACUUM here. */
static bool
is_sound(Relation index)
{
	Buffer		buffer;
	bool		sound;

	if (RelationGetNumberOfBlocks(index) == 0)
		return false;
	buffer = ReadBuffer(index, 0);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	sound = grnnd_meta_is_sound(BufferGetPage(buffer));
	UnlockReleaseBuffer(buffer);
	return sound;
}

/* Searches, in rounds, until one fails nowhere or that takes too long. */
static void
run_trials(Trials *t, uint32 limit, MemoryContext context)
{
	uint32		round = Min(limit / FIRST_SHARE + 1, ROUND);
	uint32		most = Min(limit / SHARE, MOST_TRIALS);
	uint32		failed = 1;

	for (uint32 done = 0; done < most && failed > 0; done += round, round = ROUND)
	{
		failed = 0;
		for (uint32 i = 0; i < round; i++)
		{
			grnnd_delay_point();
			failed += !try_node(t, (uint32) pg_prng_uint64_range(&pg_global_prng_state, 0, limit - 1));
			MemoryContextReset(context);
		}
	}
}

void
grnnd_make_navigable(Relation index)
{
	Trials		t = {.index = index};
	uint32		limit;
	MemoryContext context;
	MemoryContext old;

	if (!is_sound(index))
		return;
	t.ix = grnnd_index(index);
	limit = grnnd_id_limit(index, t.ix);
	/* what an unfinished fit has left may have no codes yet */
	if (limit == 0 || t.ix->meta.fit_state == GRNND_FILLING)
		return;
	t.entries = grnnd_get_entries(index, t.ix);
	t.target = palloc(grnnd_copy_bytes(t.ix));
	t.end = palloc(grnnd_copy_bytes(t.ix));
	t.other = palloc(grnnd_copy_bytes(t.ix));
	context = AllocSetContextCreate(CurrentMemoryContext, "grnnd trial", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(context);
	run_trials(&t, limit, context);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}
