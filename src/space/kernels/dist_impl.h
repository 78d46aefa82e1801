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

/* dist_short_impl.h */
extern void grn_neon_f16_store(const float *x, size_t n, void *out);
extern void grn_neon_f16_load(const void *x, size_t n, float *out);
extern void grn_neon_u8_store(const float *x, size_t n, void *out);
extern void grn_neon_unpack(const uint8_t *code, size_t n, uint32_t bits, float middle, float step, float *out);
extern float grn_neon_pair_l2_f16(const void *a, const void *b, float ratio, size_t n);
extern float grn_neon_pair_l2_u8(const uint8_t *a, const uint8_t *b, float ratio, float offset, size_t n);
#endif

#endif							/* GRN_DIST_IMPL_H */
