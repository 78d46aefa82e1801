/*
 * rotated.h - stored vectors of few bits a number: 4, 2 or 1, of the numbers of the rotated row.
 *
 * A row is rotated (graph/kernels/rotate.h), so its numbers are alike, and each is rounded to
 * one of 2^bits levels: scale * (level - middle).  The scale is such that the stored vector s
 * of a row x has <s, x> = |x|^2: its error x - s is perpendicular to x.  What a query
 * is estimated to be away from x by s, |q - s|^2 - |x - s|^2, is then right on average, and
 * the inner product as well.
 */
#ifndef GRN_ROTATED_H
#define GRN_ROTATED_H

#include "graph/grn.h"

/* The head of such a vector, at any address. */
typedef struct GrnRotatedHead
{
	float		scale;			/* 0: all numbers are 0 */
	float		norm2;			/* of the stored vector, squared */
} GrnRotatedHead;

/* The functions of GrnFormInfo.  Those of l2, ip and l1 turn the stored vector back each time. */
#define GRN_ROTATED_FUNCTIONS(bits) \
extern bool grn_rotated##bits##_store(const float *x, size_t n, uint8_t *out); \
extern void grn_rotated##bits##_load(const uint8_t *stored, size_t n, float *out); \
extern float grn_rotated##bits##_l2(const float *q, const uint8_t *stored, size_t n); \
extern float grn_rotated##bits##_ip(const float *q, const uint8_t *stored, size_t n); \
extern float grn_rotated##bits##_l1(const float *q, const uint8_t *stored, size_t n);

GRN_ROTATED_FUNCTIONS(4)
GRN_ROTATED_FUNCTIONS(2)
GRN_ROTATED_FUNCTIONS(1)

/* A stored vector as it is kept, rotated: that spares the turn back, and distances are the same. */
extern void grn_rotated_load_turned(uint32_t bits, const uint8_t *stored, size_t n, float *out);

/*
 * A query that is compared with many (bits: 4, 2 or 1): rotated, in signed bytes.  Its rounding
 * adds less to an estimate than a hundredth of what the levels' does.
 */
extern size_t grn_rotated_query_bytes(uint32_t bits, size_t n);
extern void grn_rotated_query(uint32_t bits, const float *q, size_t n, void *out);
/*
 * From then on inner products with the query are larger by so much, and by so many times what the
 * stored vector's head has as norm2.
 */
extern void grn_rotated_raise(void *query, float by, float times_head);
/* |s|^2 of a stored vector s: by its head, and by its levels, whatever the head has there. */
extern float grn_rotated_norm2(const uint8_t *stored);
extern float grn_rotated_levels_norm2(uint32_t bits, const uint8_t *stored, size_t n);
/*
 * Squared distance between a row, whose squared norm is norm2, and the vector that was stored of
 * it.  A stored vector's scale makes its difference from the row perpendicular to the row.  So the
 * squared distance is the difference of both squared norms.  It errs by some roundings of norm2,
 * and may be less than 0 where row and stored vector are nearly equal.
 */
extern double grn_rotated_lack2(uint32_t bits, const uint8_t *stored, size_t n, double norm2);
/* Squared distance and inner product of such a query and a stored vector. */
extern float grn_rotated_l2(uint32_t bits, const void *query, const uint8_t *stored, size_t n);
extern float grn_rotated_ip(uint32_t bits, const void *query, const uint8_t *stored, size_t n);

#endif							/* GRN_ROTATED_H */
