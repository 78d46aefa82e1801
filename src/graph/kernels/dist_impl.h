/*
 * dist_impl.h - what dist.c and the files with one processor's kernels share.
 */
#ifndef GRN_DIST_IMPL_H
#define GRN_DIST_IMPL_H

#include "graph/kernels/dist.h"

/* Appends the versions this processor can run, slowest first; returns their number. */
extern int	grn_dist_x86(const GrnDistTable **out, int max);
extern int	grn_dist_neon(const GrnDistTable **out, int max);

/* The plain kernels, for entries that a version has nothing better for. */
extern const GrnDistTable grn_dist_plain;

#endif							/* GRN_DIST_IMPL_H */
