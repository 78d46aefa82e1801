/*
 * fit_impl.h - one fit of an index's codes, for the files of fit.h: fit_codes.c (its course,
 * the codec and the pages before the nodes), fit_fill.c (codes of all records), fit_judge.c
 * (whether they tell neighbours apart), fit_recall.c (the recall of searches), fit_lists.c
 * (lists of values).
 */
#ifndef GRNND_FIT_IMPL_H
#define GRNND_FIT_IMPL_H

#include "am/page_store.h"
#include "am/write/entry_points.h"
#include "am/write/fit.h"

typedef struct Fit
{
	Relation	index;
	Relation	heap;			/* NULL: no lock is given up for others */
	GrnndIndex	ix;				/* as it is to be */
	GrnndStore	store;
	bool		in_vacuum;
	uint32		limit;			/* node ids below it are looked at */
	float	   *rows;			/* [nrows][stride] sample */
	uint32		stride;			/* grn_row_floats() */
	uint32		nrows;
	uint32		row_room;
	uint64		seen;			/* nodes met while sampling */
	float	   *x;				/* [dim] the row being visited */
	float		error;			/* grnnd_noise() of it */
	GrnState	state;			/* its record's */
	/* codes of the nodes from `first` on, as many as memory holds */
	uint32		first;
	uint32		end;
	bool	   *coded;			/* [end - first] is there a code? */
	uint8_t    *codes;			/* [end - first][code_bytes] */
	GrnFactor  *factors;		/* [end - first] */
	GrnndLongest longest;
} Fit;

/* To be called often: hears a cancel, and ends with an error where others wait for us. */
extern void grnnd_fit_breathe(const Fit *f);
/* A GrnVisitFn, arg a Fit: copies the row to f->x and its record's state to f->state. */
extern void grnnd_fit_take_row(void *arg, const GrnRecord *rec, const void *vec);
/* Brings a node's row to f->x.  False: that is no node, or one of the states not wanted. */
extern bool grnnd_fit_visit(Fit *f, uint32 id, bool dead_too);
/* Steps 3 and 4 of fit_codes.c: waits for inserts, then gives all records their codes. */
extern void grnnd_fit_fill(Fit *f);
/* Whether the codec tells neighbours apart, by the rule of builds. */
extern bool grnnd_fit_codes_tell(Fit *f);
/*
 * Measures the recall of searches as they are with f->ix.meta, into f->ix.notes.measured.  False:
 * not here.
 */
extern bool grnnd_fit_measure(Fit *f);

/* ---- fit_rows.c: rows of the table ---- */

typedef struct FitRows FitRows;
extern FitRows *grnnd_fit_rows_begin(const Fit *f);
extern void grnnd_fit_rows_end(FitRows *r);
/* A copy of a row's value.  False: the row is not to be seen. */
extern bool grnnd_fit_rows_query(FitRows *r, const ItemPointerData *tid, Datum *value);
/* The operator's distance of a row; infinite if the row is not to be seen. */
extern double grnnd_fit_rows_distance(FitRows *r, Datum query, const ItemPointerData *tid);

/* Writes f->ix.meta.  done: what it says is whole. */
extern void grnnd_fit_write_meta(Fit *f, bool done);
/* Are lists to be begun, or begun anew, now that there is a node of this id? */
extern bool grnnd_lists_due(const GrnndMeta *meta, uint32 id);
/* Makes lists of all nodes. */
extern void grnnd_fit_lists(Fit *f);

#endif							/* GRNND_FIT_IMPL_H */
