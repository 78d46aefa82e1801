/* stand-in */
#ifndef GRN_FORM_H
#define GRN_FORM_H
#include "graph/kernels/dist.h"
#include "graph/metric.h"
static inline float
grn_compare(GrnComparison c, GrnVecFormat f, const float *q, const void *x, size_t n)
{
	return c == GRN_COMPARE_IP ? -grn_vec_ip(f, q, x, n) : grn_vec_l2(f, q, x, n);
}
#endif
