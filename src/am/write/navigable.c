/*
 * navigable.c - adds edges to an index where searches end far from their target
 * (store/navigable.c).
 *
 * An insert relies on edges read or written a moment ago (link.c). So vacuum changes
 * edges while no insert runs, a few at a time.
 */
#include "am/write/write.h"

#include "utils/memutils.h"

#include "am/index/index.h"
#include "store/search.h"

/*
 * All rounds together have at most MOST_TRIALS searches, and one for each changed row, because
 * in some data searches fail whatever the edges are.  Recall at ef 20 of 5,000 rows in clusters of
 * 20, each replaced twice: .996, with half of ROUND .987, with twice .996.  With at most one search
 * for eight rows recall is .991 (and vacuum of normal rows takes 8% less time), for sixteen rows
 * .911, without searches .848.
 */
#define ROUND 128
#define MOST_TRIALS 8192

/* GrnNavigation.poll() */
static void
delay(void *index)
{
	grnnd_delay_point();
}

/* GrnNavigation.alone() */
static void
keep_inserts_out(void *index, bool begin)
{
	if (begin)
		grnnd_lock(index, GRNND_WRITERS_LOCK, ExclusiveLock);
	else
		grnnd_unlock(index, GRNND_WRITERS_LOCK, ExclusiveLock);
}

void
grnnd_make_navigable(Relation index, BufferAccessStrategy strategy, double changed)
{
	const GrnndIndex *ix = grnnd_index(index);
	uint32		limit = grnnd_id_limit(index, ix);
	MemoryContext context;
	GrnndStore	store;
	GrnStore   *base = &store.base;
	GrnNavigation n = {.graph = grnnd_stored_graph(index, ix, &base),
		.seed = ix->meta.params.seed, .stream = (uint64) changed, .ids = limit,
		.first = ROUND, .round = ROUND,
		.most = Min(MOST_TRIALS, changed),
		.poll = delay, .alone = keep_inserts_out, .arg = index};

	/* records of an unfinished fit may have no codes yet */
	if (ix->meta.fit_state == GRNND_FILLING)
		return;
	context = AllocSetContextCreate(CurrentMemoryContext, "grnnd trials", ALLOCSET_DEFAULT_SIZES);
	grnnd_store_init(&store, index, ix, context);
	store.strategy = strategy;
	store.base.edit = grnnd_store_edit;
	grn_make_navigable(&n);
	MemoryContextDelete(context);
}
