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
/* The curve of recall that was measured last; queries 0: there is none. */
extern const GrnRecallCurve *grnnd_curve(const GrnndNotes *notes);
/*
 * The share of so many records, of all kinds, that was inserted one by one.  Slots that vacuum has
 * freed are taken to hold new rows, as they are going to: so after many deletes a search is
 * somewhat wide until then.
 */
extern double grnnd_inserted(const GrnndNotes *notes, double ids);
/*
 * How many times as wide as by that curve searches have to be, now that there are so many records,
 * of all kinds: the index has grown since, or rows were replaced.
 */
extern double grnnd_stretch(const GrnndNotes *notes, double ids);

#endif							/* GRNND_WIDTH_H */
