/*
 * progress.h - the progress of CREATE INDEX.
 */
#ifndef GRNND_PROGRESS_H
#define GRNND_PROGRESS_H

#include "postgres.h"

#include "miscadmin.h"
#include "portability/instr_time.h"

#include "space/grn.h"

/* Shows a phase and its counters in pg_stat_progress_create_index. */
extern void grnnd_report_phase(GrnPhase phase, uint64 done, uint64 total);

/* Turns of a loop between two checks: some ten milliseconds. */
#define GRNND_CHECK_TURNS (UINT64CONST(1) << 20)

/* Checks for a cancel in every GRNND_CHECK_TURNS-th turn of a loop. */
static inline void
grnnd_check_cancel(uint64 turn)
{
	if ((turn & (GRNND_CHECK_TURNS - 1)) == 0)
		CHECK_FOR_INTERRUPTS();
}
extern PGDLLEXPORT double grnnd_seconds_since(instr_time start);

#endif							/* GRNND_PROGRESS_H */
