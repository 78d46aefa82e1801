/*
 * prepare.h - the first pass over rows as collected.
 */
#ifndef GRN_PREPARE_H
#define GRN_PREPARE_H

#include "builder/host.h"
#include "builder/threads.h"
#include "space/grn.h"
#include "space/metric.h"
#include "space/rows.h"
#include "space/space.h"

typedef struct GrnPrepared
{
	float		norm_unit;		/* for scaled rows: a typical norm, the unit of grn_scale() */
	float		power;			/* and the power of their places; otherwise 0 */
	GrnForm		form;			/* smallest form that holds every row exactly */
} GrnPrepared;

/*
 * Checks rows in memory, in the order of collection, for values that are not finite and for norms
 * out of range.  Writes a GrnScale behind each scaled row.  order: [n] row of each rank, so that
 * the result does not depend on the order of collection, or NULL.  hashes: [n] for
 * grn_find_duplicates(), or NULL.  Errors: SQLSTATE 22000 with the row's number from 1, and 22003.
 */
extern bool grn_prepare(const GrnRows *rows, const uint32_t *order, const GrnMetricInfo *metric, GrnParallel *parallel,
						uint64_t *hashes, GrnPrepared *out, GrnFailure *failure);

/*
 * The first pass over rows on a disk.  The pass goes stretch by stretch, in any order.  So
 * each further step on these rows can run before memory takes the next stretch.
 */
typedef struct GrnPrepare
{
	const GrnRows *rows;
	size_t		first;			/* first row of the stretch */
	uint64_t   *hashes;			/* [rows of the stretch] or NULL */
	bool		ahead;			/* threads request rows before they read them */
	GrnRangeFn	also;			/* called with arg for the same rows [begin, end); may be NULL */
	void	   *arg;
	/* results so far */
	size_t		bad;			/* smallest row with a value that is not finite; n: none */
	uint32_t	max_norm2;		/* bits of a float >= 0; bits and floats have the same order */
	uint32_t	forms;			/* a bit for each GrnForm that some row needs */
	uint32_t	octaves[GRN_OCTAVES];	/* number of scaled rows by norm */
	double		norm_unit;		/* norm unit and power of the places of scaled rows */
	float		power;
} GrnPrepare;

/* The caller sets rows, hashes, ahead, also and arg, and zeroes all results. */
extern void grn_prepare_begin(GrnPrepare *p);
/* Returns false if a value is not finite, with SQLSTATE 22000. */
extern bool grn_prepare_stretch(GrnPrepare *p, size_t first, size_t n, GrnParallel *parallel, size_t grain,
								GrnFailure *failure);
/*
 * Ends the pass and fills *out.  rows: the rows, perhaps at other places, whose scales are written;
 * order as in grn_prepare().  Errors: SQLSTATE 22003 if a squared norm is infinite.
 */
extern bool grn_prepare_end(GrnPrepare *p, const GrnRows *rows, const uint32_t *order, const GrnMetricInfo *metric,
							GrnParallel *parallel, GrnPrepared *out, GrnFailure *failure);

#endif							/* GRN_PREPARE_H */
