/*
 * fit_impl.h - one fit of an index's codes, shared by the files of write.h: fit_codes.c (the steps,
 * the codec and the pages before the nodes), fit_fill.c (codes of all records), fit_judge.c
 * (whether codes tell neighbors apart), fit_recall.c (recall of searches), fit_lists.c (lists of
 * values).
 */
#ifndef GRNND_FIT_IMPL_H
#define GRNND_FIT_IMPL_H

#include "am/index/page_store.h"
#include "am/write/link.h"
#include "am/write/write.h"

typedef struct Fit
{
	GrnParallel alone;			/* loops of this process, which handle interrupts; must be first */
	Relation	index;
	Relation	heap;			/* NULL: do not give locks up for other sessions */
	GrnndIndex	ix;				/* as the fit will leave the index */
	GrnndStore	store;
	bool		in_vacuum;
	uint32		limit;			/* the fit reads node ids below this */
	float	   *rows;			/* [nrows][stride] sample */
	uint32		stride;			/* grn_row_floats() */
	uint32		nrows;
	uint32		row_room;
	uint64		seen;			/* nodes met while sampling */
	float	   *x;				/* [dim] the row being visited */
	float		error;			/* code error of that row */
	GrnState	state;			/* state of that row's record */
	/* codes of the nodes first..end-1, as many as memory holds */
	uint32		first;
	uint32		end;
	bool	   *coded;			/* [end - first] whether the node has a code */
	uint8_t    *codes;			/* [end - first][code_bytes] */
	GrnFactor  *factors;		/* [end - first] */
	GrnndLongest longest;
} Fit;

/* Must be called often: handles a cancel, and fails if another session waits for our locks. */
extern void grnnd_fit_check_interrupts(const Fit *f);
/* A GrnVisitFn, arg a Fit: copies the row to f->x and its record's state to f->state. */
extern void grnnd_fit_take_row(void *arg, const GrnRecord *rec, const void *vec);
/*
 * Copies a node's row to f->x. Returns false if the record is neither a live node nor, with
 * dead_too, a dead node.
 */
extern bool grnnd_fit_visit(Fit *f, uint32 id, bool dead_too);
/* Steps 3 and 4 of fit_codes.c: waits for inserts, then gives all records their codes. */
extern void grnnd_fit_fill(Fit *f);
/* Returns whether the codec tells neighbors apart, by the rule of builds. */
extern bool grnnd_fit_judge_codes(Fit *f);
/*
 * Measures the recall of searches with f->ix.meta into f->ix.notes.measured. Returns false if
 * recall cannot be measured here.
 */
extern bool grnnd_fit_measure(Fit *f);

/* Writes f->ix.meta. done: the fit is complete. */
extern void grnnd_fit_write_meta(Fit *f, bool done);
/* Returns whether lists must be made, or remade, given that a node of this id exists. */
extern bool grnnd_lists_due(const GrnndMeta *meta, uint32 id);
/* Makes lists of all nodes. */
extern void grnnd_fit_lists(Fit *f);

#endif							/* GRNND_FIT_IMPL_H */
