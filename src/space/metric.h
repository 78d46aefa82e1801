/*
 * metric.h - all differences between metrics, with one table entry for each metric.
 *
 * Only metric.c and the operator classes (src/am/types) name a metric.  All other files use
 * the table.
 *
 * The graph is always built in a Euclidean space (space.h).  A metric's entry defines how a
 * row is embedded in the space, what codes describe, and how a query is compared with a stored
 * vector.  If the comparison is Euclidean (L2, and cosine by normalized vectors), rows are
 * their own places in the space.
 *
 * L1 and Jaccard have no embedding with as few dimensions.  The surrogate of L1 is the
 * Euclidean distance of the same rows; the surrogate of Jaccard is the Euclidean distance of
 * their directions.  The graph alone uses the surrogate.
 * Only the nodes that a search visits are compared by the metric.
 */
#ifndef GRN_METRIC_H
#define GRN_METRIC_H

#include "space/grn.h"

/*
 * All metrics: X(NAME, number, name).  GRN_NAME is the constant.  `number` is the constant's
 * value on disk and must never change.  `name` is the argument of grnnd_paper --metric, and
 * the end of the name of the operator classes' support function grnnd_internal_metric_name().
 */
#define GRN_METRICS(X) \
	X(L2, 1, l2)				/* Euclidean distance */ \
	X(IP, 2, ip)				/* negative inner product */ \
	X(COSINE, 3, cosine)		/* 1 - cosine; vectors are stored normalized */ \
	X(L1, 4, l1)				/* sum of absolute differences */ \
	X(HAMMING, 6, hamming)		/* number of different numbers, 0 or 1: the squared distance */ \
	X(JACCARD, 7, jaccard)		/* for numbers 0 or 1: 1 - share of common ones */ \
	X(IP_ANGLES, 8, ip_angles)	/* negative inner product, of sparse rows */

#define GRN_METRIC_NUMBER(NAME, number, name) GRN_##NAME = (number),
typedef enum GrnMetric
{
	GRN_METRICS(GRN_METRIC_NUMBER)
} GrnMetric;

/* The place of a row in the space of the graph. */
typedef enum GrnEmbedding
{
	GRN_EMBED_ROW = 0,			/* the row itself is the place */
	GRN_EMBED_SCALED			/* the row times its GrnScale, which follows the row in a build */
} GrnEmbedding;

/* Whether rows have a GrnScale (space.h) and the index has a norm unit. */
static inline bool
grn_is_scaled(GrnEmbedding embedding)
{
	return embedding == GRN_EMBED_SCALED;
}

/* What a code describes of a row x (codec.h). */
typedef enum GrnCodeKind
{
	GRN_CODES_ROWS = 0,			/* x itself; the factor keeps the distance from the mean */
	GRN_CODES_DIRECTIONS		/* x / |x|; the factor keeps |x| */
} GrnCodeKind;

/* The distance of a query to a stored vector, computed by a form's kernel. */
typedef enum GrnComparison
{
	GRN_COMPARE_L2 = 0,			/* squared Euclidean distance */
	GRN_COMPARE_IP,				/* negative inner product */
	GRN_COMPARE_L1,				/* sum of absolute differences */
	GRN_COMPARE_JACCARD			/* 1 - xy / (xx + yy - xy), by inner products; 1 for zero and zero */
} GrnComparison;

/* The comparison of rows with each other, in the space of the graph. */
#define GRN_BETWEEN_PLACES GRN_COMPARE_L2
/* The quantity estimated for a query and a coded row, or for two coded rows (store/estimate.c). */
typedef enum GrnEstimated
{
	GRN_ESTIMATE_NONE = 0,
	GRN_ESTIMATE_L2,			/* squared distances */
	GRN_ESTIMATE_IP,			/* negative inner products */
	GRN_ESTIMATE_PLACES,		/* squared distances between places of scaled rows */
	/* exact quantities, if codes are rows of bits: */
	GRN_EXACT_L2,
	GRN_EXACT_JACCARD,
	GRN_EXACT_PLACES
} GrnEstimated;

/*
 * Data for a lower bound of a distance that the executor will recompute from the row's values,
 * in single precision, in any order of summation.
 */
typedef struct GrnBound
{
	double		compared;		/* comparison of the query with the stored vector; finite */
	double		error;			/* at least |x - stored x| */
	double		across;			/* x - stored x| if perpendicular to the row (rotated.c), otherwise
								 * 0 */
	double		query_norm;
	double		norm;			/* stored x|, if bound_by_norm */
	uint32_t	dim;
} GrnBound;

typedef struct GrnMetricInfo
{
	GrnMetric	id;
	GrnMetric	of_numbers;		/* of a metric for sparse rows alone: the same operator's metric
								 * for rows that keep all numbers; otherwise 0 */
	bool		normalized;		/* vectors are scaled to length 1; a zero vector has no place */
	GrnEmbedding embedding;
	bool		unit_of_rows;	/* scaled rows use the norm unit computed from rows (space.h); */
	float		norm_unit;		/* otherwise this unit, which is also the unit before rows exist;
								 * 0: 1 */
	float		power;			/* a scaled row of norm n has a place of norm n^-power while no
								 * rows have determined the power (space.h); 0: the graph is by
								 * inner products */
	GrnCodeKind codes;
	GrnComparison comparison;
	/*
	 * The quantity computed from counts of ones for a query and a row of bits that is its own
	 * code: the metric's comparison.  GRN_ESTIMATE_NONE: none.
	 */
	GrnEstimated own_codes;
	/*
	 * For a metric with a surrogate: candidates that a scan's search keeps for each of ef_search,
	 * because edges of the surrogate's graph lead to the nearest rows less often.  Otherwise 0.
	 * With a surrogate an index has codes only if they are rows.
	 */
	uint32_t	surrogate_beam;
	/* entry points that are the longest rows; the remaining entry points are a sample */
	uint32_t	long_entries;
	/* Returns the operator's value from the comparison with a stored vector. */
	double		(*value) (double compared);
	/* Returns a lower bound of the operator's value for the row, in any order of summation. */
	double		(*bound) (const GrnBound *b);
	bool		bound_by_norm;	/* bound() uses GrnBound.norm */
} GrnMetricInfo;

/* Returns the entry of a metric, or NULL if id, which may come from elsewhere, is no metric. */
extern GRN_EXPORT const GrnMetricInfo *grn_metric(uint32_t id);
/* Whether p is an entry of the table. */
extern bool grn_is_metric(const void *p);
/* Returns the metric's name in GRN_METRICS. */
extern const char *grn_metric_name(const GrnMetricInfo *metric);
/* Returns the entry with a name, or NULL. */
extern const GrnMetricInfo *grn_metric_named(const char *name);

/* Writes all names, separated by `between`, to out, cut to size bytes.  Returns out. */
extern char *grn_metric_names(const char *between, char *out, size_t size);
/*
 * Returns the norm unit of scaled rows (space.h): the metric's own unit, or the unit of rows
 * of the given octaves [GRN_OCTAVES].  octaves NULL: no rows are known yet.
 */
extern double grn_metric_norm_unit(const GrnMetricInfo *metric, const uint32_t *octaves);

/* Returns the number of candidates that a search keeps for each unit of ef. */
static inline uint32_t
grn_metric_beam(const GrnMetricInfo *metric)
{
	return metric->surrogate_beam > 1 ? metric->surrogate_beam : 1;
}

/* Returns the floats of a row in a build, before alignment, with the GrnScale if scaled. */
extern size_t grn_row_floats(const GrnMetricInfo *metric, uint32_t dim);

#endif							/* GRN_METRIC_H */
