/*
 * bitmap_scan.c - executes a search among the rows of other indexes' bitmaps.
 *
 * The node has two children: an index scan of ours, and a bitmap plan.  The node makes the bitmap
 * before the first row, and gives it to the index scan by the scan's notes (scan_threshold.c).  All
 * rows come from the index scan, which sees to visibility, conditions and the order.
 *
 * A bitmap stays valid for its snapshot: vacuum removes no row that the snapshot sees, and an
 * address that another row has taken since leads to a row that the snapshot does not see.
 */
#include "am/scan/scan.h"

#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#else
#include "commands/explain.h"
#endif

#include "am/scan/scan_impl.h"

typedef struct BitmapState
{
	CustomScanState css;
	PlanState  *scan;
	PlanState  *bitmap;
	bool		residual;		/* there are conditions that the bitmap does not answer */
	bool		made;			/* the scan has its bitmap */
	GrnndTidSet *set;
} BitmapState;

static void
drop_set(BitmapState *state)
{
	if (state->set != NULL)
	{
		grnnd_note_planned((IndexScanState *) state->scan)->set = NULL;
		grnnd_tid_set_free(state->set);
	}
	state->set = NULL;
	state->made = false;
}

/* Does EvalPlanQual test a row of this table?  Tables of a subquery are scanned as ever. */
static bool
has_row(const EPQState * epq, Index relation)
{
	return epq != NULL &&
		(epq->relsubs_slot[relation - 1] != NULL || epq->relsubs_rowmark[relation - 1] != NULL);
}

static void
make_set(BitmapState *state)
{
	GrnndPlanned *note;
	Node	   *bitmap;

	state->made = true;
	/* the scan returns the single row that EvalPlanQual tests */
	if (has_row(state->css.ss.ps.state->es_epq_active, ((Scan *) state->scan->plan)->scanrelid))
		return;
	bitmap = MultiExecProcNode(state->bitmap);
	if (bitmap == NULL || !IsA(bitmap, TIDBitmap))
		elog(ERROR, "a bitmap plan has returned no bitmap");
	state->set = grnnd_tid_set((TIDBitmap *) bitmap);
	note = grnnd_note_planned((IndexScanState *) state->scan);
	note->set = state->set;
	note->filtered = state->residual || state->set->lossy > 0;
}

static void
begin(CustomScanState * node, EState * estate, int eflags)
{
	BitmapState *state = (BitmapState *) node;
	CustomScan *plan = (CustomScan *) node->ss.ps.plan;

	state->scan = ExecInitNode(linitial(plan->custom_plans), estate, eflags);
	state->bitmap = ExecInitNode(lsecond(plan->custom_plans), estate, eflags);
	state->residual = intVal(linitial(plan->custom_private));
	node->custom_ps = list_make2(state->scan, state->bitmap);
	/* rows come in the slot of the index scan, whose kind the projection must not assume */
	node->ss.ps.scanopsset = true;
	node->ss.ps.scanopsfixed = false;
	node->ss.ps.ps_ProjInfo = NULL;
	ExecAssignScanProjectionInfoWithVarno(&node->ss, INDEX_VAR);
	if (node->ss.ps.ps_ProjInfo == NULL)
		node->ss.ps.resultopsfixed = false;
}

static TupleTableSlot *
next_row(CustomScanState * node)
{
	BitmapState *state = (BitmapState *) node;
	ProjectionInfo *projection = node->ss.ps.ps_ProjInfo;
	TupleTableSlot *slot;

	if (!state->made)
		make_set(state);
	slot = ExecProcNode(state->scan);
	if (TupIsNull(slot))
		return NULL;
	if (projection == NULL)
		return slot;
	ResetExprContext(projection->pi_exprContext);
	projection->pi_exprContext->ecxt_scantuple = slot;
	return ExecProject(projection);
}

static void
rescan(CustomScanState * node)
{
	BitmapState *state = (BitmapState *) node;

	if (node->ss.ps.chgParam != NULL)
	{
		UpdateChangedParamSet(state->scan, node->ss.ps.chgParam);
		UpdateChangedParamSet(state->bitmap, node->ss.ps.chgParam);
	}
	ExecReScan(state->scan);
	if (state->bitmap->chgParam != NULL)
		drop_set(state);
}

static void
end(CustomScanState * node)
{
	BitmapState *state = (BitmapState *) node;

	ExecEndNode(state->scan);
	ExecEndNode(state->bitmap);
	if (state->set != NULL)
		grnnd_tid_set_free(state->set);
}

static void
explain(CustomScanState * node, List *ancestors, ExplainState * es)
{
	BitmapState *state = (BitmapState *) node;

	if (!es->analyze || state->set == NULL)
		return;
	ExplainPropertyUInteger("Bitmap Rows", NULL, state->set->rows, es);
	if (state->set->lossy > 0)
		ExplainPropertyUInteger("Bitmap Lossy Pages", NULL, state->set->lossy, es);
#if PG_VERSION_NUM < 180000
	grnnd_explain_scan((IndexScanState *) state->scan, es);
#endif
}

static const CustomExecMethods exec_methods = {
	.CustomName = GRNND_BITMAP_NAME,
	.BeginCustomScan = begin,
	.ExecCustomScan = next_row,
	.EndCustomScan = end,
	.ReScanCustomScan = rescan,
	.ExplainCustomScan = explain
};

static Node *
create_state(CustomScan * plan)
{
	BitmapState *state = palloc0(sizeof(BitmapState));

	NodeSetTag(state, T_CustomScanState);
	state->css.methods = &exec_methods;
	return (Node *) state;
}

const		CustomScanMethods grnnd_bitmap_methods = {
	.CustomName = GRNND_BITMAP_NAME,
	.CreateCustomScanState = create_state
};

IndexScanState *
grnnd_scan_with_bitmap(PlanState * node)
{
	if (!IsA(node, CustomScanState) || ((CustomScanState *) node)->methods != &exec_methods)
		return NULL;
	return (IndexScanState *) ((BitmapState *) node)->scan;
}
