/*
 * rotated.h - stored vectors of 4, 2 or 1 bits for each number of the rotated row.
 *
 * A row is rotated (space/kernels/rotate.h), so its numbers have similar sizes.  Each number
 * is rounded to one of 2^bits levels and stands for scale * (level - middle).  The scale makes
 * the stored vector s of a row x satisfy <s, x> = |x|^2, so the error x - s is perpendicular
 * to x.  The estimate |q - s|^2 - |x - s|^2 of the squared distance of a query q from x is
 * therefore right on average, and so is the inner product.
 */
#ifndef GRN_ROTATED_H
#define GRN_ROTATED_H

#include "space/grn.h"

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

#endif							/* GRN_ROTATED_H */
