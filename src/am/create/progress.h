/*
 * progress.h - how far CREATE INDEX is.
 */
#ifndef GRNND_PROGRESS_H
#define GRNND_PROGRESS_H

#include "postgres.h"

#include "miscadmin.h"
#include "portability/instr_time.h"

#include "graph/grn.h"

/* Shows a phase and its counters in pg_stat_progress_create_index. */
extern void grnnd_report_phase(GrnPhase phase, uint64 done, uint64 total);

/* A stretch of a phase, from one share of it to another. */
typedef struct GrnndStretch
{
	GrnPhase	phase;
	uint64		total;			/* what the phase is said to have: rows */
	double		from,
				to;
} GrnndStretch;

/* So much of a stretch is done. */
extern void grnnd_report_stretch(const GrnndStretch *stretch, uint64 done, uint64 of);

/* Turns of a loop between two looks: some ten milliseconds. */
#define GRNND_LOOK_TURNS (UINT64CONST(1) << 20)

/* In each turn of a loop that makes a stretch: at times hears a cancel and reports. */
static inline void
grnnd_look(const GrnndStretch *stretch, uint64 turn, uint64 turns)
{
	if ((turn & (GRNND_LOOK_TURNS - 1)) != 0)
		return;
	CHECK_FOR_INTERRUPTS();
	grnnd_report_stretch(stretch, turn, turns);
}
extern double grnnd_seconds_since(instr_time start);

#endif							/* GRNND_PROGRESS_H */
