/*
 * cells.cu - finds the cells of rows for builds in parts (GrnCells in src/space/grn.h),
 * while the rows are on the device to be digested.
 *
 * Tensor cores multiply rows by centers, after the mean of the centers is subtracted from
 * both.  The row's own norm is left out because the norm adds the same number to all
 * scores of the row.
 */
#include "common.cuh"

/* Finds the two least scores of a row, bias - 2 product.  One thread handles one row. */
__global__ void
cells_kernel(const Cells cells, uint32_t n, const float *d_products, uint32_t *d_home,
			 uint32_t *d_guest)
{
	uint32_t i = blockIdx.x * blockDim.x + threadIdx.x, home = 0, second = EMPTY_ID;

	if (i >= n)
		return;
	const float *d_product = d_products + (size_t) i * cells.n;
	float		 best = cells.d_bias[0] - 2 * d_product[0], next = INFINITY;

	for (uint32_t c = 1; c < cells.n; c++)
	{
		float score = cells.d_bias[c] - 2 * d_product[c];

		if (score < best)
			next = best, second = home, best = score, home = c;
		else if (score < next)
			next = score, second = c;
	}
	if (second != EMPTY_ID &&
		!(cells.d_across[home * cells.n + second] * (next - best) <= cells.border))
		second = EMPTY_ID;
	d_home[i] = home;
	d_guest[i] = second;
}

cudaError_t
launch_cells(const Device &device, const Cells &cells, const float *d_rows, uint32_t n,
			 uint32_t dim, float *d_products, uint32_t *d_home, uint32_t *d_guest)
{
	GRN_REQUIRE(cells.n > 0 && n > 0 && dim > 0);
	GRN_TRY(launch_products(device, d_rows, n, dim, cells.d_mean, cells.d_centers,
							cells.n, d_products));
	cells_kernel<<<(n + 255) / 256, 256, 0, device.stream>>>(cells, n, d_products, d_home,
															 d_guest);
	return cudaGetLastError();
}
