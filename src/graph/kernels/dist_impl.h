/*
 * dist_impl.h - shared by dist.c and the files with the kernels of one kind of processor.
 */
#ifndef GRN_DIST_IMPL_H
#define GRN_DIST_IMPL_H

#include "graph/kernels/dist.h"

/* Appends the versions that the processor can run, slowest first, and returns their number. */
extern int	grn_dist_x86(const GrnDistTable **out, int max);
extern int	grn_dist_neon(const GrnDistTable **out, int max);

/* The plain kernels, which other versions use for entries without a faster kernel. */
extern const GrnDistTable grn_dist_plain;

#endif							/* GRN_DIST_IMPL_H */
