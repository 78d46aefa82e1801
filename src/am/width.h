/*
 * width.h - the width (ef) of a search, from the session's settings, the index's storage
 * parameters, or a recall target.
 */
#ifndef GRNND_WIDTH_H
#define GRNND_WIDTH_H

#include "am/grnnd.h"

/*
 * The ef for a query that needs `wanted` rows (0: unknown), before LIMIT widens the search
 * (scan.c).
 */
extern uint32 grnnd_width(Relation index, const GrnndIndex *ix, double wanted);
/* The last measured curve of recall; queries 0: none. */
extern const GrnRecallCurve *grnnd_curve(const GrnndNotes *notes);
/*
 * The share of `ids` records of all kinds that were inserted one by one.  Slots freed by vacuum
 * count as if they held new rows, because they will: after many deletes, searches are somewhat too
 * wide until then.
 */
extern double grnnd_inserted(const GrnndNotes *notes, double ids);
/*
 * The factor by which searches must be wider than the curve says: the index has grown to `ids`
 * records of all kinds since the measurement, or rows were replaced.
 */
extern double grnnd_stretch(const GrnndNotes *notes, double ids);

/*
 * The recall of the ten nearest rows by the curve, for searches of width ef in an index of `ids`
 * records of all kinds.  NaN: no curve.
 */
extern double grnnd_curve_recall(const GrnndNotes *notes, double ids, double ef);

#endif							/* GRNND_WIDTH_H */
