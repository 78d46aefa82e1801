/*
 * form.h - the forms in which an index keeps the rows' own vectors, with one table entry for
 * each form.
 *
 * A stored vector of a short form begins with a head, which defines the values that the
 * numbers stand for.  If a row's numbers do not fit the form directly, the row gets a head of
 * its own, so that the rounding error is proportional to the row's own range.  The exact
 * layout uses the smallest form that holds all rows of the build exactly.  The default layout
 * rounds rows to bytes if bytes save pages (grn_layout_form()).
 *
 * Only form.c names a form.  All other files use the table.
 */
#ifndef GRN_FORM_H
#define GRN_FORM_H

#include "space/kernels/dist.h"
#include "space/metric.h"

/* Values on disk: never renumber.  src/space/form.c defines the heads. */
typedef enum GrnForm
{
	GRN_FORM_F32 = 1,			/* 32-bit floats, no head: any row, exactly */
	GRN_FORM_F16 = 2,			/* IEEE binary16 times the head, a float */
	GRN_FORM_U8 = 3,			/* integers 0..255; the head is a GrnByteHead */
	GRN_FORM_BITS = 4,			/* 0 and 1, no head; the first number is a byte's highest bit */
	GRN_FORM_ROTATED4 = 5,		/* 4 bits for each number of the rotated row; the head is a
								 * GrnRotatedHead */
	GRN_FORM_ROTATED2 = 6,		/* the same with 2 bits */
	GRN_FORM_ROTATED1 = 7,		/* the same with 1 bit */
	GRN_FORM_SPARSE = 8			/* the non-zero elements of a row; the numbers are words (sparse.h) */
} GrnForm;

/* Holds any row exactly, for indexes whose rows are not known yet. */
#define GRN_FORM_WIDEST GRN_FORM_F32
/* The form of rows that are a float *. */
#define GRN_FORM_FLOATS GRN_FORM_F32
/* Holds any row with a small error, for the default layout. */
#define GRN_FORM_ROUNDED GRN_FORM_U8
/* Holds any row in fewer bytes, if GRN_FORM_ROUNDED is too large (grn_layout_form()). */
#define GRN_FORM_ROUNDED_MORE GRN_FORM_ROTATED4

/*
 * A byte b stands for scale * (b + zero).  scale has 8 significant bits and b + zero has 16,
 * so the product is an exact float.
 */
typedef struct GrnByteHead
{
	uint16_t	scale;			/* the upper half of a float's bits */
	int16_t		zero;
} GrnByteHead;

typedef struct GrnFormInfo
{
	GrnForm		id;
	const char *name;
	uint32_t	head;			/* bytes before the numbers */
	uint32_t	bits;			/* bits of a number */
	uint32_t	max_dim;
	bool		lossless;		/* every row is stored exactly */
	/*
	 * A scan reads rows with an error from the table, in the order of lower bounds of their
	 * distances (src/am/scan/rerank.c).  0: the bounds are certain.  Otherwise the bounds are
	 * likely: the part of the error along the line to the query counts as at most this many of
	 * its standard deviations, error / sqrt(dimensions).
	 */
	double		deviations;
	/* rows read for each row that a scan returns */
	double		reads;
	GrnNumbers	numbers;		/* the type of the numbers, if rows of a build may have this form */
	bool		direct;			/* apart() is the best comparison of two stored vectors, and of a
								 * query and a stored vector */
	/*
	 * Whether the form holds all n floats exactly with own_head.  NULL: the form serves only
	 * rows that come in this form, because later rows could not be stored.
	 */
	bool		(*holds) (const float *x, size_t n);
	/* Writes the stored form of n floats.  Returns whether the stored form is exact. */
	bool		(*store) (const float *x, size_t n, uint8_t *out);
	/* Converts numbers [from, from + n) of a stored vector to floats.  NULL: see load(). */
	void		(*piece) (const uint8_t *stored, size_t from, size_t n, float *out);
	/* Converts all n numbers to floats, for forms without piece(). */
	void		(*load) (const uint8_t *stored, size_t n, float *out);
	/*
	 * Whether l2(), ip() and l1() can compare a stored vector.  If not, piece() converts the
	 * vector first.  NULL: the form has no such functions.
	 */
	bool		(*plain) (const uint8_t *stored);
	/* Squared Euclidean distance, inner product and L1 distance of a query and a stored vector. */
	float		(*l2) (const float *q, const uint8_t *stored, size_t n);
	float		(*ip) (const float *q, const uint8_t *stored, size_t n);
	float		(*l1) (const float *q, const uint8_t *stored, size_t n);
	/* the head with which numbers stand for themselves; NULL: the form has no head */
	const void *own_head;
	/* Returns |x|^2 of the row that a stored vector stands for.  NULL: computed from the numbers. */
	double		(*norm2) (const uint8_t *stored);
	/* Scales a stored vector to length 1.  NULL: the form cannot be scaled. */
	void		(*normalize) (uint8_t *stored, size_t n, double norm);
	/*
	 * The form keeps numbers of the rotated row and rounds every row, so queries read the
	 * table for exact distances.  The form has no piece().  A query is prepared once for many
	 * comparisons.
	 */
	bool		rotated;
	/*
	 * The form keeps non-zero elements.  Records, queries and inserts have the stored row itself in
	 * place of floats; only comparisons may read it.  piece() computes numbers that stand for the
	 * row in means and cuts.
	 */
	bool		sparse;
	/* Squared distance of sa * a and sb * b, stored vectors.  NULL: floats, rotated forms. */
	float		(*apart) (const uint8_t *a, float sa, const uint8_t *b, float sb, size_t n);
	/* Jaccard distance of two stored vectors.  NULL: computed from floats. */
	float		(*jaccard) (const uint8_t *a, const uint8_t *b, size_t n);
} GrnFormInfo;

/* Returns the entry of a form, or NULL if id, which may come from elsewhere, is no form. */
extern GRN_EXPORT const GrnFormInfo *grn_form(uint32_t id);
/* Returns the entry if records may keep rows of the form `rows` in this form, or NULL. */
extern const GrnFormInfo *grn_form_for(uint32_t id, GrnForm rows);

/* Whether a stored vector is a float *, by one comparison: builds test each distance. */
static inline bool
grn_form_is_floats(GrnForm form)
{
	return form == GRN_FORM_FLOATS;
}

/* Returns the bytes of a stored vector of n dimensions. */
static inline size_t
grn_form_bytes(GrnForm form, size_t n)
{
	const GrnFormInfo *info = grn_form(form);

	return info->head + (info->bits * n + 7) / 8;
}

/* Returns the smallest form that holds all n floats exactly with own_head. */
extern GRN_EXPORT GrnForm grn_form_smallest(const float *x, size_t n);
/* Whether rotated forms are accurate enough for a comparison. */
static inline bool
grn_rotated_serves(GrnComparison comparison)
{
	return comparison == GRN_COMPARE_L2 || comparison == GRN_COMPARE_IP;
}

/* Returns the rotated form of the most bits in at most `bytes` bytes, or of the fewest bits. */
extern GrnForm grn_rotated_form(size_t n, size_t bytes);
/* Returns the form that holds all rows that either form holds. */
extern GrnForm grn_form_wider(GrnForm a, GrnForm b);

/*
 * Convert n finite floats to the stored form (unaligned) and back, rounding to nearest.
 * grn_form_store() returns whether the stored form is exact.
 */
extern bool grn_form_store(GrnForm form, const float *x, size_t n, void *out);
extern GRN_EXPORT void grn_form_load(GrnForm form, const void *stored, size_t n, float *out);
/* Converts numbers [from, from + n) of a stored vector to floats. */
extern void grn_form_piece(GrnForm form, const void *stored, size_t from, size_t n, float *out);

/*
 * Writes own_head to a row of a build, which has the form of the column's type.  Returns the
 * address of the numbers.
 */
extern void *grn_form_begin(GrnForm form, void *stored);
/* Scales such a row to length 1, by the head if the form has one.  False: the row is zero. */
extern bool grn_form_normalize(GrnForm form, void *stored, size_t n);
/*
 * Writes n numbers as a stored vector of bits.  Each number becomes the nearer of 0 and 1.
 * Returns whether the stored form is exact.
 */
extern bool grn_pack_bits(const float *x, size_t n, uint8_t *out);
/*
 * Returns 1 - both / either, where both and either count the bits that are in both rows and in
 * at least one row.  Returns 1 if either is 0.
 */
extern float grn_jaccard(double both, double either);
/*
 * Returns |stored x|^2 without the elements that a sparse row lost.  The result is infinite or NaN if
 * a number is.
 */
extern float grn_form_norm2(GrnForm form, const void *stored, size_t n);
/*
 * Returns the squared distance of sa * a and sb * b, two stored vectors of a form that is
 * neither floats nor rotated.  The result is symmetric, and 0 for a vector and itself.
 */
extern float grn_form_apart(GrnForm form, const void *a, float sa, const void *b, float sb,
							size_t n);

/* Squared Euclidean distance, inner product and L1 distance of a query and a stored vector. */
extern float grn_form_l2(GrnForm form, const float *q, const void *stored, size_t n);
extern float grn_form_ip(GrnForm form, const float *q, const void *stored, size_t n);
extern float grn_form_l1(GrnForm form, const float *q, const void *stored, size_t n);
/* Jaccard distance of a query and a stored vector. */
extern float grn_form_jaccard(GrnForm form, const float *q, const void *stored, size_t n);

/* Returns the distance by which a metric compares a query with a stored vector. */
static inline float
grn_compare(GrnComparison comparison, GrnForm form, const float *q, const void *stored,
			size_t n)
{
	switch (comparison)
	{
		case GRN_COMPARE_L2:
			break;
		case GRN_COMPARE_IP:
			return -grn_form_ip(form, q, stored, n);
		case GRN_COMPARE_L1:
			return grn_form_l1(form, q, stored, n);
		case GRN_COMPARE_JACCARD:
			return grn_form_jaccard(form, q, stored, n);
	}
	return grn_form_l2(form, q, stored, n);
}

/* Whether a comparison of two vectors follows from inner products, except for rounding. */
static inline bool
grn_compares_by_product(GrnComparison comparison)
{
	return comparison == GRN_COMPARE_L2 || comparison == GRN_COMPARE_IP;
}

/* Whether a comparison is the (negative) inner product itself. */
static inline bool
grn_compares_products(GrnComparison comparison)
{
	return comparison == GRN_COMPARE_IP;
}

/* Returns the result of such a comparison from two squared norms and the inner product. */
static inline float
grn_compared_by_product(GrnComparison comparison, float norm2_a, float norm2_b, float product)
{
	return comparison == GRN_COMPARE_IP ? -product : norm2_a + norm2_b - 2 * product;
}

/*
 * Returns the bytes of a query that is prepared for comparisons with many stored vectors:
 * packed into their form, or rotated.  0: grn_compare() is as fast.
 */
extern size_t grn_query_bytes(GrnComparison comparison, GrnForm form, size_t n);
/* Returns |q|^2 of a query for stored vectors: floats, or a sparse row with all its elements. */
extern double grn_query_norm2(GrnForm form, const float *q, size_t n);
/* Prepares a query at an aligned address.  Returns false if the query needs grn_compare(). */
extern bool grn_query_make(GrnForm form, const float *q, size_t n, void *query);
/* Returns the result of grn_compare() for a prepared query. */
extern float grn_query_compare(GrnComparison comparison, GrnForm form, const void *query,
							   const void *stored, size_t n);

#endif							/* GRN_FORM_H */
