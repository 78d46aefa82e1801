/*
 * scan_limit.c - the number of rows that the LIMIT above a scan asks for.
 *
 * PostgreSQL does not tell access methods of LIMIT.  A search too narrow for LIMIT goes on in
 * batches, with more visits than one wider search.  So a hook at the executor's start
 * (scan_threshold.c) notes a Limit node above a scan of one of our indexes, if no node between
 * them drops or adds rows.  A scan finds the note by the array of scan keys of its plan node.  If
 * a filter drops rows, the scan needs at least LIMIT rows.
 */
#include "am/scan_impl.h"

#include "executor/executor.h"
#include "nodes/execnodes.h"
#include "utils/rel.h"

#include "am/bitmap_scan.h"
#include "am/handler.h"

/* The scan below a node that passes rows on one by one, or NULL. */
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
			return grnnd_scan_with_bitmap(node);
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
grnnd_limit(ScanKey keys, bool *filtered, double *rows)
{
	const GrnndPlanned *note = grnnd_planned(keys);
	const		LimitState *limit = note == NULL ? NULL : note->limit;

	*filtered = limit != NULL && note->filtered;
	*rows = *filtered ? note->rows : 0;
	/* the executor computes both before it asks for the first row */
	return limit == NULL || limit->noCount ? 0 : (uint64) limit->count + (uint64) limit->offset;
}
