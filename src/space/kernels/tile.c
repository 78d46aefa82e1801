/*
 * tile.c - distances from one row to the rows of a panel, in floats or bytes.
 */
#include "space/kernels/tile.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

static void
float_dists(const GrnTile *tile, const void *row, int32_t term,
			const GrnPanel *panel, uint32_t *out)
{
	float		distances[GRN_PANEL_ROWS];

	grn_row_distances(tile->rows, row, panel->rows, panel->count, distances);
	memcpy(out, distances, panel->count * sizeof(float));
}

void
grn_tile_floats(GrnTile *tile, const GrnRows *rows)
{
	memset(tile, 0, sizeof(*tile));
	tile->rows = rows;
	tile->dists = float_dists;
}

/*
 * The processors' byte products multiply unsigned by signed bytes.  With x + 128 as the
 * unsigned form of one row, sum (x + 128) y = sum x y + 128 sum y, so |x - y|^2 = |x|^2 +
 * (|y|^2 + 256 sum y) - 2 sum (x + 128) y.
 */
void
grn_tile_terms(const int8_t *x, size_t stride, int32_t *terms)
{
	int32_t		norm = 0;
	int32_t		sum = 0;

	for (size_t j = 0; j < stride; j++)
	{
		norm += x[j] * x[j];
		sum += x[j];
	}
	terms[0] = norm;
	terms[1] = norm + 256 * sum;
}

static void
byte_dists(const GrnTile *tile, const void *row, int32_t term,
		   const GrnPanel *panel, uint32_t *out)
{
	const int8_t *x = row;

	for (uint32_t i = 0; i < panel->count; i++)
	{
		const int8_t *y = panel->rows[i];
		uint32_t	sum = 0;

		for (size_t j = 0; j < tile->stride; j++)
		{
			int32_t		d = x[j] - y[j];

			sum += (uint32_t) (d * d);
		}
		out[i] = sum;
	}
}

#if defined(__x86_64__)

/* Returns the sums of the 16 lanes of each of four vectors. */
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

/*
 * Computes distances to four rows at a time, so that one reduction serves four distances.  The
 * last group repeats the last row, and writes up to three values behind the last distance.
 */
__attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))
static void
byte_dists_vnni(const GrnTile *tile, const void *row, int32_t term,
				const GrnPanel *panel, uint32_t *out)
{
	size_t		stride = tile->stride;
	const int8_t *x = row;
	const __m128i self = _mm_set1_epi32(term);
	const __m512i flip = _mm512_set1_epi8((char) 0x80);
	uint32_t	last = panel->count - 1;

	for (uint32_t i = 0; i < panel->count; i += 4)
	{
		const int8_t *y0 = panel->rows[i];
		const int8_t *y1 = panel->rows[i + 1 < last ? i + 1 : last];
		const int8_t *y2 = panel->rows[i + 2 < last ? i + 2 : last];
		const int8_t *y3 = panel->rows[i + 3 < last ? i + 3 : last];
		__m512i		a0 = _mm512_setzero_si512();
		__m512i		a1 = a0;
		__m512i		a2 = a0;
		__m512i		a3 = a0;
		__m128i		dot;
		__m128i		terms = _mm_loadu_si128((const __m128i *) (panel->terms + i));

		for (size_t j = 0; j < stride; j += 64)
		{
			__m512i		u = _mm512_xor_si512(_mm512_loadu_si512(x + j), flip);

			a0 = _mm512_dpbusd_epi32(a0, u, _mm512_loadu_si512(y0 + j));
			a1 = _mm512_dpbusd_epi32(a1, u, _mm512_loadu_si512(y1 + j));
			a2 = _mm512_dpbusd_epi32(a2, u, _mm512_loadu_si512(y2 + j));
			a3 = _mm512_dpbusd_epi32(a3, u, _mm512_loadu_si512(y3 + j));
		}
		dot = sum_lanes4(a0, a1, a2, a3);
		_mm_storeu_si128((__m128i *) (out + i),
						 _mm_sub_epi32(_mm_add_epi32(self, terms), _mm_add_epi32(dot, dot)));
	}
}

__attribute__((target("avx2")))
static void
byte_dists_avx2(const GrnTile *tile, const void *row, int32_t term,
				const GrnPanel *panel, uint32_t *out)
{
	const int8_t *x = row;

	for (uint32_t i = 0; i < panel->count; i++)
	{
		const int8_t *y = panel->rows[i];
		__m256i		acc = _mm256_setzero_si256();
		__m128i		h;

		for (size_t j = 0; j < tile->stride; j += 16)
		{
			__m256i		a = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *) (x + j)));
			__m256i		b = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *) (y + j)));
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
grn_tile_bytes(GrnTile *tile, const int8_t *bytes, const int32_t *terms, size_t stride)
{
	memset(tile, 0, sizeof(*tile));
	tile->bytes = bytes;
	tile->terms = terms;
	tile->stride = stride;
	tile->dists = byte_dists;
#if defined(__x86_64__)
	/* GRN_SIMD (dist.h) selects the byte kernels, too. */
	if (strcmp(grn_dist->name, "avx512vnni") == 0)
		tile->dists = byte_dists_vnni;
	else if (strcmp(grn_dist->name, "avx512") == 0 || strcmp(grn_dist->name, "avx2") == 0)
		tile->dists = byte_dists_avx2;
#endif
}
