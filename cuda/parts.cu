/*
 * parts.cu - implements gpu.h's functions for builds in parts: a fit, the digests and
 * cells of all rows, the rows of one part's build, and the merge of two parts' lists.
 * Each step allocates its memory in the arena, which grn_gpu_end() frees.  The digests of
 * all rows are outside the arena.
 */
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <atomic>

#include "handle.h"

/*
 * A million SIFT rows in parts: half and twice of each take as long, digests .022 to .028 s, merge
 * .032 to .038 s.
 */
constexpr uint64_t DIGESTING_BYTES = (uint64_t) 64
									 << 20; /* bytes of rows (as floats) that are
											 * digested at a time */
constexpr uint64_t MERGE_BATCH = 65536;		/* rows that a merge takes at a time, at
											 * most */
constexpr uint64_t MERGE_BATCHES = 32;		/* a merge has at least this many batches,
											 * so that copies and kernels overlap */
constexpr uint64_t LEAST_BATCH = 256;		/* rows of a batch at least */

static RowFormat
format_of(const GrnGpuFit *fit)
{
	return fit->rows == GRN_GPU_WIDE_DIGESTS  ? ROWS_F16
		   : fit->rows == GRN_GPU_BIT_DIGESTS ? ROWS_B1
											  : ROWS_S8;
}

/* Returns the floats of a fit's basis.  In a projection the mean and the scale follow. */
static size_t
basis_floats(const GrnGpuFit *fit)
{
	return (size_t) fit->digest_dims * padded_dims(fit->dim);
}

static size_t
fit_floats(const GrnGpuFit *fit)
{
	return basis_floats(fit) + padded_dims(fit->dim) + 1;
}

/* Provides an arena of at least `bytes` bytes: the arena of the step before if large enough. */
static GrnGpuStatus
provide_arena(GrnGpu *gpu, uint64_t bytes, uint64_t limit, GrnGpuError *err)
{
	gpu->begun = false;
	gpu->built.lists = Lists();
	if (gpu->d_arena && gpu->arena >= bytes)
		return GRN_GPU_OK;
	grn_gpu_end(gpu);
	if (bytes > limit)
		return gpu_no_memory(err, bytes, limit);

	GrnGpuStatus status = gpu_allocate((void **) &gpu->d_arena, bytes, bytes, limit, err);

	if (status != GRN_GPU_OK)
		return status;
	gpu->arena = bytes;
	gpu->peak = std::max(gpu->peak, gpu->kept.bytes + bytes);
	return GRN_GPU_OK;
}

/* ---- fit ---- */

/* The arena of a fit: the sample, and the space of launch_fit(). */
struct FitLayout : Layout
{
	size_t sample, space;

	FitLayout(const GrnGpuFit *fit, uint32_t n)
		: sample(reserve<float>((size_t) n * fit->dim)),
		  space(reserve<uint8_t>(project_bytes(
			  n, fit->dim,
			  most_digest_dims(fit->dim, format_of(fit), fit->few_directions))))
	{
	}
};

extern "C" uint64_t
grn_gpu_fit_bytes(const GrnGpuFit *fit, uint32_t n)
{
	return FitLayout(fit, n).bytes;
}

extern "C" GrnGpuStatus
grn_gpu_fit(GrnGpu *gpu, const float *sample, uint32_t n, uint64_t seed, GrnGpuFit *fit,
			GrnGpuError *err)
{
	cudaStream_t stream = gpu->device.stream;
	Projection	 p;

	fit->digest_dims = fit->rows == GRN_GPU_BIT_DIGESTS ? bit_digest_dims(fit->dim)
														: digest_dims_of(fit->dim);
	fit->digest_bytes = format_bytes(format_of(fit), fit->digest_dims);
	free(fit->projection);
	fit->projection = NULL;
	if (fit->rows == GRN_GPU_EXACT_DIGESTS || fit->rows == GRN_GPU_BIT_DIGESTS)
		return GRN_GPU_OK;
	grn_gpu_end(gpu);
	GRN_CHECK(cudaSetDevice(gpu->number), "could not use the CUDA device");

	FitLayout	 layout(fit, n);
	GrnGpuStatus status = provide_arena(gpu, layout.bytes, UINT64_MAX, err);
	size_t		 row = fit->dim * sizeof(float);

	if (status != GRN_GPU_OK)
		return status;

	float	*d_sample = (float *) (gpu->d_arena + layout.sample);
	uint8_t *d_space = gpu->d_arena + layout.space;
	FitArgs	 args = {d_sample,		 n,	   fit->dim, fit->digest_dims,
					 format_of(fit), seed, d_space};
	auto	 same_space = [&](uint8_t **d_more) -> cudaError_t
	{
		*d_more = d_space; /* the space is large enough for most_digest_dims() */
		return cudaSuccess;
	};

	GRN_CHECK(staging_copy(&gpu->staging, gpu->number, true, d_sample, (void *) sample,
						   row, row, n),
			  "could not copy rows to the device");
	GRN_CHECK(staging_wait(&gpu->staging), "could not copy rows to the device");
	GRN_CHECK(fit_enough(gpu->device, args,
						 most_digest_dims(fit->dim, args.format, fit->few_directions),
						 same_space, &p),
			  "could not fit a projection");
	fit->digest_dims = p.digest_dims;
	fit->digest_bytes = format_bytes(format_of(fit), fit->digest_dims);
	fit->projection = (float *) malloc(fit_floats(fit) * sizeof(float));
	if (!fit->projection)
		return gpu_fail(err, GRN_GPU_FAILED, "out of host memory", NULL);

	float *h_mean = fit->projection + basis_floats(fit);

	GRN_CHECK(cudaMemcpyAsync(fit->projection, p.d_basis,
							  basis_floats(fit) * sizeof(float), cudaMemcpyDeviceToHost,
							  stream),
			  "could not copy a projection");
	GRN_CHECK(cudaMemcpyAsync(h_mean, p.d_mean, p.width * sizeof(float),
							  cudaMemcpyDeviceToHost, stream),
			  "could not copy a projection");
	GRN_CHECK(cudaMemcpyAsync(h_mean + p.width, p.d_scale, sizeof(float),
							  cudaMemcpyDeviceToHost, stream),
			  "could not copy a projection");
	GRN_CHECK(cudaStreamSynchronize(stream), "could not fit a projection");
	grn_gpu_end(gpu);
	return GRN_GPU_OK;
}

/* ---- digests of all rows ---- */

/* Digests of all rows, and their squared norms. */
struct KeptLayout : Layout
{
	size_t digests, norms;

	KeptLayout(uint32_t digest_bytes, uint64_t n)
		: digests(reserve<uint8_t>(n * digest_bytes)), norms(reserve<uint32_t>(n))
	{
	}
};

extern "C" uint64_t
grn_gpu_kept_bytes(const GrnGpuFit *fit, uint64_t n)
{
	return KeptLayout(fit->digest_bytes, n).bytes;
}

extern "C" void
grn_gpu_drop_digests(GrnGpu *gpu)
{
	cudaSetDevice(gpu->number);
	if (gpu->kept.bytes)
		cudaFree((void *) gpu->kept.digests.d_rows);
	gpu->kept.digests = Digests();
	gpu->kept.bytes = 0;
}

extern "C" GrnGpuStatus
grn_gpu_keep_digests(GrnGpu *gpu, const GrnGpuFit *fit, uint64_t n, uint64_t memory_limit,
					 GrnGpuError *err)
{
	KeptLayout	 space(fit->digest_bytes, n);
	Digests		&kept = gpu->kept.digests;
	uint64_t	 limit;
	uint8_t		*d_kept;
	GrnGpuStatus status = grn_gpu_limit(gpu, memory_limit, &limit, err);

	if (status != GRN_GPU_OK)
		return status;
	if (space.bytes > limit)
		return gpu_no_memory(err, space.bytes, limit);
	grn_gpu_drop_digests(gpu);
	status = gpu_allocate((void **) &d_kept, space.bytes, space.bytes, limit, err);
	if (status != GRN_GPU_OK)
		return status;

	kept.d_rows = d_kept;
	kept.d_norms = (const uint32_t *) (d_kept + space.norms);
	kept.n = (uint32_t) n;
	kept.stride = fit->digest_bytes;
	kept.seg = std::min(kept.stride, 128u);
	kept.nseg = kept.stride / kept.seg;
	kept.format = format_of(fit);
	gpu->kept.bytes = space.bytes;
	gpu->peak = std::max(gpu->peak, gpu->kept.bytes);
	return GRN_GPU_OK;
}

extern "C" bool
grn_gpu_has_digests(const GrnGpu *gpu)
{
	return gpu->kept.bytes != 0;
}

extern "C" GrnGpuStatus
grn_gpu_share_digests(GrnGpu *const *keepers, int nkeepers, const GrnGpuFit *fit,
					  const uint8_t *digests, int *failed, GrnGpuError *err)
{
	CopyTarget targets[GRN_MAX_GPUS] = {};

	*failed = 0;
	if (nkeepers > GRN_MAX_GPUS)
		return gpu_fail(err, GRN_GPU_FAILED, "too many devices", NULL);
	for (int i = 0; i < nkeepers; i++)
		targets[i] = CopyTarget {&keepers[i]->staging,
								 (uint8_t *) keepers[i]->kept.digests.d_rows};
	if (digests)
		GRN_CHECK(staging_spread(targets, nkeepers, keepers[0]->number, (void *) digests,
								 fit->digest_bytes, keepers[0]->kept.digests.n, failed),
				  "could not copy digests to the device");
	for (*failed = 0; *failed < nkeepers; ++*failed)
	{
		const GrnGpu *gpu = keepers[*failed];

		GRN_CHECK(cudaSetDevice(gpu->number), "could not use the CUDA device");
		GRN_CHECK(launch_norms(gpu->device, gpu->kept.digests,
							   (uint32_t *) gpu->kept.digests.d_norms),
				  "could not start the merge");
	}
	/* Other handles use other streams, so the norms must be complete before any of them begins. */
	for (*failed = 0; *failed < nkeepers; ++*failed)
		GRN_CHECK(cudaStreamSynchronize(keepers[*failed]->device.stream),
				  "could not start the merge");
	return GRN_GPU_OK;
}

/* ---- digest ---- */

/* Returns the floats of uploaded cells: centers, mean, bias, across. */
static size_t
cells_floats(const GrnCells *cells)
{
	size_t width = cells ? padded_dims(cells->dim) : 0;

	return cells ? (cells->n + 1) * width + cells->n + (size_t) cells->n * cells->n : 0;
}

/*
 * The arena of digesting: the projection (first), the cells and a flag; for a batch of rows the
 * rows in their own format (unless floats), rows as floats, digests, products, homes and guests.
 */
struct DigestLayout : Layout
{
	size_t projection, cells, raw, rows, digests, products, home, guest, other;

	DigestLayout(const GrnGpuDigesting *e, uint64_t batch)
		: projection(reserve<float>(fit_floats(e->fit))),
		  cells(reserve<float>(cells_floats(e->cells))),
		  raw(reserve<uint8_t>(batch * e->raw_bytes)),
		  rows(reserve<float>(batch * e->fit->dim)),
		  digests(reserve<uint8_t>(batch * e->fit->digest_bytes)),
		  products(reserve<float>(e->cells ? batch * e->cells->n : 0)),
		  home(reserve<uint32_t>(e->cells ? batch : 0)),
		  guest(reserve<uint32_t>(e->cells ? batch : 0)), other(reserve<int>(1))
	{
	}
};

/* Uploads the cells less the mean of the centers: products of small numbers round less. */
static cudaError_t
upload_cells(GrnGpu *gpu, const GrnCells *cells, float *d_cells)
{
	uint32_t n = cells->n, dim = cells->dim, width = padded_dims(dim);
	size_t	 bytes = cells_floats(cells) * sizeof(float);
	float	*h = (float *) calloc(1, bytes); /* centers [n][width], then mean, bias and
											  * across */
	float	*h_mean = h + (size_t) n * width, *h_bias = h_mean + width,
		  *h_across = h_bias + n;

	if (!h)
		return cudaErrorMemoryAllocation;
	for (uint32_t c = 0; c < n; c++)
		for (uint32_t j = 0; j < dim; j++)
			h_mean[j] += cells->centers[(size_t) c * dim + j] / n;
	for (uint32_t c = 0; c < n; c++)
	{
		h_bias[c] = cells->weights[c];
		for (uint32_t j = 0; j < dim; j++)
		{
			float x = cells->centers[(size_t) c * dim + j] - h_mean[j];

			h[(size_t) c * width + j] = x;
			h_bias[c] += x * x;
		}
	}
	memcpy(h_across, cells->across, (size_t) n * n * sizeof(float));
	gpu->parts.cells.n = n;
	gpu->parts.cells.d_centers = d_cells;
	gpu->parts.cells.d_mean = d_cells + (size_t) n * width;
	gpu->parts.cells.d_bias = gpu->parts.cells.d_mean + width;
	gpu->parts.cells.d_across = gpu->parts.cells.d_bias + n;
	gpu->parts.cells.border = cells->border;
	/* The kernels' stream does not wait for other streams, so the copy must use the same stream. */
	cudaError_t rc =
		cudaMemcpyAsync(d_cells, h, bytes, cudaMemcpyHostToDevice, gpu->device.stream);

	if (rc == cudaSuccess)
		rc = cudaStreamSynchronize(gpu->device.stream);
	free(h);
	return rc;
}

/*
 * Lets the handle's device write to the keepers' devices over NVLink, once for each pair
 * of devices in a process.  Without NVLink, and for devices from GRN_MAX_GPUS on, the
 * driver copies by way of the host: on some machines (IOMMU, ACS) direct writes across
 * PCIe succeed and are lost.
 */
static void
enable_peer_access(const GrnGpu *gpu, const GrnGpuDigesting *e)
{
	static std::atomic<bool> reached[GRN_MAX_GPUS][GRN_MAX_GPUS];

	for (int i = 0; i < e->nkeepers; i++)
	{
		int from = gpu->number, to = e->keepers[i]->number, nvlink = 0;

		if (from == to || from >= GRN_MAX_GPUS || to >= GRN_MAX_GPUS ||
			reached[from][to].exchange(true))
			continue;
		/* NVLink has native atomics; PCIe has not. */
		if (cudaDeviceGetP2PAttribute(&nvlink, cudaDevP2PAttrNativeAtomicSupported, from,
									  to) == cudaSuccess &&
			nvlink)
			cudaDeviceEnablePeerAccess(to, 0);
		cudaGetLastError();
	}
}

extern "C" GrnGpuStatus
grn_gpu_digest_begin(GrnGpu *gpu, const GrnGpuDigesting *e, uint64_t memory_limit,
					 GrnGpuError *err)
{
	const GrnGpuFit *fit = e->fit;
	uint64_t		 limit;

	GrnGpuStatus status = grn_gpu_limit(gpu, memory_limit, &limit, err);

	if (status != GRN_GPU_OK)
		return status;
	limit = std::max(limit, gpu->arena);
	gpu->parts.batch =
		std::max(DIGESTING_BYTES / (fit->dim * sizeof(float)), LEAST_BATCH);
	while (gpu->parts.batch > LEAST_BATCH &&
		   DigestLayout(e, gpu->parts.batch).bytes > limit / 4)
		gpu->parts.batch /= 2;

	DigestLayout space(e, gpu->parts.batch);

	status = provide_arena(gpu, space.bytes, limit, err);
	if (status != GRN_GPU_OK)
		return status;
	if (fit->projection)
		GRN_CHECK(cudaMemcpyAsync(gpu->d_arena, fit->projection,
								  fit_floats(fit) * sizeof(float), cudaMemcpyHostToDevice,
								  gpu->device.stream),
				  "could not copy a projection");
	if (e->cells)
		GRN_CHECK(upload_cells(gpu, e->cells, (float *) (gpu->d_arena + space.cells)),
				  "could not copy the parts' centers");
	enable_peer_access(gpu, e);
	return GRN_GPU_OK;
}

/* Makes digests of n rows in the arena and for all keepers, and finds the rows' cells. */
static cudaError_t
digest_rows(GrnGpu *gpu, const GrnGpuDigesting *e, const DigestLayout &space, uint32_t n,
			uint64_t at, uint8_t *d_digests, bool *other)
{
	const GrnGpuFit *fit = e->fit;
	const float		*d_rows = (const float *) (gpu->d_arena + space.rows);
	uint32_t		 width = padded_dims(fit->dim);
	int				 flag = 0;

	if (fit->rows == GRN_GPU_EXACT_DIGESTS)
	{
		int *d_other = (int *) (gpu->d_arena + space.other);

		GRN_TRY(launch_integers(gpu->device, d_rows, n, fit->dim, fit->digest_bytes,
								d_digests, d_other));
		GRN_TRY(cudaMemcpyAsync(&flag, d_other, sizeof(int), cudaMemcpyDeviceToHost,
								gpu->device.stream));
	}
	else if (fit->rows == GRN_GPU_BIT_DIGESTS)
		GRN_TRY(launch_bits(gpu->device, gpu->d_arena + space.raw, e->raw_bytes, n,
							fit->dim, fit->digest_bytes, d_digests));
	else
	{
		const float *d_basis = (const float *) gpu->d_arena;
		const float *d_mean = d_basis + basis_floats(fit);
		Projection	 p = {fit->dim, fit->digest_dims, width,
						  d_basis,	d_mean,			  d_mean + width};

		GRN_TRY(launch_apply(gpu->device, p, d_rows, n, format_of(fit), fit->digest_bytes,
							 d_digests));
	}
	for (int i = 0; i < e->nkeepers; i++)
		if (e->keepers[i]->number != gpu->number)
			GRN_TRY(cudaMemcpyPeerAsync(
				(uint8_t *) e->keepers[i]->kept.digests.d_rows + at * fit->digest_bytes,
				e->keepers[i]->number, d_digests, gpu->number,
				(size_t) n * fit->digest_bytes, gpu->device.stream));
	if (e->cells)
		GRN_TRY(launch_cells(gpu->device, gpu->parts.cells, d_rows, n, fit->dim,
							 (float *) (gpu->d_arena + space.products),
							 (uint32_t *) (gpu->d_arena + space.home),
							 (uint32_t *) (gpu->d_arena + space.guest)));
	GRN_TRY(cudaStreamSynchronize(gpu->device.stream));
	*other |= flag != 0;
	return cudaSuccess;
}

/* Copies digests and cells from digest_rows() to the host. */
static cudaError_t
download_rows(GrnGpu *gpu, const GrnGpuDigesting *e, const DigestLayout &space,
			  uint32_t n, uint64_t at, uint8_t *d_digests)
{
	Staging *staging = &gpu->staging;
	size_t	 bytes = e->fit->digest_bytes;

	if (e->digests)
		GRN_TRY(staging_copy(staging, gpu->number, false, d_digests,
							 e->digests + at * bytes, bytes, bytes, n));
	if (!e->cells)
		return cudaSuccess;
	GRN_TRY(staging_copy(staging, gpu->number, false, gpu->d_arena + space.home,
						 e->home + at, sizeof(uint32_t), sizeof(uint32_t), n));
	return staging_copy(staging, gpu->number, false, gpu->d_arena + space.guest,
						e->guest + at, sizeof(uint32_t), sizeof(uint32_t), n);
}

extern "C" GrnGpuStatus
grn_gpu_digest(GrnGpu *gpu, const GrnGpuDigesting *e, const GrnGpuSource *source,
			   uint64_t first, uint64_t n, uint64_t at, bool *other, GrnGpuError *err)
{
	DigestLayout space(e, gpu->parts.batch);
	bool		 raw = grn_gpu_expands(source);
	size_t		 width = raw ? source->row_bytes : e->fit->dim * sizeof(float);
	uint8_t		*d_kept = NULL;

	if (!gpu->d_arena)
		return gpu_fail(err, GRN_GPU_FAILED, "no digesting was begun", NULL);
	if ((raw && e->raw_bytes != source->row_bytes) ||
		(e->fit->rows == GRN_GPU_BIT_DIGESTS &&
		 (source->numbers != GRN_NUMBERS_BITS || source->head > 0 || source->scale > 0)))
		return gpu_fail(err, GRN_GPU_FAILED, "rows in another form than was said", NULL);
	for (int i = 0; i < e->nkeepers; i++)
		if (e->keepers[i]->number == gpu->number)
			d_kept = (uint8_t *) e->keepers[i]->kept.digests.d_rows;
	GRN_CHECK(cudaSetDevice(gpu->number), "could not use the CUDA device");
	for (uint64_t end = first + n; first < end;
		 first += gpu->parts.batch, at += gpu->parts.batch)
	{
		uint32_t		count = (uint32_t) std::min(end - first, gpu->parts.batch);
		const uint32_t *order = source->order ? source->order + first : NULL;
		const uint8_t  *base =
			(const uint8_t *) source->base + (order ? 0 : first * source->row_bytes);
		uint8_t *d_digests =
			d_kept ? d_kept + at * e->fit->digest_bytes : gpu->d_arena + space.digests;

		GRN_CHECK(staging_copy(&gpu->staging, gpu->number, true,
							   gpu->d_arena + (raw ? space.raw : space.rows),
							   (void *) base, width, source->row_bytes, count, order),
				  "could not copy rows to the device");
		GRN_CHECK(staging_wait(&gpu->staging), "could not copy rows to the device");
		if (raw && (e->cells || e->fit->rows != GRN_GPU_BIT_DIGESTS))
			GRN_CHECK(launch_expand(gpu->device, gpu->d_arena + space.raw,
									raw_row_of(*source), count, e->fit->dim,
									(float *) (gpu->d_arena + space.rows)),
					  "could not digest rows");
		GRN_CHECK(digest_rows(gpu, e, space, count, at, d_digests, other),
				  "could not digest rows");
		if (*other)
			break;
		GRN_CHECK(download_rows(gpu, e, space, count, at, d_digests),
				  "could not copy digests from the device");
	}
	return GRN_GPU_OK;
}

/* ---- a part's rows ---- */

extern "C" GrnGpuStatus
grn_gpu_digested_rows(GrnGpu *gpu, const uint8_t *digests, const GrnGpu *keeper,
					  const uint32_t *members, GrnGpuError *err)
{
	const Plan &plan = gpu->plan;
	uint8_t	   *d_digests = gpu->d_arena + plan.bare_digests,
			*d_members = gpu->d_arena + plan.members;
	Digests kept;

	if (!gpu->begun || gpu->options.rows == GRN_GPU_FLOATS)
		return gpu_fail(err, GRN_GPU_FAILED, "no build of digests was begun", NULL);
	GRN_CHECK(cudaSetDevice(gpu->number), "could not use the CUDA device");
	GRN_CHECK(staging_copy(&gpu->staging, gpu->number, true, d_members, (void *) members,
						   sizeof(uint32_t), sizeof(uint32_t), gpu->n),
			  "could not copy digests to the device");
	if (digests)
		GRN_CHECK(staging_copy(&gpu->staging, gpu->number, true, d_digests,
							   (void *) digests, plan.stride, plan.stride, gpu->n,
							   members),
				  "could not copy digests to the device");
	else
	{
		if (keeper->number != gpu->number || keeper->kept.digests.stride != plan.stride)
			return gpu_fail(err, GRN_GPU_FAILED, "another build's digests", NULL);
		kept = keeper->kept.digests;
		kept.n = (uint32_t) gpu->n;
		GRN_CHECK(staging_wait(&gpu->staging), "could not copy rows to the device");
		GRN_CHECK(launch_gather(gpu->device, kept, (const uint32_t *) d_members,
								d_digests, (uint32_t *) (gpu->d_arena + plan.norms)),
				  "could not copy digests on the device");
	}
	gpu->digested = gpu->named = true;
	return GRN_GPU_OK;
}

/* ---- merge ---- */

/* The arena of a merge: a batch of rows, their two lists, and their merged lists. */
struct MergeLayout : Layout
{
	size_t rows, lists[2], ids, counts;

	MergeLayout(uint32_t degree, uint64_t batch)
		: rows(reserve<uint32_t>(batch)), lists {reserve<uint32_t>(batch * degree),
												 reserve<uint32_t>(batch * degree)},
		  ids(reserve<uint32_t>(batch * degree)), counts(reserve<uint8_t>(batch))
	{
	}
};

extern "C" uint64_t
grn_gpu_merge_bytes(uint32_t degree)
{
	return MergeLayout(degree, LEAST_BATCH).bytes;
}

extern "C" GrnGpuStatus
grn_gpu_merge_begin(GrnGpu *gpu, uint32_t degree, const GrnGpu *keeper,
					uint64_t memory_limit, GrnGpuError *err)
{
	uint64_t limit, n = keeper->kept.digests.n;

	if (keeper->number != gpu->number || n == 0)
		return gpu_fail(err, GRN_GPU_FAILED, "no digests for a merge", NULL);
	GrnGpuStatus status = grn_gpu_limit(gpu, memory_limit, &limit, err);

	if (status != GRN_GPU_OK)
		return status;
	limit = std::max(limit, gpu->arena);
	gpu->parts.batch = std::max(std::min(MERGE_BATCH, n / MERGE_BATCHES), LEAST_BATCH);
	while (gpu->parts.batch > LEAST_BATCH &&
		   MergeLayout(degree, gpu->parts.batch).bytes > limit)
		gpu->parts.batch /= 2;
	status = provide_arena(gpu, MergeLayout(degree, gpu->parts.batch).bytes, limit, err);
	gpu->plan.degree = degree;
	gpu->parts.keeper = keeper;
	return status;
}

extern "C" GrnGpuStatus
grn_gpu_merge(GrnGpu *gpu, const GrnGpuFit *fit, const GrnGpuMerge *merge, bool fill,
			  GrnGpuError *err)
{
	uint32_t	   degree = gpu->plan.degree;
	size_t		   list = degree * sizeof(uint32_t);
	MergeLayout	   layout(degree, gpu->parts.batch);
	Staging		  *staging = &gpu->staging;
	GrnGraphParams params = {};

	params.degree = degree;
	if (!gpu->d_arena)
		return gpu_fail(err, GRN_GPU_FAILED, "no merge was begun", NULL);
	GRN_CHECK(cudaSetDevice(gpu->number), "could not use the CUDA device");
	for (uint64_t first = 0; first < merge->count; first += gpu->parts.batch)
	{
		uint64_t		count = std::min(merge->count - first, gpu->parts.batch);
		const uint32_t *rows = merge->rows + first;
		MergeArgs		args = {};

		GRN_CHECK(staging_copy(staging, gpu->number, true, gpu->d_arena + layout.rows,
							   (void *) rows, sizeof(uint32_t), sizeof(uint32_t), count),
				  "could not copy lists to the device");
		for (int part = 0; part < 2; part++)
		{
			GRN_CHECK(staging_copy(staging, gpu->number, true,
								   gpu->d_arena + layout.lists[part],
								   (void *) merge->lists, list, list, count,
								   merge->positions[part] + first),
					  "could not copy lists to the device");
			args.d_lists[part] = (const uint32_t *) (gpu->d_arena + layout.lists[part]);
		}
		GRN_CHECK(staging_wait(staging), "could not copy lists to the device");
		args.digests = gpu->parts.keeper->kept.digests;
		args.d_rows = (const uint32_t *) (gpu->d_arena + layout.rows);
		args.count = (uint32_t) count;
		args.degree = degree;
		args.fill = fill ? degree : tuning_for(&params, fit->dim, args.digests.n).fill;
		args.d_ids = (uint32_t *) (gpu->d_arena + layout.ids);
		args.d_counts = gpu->d_arena + layout.counts;
		GRN_CHECK(launch_merge(gpu->device, args), "could not merge lists");
		GRN_CHECK(cudaStreamSynchronize(gpu->device.stream), "could not merge lists");
		GRN_CHECK(staging_copy(staging, gpu->number, false, gpu->d_arena + layout.ids,
							   merge->ids, list, list, count, rows),
				  "could not copy lists from the device");
		GRN_CHECK(staging_copy(staging, gpu->number, false, gpu->d_arena + layout.counts,
							   merge->counts, 1, 1, count, rows),
				  "could not copy lists from the device");
	}
	return GRN_GPU_OK;
}
