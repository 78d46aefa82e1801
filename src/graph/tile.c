/*
 * tile.c - distances from one row to a few others, in floats or exact bytes.
 */
#include "tile.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

static void
float_dists(const GrnTile *tile, uint32_t from, const uint32_t *to, uint32_t count,
			uint32_t *out)
{
	const GrnRows *rows = tile->rows;
	const float *x = grn_row(rows, from);

	for (uint32_t i = 0; i < count; i++)
	{
		float		d = grn_dist->l2_f32(x, grn_row(rows, to[i]), rows->dim);

		memcpy(&out[i], &d, sizeof(d));
	}
}

void
grn_tile_floats(GrnTile *tile, const GrnRows *rows)
{
	memset(tile, 0, sizeof(*tile));
	tile->rows = rows;
	tile->dists = float_dists;
}

bool
grn_tile_is_bytes(const GrnRows *rows, size_t begin, size_t end)
{
	for (size_t i = begin; i < end; i++)
	{
		const float *x = grn_row(rows, i);
		bool		other = false;

		for (uint32_t j = 0; j < rows->dim; j++)
			other |= !(x[j] >= 0.0f && x[j] <= 255.0f && x[j] == (float) (int) x[j]);
		if (other)
			return false;
	}
	return true;
}

/*
 * The processors' byte products multiply unsigned by signed bytes.  With y the
 * signed form y - 128 of a row, sum x y = sum x (y - 128) + 128 sum x, so the
 * terms of a row are its squared norm and 128 times its sum.
 */
void
grn_tile_bytes_prepare(const float *x, uint32_t dim, size_t byte_stride,
					   uint8_t *bytes, int32_t *terms)
{
	int32_t		norm = 0;
	int32_t		sum = 0;

	for (uint32_t j = 0; j < dim; j++)
	{
		int32_t		v = (int32_t) x[j];

		bytes[j] = (uint8_t) v;
		norm += v * v;
		sum += v;
	}
	memset(bytes + dim, 0, byte_stride - dim);
	terms[0] = norm;
	terms[1] = 128 * sum;
}

static void
byte_dists(const GrnTile *tile, uint32_t from, const uint32_t *to, uint32_t count,
		   uint32_t *out)
{
	const uint8_t *x = tile->bytes + from * tile->byte_stride;
	int32_t		norm = tile->terms[2 * (size_t) from];

	for (uint32_t i = 0; i < count; i++)
	{
		const uint8_t *y = tile->bytes + to[i] * tile->byte_stride;
		int32_t		dot = 0;

		for (size_t j = 0; j < tile->byte_stride; j++)
			dot += (int32_t) x[j] * y[j];
		out[i] = (uint32_t) (norm + tile->terms[2 * (size_t) to[i]]) - 2 * (uint32_t) dot;
	}
}

#if defined(__x86_64__)

/* Sums of the 16 lanes of four vectors. */
__attribute__((target("avx512f,avx512bw,avx512vl")))
static inline __m128i
sum_lanes4(__m512i a, __m512i b, __m512i c, __m512i d)
{
	__m512i		ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b),
									  _mm512_unpackhi_epi32(a, b));
	__m512i		cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d),
									  _mm512_unpackhi_epi32(c, d));
	__m512i		s = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd),
									 _mm512_unpackhi_epi64(ab, cd));
	__m256i		h = _mm256_add_epi32(_mm512_castsi512_si256(s),
									 _mm512_extracti64x4_epi64(s, 1));

	return _mm_add_epi32(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
}

/* Four rows at a time, so that one reduction serves four distances. */
__attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))
static void
byte_dists_vnni(const GrnTile *tile, uint32_t from, const uint32_t *to, uint32_t count,
				uint32_t *out)
{
	size_t		stride = tile->byte_stride;
	const uint8_t *x = tile->bytes + from * stride;
	int32_t		self = tile->terms[2 * (size_t) from];
	const __m512i flip = _mm512_set1_epi8((char) 0x80);

	for (uint32_t i = 0; i < count; i += 4)
	{
		uint32_t	id[4];
		const uint8_t *y[4];
		__m512i		acc[4];
		int32_t		dot[4];

		for (int k = 0; k < 4; k++)
		{
			id[k] = to[i + k < count ? i + k : count - 1];
			y[k] = tile->bytes + id[k] * stride;
			acc[k] = _mm512_setzero_si512();
		}
		for (size_t j = 0; j < stride; j += 64)
		{
			__m512i		v = _mm512_xor_si512(_mm512_loadu_si512(x + j), flip);

			for (int k = 0; k < 4; k++)
				acc[k] = _mm512_dpbusd_epi32(acc[k], _mm512_loadu_si512(y[k] + j), v);
		}
		_mm_storeu_si128((__m128i *) dot, sum_lanes4(acc[0], acc[1], acc[2], acc[3]));
		for (uint32_t k = 0; k < 4 && i + k < count; k++)
		{
			const int32_t *t = tile->terms + 2 * (size_t) id[k];

			out[i + k] = (uint32_t) (self + t[0]) - 2 * (uint32_t) (dot[k] + t[1]);
		}
	}
}

__attribute__((target("avx2")))
static void
byte_dists_avx2(const GrnTile *tile, uint32_t from, const uint32_t *to, uint32_t count,
				uint32_t *out)
{
	size_t		stride = tile->byte_stride;
	const uint8_t *x = tile->bytes + from * stride;

	for (uint32_t i = 0; i < count; i++)
	{
		const uint8_t *y = tile->bytes + to[i] * stride;
		__m256i		acc = _mm256_setzero_si256();
		__m128i		h;

		for (size_t j = 0; j < stride; j += 16)
		{
			__m256i		a = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *) (x + j)));
			__m256i		b = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *) (y + j)));
			__m256i		d = _mm256_sub_epi16(a, b);

			acc = _mm256_add_epi32(acc, _mm256_madd_epi16(d, d));
		}
		h = _mm_add_epi32(_mm256_castsi256_si128(acc), _mm256_extracti128_si256(acc, 1));
		h = _mm_add_epi32(h, _mm_shuffle_epi32(h, 0x4E));
		h = _mm_add_epi32(h, _mm_shuffle_epi32(h, 0xB1));
		out[i] = (uint32_t) _mm_cvtsi128_si32(h);
	}
}
#endif

void
grn_tile_bytes(GrnTile *tile, const uint8_t *bytes, const int32_t *terms,
			   size_t byte_stride)
{
	memset(tile, 0, sizeof(*tile));
	tile->bytes = bytes;
	tile->terms = terms;
	tile->byte_stride = byte_stride;
	tile->dists = byte_dists;
#if defined(__x86_64__)
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx2"))
		tile->dists = byte_dists_avx2;
	if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
		__builtin_cpu_supports("avx512vl"))
		tile->dists = byte_dists_vnni;
#endif
}
