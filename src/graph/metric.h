/*
 * metric.h - all that differs between metrics, one table entry each.
 *
 * Only metric.c and the operator classes (src/am/types) name a metric.  Everything else
 * asks the table.
 *
 * The graph is always built in a Euclidean space (space.h).  A metric says how a row is
 * embedded in it, what its codes describe, and how a query is compared with a stored
 * vector.  Where the stored comparison is Euclidean too (L2, and cosine by way of
 * normalised vectors), rows are their own places in that space.
 *
 * L1 and Jaccard have no embedding of so few dimensions.  L1's surrogate is the Euclidean
 * distance of the same rows, Jaccard's that of their directions.  The graph, the codes and so
 * the candidates of a search go by the surrogate, and only the nodes that a search visits are
 * compared by the metric.
 */
#ifndef GRN_METRIC_H
#define GRN_METRIC_H

#include "graph/grn.h"

/*
 * All metrics: X(NAME, number, name).  GRN_NAME is the constant and `number` its value on disk,
 * which is kept for ever.  `name` is what grnnd_build --metric takes and the end of the name of
 * the operator classes' support function (grnnd_metric_name()).
 */
#define GRN_METRICS(X) \
	X(L2, 1, l2)				/* Euclidean distance */ \
	X(IP, 2, ip)				/* negative inner product */ \
	X(COSINE, 3, cosine)		/* 1 - cosine; vectors are stored normalised */ \
	X(L1, 4, l1)				/* sum of absolute differences */ \
	X(HAMMING, 6, hamming)		/* numbers, 0 or 1, that differ: the squared distance */ \
	X(JACCARD, 7, jaccard)		/* of numbers, 0 or 1: 1 - the share of ones that both have */ \
	X(IP_ANGLES, 8, ip_angles)	/* negative inner product; the graph is one of angles */

#define GRN_METRIC_NUMBER(NAME, number, name) GRN_##NAME = (number),
typedef enum GrnMetric
{
	GRN_METRICS(GRN_METRIC_NUMBER)
} GrnMetric;

/* Where a row lies in the space of the graph. */
typedef enum GrnEmbedding
{
	GRN_EMBED_ROW = 0,			/* the row itself is its place */
	GRN_EMBED_SCALED			/* the row times its GrnScale, which follows it in a build */
} GrnEmbedding;

/* Whether rows have a GrnScale (space.h), and the index a norm unit. */
static inline bool
grn_is_scaled(GrnEmbedding embedding)
{
	return embedding == GRN_EMBED_SCALED;
}

/* What a code describes of a row x (codec.h). */
typedef enum GrnCodeKind
{
	GRN_CODES_ROWS = 0,			/* x itself; the factor keeps its distance from the mean */
	GRN_CODES_DIRECTIONS		/* x / |x|; the factor keeps |x| */
} GrnCodeKind;

/* The distance of a query to a stored vector, which a form's kernel computes. */
typedef enum GrnComparison
{
	GRN_COMPARE_L2 = 0,			/* squared Euclidean distance */
	GRN_COMPARE_IP,				/* inner product, negated */
	GRN_COMPARE_L1,				/* sum of absolute differences */
	GRN_COMPARE_JACCARD			/* 1 - xy / (xx + yy - xy), by inner products; 1 of zero and zero */
} GrnComparison;

/* How rows are compared with each other, in the space of the graph. */
#define GRN_BETWEEN_PLACES GRN_COMPARE_L2
/* What is estimated of a query and a coded row, or of two coded rows (stored/estimate.h). */
typedef enum GrnEstimated
{
	GRN_ESTIMATE_NONE = 0,
	GRN_ESTIMATE_L2,			/* squared distances */
	GRN_ESTIMATE_IP,			/* negative inner products */
	GRN_ESTIMATE_PLACES,		/* squared distances between the places of scaled rows */
	/* where codes are rows of bits, exactly: */
	GRN_EXACT_L2,
	GRN_EXACT_JACCARD,
	GRN_EXACT_PLACES
} GrnEstimated;

/*
 * What is known of a row whose distance the executor is to compute anew: from its values,
 * in single precision, in any order of summation.
 */
typedef struct GrnBound
{
	double		compared;		/* the query with the stored vector; finite */
	double		error;			/* |x - stored x|, at most */
	double		across;			/* |x - stored x| where it is across the row (rotated.h), else 0 */
	double		query_norm;
	double		norm;			/* |stored x|, where bound_by_norm is set */
	uint32_t	dim;
} GrnBound;

typedef struct GrnMetricInfo
{
	GrnMetric	id;
	bool		normalised;		/* vectors are brought to length 1; a zero vector has no place */
	GrnEmbedding embedding;
	bool		unit_of_rows;	/* scaled rows have the norm unit that they make (space.h), */
	float		norm_unit;		/* or this one, likewise before there are rows; 0: 1 */
	float		power;			/* of a scaled row's norm, by which its place is nearer the middle */
	GrnCodeKind codes;
	GrnComparison comparison;
	/*
	 * What counts of ones say of a query and a row of bits that is its own code: what the
	 * metric compares by; or GRN_ESTIMATE_NONE.
	 */
	GrnEstimated own_codes;
	/*
	 * With a surrogate: candidates by it that a scan's search keeps for each of ef_search, since
	 * the nearest of them need not be the nearest by the metric.  Else 0.
	 */
	uint32_t	surrogate_beam;
	/* entry points that are the longest rows; the others are a sample */
	uint32_t	long_entries;
	/* the operator's value from a comparison with a stored vector */
	double		(*value) (double compared);
	/* a lower bound of the operator's value of the row itself, however it is summed */
	double		(*bound) (const GrnBound *b);
	bool		bound_by_norm;	/* bound() and sketch_error() look at GrnBound.norm */
	/*
	 * Where a random sketch stands for the row: the GrnBound.error that is as much as one standard
	 * deviation of what sketches of b->dim numbers compare by.  NULL: they do not keep that.
	 */
	double		(*sketch_error) (const GrnBound *b);
} GrnMetricInfo;

/* The entry of a metric; NULL where the number, read from elsewhere, is none. */
extern const GrnMetricInfo *grn_metric(uint32_t id);
/* Whether p is an entry of the table. */
extern bool grn_is_metric(const void *p);
/* Its name in GRN_METRICS. */
extern const char *grn_metric_name(const GrnMetricInfo *metric);
/* The entry of that name, or NULL. */
extern const GrnMetricInfo *grn_metric_named(const char *name);

/* The names of all entries, with `between` between them, cut to size bytes; returns out. */
extern char *grn_metric_names(const char *between, char *out, size_t size);
/*
 * The unit of norms of scaled rows (space.h): the metric's own, or that of rows of these octaves
 * [GRN_OCTAVES]; NULL: none are known yet.
 */
extern double grn_metric_norm_unit(const GrnMetricInfo *metric, const uint32_t *octaves);

/* Floats of a row in a build, before alignment: its dimensions and what its place needs. */
extern size_t grn_row_floats(const GrnMetricInfo *metric, uint32_t dim);

/*
 * Brings x [n] into the form in which the metric compares vectors: to length 1 where it
 * is normalised.  False where x is zero and so has no such form; x is then unchanged.
 */
extern bool grn_metric_form(const GrnMetricInfo *metric, float *x, size_t n);

#endif							/* GRN_METRIC_H */
