/*
 * width.h - the width (ef) of a search, from the session's settings, the index's storage
 * parameters, or a recall target.
 */
#ifndef GRNND_WIDTH_H
#define GRNND_WIDTH_H

#include "am/grnnd.h"

typedef struct GrnndWidth
{
	uint32		ef;
	uint32		all;			/* of a recall target: the ef at which the scan reads all records
								 * instead, which then costs no more; 0: ef is not chosen for a
								 * recall target */
} GrnndWidth;

/* The width for a query of `wanted` rows (0: unknown), before LIMIT widens the search. */
extern GrnndWidth grnnd_width(Relation index, const GrnndIndex *ix, double wanted);
/* The usual standard deviation of a recall of ten rows measured by so many queries. */
extern double grnnd_recall_chance(double recall, uint32 queries);
/*
 * The factor by which the curve's width for a recall target grows for a query whose first search,
 * of width ef, had this contrast.  1 if nothing is known.
 */
extern double grnnd_widening(const GrnndNotes *notes, uint32 ef, double contrast);
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
