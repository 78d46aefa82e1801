/*
 * rotate.h - a random rotation in O(n log n) that is the same on every machine.
 */
#ifndef GRN_ROTATE_H
#define GRN_ROTATE_H

#include <stddef.h>

/*
 * grn_rotate() rotates x [n], n arbitrary; grn_rotate_back() is the inverse.  Each number becomes a
 * sum of all with random signs.  Machines differ by rounding.
 */
extern void grn_rotate(float *x, size_t n);
extern void grn_rotate_back(float *x, size_t n);

#endif							/* GRN_ROTATE_H */
