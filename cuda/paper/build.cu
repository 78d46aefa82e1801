/*
 * build.cu - runs one build of the paper's Algorithm 3: copies the rows to the device,
 * launches the rounds of kernels, and copies the lists back.
 */
#include <cstdio>
#include <cstring>

#include "cuda/paper/kernels.cuh"

/* All resources of one build.  The destructor frees them on success and on failure. */
struct PaperBuild
{
	cudaStream_t stream = NULL;
	cudaEvent_t	 begun = NULL, ended = NULL;
	float		*d_rows = NULL;	  /* [n][dim] */
	uint8_t		*d_pools = NULL;  /* PaperSpace */
	uint32_t	*d_ids = NULL;	  /* [n][degree] */
	uint8_t		*d_counts = NULL; /* [n] */

	~PaperBuild()
	{
		cudaFree(d_rows);
		cudaFree(d_pools);
		cudaFree(d_ids);
		cudaFree(d_counts);
		if (begun)
			cudaEventDestroy(begun);
		if (ended)
			cudaEventDestroy(ended);
		if (stream)
			cudaStreamDestroy(stream);
	}
};

static cudaError_t
allocate(PaperBuild &b, const float *rows, uint32_t n, uint32_t dim, size_t stride,
		 const GrnGraphParams &p)
{
	size_t width = dim * sizeof(float);

	GRN_TRY(cudaStreamCreate(&b.stream));
	GRN_TRY(cudaEventCreate(&b.begun));
	GRN_TRY(cudaEventCreate(&b.ended));
	GRN_TRY(cudaMalloc(&b.d_rows, n * width));
	GRN_TRY(cudaMalloc(&b.d_pools, paper_layout(NULL, n, p.r).bytes));
	GRN_TRY(cudaMalloc(&b.d_ids, sizeof(uint32_t) * (size_t) n * p.degree));
	GRN_TRY(cudaMalloc(&b.d_counts, n));
	return cudaMemcpy2D(b.d_rows, width, rows, stride * sizeof(float), width, n,
						cudaMemcpyHostToDevice);
}

static cudaError_t
build(PaperBuild &b, uint32_t n, uint32_t dim, const GrnPaperOptions *options)
{
	const GrnGraphParams &p = options->params;
	PaperSpace			  space = paper_layout(b.d_pools, n, p.r);
	uint32_t			  round = 0;

	GRN_TRY(cudaEventRecord(b.begun, b.stream));
	GRN_TRY(launch_paper_init(b.stream, b.d_rows, n, dim, space, p.r, p.s, p.seed));
	for (uint32_t t1 = 0; t1 < p.t1; t1++)
	{
		for (uint32_t t2 = 0; t2 < p.t2; t2++)
			GRN_TRY(launch_paper_update(b.stream, b.d_rows, n, dim, space, p.r,
										options->order, options->pairs, p.seed, round++));
		if (t1 + 1 < p.t1)
			GRN_TRY(
				launch_paper_reverse(b.stream, n, space, p.r, p.rho, options->reverse));
	}
	GRN_TRY(launch_paper_lists(b.stream, b.d_rows, n, dim, space, p.r, p.degree,
							   options->prune, b.d_ids, b.d_counts));
	GRN_TRY(cudaEventRecord(b.ended, b.stream));
	return cudaStreamSynchronize(b.stream);
}

static cudaError_t
run(PaperBuild &b, int device, const float *rows, uint32_t n, uint32_t dim, size_t stride,
	const GrnPaperOptions *options, uint32_t *ids, uint8_t *counts, double *seconds)
{
	float ms;

	GRN_TRY(cudaSetDevice(device));
	GRN_TRY(allocate(b, rows, n, dim, stride, options->params));
	GRN_TRY(build(b, n, dim, options));
	GRN_TRY(cudaEventElapsedTime(&ms, b.begun, b.ended));
	*seconds = ms / 1000.0;
	GRN_TRY(cudaMemcpy(ids, b.d_ids,
					   sizeof(uint32_t) * (size_t) n * options->params.degree,
					   cudaMemcpyDeviceToHost));
	return cudaMemcpy(counts, b.d_counts, n, cudaMemcpyDeviceToHost);
}

extern "C" bool
grn_paper_build(int device, const float *rows, uint32_t n, uint32_t dim, size_t stride,
				const GrnPaperOptions *options, uint32_t *ids, uint8_t *counts,
				double *seconds, char *error, size_t size)
{
	PaperBuild	b;
	cudaError_t rc;

	*seconds = 0;
	if (n < 2)
	{
		memset(counts, 0, n);
		return true;
	}
	rc = run(b, device, rows, n, dim, stride, options, ids, counts, seconds);
	if (rc == cudaSuccess)
		return true;
	cudaGetLastError(); /* An error that is not sticky would otherwise reach the next
						 * CUDA call. */
	snprintf(error, size, "the build on GPU %d failed: %s", device,
			 cudaGetErrorString(rc));
	return false;
}
