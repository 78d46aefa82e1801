/*
 * frequent.h - frequent values of filter columns.
 */
#ifndef GRNND_FREQUENT_H
#define GRNND_FREQUENT_H

#include "am/build/build_state.h"

/*
 * Fits the books of the columns to a sample of the collected rows' values (build->books).  Where
 * some values are frequent it says in segment VALUES which rows have them, for the builder.
 * rows: of the table, where those collected are a sample (estimate.c).
 */
extern void grnnd_fit_books(GrnndBuild *build, double rows);

#endif							/* GRNND_FREQUENT_H */
