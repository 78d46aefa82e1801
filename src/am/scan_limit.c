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
	const IndexScanState *scan = scan_below(outerPlanState(node));

	if (scan != NULL && scan->iss_NumOrderByKeys > 0 && scan->iss_RelationDesc != NULL &&
		scan->iss_RelationDesc->rd_indam->amgettuple == grnnd_gettuple)
		grnnd_note_planned(scan)->limit = node;
}

uint64
grnnd_limit(ScanKey keys, bool *filtered)
{
	const GrnndPlanned *note = grnnd_planned(keys);
	const		LimitState *limit = note == NULL ? NULL : note->limit;

	*filtered = limit != NULL && note->filtered;
	/* both were computed before the first row was asked for */
	return limit == NULL || limit->noCount ? 0 : (uint64) limit->count + (uint64) limit->offset;
}
