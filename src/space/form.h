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

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "space/grn.h"
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
	GRN_FORM_SPARSE = 8			/* the non-zero elements of a row; the numbers are words (sparse.c) */
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
	double		(*norm2) (const void *stored);
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
	 * place of floats; only prepared queries and grn_between() may read it.  piece() computes
	 * numbers that stand for the row in means and cuts.
	 */
	bool		sparse;
	/* Squared distance of sa * a and sb * b, stored vectors.  NULL: floats, rotated, sparse. */
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
 * Returns |stored x|^2, of a sparse row with the elements that it lost.  The result is infinite or
 * NaN if a number is.
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

/*
 * Writes to out [n] the distances of place x from other places in the space of the graph: squared
 * L2.  Places of sparse rows are the rows, compared by the metric; by inner product the distance is
 * the negative product.
 */
extern void grn_between(GrnForm form, GrnComparison comparison, const float *x,
						const float *const *others, size_t n, size_t dim, float *out);

/*
 * rotated.c: stored vectors of 4, 2 or 1 bits for each number of the rotated row.
 *
 * A row is rotated (space/kernels/rotate.c), so its numbers have similar sizes.  Each number
 * is rounded to one of 2^bits levels and stands for scale * (level - middle).  The scale makes
 * the stored vector s of a row x satisfy <s, x> = |x|^2, so the error x - s is perpendicular
 * to x.  The estimate |q - s|^2 - |x - s|^2 of the squared distance of a query q from x is
 * therefore right on average, and so is the inner product.
 */

/* The head of such a stored vector, at any address. */
typedef struct GrnRotatedHead
{
	float		scale;			/* 0: all numbers are 0 */
	float		norm2;			/* squared norm of the stored vector */
} GrnRotatedHead;

/* Functions for GrnFormInfo.  l2, ip and l1 rotate the stored vector back for each comparison. */
#define GRN_ROTATED_FUNCTIONS(bits) \
extern bool grn_rotated##bits##_store(const float *x, size_t n, uint8_t *out); \
extern void grn_rotated##bits##_load(const uint8_t *stored, size_t n, float *out); \
extern float grn_rotated##bits##_l2(const float *q, const uint8_t *stored, size_t n); \
extern float grn_rotated##bits##_ip(const float *q, const uint8_t *stored, size_t n); \
extern float grn_rotated##bits##_l1(const float *q, const uint8_t *stored, size_t n);

GRN_ROTATED_FUNCTIONS(4)
GRN_ROTATED_FUNCTIONS(2)
GRN_ROTATED_FUNCTIONS(1)

/*
 * Writes the stored vector without rotating it back.  Distances between rotated vectors are
 * the same, and the rotation is saved.
 */
extern void grn_rotated_load_rotated(uint32_t bits, const uint8_t *stored, size_t n, float *out);

/*
 * grn_rotated_query() prepares a query for many comparisons (bits: 4, 2 or 1): rotated, in signed
 * bytes.  The rounding of the query adds less than a hundredth of the error that the levels have.
 */
extern size_t grn_rotated_query_bytes(uint32_t bits, size_t n);
extern void grn_rotated_query(uint32_t bits, const float *q, size_t n, void *out);
/* Adds `by` + times_head * (the head's norm2) to all further inner products with the query. */
extern void grn_rotated_shift_products(void *query, float by, float times_head);
/* Return |s|^2 of a stored vector s: by the head, and by the levels without the head's norm2. */
extern float grn_rotated_norm2(const uint8_t *stored);
extern float grn_rotated_levels_norm2(uint32_t bits, const uint8_t *stored, size_t n);
/*
 * Returns the squared distance between a row of squared norm norm2 and the row's stored
 * vector.  The error is perpendicular to the row, so the squared distance is the difference of
 * both squared norms.  The result has an error of some roundings of norm2, and may be negative
 * if row and stored vector are nearly equal.
 */
extern double grn_rotated_error2(uint32_t bits, const uint8_t *stored, size_t n, double norm2);
/* Return the squared distance and the inner product of a prepared query and a stored vector. */
extern float grn_rotated_l2(uint32_t bits, const void *query, const uint8_t *stored, size_t n);
extern float grn_rotated_ip(uint32_t bits, const void *query, const uint8_t *stored, size_t n);

/*
 * sparse.c: rows with few non-zero elements among many columns, as GRN_FORM_SPARSE keeps them,
 * and comparisons of such rows.
 *
 * A stored row has a head, then the columns in ascending order, then the values.  Columns take 2
 * bytes if all of them are below GRN_SPARSE_NARROW, else 4.  A row has a fixed number of 4-byte
 * words, which is the number of "dimensions" of the form.  A row with more elements keeps the
 * largest; the head's error is the length of the others.
 */

#define GRN_SPARSE_NARROW 65536

typedef struct GrnSparseHead
{
	float		norm2;			/* squared length of the row, with the elements that are not stored */
	float		error;			/* length of the elements that are not stored; 0: the row is exact */
	uint16_t	count;			/* stored elements */
	uint16_t	wide;			/* 1: columns take 4 bytes */
} GrnSparseHead;

/* Returns the words of a row of `count` elements whose columns are below `columns`. */
extern size_t grn_sparse_words(size_t count, uint32_t columns);

/*
 * Writes a row of `words` words from its elements [count], whose columns ascend.  Returns whether
 * all elements are stored.
 */
extern bool grn_sparse_store(const int32_t *columns, const float *values, size_t count, size_t words,
							 void *out);

/* Returns NULL for a sound row read from disk, else a static string that names the damage. */
extern const char *grn_sparse_check(const void *row, size_t words);

/*
 * Copies a row read from disk.  All functions may read the copy, whatever the bytes are: a count of
 * more elements than `words` words have becomes 0.
 */
extern void grn_sparse_load(const void *row, size_t words, void *out);

/* Returns |x - stored x|, rounded up. */
extern GRN_EXPORT float grn_sparse_error(const void *row);
/* Return |x|^2 with the elements that are not stored: by elements, and by the head. */
extern double grn_sparse_whole_norm2(const void *row);
extern float grn_sparse_norm2(const void *row);
/* Scales a row to length 1. */
extern void grn_sparse_normalize(uint8_t *row, size_t words, double norm);

/*
 * Writes numbers [from, from + n) of a vector that stands for the row in means and cuts.  Each
 * element is added, with a sign, to the number to which a hash of its column leads.
 */
extern void grn_sparse_piece(const uint8_t *row, size_t from, size_t n, float *out);

/*
 * The most hashes of a query.  1,000 made SPLADE rows of four times as many words: the same time of
 * the build and of searches with half and twice.
 */
#define GRN_SPARSE_HASHES 16384

/* A row prepared for comparisons with many rows: its elements by hashes of their columns. */
typedef struct GrnSparseQuery
{
	const void *row;			/* the row itself, which the caller keeps */
	double		norm2;			/* squared length of the stored elements */
	uint32_t	shift;			/* of a column's product, so that a hash remains */
	uint16_t	first[GRN_SPARSE_HASHES];	/* an element with this hash, counted from 1; 0: none */
	uint16_t	next[GRN_MAX_DIM + 1];	/* another element with the hash of this one; 0: none */
} GrnSparseQuery;

extern void grn_sparse_query(const void *row, GrnSparseQuery *query);
/*
 * Returns a squared distance, an L1 distance or the negative inner product of the query and a row
 * of at most `words` words.  Squared distances include the squared errors of both rows, and are 0
 * for equal rows without errors.  The result is the same if query and row change places.
 */
extern float grn_sparse_compare(GrnComparison comparison, const GrnSparseQuery *query, const void *row,
								size_t words);
/* Writes to out [n] the comparisons of a row with others.  A distance to the row itself is 0. */
extern void grn_sparse_many(const void *row, const void *const *others, size_t n, size_t words,
							GrnComparison comparison, float *out);

#endif							/* GRN_FORM_H */
