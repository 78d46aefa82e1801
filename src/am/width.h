/*
 * width.h - how wide a search is: its ef, by the session's settings, the index's storage
 * parameters, or the recall that is asked for.
 */
#ifndef GRNND_WIDTH_H
#define GRNND_WIDTH_H

#include "am/grnnd.h"

/*
 * The ef for a query that wants so many rows (0: nobody knows), before what LIMIT adds for
 * itself (scan.c).
 */
extern uint32 grnnd_width(Relation index, const GrnndIndex *ix, double wanted);
/*
 * The least ef at which the k nearest rows (0: ten) are found with so much recall, by the curve of
 * the build, when the index has grown by that factor since, and that share of its rows was
 * inserted.  0: there is no curve.
 */
extern uint32 grnnd_width_for(const GrnRecallCurve *curve, double recall, double k, double growth,
							  double inserted);

#endif							/* GRNND_WIDTH_H */
