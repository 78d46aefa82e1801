/*
 * stub.c - implements paper.h for builds without a CUDA compiler: every call fails.
 */
#include "cuda/paper/paper.h"

#include <stdio.h>

bool
grn_paper_build(int device, const float *rows, uint32_t n, uint32_t dim, size_t stride,
				const GrnPaperOptions *options, uint32_t *ids, uint8_t *counts,
				double *seconds, char *error, size_t size)
{
	(void) device, (void) rows, (void) n, (void) dim, (void) stride, (void) options,
		(void) ids;
	(void) counts;
	*seconds = 0;
	snprintf(error, size,
			 "this grnnd_paper has no GPU support: it was built without CUDA");
	return false;
}
