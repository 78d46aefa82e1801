/*
 * estimate.c - prepares queries for estimates, and estimates distances from codes.
 */
#include "store/codec.h"

#include <math.h>
#include <string.h>

#include "space/kernels/dist.h"
#include "space/space.h"
#include "store/codec_impl.h"

#define CHUNK 64				/* bytes of a code that the widest kernel reads at once */

/* Kernels read the end of a code in words; grn_shape_sound() checks shapes from disk. */
_Static_assert(GRN_CODE_STEP % 4 == 0, "kernels read codes in words");

/* Fills the fields of all queries with codes of directions or rows, from q8 [k]. */
static void
set_query(const GrnCodec *codec, GrnEstimated what, float base, float scale,
		  const int8_t *q8, GrnCodeQuery *out)
{
	GrnCodePlanes *p = &out->planes;
	uint32_t	at = 0;
	uint32_t	filled;

	out->what = what;
	out->base = base;
	out->place = 0;
	out->scale = scale;
	out->length_unit = codec->length_unit;
	out->alpha_unit = codec->alpha_unit;
	out->offset = 0;
	p->bytes = grn_code_bytes(codec->shape);
	p->end4 = grn_block_bytes(codec->shape, 0);
	p->end2 = p->end4 + grn_block_bytes(codec->shape, 1);
	filled = (p->bytes + CHUNK - 1) / CHUNK * CHUNK;
	memset(p->mask, 0, filled);
	for (int s = 0; s < 8; s++)
		memset(p->plane[s], 0, filled);
	GRN_FOR_BLOCKS(codec->shape, b, first, last)
	{
		uint32_t	bytes = grn_block_bytes(codec->shape, b);
		const int8_t *from = q8 + first;
		int32_t		sum = 0;

		for (uint32_t j = first; j < last; j++)
			sum += q8[j];
		out->offset += grn_block_middle(b) * (float) sum;
		memset(p->mask + at, grn_block_top(b), bytes);
		for (uint32_t s = 0; s < 8; s += grn_block_bits(b), from += bytes)
			memcpy(p->plane[s] + at, from, bytes);
		at += bytes;
	}
}

/* Rounds v [k] to 8 bits and calls set_query().  Multiplies v by the steps. */
static void
round_query(const GrnCodec *codec, GrnEstimated what, float base, float *v,
			GrnCodeQuery *out)
{
	int8_t		q8[GRN_MAX_CODE_DIMS];
	float		max = 0;
	float		inverse;
	uint32_t	k = grn_code_dims(codec->shape);

	GRN_FOR_BLOCKS(codec->shape, b, first, last)
		for (uint32_t j = first; j < last; j++)
	{
		v[j] *= codec->steps[b];
		max = fabsf(v[j]) > max ? fabsf(v[j]) : max;
	}
	inverse = max > 1e-30f && max < INFINITY ? 127 / max : 0;
	for (uint32_t j = 0; j < k; j++)
		q8[j] = inverse > 0 ? (int8_t) lrintf(v[j] * inverse) : 0;
	set_query(codec, what, base, inverse > 0 ? max / 127 : 0, q8, out);
}

/* Fills a query from the code of its row; codes are rows. */
static void
set_own_query(const GrnCodec *codec, GrnEstimated what, const uint8_t *code, GrnCodeQuery *out)
{
	out->what = what;
	out->norm_unit = codec->norm_unit;
	out->power = codec->power;
	out->own = codec->shape.own;
	if (code != out->bits)
		memcpy(out->bits, code, out->own);
	out->ones = grn_pairs->common(out->bits, out->bits, out->own);
	if (what == GRN_EXACT_PLACES)
		out->place = grn_place_norm(sqrtf((float) out->ones) / out->norm_unit, out->power);
}

void
grn_code_query(const GrnCodec *codec, const float *q, GrnCodeQuery *out, float *scratch)
{
	bool		direction = codec->kind == GRN_CODES_DIRECTIONS;
	float		norm2;

	if (grn_codes_exact(codec))
	{
		(void) grn_pack_bits(q, codec->dim, out->bits);
		set_own_query(codec, codec->own, out->bits, out);
		return;
	}
	norm2 = grn_codec_project_query(codec, q, direction ? NULL : codec->mean, scratch);
	if (direction)
		round_query(codec, GRN_ESTIMATE_IP, grn_dist->ip_f32(q, codec->mean, codec->dim),
					scratch, out);
	else
		round_query(codec, GRN_ESTIMATE_L2, norm2, scratch, out);
}

void
grn_code_query_head(const GrnCodec *codec, GrnEstimated what, float base, float *v,
					GrnCodeQuery *out)
{
	round_query(codec, what, base, v, out);
}

void
grn_code_query_row(const GrnCodec *codec, const float *x, GrnCodeQuery *out, float *scratch)
{
	float		length;
	float		norm2;

	if (grn_codes_exact(codec))
	{
		(void) grn_pack_bits(x, codec->dim, out->bits);
		set_own_query(codec, codec->own_places, out->bits, out);
		return;
	}
	if (codec->kind == GRN_CODES_ROWS)
	{
		grn_code_query(codec, x, out, scratch);
		return;
	}
	norm2 = grn_codec_project_direction(codec, x, scratch, &length);
	for (uint32_t j = 0; j < grn_code_dims(codec->shape); j++)
		scratch[j] += codec->mean_head[j];
	/* follows from |x / |x|| = 1 and the distance to c */
	round_query(codec, GRN_ESTIMATE_PLACES, (1 + codec->mean_norm2 - norm2) / 2, scratch, out);
	out->power = codec->power;
	out->place = grn_place_norm(length, out->power);
}

void
grn_code_query_from_code(const GrnCodec *codec, const uint8_t *code, GrnFactor factor,
						 GrnCodeQuery *out)
{
	bool		direction = codec->kind == GRN_CODES_DIRECTIONS;
	float		alpha = codec->alpha_unit * (float) grn_factor_alpha(factor);
	float		length = codec->length_unit * grn_factor_length(factor);
	float		base = codec->mean_norm2;
	int8_t		q8[GRN_MAX_CODE_DIMS];
	float		v[GRN_MAX_CODE_DIMS];

	if (grn_codes_exact(codec))
	{
		set_own_query(codec, codec->own_places, code, out);
		return;
	}
	GRN_FOR_BLOCKS(codec->shape, b, first, last)
	{
		uint32_t	bytes = grn_block_bytes(codec->shape, b);
		int			top = grn_block_top(b);
		uint32_t	j = first;

		for (uint32_t s = 0; s < 8; s += grn_block_bits(b))
			for (uint32_t i = 0; i < bytes; i++, j++)
			{
				int			level = code[i] >> s & top;
				float		u;

				if (!direction)
				{
					q8[j] = codec->decoded[b][level];
					continue;
				}
				u = alpha * codec->steps[b] * ((float) level - grn_block_middle(b));
				base += codec->mean_head[j] * u;
				v[j] = u + codec->mean_head[j];
			}
		code += bytes;
	}
	if (direction)
	{
		round_query(codec, GRN_ESTIMATE_PLACES, base, v, out);
		out->power = codec->power;
		out->place = grn_place_norm(grn_factor_length(factor), out->power);
	}
	else
		set_query(codec, GRN_ESTIMATE_L2, length * length, length * alpha * codec->decoded_unit,
				  q8, out);
}

/* Estimates for `count` codes, at most GRN_PIECE, from their dot products. */
static void
estimate_some(const GrnCodeQuery *q, const int32_t *dot, const GrnFactor *factors,
			  uint32_t count, float *out)
{
	GrnEstimate e = {.unit = q->length_unit * GRN_LENGTH_ONE, .slope = q->scale * q->alpha_unit,
		.offset = q->offset};
	GrnFactor	one = grn_factor(1, 0);
	GrnFactor	alphas[GRN_PIECE];

	if (q->what == GRN_ESTIMATE_L2)
	{
		e.base = q->base;
		e.square = 1;
		e.slope *= 2;
	}
	else
		e.lead = -q->base;		/* an inner product counts as a negative distance */
	if (q->what != GRN_ESTIMATE_PLACES)
	{
		grn_dist->estimate(&e, dot, factors, count, out);
		return;
	}
	/* products with directions: estimate with lengths of 1 */
	e.unit = GRN_LENGTH_ONE;
	for (uint32_t i = 0; i < count; i++)
		alphas[i] = (GrnFactor) {one.bits | grn_factor_alpha(factors[i])};
	grn_dist->estimate(&e, dot, alphas, count, out);
	for (uint32_t i = 0; i < count; i++)
	{
		float		place = grn_place_norm(grn_factor_length(factors[i]), q->power);
		float		d = q->place * q->place + place * place + 2 * q->place * place * out[i];

		out[i] = d > 0 ? d : 0;
	}
}

/*
 * The squared distance of the places of two rows.  both: number of common ones; ones: number of
 * ones in the second row.
 */
static float
places_apart(const GrnCodeQuery *q, uint32_t both, uint32_t ones)
{
	float		place = grn_place_norm(sqrtf((float) ones) / q->norm_unit, q->power);
	float		cosine = both > 0 ? (float) both / sqrtf((float) ones * (float) q->ones) : 0;
	float		d = q->place * q->place + place * place - 2 * q->place * place * cosine;

	return d > 0 ? d : 0;
}

static void
estimate_own(const GrnCodeQuery *q, const uint8_t *codes, uint32_t count, float *out)
{
	for (uint32_t i = 0; i < count; i++, codes += q->own)
	{
		uint32_t	apart = grn_pairs->differ(q->bits, codes, q->own);
		uint32_t	both;

		if (q->what == GRN_EXACT_L2)
		{
			out[i] = (float) apart;
			continue;
		}
		both = grn_pairs->common(q->bits, codes, q->own);
		/* ones of x: `apart` counts the ones of q alone and of x alone */
		out[i] = q->what == GRN_EXACT_JACCARD ? grn_jaccard(both, both + apart)
			: places_apart(q, both, apart + 2 * both - q->ones);
	}
}

void
grn_estimate(const GrnCodeQuery *q, const uint8_t *codes, const GrnFactor *factors,
			 uint32_t count, float *out)
{
	if (q->what >= GRN_EXACT_L2)
	{
		estimate_own(q, codes, count, out);
		return;
	}
	for (uint32_t i = 0; i < count; i += GRN_PIECE)
	{
		int32_t		dot[GRN_PIECE];
		uint32_t	n = count - i < GRN_PIECE ? count - i : GRN_PIECE;

		grn_dist->dot(&q->planes, codes + (size_t) i * q->planes.bytes, n, dot);
		estimate_some(q, dot, factors + i, n, out + i);
	}
}

void
grn_estimate_ids(const GrnCodeQuery *q, const uint8_t *codes, size_t bytes, const GrnFactor *factors,
				 const uint32_t *ids, uint32_t n, float *out)
{
	for (uint32_t i = 0; i < n; i += GRN_PIECE)
	{
		uint8_t		near[GRN_PIECE * GRN_MAX_CODE_BYTES];
		GrnFactor	near_factors[GRN_PIECE];
		uint32_t	count = n - i < GRN_PIECE ? n - i : GRN_PIECE;

		/* a code may lie in two cache lines */
		for (uint32_t j = 0; j < count; j++)
		{
			__builtin_prefetch(codes + ids[i + j] * bytes);
			__builtin_prefetch(codes + ids[i + j] * bytes + bytes - 1);
			__builtin_prefetch(&factors[ids[i + j]]);
		}
		for (uint32_t j = 0; j < count; j++)
		{
			memcpy(near + j * bytes, codes + ids[i + j] * bytes, bytes);
			near_factors[j] = factors[ids[i + j]];
		}
		grn_estimate(q, near, near_factors, count, out + i);
	}
}

/*
 * Least number of pairs for a judgment of a vertex.  20,000 sentences and image patches are judged
 * alike with half and twice.
 */
#define LEAST_PAIRS 10

void
grn_judge_neighbors(const float *distances, const float *estimates, uint32_t n,
					GrnJudgment *judgment)
{
	uint32_t	pairs = 0;
	uint32_t	right = 0;

	for (uint32_t i = 0; i < n; i++)
		for (uint32_t j = 0; j < i; j++)
			if (distances[i] != distances[j])
			{
				pairs++;
				/* equal estimates count as a wrong order */
				right += distances[i] < distances[j] ? estimates[i] < estimates[j]
					: estimates[i] > estimates[j];
			}
	if (pairs < LEAST_PAIRS)
		return;
	judgment->vertices++;
	judgment->poor += right < GRN_LEAST_ORDERED * pairs;
}
