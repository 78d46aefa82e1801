/*
 * sparse.h - rows with few non-zero elements among many columns, as GRN_FORM_SPARSE keeps them,
 * and comparisons of such rows.
 *
 * A stored row has a head, then the columns in ascending order, then the values.  Columns take 2
 * bytes if all of them are below GRN_SPARSE_NARROW, else 4.  A row has a fixed number of 4-byte
 * words, which is the number of "dimensions" of the form.  A row with more elements keeps the
 * largest; the head's error is the length of the others.
 */
#ifndef GRN_SPARSE_H
#define GRN_SPARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "space/metric.h"

#define GRN_SPARSE_NARROW 65536

typedef struct GrnSparseHead
{
	float		scale;			/* an element is scale * value */
	float		norm2;			/* squared length of the stored elements */
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
extern float grn_sparse_norm2(const void *row);
/* Returns |x|^2 of the row x, with the elements that are not stored. */
extern double grn_sparse_whole_norm2(const uint8_t *row);
/* Scales a row to length 1. */
extern void grn_sparse_normalize(uint8_t *row, size_t words, double norm);

/*
 * Comparisons of two rows, each of at most `words` words.  All return the same for (a, b) and
 * (b, a), and grn_sparse_l2() returns 0 for equal rows.  Squared distances include the squared
 * errors of both rows.
 */
extern float grn_sparse_ip(const float *a, const uint8_t *b, size_t words);
extern float grn_sparse_l2(const float *a, const uint8_t *b, size_t words);
extern float grn_sparse_l1(const float *a, const uint8_t *b, size_t words);
extern float grn_sparse_apart(const uint8_t *a, float sa, const uint8_t *b, float sb, size_t words);
/* The comparison of two rows in the type of the kernels of floats; of products the negative. */
typedef float (*GrnSparseFn) (const float *a, const float *b, size_t words);
extern GrnSparseFn grn_sparse_between(GrnComparison comparison);

/*
 * Writes numbers [from, from + n) of a vector that stands for the row in means and cuts.  Each
 * element is added, with a sign, to the number to which a hash of its column leads.
 */
extern void grn_sparse_piece(const uint8_t *row, size_t from, size_t n, float *out);

/* A query for many comparisons: its elements by column. */
typedef struct GrnSparseQuery
{
	const void *row;			/* the query itself, which the caller keeps */
	double		norm2;
	double		lost2;			/* squared length of the elements that are not stored */
	uint32_t	count;			/* stored elements */
	uint32_t	columns;		/* numbers in `dense`; 0: the query has wide columns */
	float		dense[];		/* [columns + 1], the last is 0 */
} GrnSparseQuery;

#define GRN_SPARSE_QUERY_BYTES (sizeof(GrnSparseQuery) + (GRN_SPARSE_NARROW + 1) * sizeof(float))

extern void grn_sparse_query(const void *row, GrnSparseQuery *query);
extern float grn_sparse_query_ip(const GrnSparseQuery *query, const void *row, size_t words);
extern float grn_sparse_query_l2(const GrnSparseQuery *query, const void *row, size_t words);
extern float grn_sparse_query_l1(const GrnSparseQuery *query, const void *row, size_t words);

/*
 * Writes to out [n] the comparisons of a row with other rows: squared distances, L1 distances, or
 * the inner products themselves.
 */
extern void grn_sparse_many(const void *row, const void *const *others, size_t n, size_t words,
							GrnComparison comparison, float *out);

#endif							/* GRN_SPARSE_H */
