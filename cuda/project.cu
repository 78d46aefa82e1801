/*
 * project.cu - makes digests of the caller's rows.  Rows of integers 0 to 255 and rows of
 * bits are their own digests.  Other rows of at most digest_dims dimensions are rotated
 * at random.  Rows of more dimensions are projected to their first principal directions.
 *
 * Subspace iteration finds the principal directions of a sample X: Q becomes
 * orthonormal(Q X' X), three times, beginning with random signs.  No covariance matrix is
 * formed.  A random Hadamard rotation then mixes the directions, so that all dimensions
 * have about the same variance and one scale serves all dimensions.
 */
#include "product.cuh"

/*
 * If a projection keeps less of the variance, 8-bit digests get MORE_DIMS directions (handle.h).
 * Measured on a million sentence embeddings of 384 dimensions: 128 directions keep .75 of the
 * variance and 256 keep .96, with recall .9592 and .9704 at L = 64.  Measured on GIST (960
 * dimensions): 128 directions keep .95 and 256 keep .98, with equal recall.
 */
constexpr float LEAST_SHARE = 0.9f;
/*
 * Steps of the subspace iteration.  1, 3 and 6 steps have the same recall@10 (GIST, sentences) and
 * take .0020, .0044 and .0082 s (sentences).
 */
constexpr int POWER_STEPS = 3;
/*
 * The sample has at most MAX_SAMPLE rows, and about SAMPLE_FLOATS floats in all.  Half and twice of
 * MAX_SAMPLE have the same recall@10 (GIST, sentences).
 */
constexpr uint32_t MAX_SAMPLE = 16384;
constexpr size_t   SAMPLE_FLOATS = (size_t) 64 << 20;
/*
 * Projected values farther from 0 than this many standard deviations are clipped.  Half and twice
 * have the same recall@10 (GIST, sentences).
 */
constexpr float CLIP_SIGMAS = 5.5f;

/* A thread makes four bytes of a digest.  *d_other: a float is no integer from 0 to 255. */
__global__ void
integers_kernel(const float *d_rows, uint32_t n, uint32_t dim, uint32_t stride,
				uint8_t *d_digests, int *d_other)
{
	uint32_t each = stride / 4;
	uint64_t i = (uint64_t) blockIdx.x * blockDim.x + threadIdx.x;
	bool	 other = false;

	if (*(volatile int *) d_other)
		return;
	if (i < (uint64_t) n * each)
	{
		uint32_t	 row = (uint32_t) (i / each), d = 4 * (uint32_t) (i % each);
		const float *d_from = d_rows + (size_t) row * dim + d;
		float		 x[4];
		uint32_t	 word = 0;

		if (dim % 4 == 0 && d < dim)
		{
			float4 y = *(const float4 *) d_from;

			x[0] = y.x, x[1] = y.y, x[2] = y.z, x[3] = y.w;
		}
		else
			for (int k = 0; k < 4; k++)
				x[k] = d + k < dim ? d_from[k] : 128.0f;
		for (int k = 0; k < 4; k++)
		{
			float whole = fminf(fmaxf(rintf(x[k]), 0.0f), 255.0f);

			other |= !(x[k] == whole);
			word |= (uint32_t) (uint8_t) ((int) whole - 128) << (8 * k);
		}
		*(uint32_t *) (d_digests + (size_t) row * stride + d) = word;
	}
	if (__syncthreads_or(other) && threadIdx.x == 0)
		*d_other = 1;
}

/* Makes four bytes of a digest in each thread.  Bits behind the row's last are 0. */
__global__ void
bits_kernel(const uint8_t *d_raw, uint32_t bytes, uint32_t n, uint32_t dim,
			uint32_t stride, uint8_t *d_digests)
{
	uint32_t each = stride / 4;
	uint64_t i = (uint64_t) blockIdx.x * blockDim.x + threadIdx.x;
	uint32_t row = (uint32_t) (i / each), first = 32 * (uint32_t) (i % each), word = 0;

	if (row >= n)
		return;
	if (first < dim)
		word = *(const uint32_t *) (d_raw + (size_t) row * bytes + first / 8);
	for (uint32_t b = 0; b < 4; b++)
	{
		uint32_t at = first + 8 * b, valid = at < dim ? min(dim - at, 8u) : 0;

		word &= ~((0xffu >> valid) << (8 * b));
	}
	*(uint32_t *) (d_digests + (size_t) row * stride + first / 8) = word;
}

/* Draws row i of the sample from the i-th of `count` equal ranges.  Rows from `count` on are 0. */
__global__ void
sample_kernel(const float *d_rows, uint32_t n, uint32_t dim, uint32_t count,
			  uint32_t width, uint64_t seed, float *d_sample)
{
	uint32_t i = blockIdx.x;
	uint64_t begin = (uint64_t) i * n / count, end = (uint64_t) (i + 1) * n / count;
	uint64_t from = begin + random_below(random64(seed, 3, i), (uint32_t) (end - begin));

	for (uint32_t d = threadIdx.x; d < width; d += blockDim.x)
		d_sample[(size_t) i * width + d] =
			i < count && d < dim ? d_rows[from * dim + d] : 0.0f;
}

/* Adds the sum of the block's rows, divided by count, to d_mean. */
__global__ void
mean_kernel(const float *d_sample, uint32_t count, uint32_t width, float *d_mean)
{
	constexpr uint32_t ROWS = 64;
	uint32_t		   d = blockIdx.x * blockDim.x + threadIdx.x,
			 end = min((blockIdx.y + 1) * ROWS, count);
	float sum = 0;

	if (d >= width)
		return;
	for (uint32_t i = blockIdx.y * ROWS; i < end; i++)
		sum += d_sample[(size_t) i * width + d];
	atomicAdd(&d_mean[d], sum / count);
}

/* Subtracts the mean from d_sample [count][width]; d_transposed [width][padded]. */
__global__ void
center_kernel(float *d_sample, uint32_t count, uint32_t padded, uint32_t width,
			  const float *d_mean, float *d_transposed)
{
	__shared__ float s_tile[32][33];
	uint32_t		 d = blockIdx.x * 32 + threadIdx.x;

	for (int r = threadIdx.y; r < 32; r += 8)
	{
		uint32_t i = blockIdx.y * 32 + r;
		float	 x = 0;

		if (i < count && d < width)
		{
			x = d_sample[(size_t) i * width + d] - d_mean[d];
			d_sample[(size_t) i * width + d] = x;
		}
		s_tile[r][threadIdx.x] = x;
	}
	__syncthreads();
	for (int r = threadIdx.y; r < 32; r += 8)
	{
		uint32_t column = blockIdx.x * 32 + r, i = blockIdx.y * 32 + threadIdx.x;

		if (column < width && i < padded)
			d_transposed[(size_t) column * padded + i] = s_tile[threadIdx.x][r];
	}
}

/* Fills d_basis [rows][width] with random signs, the start of the subspace iteration. */
__global__ void
signs_kernel(float *d_basis, uint32_t rows, uint32_t dim, uint32_t width, uint64_t seed)
{
	uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < rows * width)
		d_basis[i] = i % width < dim ? ((random64(seed, 4, i) & 1) ? 1.0f : -1.0f) : 0.0f;
}

/* Computes G = Z Z' in binary64, so that a steep spectrum has a Cholesky factor. */
__global__ void
gram_kernel(const float *d_z, uint32_t rows, uint32_t width, double *d_gram)
{
	__shared__ float s_x[16][33], s_y[16][33];
	uint32_t x = threadIdx.x, y = threadIdx.y, i0 = blockIdx.y * 16, j0 = blockIdx.x * 16;
	double	 sum = 0;

	for (uint32_t d0 = 0; d0 < width; d0 += 32)
	{
		for (uint32_t c = x; c < 32; c += 16)
		{
			bool valid = d0 + c < width;

			s_x[y][c] = valid ? d_z[(size_t) (i0 + y) * width + d0 + c] : 0.0f;
			s_y[y][c] = valid ? d_z[(size_t) (j0 + y) * width + d0 + c] : 0.0f;
		}
		__syncthreads();
		for (int c = 0; c < 32; c++)
			sum += (double) s_x[y][c] * s_y[x][c];
		__syncthreads();
	}
	d_gram[(i0 + y) * rows + j0 + x] = sum;
}

/*
 * Computes the Cholesky factor L of G (K x K) in one block: d_factor[j][i] = L(i, j).  Thread (x,
 * y) holds rows y + 32 i and columns x + 32 j, without the blocks above the diagonal: all of 256 x
 * 256 need more registers than there are, and take 2 ms a step.  A direction that the data does
 * not have gets an infinite pivot, so the direction's row of the basis becomes 0.
 */
template <int K>
__global__ void __launch_bounds__(1024)
	cholesky_kernel(const double *d_gram, float *d_factor)
{
	constexpr int	  EACH = K / 32;
	__shared__ double s_column[K];
	int				  x = threadIdx.x, y = threadIdx.y;
	double			  a[EACH][EACH], largest = 0;

#pragma unroll
	for (int i = 0; i < EACH; i++)
#pragma unroll
		for (int j = 0; j <= i; j++)
			a[i][j] = d_gram[(y + 32 * i) * K + x + 32 * j];
	for (int i = 0; i < K; i++)
		largest = fmax(largest, d_gram[i * K + i]);
#pragma unroll
	for (int b = 0; b < EACH; b++)
		for (int kk = 0; kk < 32; kk++)
		{
			int k = 32 * b + kk;

			__syncthreads();
			if (x == kk)
#pragma unroll
				for (int i = b; i < EACH; i++)
					s_column[y + 32 * i] = a[i][b];
			__syncthreads();
			double pivot = s_column[k];
			bool   lacking = !(pivot > 1e-13 * largest);
			double inverse = lacking ? 0.0 : 1.0 / pivot;

#pragma unroll
			for (int i = b; i < EACH; i++)
#pragma unroll
				for (int j = b; j <= i; j++)
					a[i][j] -= s_column[y + 32 * i] * s_column[x + 32 * j] * inverse;
			if (x == kk)
#pragma unroll
				for (int i = 0; i < EACH; i++)
				{
					int	   row = y + 32 * i;
					double root = lacking ? 0.0 : sqrt(pivot);

					d_factor[k * K + row] =
						row < k	   ? 0.0f
						: row == k ? (lacking ? INFINITY : (float) root)
								   : (float) (lacking ? 0.0 : s_column[row] / root);
				}
		}
}

/* Computes Q = L^-1 Z.  A block handles eight columns of Z, a thread one row. */
__global__ void
solve_kernel(const float *d_factor, const float *d_z, uint32_t rows, uint32_t width,
			 float *d_q)
{
	constexpr int	 COLUMNS = 8;
	__shared__ float s_pivot[COLUMNS];
	uint32_t		 row = threadIdx.x, d0 = blockIdx.x * COLUMNS;
	float			 z[COLUMNS];

#pragma unroll
	for (int c = 0; c < COLUMNS; c++)
		z[c] = d0 + c < width ? d_z[(size_t) row * width + d0 + c] : 0.0f;
	for (uint32_t k = 0; k < rows; k++)
	{
		float factor = d_factor[k * rows + row];

		if (row == k)
#pragma unroll
			for (int c = 0; c < COLUMNS; c++)
			{
				z[c] /= factor;
				s_pivot[c] = z[c];
			}
		__syncthreads();
		if (row > k)
#pragma unroll
			for (int c = 0; c < COLUMNS; c++)
				z[c] -= factor * s_pivot[c];
		__syncthreads();
	}
#pragma unroll
	for (int c = 0; c < COLUMNS; c++)
		if (d0 + c < width)
			d_q[(size_t) row * width + d0 + c] = z[c];
}

/* Computes B = H S Q / sqrt(rows), in place.  S: random signs.  H: Hadamard's matrix. */
__global__ void
mix_kernel(float *d_basis, uint32_t rows, uint32_t width, uint64_t seed)
{
	__shared__ float s_x[256];
	uint32_t		 row = threadIdx.x, d = blockIdx.x;
	float			 x = d_basis[(size_t) row * width + d];

	s_x[row] = (random64(seed, 5, row) & 1) ? x : -x;
	for (uint32_t half = 1; half < rows; half *= 2)
	{
		__syncthreads();
		float mine = s_x[row], other = s_x[row ^ half];

		__syncthreads();
		s_x[row] = row & half ? other - mine : mine + other;
	}
	d_basis[(size_t) row * width + d] = s_x[row] * rsqrtf((float) rows);
}

/* Writes dim columns of the identity, which mix_kernel() turns into a random rotation. */
__global__ void
identity_basis_kernel(float *d_basis, uint32_t rows, uint32_t dim, uint32_t width)
{
	uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < rows * width)
		d_basis[i] = i / width == i % width && i % width < dim ? 1.0f : 0.0f;
}

struct Spread
{
	float largest; /* largest |y| */
	float sum;	   /* sum of y^2 */
};

/* Statistics of a fit's sample, in device memory. */
struct FitStat
{
	Spread rows;	  /* rows minus their mean */
	Spread projected; /* projected rows */
	float  scale;	  /* as in Projection */
	float  share;	  /* as in Projection */
};

/* Raises d_spread->largest to the largest |y| and adds y^2 to d_spread->sum. */
__global__ void
spread_kernel(const float *d_y, size_t count, Spread *d_spread)
{
	float largest = 0, sum = 0;

	for (size_t i = blockIdx.x * (size_t) blockDim.x + threadIdx.x; i < count;
		 i += (size_t) gridDim.x * blockDim.x)
	{
		float y = d_y[i];

		largest = fmaxf(largest, fabsf(y));
		sum = fmaf(y, y, sum);
	}
	for (int i = 16; i > 0; i /= 2)
	{
		largest = fmaxf(largest, __shfl_xor_sync(FULL, largest, i));
		sum += __shfl_xor_sync(FULL, sum, i);
	}
	if (lane_id() == 0)
	{
		atomicMax((int *) &d_spread->largest, __float_as_int(largest));
		atomicAdd(&d_spread->sum, sum);
	}
}

/* Computes the scale to map projected values to +-127 (binary16: +-8), and the share. */
__global__ void
scale_kernel(FitStat *d_stat, size_t count, RowFormat format)
{
	Spread y = d_stat->projected;
	float  sigma = sqrtf(y.sum / count),
		  limit = fminf(1.02f * y.largest, CLIP_SIGMAS * sigma);

	if (format == ROWS_F16)
		limit = y.largest;
	d_stat->share = d_stat->rows.sum > 0 ? y.sum / d_stat->rows.sum : 1.0f;
	d_stat->scale =
		limit > 0 && isfinite(limit) ? (format == ROWS_S8 ? 127.0f : 8.0f) / limit : 1.0f;
}

/* The arrays of a fit in device memory. */
struct FitSpace
{
	uint32_t count;		   /* rows of the sample */
	uint32_t padded;	   /* count, rounded up to a multiple of 4 */
	uint32_t width;		   /* padded_dims(dim) */
	float	*d_sample;	   /* [padded][width] */
	float	*d_transposed; /* [width][padded] */
	float	*d_y;		   /* [digest_dims][padded] */
	float	*d_q, *d_z;	   /* [digest_dims][width] */
	double	*d_gram;	   /* [digest_dims][digest_dims] */
	float	*d_factor;	   /* [digest_dims][digest_dims] */
	float	*d_mean;	   /* [width] */
	FitStat *d_stat;
	size_t	 bytes;
};

static FitSpace
fit_layout(uint8_t *d_base, uint32_t n, uint32_t dim, uint32_t digest_dims)
{
	FitSpace f = {};
	Layout	 layout = {d_base};

	f.width = padded_dims(dim);
	f.count = (uint32_t) (SAMPLE_FLOATS / f.width);
	f.count = f.count < 1024 ? 1024 : f.count;
	f.count = f.count < MAX_SAMPLE ? f.count : MAX_SAMPLE;
	f.count = f.count < n ? f.count : n;
	f.padded = padded_dims(f.count);
	f.d_sample = layout.take<float>((size_t) f.padded * f.width);
	f.d_transposed = layout.take<float>((size_t) f.padded * f.width);
	f.d_y = layout.take<float>((size_t) f.padded * digest_dims);
	f.d_q = layout.take<float>((size_t) f.width * digest_dims);
	f.d_z = layout.take<float>((size_t) f.width * digest_dims);
	f.d_gram = layout.take<double>((size_t) digest_dims * digest_dims);
	f.d_factor = layout.take<float>((size_t) digest_dims * digest_dims);
	f.d_mean = layout.take<float>(f.width);
	f.d_stat = layout.take<FitStat>(1);
	f.bytes = layout.bytes;
	return f;
}

size_t
project_bytes(uint32_t n, uint32_t dim, uint32_t digest_dims)
{
	return fit_layout(NULL, n, dim, digest_dims).bytes;
}

/* Projects the sample: Y [digest_dims][padded] = Q X'. */
static cudaError_t
project_sample(const Device &device, const FitSpace &f, uint32_t digest_dims)
{
	GemmArgs args = {};

	args.d_a = f.d_q, args.lda = f.width, args.m = digest_dims;
	args.d_b = f.d_sample, args.ldb = f.width, args.n = f.padded;
	args.k = f.width;
	args.d_c = f.d_y, args.ldc = f.padded;
	return launch_gemm(device, args, OUT_FLOAT, 1);
}

/* Computes Q = orthonormal(Z). */
static cudaError_t
orthonormalize(const Device &device, const FitSpace &f, uint32_t digest_dims)
{
	gram_kernel<<<dim3(digest_dims / 16, digest_dims / 16), dim3(16, 16), 0,
				  device.stream>>>(f.d_z, digest_dims, f.width, f.d_gram);
	GRN_TRY(cudaGetLastError());
	if (digest_dims == 256)
		cholesky_kernel<256><<<1, dim3(32, 32), 0, device.stream>>>(f.d_gram, f.d_factor);
	else if (digest_dims == 128)
		cholesky_kernel<128><<<1, dim3(32, 32), 0, device.stream>>>(f.d_gram, f.d_factor);
	else if (digest_dims == 64)
		cholesky_kernel<64><<<1, dim3(32, 32), 0, device.stream>>>(f.d_gram, f.d_factor);
	else
		cholesky_kernel<32><<<1, dim3(32, 32), 0, device.stream>>>(f.d_gram, f.d_factor);
	GRN_TRY(cudaGetLastError());
	solve_kernel<<<(f.width + 7) / 8, digest_dims, 0, device.stream>>>(
		f.d_factor, f.d_z, digest_dims, f.width, f.d_q);
	return cudaGetLastError();
}

/* Computes Q, orthonormal rows that span the principal directions of the sample. */
static cudaError_t
fit_principal(const Device &device, const FitSpace &f, uint32_t dim, uint32_t digest_dims,
			  uint64_t seed)
{
	uint32_t tiles = (f.width + BN - 1) / BN,
			 splits = tiles >= 128 ? 1 : (128 + tiles - 1) / tiles;

	signs_kernel<<<(digest_dims * f.width + 255) / 256, 256, 0, device.stream>>>(
		f.d_q, digest_dims, dim, f.width, seed);
	GRN_TRY(cudaGetLastError());
	for (int step = 0; step < POWER_STEPS; step++)
	{
		GemmArgs args = {};

		GRN_TRY(project_sample(device, f, digest_dims));
		args.d_a = f.d_y, args.lda = f.padded, args.m = digest_dims;
		args.d_b = f.d_transposed, args.ldb = f.padded, args.n = f.width;
		args.k = f.padded;
		args.d_c = f.d_z, args.ldc = f.width;
		GRN_TRY(launch_gemm(device, args, OUT_ADD, splits));
		GRN_TRY(orthonormalize(device, f, digest_dims));
	}
	return cudaSuccess;
}

cudaError_t
launch_integers(const Device &device, const float *d_rows, uint32_t n, uint32_t dim,
				uint32_t stride, uint8_t *d_digests, int *d_other)
{
	uint64_t threads = (uint64_t) n * (stride / 4);

	GRN_REQUIRE(n > 0 && dim > 0 && dim <= stride && stride % 4 == 0);
	GRN_REQUIRE(stride <= MAX_STRIDE);
	GRN_TRY(cudaMemsetAsync(d_other, 0, sizeof(int), device.stream));
	integers_kernel<<<(uint32_t) ((threads + 255) / 256), 256, 0, device.stream>>>(
		d_rows, n, dim, stride, d_digests, d_other);
	return cudaGetLastError();
}

cudaError_t
launch_bits(const Device &device, const uint8_t *d_raw, uint32_t bytes, uint32_t n,
			uint32_t dim, uint32_t stride, uint8_t *d_digests)
{
	uint64_t threads = (uint64_t) n * (stride / 4);

	GRN_REQUIRE(n > 0 && dim > 0 && dim <= 8 * stride && stride <= MAX_STRIDE);
	GRN_REQUIRE(stride % 4 == 0 && bytes % 4 == 0 && bytes >= (dim + 7) / 8);
	bits_kernel<<<(uint32_t) ((threads + 255) / 256), 256, 0, device.stream>>>(
		d_raw, bytes, n, dim, stride, d_digests);
	return cudaGetLastError();
}

cudaError_t
launch_fit(const Device &device, const FitArgs &args, Projection *projection)
{
	uint32_t dim = args.dim, digest_dims = args.digest_dims;
	FitSpace f = fit_layout(args.d_space, args.n, dim, digest_dims);

	GRN_REQUIRE(args.n > 0 && dim > 0 && args.d_space);
	GRN_REQUIRE(digest_dims == 32 || digest_dims == 64 || digest_dims == 128 ||
				digest_dims == 256);

	GRN_TRY(cudaMemsetAsync(f.d_mean, 0, sizeof(float) * f.width, device.stream));
	GRN_TRY(cudaMemsetAsync(f.d_stat, 0, sizeof(FitStat), device.stream));
	sample_kernel<<<f.padded, 256, 0, device.stream>>>(args.d_rows, args.n, dim, f.count,
													   f.width, args.seed, f.d_sample);
	GRN_TRY(cudaGetLastError());
	mean_kernel<<<dim3((f.width + 255) / 256, (f.count + 63) / 64), 256, 0,
				  device.stream>>>(f.d_sample, f.count, f.width, f.d_mean);
	GRN_TRY(cudaGetLastError());
	center_kernel<<<dim3((f.width + 31) / 32, (f.padded + 31) / 32), dim3(32, 8), 0,
					device.stream>>>(f.d_sample, f.count, f.padded, f.width, f.d_mean,
									 f.d_transposed);
	GRN_TRY(cudaGetLastError());
	spread_kernel<<<4 * device.sms, 256, 0, device.stream>>>(
		f.d_sample, (size_t) f.padded * f.width, &f.d_stat->rows);
	GRN_TRY(cudaGetLastError());

	if (dim <= digest_dims)
	{
		identity_basis_kernel<<<(digest_dims * f.width + 255) / 256, 256, 0,
								device.stream>>>(f.d_q, digest_dims, dim, f.width);
		GRN_TRY(cudaGetLastError());
	}
	else
		GRN_TRY(fit_principal(device, f, dim, digest_dims, args.seed));
	mix_kernel<<<f.width, digest_dims, 0, device.stream>>>(f.d_q, digest_dims, f.width,
														   args.seed);
	GRN_TRY(cudaGetLastError());
	GRN_TRY(project_sample(device, f, digest_dims));
	spread_kernel<<<4 * device.sms, 256, 0, device.stream>>>(
		f.d_y, (size_t) digest_dims * f.padded, &f.d_stat->projected);
	GRN_TRY(cudaGetLastError());
	scale_kernel<<<1, 1, 0, device.stream>>>(f.d_stat, (size_t) digest_dims * f.padded,
											 args.format);
	GRN_TRY(cudaGetLastError());

	*projection = {dim,		 digest_dims,	   f.width,			f.d_q,
				   f.d_mean, &f.d_stat->scale, &f.d_stat->share};
	return cudaSuccess;
}

cudaError_t
fitted_share(const Device &device, const Projection &projection, float *share)
{
	return fetch_value(share, projection.d_share, device.stream);
}

cudaError_t
fit_enough(const Device &device, FitArgs args, uint32_t most_dims,
		   const SpaceFn &more_space, Projection *projection)
{
	float share;

	GRN_TRY(launch_fit(device, args, projection));
	if (most_dims <= args.digest_dims)
		return cudaSuccess;
	GRN_TRY(fitted_share(device, *projection, &share));
	if (!(share < LEAST_SHARE))
		return cudaSuccess;
	GRN_TRY(more_space(&args.d_space));
	if (!args.d_space)
		return cudaSuccess;
	args.digest_dims = most_dims;
	return launch_fit(device, args, projection);
}

cudaError_t
launch_apply(const Device &device, const Projection &projection, const float *d_rows,
			 uint32_t n, RowFormat format, uint32_t stride, uint8_t *d_digests)
{
	GemmArgs args = {};

	GRN_REQUIRE(projection.digest_dims * (format == ROWS_S8 ? 1 : 2) <= stride);
	args.d_a = d_rows, args.lda = projection.dim, args.m = n;
	args.d_b = projection.d_basis, args.ldb = projection.width;
	args.n = projection.digest_dims;
	args.d_mean = projection.d_mean;
	args.k = projection.dim;
	args.d_c = d_digests, args.ldc = format == ROWS_S8 ? stride : stride / 2;
	args.d_scale = projection.d_scale;
	return launch_gemm(device, args, format == ROWS_S8 ? OUT_S8 : OUT_F16, 1);
}
