/*
 * prepare.h - the first pass over the rows as they were collected.
 */
#ifndef GRN_PREPARE_H
#define GRN_PREPARE_H

#include "builder/host.h"
#include "graph/rows.h"

typedef struct GrnPrepared
{
	float		norm_unit;		/* of scaled rows: a typical norm, unit of grn_scale() */
	GrnForm		form;			/* smallest that holds every row exactly */
} GrnPrepared;

/*
 * Checks the rows, without their order, for values that are not finite (reported by row, from
 * 1) and for norms out of range, and writes a GrnScale behind each row that has one. hashes:
 * [n] what grn_find_duplicates() wants, or NULL.
 */
extern bool grn_prepare(const GrnRows *rows, const GrnMetricInfo *metric, GrnParallel *parallel,
						uint64_t *hashes, GrnPrepared *out, GrnFailure *failure);

/*
 * The same for rows on a disk, which are not scaled: stretch by stretch, in any order, so that
 * whatever else is to be done of rows can be done before memory has others.
 */
typedef struct GrnPrepare
{
	const GrnRows *rows;
	size_t		first;			/* row of the stretch */
	uint64_t   *hashes;			/* [rows of the stretch] or NULL */
	bool		ahead;			/* rows are asked for before they are read */
	GrnRangeFn	also;			/* over the same rows [begin, end), or NULL; and its argument */
	void	   *arg;
	/* what is known of the rows so far */
	size_t		bad;			/* smallest row with a value not finite, or n */
	uint32_t	max_norm2;		/* bits of a float >= 0, whose order is theirs */
	uint32_t	forms;			/* bit per GrnForm that some row needs */
	uint32_t   *octaves;		/* [GRN_OCTAVES] rows by their norm, or NULL */
	double		norm_unit;		/* of places, */
	float		power;
} GrnPrepare;

/* rows, hashes, also and arg are the caller's. */
extern void grn_prepare_begin(GrnPrepare *p);
/* False where a value is not finite. */
extern bool grn_prepare_stretch(GrnPrepare *p, size_t first, size_t n, GrnParallel *parallel, size_t grain,
								GrnFailure *failure);
extern bool grn_prepare_end(const GrnPrepare *p, GrnPrepared *out, GrnFailure *failure);

#endif							/* GRN_PREPARE_H */
