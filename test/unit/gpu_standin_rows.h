/*
 * gpu_standin_rows.h - what stand-ins for GPUs make of rows: digests, and the cells where they lie.
 */
#ifndef GPU_STANDIN_ROWS_H
#define GPU_STANDIN_ROWS_H

#include <float.h>
#include <string.h>

#include "cuda/gpu.h"

/* Digests are a byte a dimension: integers as they are, others times 8; wide ones two. */
static float
undigest(GrnGpuRows rows, const uint8_t *digest, uint32_t j)
{
	int16_t		wide;

	if (rows == GRN_GPU_EXACT_DIGESTS || rows == GRN_GPU_BIT_DIGESTS)
		return digest[j];
	if (rows == GRN_GPU_BYTE_DIGESTS)
		return (int8_t) digest[j];
	memcpy(&wide, digest + 2 * j, 2);
	return wide;
}

/* False: exact ones cannot be of such a row. */
static bool
digest_row(GrnGpuRows kind, const float *x, uint32_t dim, uint8_t *digest)
{
	bool		exact = kind == GRN_GPU_EXACT_DIGESTS || kind == GRN_GPU_BIT_DIGESTS;

	for (uint32_t j = 0; j < dim; j++)
	{
		int16_t		wide = (int16_t) (x[j] * 1000);

		if (exact && (x[j] < 0 || x[j] > 255 || x[j] != (float) (int) x[j]))
			return false;
		if (kind == GRN_GPU_WIDE_DIGESTS)
			memcpy(digest + 2 * j, &wide, 2);
		else
			digest[j] = exact ? (uint8_t) x[j] :
				(uint8_t) (int8_t) (x[j] * 30 > 127 ? 127 : x[j] * 30 < -127 ? -127 : x[j] * 30);
	}
	return true;
}

/* As grn.h says of GrnCells, by products, whose floats do not tell all rows that cores tell. */
static void
find_cells(const GrnCells *cells, const float *x, uint32_t *home, uint32_t *guest)
{
	float		least[2] = {0};
	float		mean[1024] = {0};

	for (uint32_t c = 0; c < cells->n; c++)
		for (uint32_t j = 0; j < cells->dim; j++)
			mean[j] += cells->centers[(size_t) c * cells->dim + j] / (float) cells->n;
	*home = *guest = GRN_INVALID_ID;
	for (uint32_t c = 0; c < cells->n; c++)
	{
		float		sum = cells->weights[c];
		float		product = 0;

		for (uint32_t j = 0; j < cells->dim; j++)
		{
			float		center = cells->centers[(size_t) c * cells->dim + j] - mean[j];

			sum += center * center;
			product += (x[j] - mean[j]) * center;
		}
		sum -= 2 * product;
		if (*home == GRN_INVALID_ID || sum < least[0])
		{
			least[1] = least[0];
			*guest = *home;
			least[0] = sum;
			*home = c;
		}
		else if (*guest == GRN_INVALID_ID || sum < least[1])
		{
			least[1] = sum;
			*guest = c;
		}
	}
	if (cells->across[*home * cells->n + *guest] * (least[1] - least[0]) > cells->border)
		*guest = GRN_INVALID_ID;
}

#endif							/* GPU_STANDIN_ROWS_H */
