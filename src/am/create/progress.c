/*
 * progress.c - the progress of CREATE INDEX in pg_stat_progress_create_index, and elapsed seconds.
 */
#include "am/create/create.h"

#include "commands/progress.h"
#include "utils/backend_progress.h"
#include "utils/backend_status.h"

#include "am/callbacks.h"

const GrnndStepNames grnnd_steps[GRN_STEPS] = {
	[GRN_STEP_COLLECT] = {"collect", "collecting vectors"},
	[GRN_STEP_DEVICE] = {"device", NULL},
	[GRN_STEP_PREPARE] = {"prepare", "preparing vectors"},
	[GRN_STEP_DESCENT] = {"graph", "building graph"},
	[GRN_STEP_CONNECT] = {"connect", "connecting graph"},
	[GRN_STEP_CODES] = {"codes", "computing codes"},
	[GRN_STEP_RECALL] = {"recall", NULL},
	[GRN_STEP_WRITE] = {"write", "writing pages"}
};

char *
grnnd_builder_seconds(const GrnBuildResult *result)
{
	StringInfoData text;

	initStringInfo(&text);
	for (GrnStep i = GRN_STEP_DEVICE; i < GRN_STEP_WRITE; i++)
		appendStringInfo(&text, "%s%s %.3f", text.len > 0 ? ", " : "", grnnd_steps[i].name, result->seconds[i]);
	return text.data;
}

/* The phase of the progress that stands for a step. */
#define PHASE_OF(step) ((int64) (step) + 1 + PROGRESS_CREATEIDX_SUBPHASE_INITIALIZE)

char *
grnnd_buildphasename(int64 phase)
{
	if (phase == PROGRESS_CREATEIDX_SUBPHASE_INITIALIZE)
		return "initializing";
	return phase >= PHASE_OF(0) && phase < PHASE_OF(GRN_STEPS) ?
		(char *) grnnd_steps[phase - PHASE_OF(0)].phase : NULL;
}

/*
 * Shows a phase and its counters in pg_stat_progress_create_index.  While rows are collected, the
 * table scan itself counts blocks, and rows count when they are ranked.  In later phases
 * blocks_done is set to the share done / total of all blocks, so a percentage by blocks is the
 * percentage of the phase.
 */
void
grnnd_report_phase(GrnStep phase, uint64 done, uint64 total)
{
	const int	params[] = {
		PROGRESS_CREATEIDX_SUBPHASE,
		PROGRESS_CREATEIDX_TUPLES_TOTAL,
		PROGRESS_CREATEIDX_TUPLES_DONE,
		PROGRESS_SCAN_BLOCKS_DONE
	};
	int64		values[] = {PHASE_OF(phase), (int64) total, (int64) done, 0};
	int			n = lengthof(params);

	/* Inside another command the counters belong to the outer command. */
	if (!MyBEEntry || MyBEEntry->st_progress_command != PROGRESS_COMMAND_CREATE_INDEX)
		return;
	if (phase == GRN_STEP_COLLECT)
		n--;
	else if (total > 0)
		values[3] = (int64) ((double) MyBEEntry->st_progress_param[PROGRESS_SCAN_BLOCKS_TOTAL] *
							 (double) Min(done, total) / (double) total);
	pgstat_progress_update_multi_param(n, params, values);
}

double
grnnd_seconds_since(instr_time start)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, start);
	return INSTR_TIME_GET_DOUBLE(now);
}
