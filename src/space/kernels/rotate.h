/*
 * rotate.h - a random rotation in O(n log n) that is the same on every machine.
 */
#ifndef GRN_ROTATE_H
#define GRN_ROTATE_H

#include <stddef.h>

/*
 * grn_rotate() rotates x [n], and grn_rotate_back() is the inverse.  Each number becomes a sum of
 * all numbers with random signs, so no number is much larger than the average.  n is arbitrary.
 * Lengths and angles do not change.  Results on different machines differ only by rounding.
 */
extern void grn_rotate(float *x, size_t n);
extern void grn_rotate_back(float *x, size_t n);

#endif							/* GRN_ROTATE_H */
