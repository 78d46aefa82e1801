/*
 * progress.c - the progress of CREATE INDEX in pg_stat_progress_create_index, and elapsed seconds.
 */
#include "am/create/create.h"

#include "commands/progress.h"
#include "utils/backend_progress.h"
#include "utils/backend_status.h"

#include "am/callbacks.h"

char *
grnnd_buildphasename(int64 phase)
{
	/* The phase before ours is PROGRESS_CREATEIDX_SUBPHASE_INITIALIZE. */
	static const char *const names[] = {
		"initializing",
		[GRN_PHASE_COLLECT] = "collecting vectors",
		[GRN_PHASE_PREPARE] = "preparing vectors",
		[GRN_PHASE_DESCENT] = "building graph",
		[GRN_PHASE_CONNECT] = "connecting graph",
		[GRN_PHASE_CODES] = "computing codes",
		[GRN_PHASE_WRITE] = "writing pages"
	};

	phase -= PROGRESS_CREATEIDX_SUBPHASE_INITIALIZE;
	return phase >= 0 && phase < (int64) lengthof(names) ? (char *) names[phase] : NULL;
}

/*
 * Shows a phase and its counters in pg_stat_progress_create_index.  While rows are collected, the
 * table scan itself counts blocks, and rows count when they are ranked.  In later phases
 * blocks_done is set to the share done / total of all blocks, so a percentage by blocks is the
 * percentage of the phase.
 */
void
grnnd_report_phase(GrnPhase phase, uint64 done, uint64 total)
{
	const int	params[] = {
		PROGRESS_CREATEIDX_SUBPHASE,
		PROGRESS_CREATEIDX_TUPLES_TOTAL,
		PROGRESS_CREATEIDX_TUPLES_DONE,
		PROGRESS_SCAN_BLOCKS_DONE
	};
	int64		values[] = {(int64) phase + 1, (int64) total, (int64) done, 0};
	int			n = lengthof(params);

	/* Inside another command the counters belong to the outer command. */
	if (!MyBEEntry || MyBEEntry->st_progress_command != PROGRESS_COMMAND_CREATE_INDEX)
		return;
	if (phase == GRN_PHASE_COLLECT)
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
