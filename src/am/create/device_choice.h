/*
 * device_choice.h - chooses the device of a build with grnnd.build_device = auto.
 */
#ifndef GRNND_DEVICE_CHOICE_H
#define GRNND_DEVICE_CHOICE_H

#include "am/create/build_state.h"

/* Processor seconds of a graph of `rows` rows on a core: 40 us a row and .03 us a number. */
static inline double
grnnd_core_seconds(const GrnndBuild *build, double rows)
{
	return rows * (40e-6 + 0.03e-6 * build->dim);
}

/* Whether a GPU, if the host has one, should build a graph of `rows` rows. */
extern PGDLLEXPORT bool grnnd_worth_gpu(const GrnndBuild *build, double rows);
/* Resolves grnnd.build_device = auto to the processor if the rows are too few for a GPU. */
extern PGDLLEXPORT void grnnd_choose_device(GrnndBuild *build, double rows);
/*
 * Estimated seconds of the graph of `rows` rows: on a GPU if the settings demand a GPU, otherwise
 * on cores.  For a GPU only the start counts, because the rest runs beside other work.
 */
extern PGDLLEXPORT double grnnd_graph_seconds(const GrnndBuild *build, double rows);
/* Notes, for later builds of the transaction, a build on cores that a GPU might have done. */
extern void grnnd_note_cpu_build(const GrnndBuild *build, double rows);
/* Notes, for later builds of the transaction, that no GPU is usable. */
extern void grnnd_note_no_gpu(void);

#endif							/* GRNND_DEVICE_CHOICE_H */
