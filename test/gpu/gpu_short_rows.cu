/*
 * gpu_short_rows.cu - rows that come as halves or bits: on the device they are the floats that
 * the host makes of them, and their digests are those of the floats.
 */
#include "gpu_check.h"

#include <cuda_fp16.h>

#include "../../cuda/handle.h"

/* Rows as the builder keeps them: head, halves or bits, and behind them a GrnScale if scaled. */
struct ShortRows
{
	uint32_t	n,
				dim;
	GrnGpuSource source = {};
	std::vector<uint8_t> bytes;
	std::vector<float> floats;	/* [n][dim] */

	ShortRows(uint32_t n, uint32_t dim, uint32_t bits, bool integers, bool heads, bool scaled)
		: n(n), dim(dim), floats((size_t) n * dim)
	{
		uint32_t	vector = (bits == 16 ? 4 : 0) + (bits * dim + 7) / 8;

		source.head = bits == 16 ? 4 : 0;
		source.scale = scaled ? (vector + 1) / 2 * 2 : 0;
		source.row_bytes = (vector + (scaled ? 9 : 0) + 15) / 16 * 16;
		source.numbers = bits == 16 ? GRN_NUMBERS_HALVES : GRN_NUMBERS_BITS;
		bytes.assign((size_t) n * source.row_bytes, 0xee);
		source.base = bytes.data();
		for (uint32_t i = 0; i < n; i++)
		{
			uint8_t    *row = &bytes[i * source.row_bytes];
			float		head = heads ? 0.01f + fabsf(gaussian(90, i)) : 1,
						scale = scaled ? 0.01f + fabsf(gaussian(91, i)) : 1;

			if (bits == 16)
				memcpy(row, &head, sizeof(head));
			if (scaled)
				memcpy(row + source.scale, &scale, sizeof(scale));
			for (uint32_t d = 0; d < dim; d++)
			{
				uint64_t	at = (uint64_t) i * dim + d;

				if (bits == 1)
				{
					uint8_t		one = rnd(94, at, 2);

					row[d / 8] = (uint8_t) ((row[d / 8] & ~(0x80 >> d % 8)) | one << (7 - d % 8));
					floats[at] = scale * one;
					continue;
				}
				__half		half = __float2half_rn(integers ? (float) rnd(92, at, 256) : gaussian(93, at));

				memcpy(row + 4 + 2 * d, &half, sizeof(half));
				floats[at] = scale * (__half2float(half) * head);
			}
		}
	}
};

/* Rows of a build, in order or by numbers: bit by bit the floats. */
static void
test_upload(GrnGpu *gpu, uint32_t bits, uint32_t n, uint32_t dim, bool heads, bool scaled, bool ordered)
{
	ShortRows	rows(n, dim, bits, false, heads, scaled);
	std::vector<uint32_t> order(n);
	std::vector<float> got((size_t) n * dim);
	GrnGraphParams params = {};
	GrnGpuOptions options = {};
	GrnGpuError err = {};
	bool		same = true;

	for (uint32_t i = 0; i < n; i++)
		order[i] = n - 1 - i;
	if (ordered)
		rows.source.order = order.data();
	if (grn_gpu_begin(gpu, n, dim, &options, &params, &err) != GRN_GPU_OK ||
		grn_gpu_rows_from(gpu, &rows.source, 0, n / 3, &err) != GRN_GPU_OK ||
		grn_gpu_rows_from(gpu, &rows.source, n / 3, n - n / 3, &err) != GRN_GPU_OK)
		same = false;
	else
	{
		must(cudaMemcpy(got.data(), gpu->d_rows, got.size() * sizeof(float), cudaMemcpyDeviceToHost), "copy");
		for (uint32_t i = 0; i < n && same; i++)
			same = memcmp(&got[(size_t) i * dim],
						  &rows.floats[(size_t) (ordered ? order[i] : i) * dim], dim * sizeof(float)) == 0;
	}
	grn_gpu_end(gpu);
	report(std::to_string(bits) + " bits, " + std::to_string(n) + " rows of " + std::to_string(dim) + (heads ? ", heads" : "") +
		   (scaled ? ", scaled" : "") + (ordered ? ", by numbers" : ""), same, err.text);
}

/* Digests of all rows from one source. */
static std::vector<uint8_t>
digests_of(GrnGpu *gpu, const ShortRows &rows, const GrnGpuSource &source, GrnGpuFit *fit, bool *other, GrnGpuError *err)
{
	std::vector<uint8_t> digests((size_t) rows.n * fit->digest_bytes);
	GrnGpuDigesting e = {};

	e.fit = fit;
	e.digests = digests.data();
	e.raw_bytes = grn_gpu_expands(&source) ? (uint32_t) source.row_bytes : 0;
	*other = false;
	if (grn_gpu_digest_begin(gpu, &e, 0, err) != GRN_GPU_OK ||
		grn_gpu_digest(gpu, &e, &source, 0, rows.n, 0, other, err) != GRN_GPU_OK)
		digests.clear();
	grn_gpu_end(gpu);
	return digests;
}

static void
test_digest(GrnGpu *gpu, uint32_t bits, uint32_t dim, GrnGpuRows kind, bool scaled)
{
	uint32_t	n = 5000;
	ShortRows	rows(n, dim, bits, kind == GRN_GPU_EXACT_DIGESTS, scaled, scaled);
	GrnGpuSource floats = {};
	GrnGpuFit	fit = {};
	GrnGpuError err = {};
	bool		same,
				others[2];

	floats.base = rows.floats.data();
	floats.row_bytes = dim * sizeof(float);
	floats.numbers = GRN_NUMBERS_FLOATS;
	fit.rows = kind;
	fit.dim = dim;
	same = grn_gpu_fit(gpu, rows.floats.data(), n, 1, &fit, &err) == GRN_GPU_OK;
	if (same)
	{
		std::vector<uint8_t> a = digests_of(gpu, rows, floats, &fit, &others[0], &err);
		std::vector<uint8_t> b = digests_of(gpu, rows, rows.source, &fit, &others[1], &err);

		same = !a.empty() && a == b && !others[0] && !others[1];
	}
	free(fit.projection);
	report("digests of rows of " + std::to_string(bits) + " bits, " + std::to_string(dim) + (scaled ? ", scaled" : "") + ", kind " + std::to_string(kind),
		   same, err.text);
}

/* Bits to digests, one row and many, whatever follows a row's last bit. */
static void
test_bits(uint32_t n, uint32_t dim, uint32_t stride)
{
	ShortRows	rows(n, dim, 1, false, false, false);
	uint32_t	bytes = (uint32_t) rows.source.row_bytes,
				wrong = 0;
	Both<uint8_t> raw((size_t) n * bytes),
				digests((size_t) n * stride, 0xee);

	raw.h = rows.bytes;
	raw.push();
	must(launch_bits(device, raw.d, bytes, n, dim, stride, digests.d), "launch_bits");
	digests.pull();
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t d = 0; d < 8 * stride; d++)
			wrong += (digests.h[(size_t) i * stride + d / 8] >> (7 - d % 8) & 1) !=
				(d < dim && rows.floats[(size_t) i * dim + d] > 0);
	report("digests of " + std::to_string(n) + " rows of " + std::to_string(dim) + " bits, stride " + std::to_string(stride),
		   wrong == 0, std::to_string(wrong) + " bits differ");
}

/* A source in another form than the digesting was begun for is refused. */
static void
test_other_form(GrnGpu *gpu)
{
	ShortRows	rows(100, 24, 16, true, false, false);
	GrnGpuFit	fit = {};
	GrnGpuDigesting e = {};
	GrnGpuError err = {};
	bool		other = false,
				refused;

	fit.rows = GRN_GPU_EXACT_DIGESTS;
	fit.dim = 24;
	refused = grn_gpu_fit(gpu, NULL, 1, 1, &fit, &err) == GRN_GPU_OK;
	e.fit = &fit;
	refused &= grn_gpu_digest_begin(gpu, &e, 0, &err) == GRN_GPU_OK;
	refused &= grn_gpu_digest(gpu, &e, &rows.source, 0, 100, 0, &other, &err) == GRN_GPU_FAILED;
	grn_gpu_end(gpu);
	refused &= grn_gpu_rows_from(gpu, &rows.source, 0, 100, &err) == GRN_GPU_FAILED;
	report("rows that nothing was begun for are refused", refused, err.text);
}

void
test_short_rows(GrnGpu *gpu)
{
	for (uint32_t dim : {1u, 2u, 3u, 31u, 33u, 129u, 384u})
		for (int way = 0; way < 8; way++)
			{
			test_upload(gpu, 16, 3001, dim, way & 1, way & 2, way & 4);
			if (!(way & 1))
				test_upload(gpu, 1, 3001, dim, false, way & 2, way & 4);
		}
	/* one row, rows longer than an arena for so few, and more than one piece */
	test_upload(gpu, 16, 1, 16000, true, true, false);
	test_upload(gpu, 16, 3, 16000, true, false, true);
	test_upload(gpu, 16, 70000, 600, true, true, false);
	test_upload(gpu, 1, 3, 64000, false, false, true);
	test_upload(gpu, 1, 70000, 600, false, false, false);
	for (uint32_t dim : {1u, 7u, 8u, 31u, 129u, 384u, 509u, 512u})
		test_bits(999, dim, 64);
	test_bits(1, 1000, 128);
	test_bits(777, 2047, 256);
	test_digest(gpu, 16, 96, GRN_GPU_EXACT_DIGESTS, false);
	test_digest(gpu, 16, 97, GRN_GPU_BYTE_DIGESTS, true);
	test_digest(gpu, 16, 384, GRN_GPU_BYTE_DIGESTS, false);
	test_digest(gpu, 16, 385, GRN_GPU_WIDE_DIGESTS, true);
	test_digest(gpu, 1, 96, GRN_GPU_EXACT_DIGESTS, false);
	test_digest(gpu, 1, 1024, GRN_GPU_BYTE_DIGESTS, false);
	test_other_form(gpu);
}
