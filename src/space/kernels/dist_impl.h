/*
 * dist_impl.h - shared by dist.c and the files with the kernels of one kind of processor.
 */
#ifndef GRN_DIST_IMPL_H
#define GRN_DIST_IMPL_H

#include "space/kernels/dist.h"

/* The plain kernels, which other versions use for entries without a faster kernel. */
extern const GrnDistTable grn_dist_plain;

#if defined(__aarch64__)
extern const GrnDistTable grn_dist_neon;
#endif

#endif							/* GRN_DIST_IMPL_H */
