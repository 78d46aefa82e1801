/*
 * progress.h - how far CREATE INDEX is.
 */
#ifndef GRNND_PROGRESS_H
#define GRNND_PROGRESS_H

#include "postgres.h"

#include "portability/instr_time.h"

#include "graph/grn.h"

/* Shows a phase and its counters in pg_stat_progress_create_index. */
extern void grnnd_report_phase(GrnPhase phase, uint64 done, uint64 total);
extern double grnnd_seconds_since(instr_time start);

#endif							/* GRNND_PROGRESS_H */
