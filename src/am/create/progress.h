/*
 * progress.h - the progress of CREATE INDEX.
 */
#ifndef GRNND_PROGRESS_H
#define GRNND_PROGRESS_H

#include "postgres.h"

#include "miscadmin.h"
#include "portability/instr_time.h"

#include "graph/grn.h"

/* Shows a phase and its counters in pg_stat_progress_create_index. */
extern void grnnd_report_phase(GrnPhase phase, uint64 done, uint64 total);

/* A stretch of a phase, between two shares of the phase. */
typedef struct GrnndStretch
{
	GrnPhase	phase;
	uint64		total;			/* rows of the phase */
	double		from,
				to;
} GrnndStretch;

/* Reports that `done` of `of` items of a stretch are done. */
extern void grnnd_report_stretch(const GrnndStretch *stretch, uint64 done, uint64 of);

/* Turns of a loop between two checks: some ten milliseconds. */
#define GRNND_CHECK_TURNS (UINT64CONST(1) << 20)

/* In each turn of a loop: every GRNND_CHECK_TURNS turns checks for a cancel, reports progress. */
static inline void
grnnd_check_progress(const GrnndStretch *stretch, uint64 turn, uint64 turns)
{
	if ((turn & (GRNND_CHECK_TURNS - 1)) != 0)
		return;
	CHECK_FOR_INTERRUPTS();
	grnnd_report_stretch(stretch, turn, turns);
}
extern PGDLLEXPORT double grnnd_seconds_since(instr_time start);

#endif							/* GRNND_PROGRESS_H */
