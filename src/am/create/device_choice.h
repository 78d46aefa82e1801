/*
 * device_choice.h - which device builds an index where grnnd.build_device = auto.
 */
#ifndef GRNND_DEVICE_CHOICE_H
#define GRNND_DEVICE_CHOICE_H

#include "am/create/build_state.h"

/* Whether a GPU would build so many rows, if there is one. */
extern bool grnnd_worth_gpu(const GrnndBuild *build, double rows);
/* Settles grnnd.build_device = auto, as far as that is done by the number of rows. */
extern void grnnd_choose_device(GrnndBuild *build, double rows);
/*
 * Seconds that the graph of so many rows takes on a GPU, where the settings insist on one, or on
 * cores, about.  A GPU's are those of its start: the rest goes on beside other work.
 */
extern double grnnd_graph_seconds(const GrnndBuild *build, double rows);
/* For the transaction's later builds: cores build so many rows, where a GPU might have helped. */
extern void grnnd_note_cpu_build(const GrnndBuild *build, double rows);
/* For the same: there is no GPU. */
extern void grnnd_note_no_gpu(void);

#endif							/* GRNND_DEVICE_CHOICE_H */
