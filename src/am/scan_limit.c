/*
 * scan_limit.c - how many rows the LIMIT above a scan asks for.
 *
 * PostgreSQL does not tell access methods of LIMIT.  A search that is too narrow for it goes on
 * in batches, which visits more nodes than a wider search would.  So where a Limit node stands
 * above a scan of one of our indexes, with nothing between them that drops or adds rows, a scan
 * finds it by the array of scan keys that its own plan node hands to amrescan, as it finds its
 * thresholds (scan_threshold.c).  A filter may drop rows: then the scan needs that many at
 * least.
 */
#include "am/scan_impl.h"

#include "executor/executor.h"
#include "nodes/execnodes.h"
#include "utils/rel.h"

#include "am/handler.h"

typedef struct Limited
{
	struct Limited *next;		/* of all executions that are under way */
	ScanKey		keys;			/* the scan's array of ORDER BY keys */
	const		LimitState *limit;
	bool		filtered;		/* the scan's plan node drops rows */
	MemoryContextCallback callback; /* when the execution ends */
} Limited;

static Limited *limits;

/* The executor's memory goes: so does this. */
static void
forget(void *arg)
{
	Limited   **l = &limits;

	while (*l != NULL && *l != (Limited *) arg)
		l = &(*l)->next;
	if (*l != NULL)
		*l = (*l)->next;
}

/* The scan whose rows a node hands on one by one, or NULL. */
static IndexScanState *
scan_below(PlanState * node)
{
	for (;;)
	{
		if (node == NULL || IsA(node, IndexScanState))
			return (IndexScanState *) node;
		if (IsA(node, SubqueryScanState))
			node = ((SubqueryScanState *) node)->subplan;
		else if (IsA(node, ResultState) || IsA(node, LockRowsState))
			node = outerPlanState(node);
		else
			return NULL;
	}
}

void
grnnd_note_limit(LimitState * node)
{
	IndexScanState *scan = scan_below(outerPlanState(node));
	Limited    *l;

	if (scan == NULL || scan->iss_NumOrderByKeys == 0 || scan->iss_RelationDesc == NULL ||
		scan->iss_RelationDesc->rd_indam->amgettuple != grnnd_gettuple)
		return;
	l = MemoryContextAlloc(node->ps.state->es_query_cxt, sizeof(Limited));
	l->keys = scan->iss_OrderByKeys;
	l->limit = node;
	l->filtered = scan->ss.ps.qual != NULL;
	l->callback.func = forget;
	l->callback.arg = l;
	l->next = limits;
	limits = l;
	MemoryContextRegisterResetCallback(node->ps.state->es_query_cxt, &l->callback);
}

uint64
grnnd_limit(ScanKey keys, bool *filtered)
{
	*filtered = false;
	for (const Limited *l = limits; l != NULL; l = l->next)
		if (l->keys == keys)
		{
			*filtered = l->filtered;
			/* both were computed before the first row was asked for */
			return l->limit->noCount ? 0 : (uint64) l->limit->count + (uint64) l->limit->offset;
		}
	return 0;
}
