/*
 * rotate.h - a random rotation that is the same everywhere, in O(n log n).
 */
#ifndef GRN_ROTATE_H
#define GRN_ROTATE_H

#include <stddef.h>

/*
 * Rotates x [n], or turns it back.  Each number becomes a sum of all with random signs, so no
 * number is much larger than the others.  n may be any number; lengths and angles
 * stay.  Both are the same on every machine but for rounding.
 */
extern void grn_rotate(float *x, size_t n);
extern void grn_rotate_back(float *x, size_t n);

#endif							/* GRN_ROTATE_H */
