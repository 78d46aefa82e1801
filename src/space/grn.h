/*
 * grn.h - types that all parts of grnnd share: limits, build parameters, and the parallel loop
 * that runs on the caller's threads.
 *
 * The rooms memory, space, store and graph are plain C11.  They own no
 * resource during a callback, because a PostgreSQL caller may leave the callback by longjmp.
 * Memory comes from the caller.
 */
#ifndef GRN_H
#define GRN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* For functions that the libraries of other extensions call (am/export.h). */
#define GRN_EXPORT __attribute__((visibility("default")))

#define GRN_MAX_DIM 16000		/* pgvector's limit for types vector and halfvec */
#define GRN_MOST_DIMS 64000		/* dimensions of rows in any form: pgvector's limit for bits */
#define GRN_MIN_DEGREE 8
#define GRN_MAX_DEGREE 96
#define GRN_INVALID_ID UINT32_MAX	/* no node */
#define GRN_MAX_NODES (UINT32_C(1) << 31)	/* node ids stay below this */
#define GRN_MAX_ENTRIES 32		/* entry points of an index */
#define GRN_MAX_GPUS 16			/* GPUs that build together */

/* Parameters of the graph build, with the paper's symbols (Table 1). */
typedef struct GrnGraphParams
{
	uint32_t	degree;			/* largest stored out-degree */
	uint32_t	r;				/* R: pool capacity during descent */
	uint32_t	s;				/* S: initial random neighbors */
	uint32_t	t1;				/* T1: outer iterations */
	uint32_t	t2;				/* T2: inner iterations */
	float		rho;			/* share of a pool that gets reverse edges, nearest first */
	uint64_t	seed;
} GrnGraphParams;

/*
 * Returns the default degree of a graph outside an index.  With this degree a query computes
 * about as many distances as in other graphs of degree 32.  Rows of many dimensions fill only
 * a share of the list.  For an index pages decide: grn_default_degree().
 */
static inline uint32_t
grn_bare_degree(uint32_t dim)
{
	return dim <= 192 ? 34 : dim <= 512 ? 27 : 32;
}

/*
 * Rows in bytes are too coarse if more than one in GRN_MOST_COARSE rows has its nearest
 * neighbor at a squared distance below grn_least_fine().  The limit is three times the
 * squared distance that rounding adds (1/6 for each dimension), and at least 64: rounding
 * changes a squared distance D by 2 sqrt(D / 6), a tenth of 64.  Measured on 300 clusters in
 * five parts: recall is .997 with one in 20, .977 with one in 2.  Limits 4 and 16 times as large
 * change the recall of 14 sets of 100,000 rows on a GPU no more than a second build does.
 */
#define GRN_MOST_COARSE 20

static inline uint32_t
grn_least_fine(uint32_t dims)
{
	return dims / 2 > 64 ? dims / 2 : 64;
}

/*
 * Runs fn(arg, worker, begin, end) over disjoint pieces of [0, n), each of at most grain items, on
 * nworkers threads (worker < nworkers), and returns at the end of the last piece.  Threads take
 * pieces dynamically, so no result may depend on the worker that processes a piece.
 */
typedef void (*GrnRangeFn) (void *arg, int worker, size_t begin, size_t end);
typedef struct GrnParallel
{
	int			nworkers;
	void		(*run) (struct GrnParallel *self, size_t n, size_t grain,
						GrnRangeFn fn, void *arg);
} GrnParallel;

/*
 * Rows or vertices that a thread takes at a time in most loops.  A build of 10,000 or 20,000
 * sentences or image patches takes the same time with half and twice.
 */
#define GRN_GRAIN 256

/*
 * Steps of CREATE INDEX.  Reports of progress name a step, and logs and the metapage have the
 * seconds of each, so the numbers on disk never change.  Work beside another step counts as part of
 * the other step.
 */
typedef enum GrnStep
{
	GRN_STEP_COLLECT = 0,		/* collecting vectors */
	GRN_STEP_DEVICE,			/* waiting for the device to open; no phase of the progress */
	GRN_STEP_PREPARE,			/* copying to the device, finding duplicates */
	GRN_STEP_DESCENT,			/* building graph; done = update rounds */
	GRN_STEP_CONNECT,			/* checking and connecting the graph */
	GRN_STEP_CODES,				/* codes, order of the nodes, filling of lists; or nearest rows */
	GRN_STEP_RECALL,			/* measuring recall, beside the first pages; no phase */
	GRN_STEP_WRITE,				/* writing pages, except the last steps */
	GRN_STEPS
} GrnStep;

/*
 * Recall by search width (ef), measured during a build; also stored on disk.  The widths apply
 * to searches for any k.  A scan of fewer than 2 k candidates is widened.
 */
#define GRN_CURVE_POINTS 6
#define GRN_CURVE_WIDTHS {10, 20, 40, 80, 160, 320}
#define GRN_CURVE_KS 2
#define GRN_CURVE_K {10, 100}
#define GRN_CURVE_MOST_K 100
typedef struct GrnRecallCurve
{
	uint32_t	queries;		/* 0: not measured */
	float		recall[GRN_CURVE_KS][GRN_CURVE_POINTS]; /* recall at k nearest rows */
	float		visits[GRN_CURVE_POINTS];	/* records that a search visits, on average */
} GrnRecallCurve;

/*
 * By width, the contrast of the curve's queries: of rows a geometric mean, of queries of scans the
 * least.  Also stored on disk.  The contrast of a search of width w is the logarithm of the ratio
 * of the distances of the w-th and the (w / 4)-th nearest rows found.  A query far from all rows
 * has little contrast: many rows are nearly as near as the nearest ones, and a search of a given
 * width finds fewer of those.
 */
#define GRN_CONTRAST_PART 4
typedef struct GrnContrast
{
	float		at[GRN_CURVE_POINTS];	/* 0: not known */
} GrnContrast;

/* Reports the progress of a long step: items done, and items in all. */
typedef void (*GrnProgressFn) (void *ctx, uint64_t done, uint64_t total);

/*
 * Cells of a power diagram, which a build in parts uses to divide rows.  Row x is at home in
 * the cell a with the least |x - center|^2 + weight.  Let b be the cell with the second least
 * sum.  x is a guest of b if (sum of b - sum of a) * across[a][b], the distance from the plane
 * between both cells in a's unit, is at most border.
 */
typedef struct GrnCells
{
	uint32_t	n;
	uint32_t	dim;
	const float *centers;		/* [n][dim] */
	const float *weights;		/* [n] */
	const float *across;		/* [n][n] 1 / (2 |a - b| unit of a), 0 for equal centers */
	float		border;
} GrnCells;

/* The type of a row's numbers in memory: all that a device must know of a form (form.h). */
typedef enum GrnNumbers
{
	GRN_NUMBERS_NONE = 0,		/* rows of builds cannot have this form */
	GRN_NUMBERS_FLOATS,
	GRN_NUMBERS_HALVES,			/* IEEE binary16 */
	GRN_NUMBERS_BITS			/* 0 or 1, a byte's highest bit first */
} GrnNumbers;

/* Returns a random number for a counter: mixes (seed, stream, counter) to 64 bits. */
static inline uint64_t
grn_random(uint64_t seed, uint64_t stream, uint64_t counter)
{
	uint64_t	x = seed + UINT64_C(0x9E3779B97F4A7C15) * (stream + 1);

	x ^= counter * UINT64_C(0xD1B54A32D192ED03);
	for (int i = 0; i < 2; i++)
	{
		x ^= x >> 32;
		x *= UINT64_C(0xD6E8FEB86659FD93);
	}
	return x ^ (x >> 32);
}

#endif							/* GRN_H */
