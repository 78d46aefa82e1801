/*
 * navigable.c - adds edges to an index where searches end far from their target
 * (store/navigable.c).
 *
 * Inserts run beside: while an edge gives way, the lock of edges to its end is held.
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

/* GrnUpkeep.poll() */
static void
delay(void *index)
{
	grnnd_delay_point();
}

void
grnnd_make_navigable(Relation index, BufferAccessStrategy strategy, double changed)
{
	const GrnndIndex *ix = grnnd_index(index);
	uint32		limit = grnnd_id_limit(index, ix);
	MemoryContext context;
	GrnndStore	store;
	GrnStore   *base = &store.base;
	GrnNavigation n = {
		.upkeep = {.graph = grnnd_stored_graph(index, ix, &base), .poll = delay, .hold = grnnd_hold_edges, .arg = index},
		.seed = ix->meta.params.seed, .stream = (uint64) changed, .ids = limit,
		.first = ROUND, .round = ROUND,
		.most = Min(MOST_TRIALS, changed)};

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
