/*
 * estimate.c - queries made ready for estimates, and estimates from codes.
 */
#include "graph/stored/estimate.h"

#include <math.h>

#include "graph/space.h"
#include "graph/stored/codec_impl.h"

/* Fills what all queries have; q8 is filled. */
static void
set_query(const GrnCodec *codec, GrnEstimated what, float base, float scale,
		  GrnCodeQuery *out)
{
	out->what = what;
	out->base = base;
	out->place = 0;
	out->scale = scale;
	out->norm_unit = codec->norm_unit;
	out->alpha_unit = codec->kind == GRN_CODES_DIRECTIONS ? 1 : sqrtf(codec->norm_unit);
	out->code_dims = codec->code_dims;
	out->sum = 0;
	for (uint32_t j = 0; j < codec->code_dims; j++)
		out->sum += out->q8[j];
}

/* The same, with q8 from v [code_dims]. */
static void
round_query(const GrnCodec *codec, GrnEstimated what, float base, const float *v,
			GrnCodeQuery *out)
{
	float		max = grn_largest(v, codec->code_dims);
	float		inverse = max > 1e-30f && max < INFINITY ? 127 / max : 0;

	for (uint32_t j = 0; j < codec->code_dims; j++)
		out->q8[j] = inverse > 0 ? (int8_t) lrintf(v[j] * inverse) : 0;
	set_query(codec, what, base, inverse > 0 ? max / 127 : 0, out);
}

void
grn_code_query(const GrnCodec *codec, const float *q, GrnCodeQuery *out, float *scratch)
{
	bool		direction = codec->kind == GRN_CODES_DIRECTIONS;
	float		norm2 = grn_codec_project(codec, q, 1, direction ? NULL : codec->mean, scratch);

	if (direction)
		round_query(codec, GRN_ESTIMATE_IP, grn_dist->ip_f32(q, codec->mean, codec->dim),
					scratch, out);
	else
		round_query(codec, GRN_ESTIMATE_L2, norm2, scratch, out);
}

void
grn_code_query_row(const GrnCodec *codec, const float *x, GrnCodeQuery *out, float *scratch)
{
	float		length;
	float		norm2;

	if (codec->kind == GRN_CODES_ROWS)
	{
		grn_code_query(codec, x, out, scratch);
		return;
	}
	norm2 = grn_codec_project_direction(codec, x, scratch, &length);
	for (uint32_t j = 0; j < codec->code_dims; j++)
		scratch[j] += codec->mean_head[j];
	/* from |x / |x|| = 1 and its distance to c */
	round_query(codec, GRN_ESTIMATE_PLACES, (1 + codec->mean_norm2 - norm2) / 2, scratch, out);
	out->place = grn_place_norm(length);
}

void
grn_code_query_from_code(const GrnCodec *codec, const uint8_t *code, GrnFactor factor,
						 GrnCodeQuery *out)
{
	uint32_t	half = codec->code_dims / 2;
	float		alpha = grn_f16_to_f32(factor.alpha);
	float		v[GRN_MAX_CODE_DIMS];
	float		base = codec->mean_norm2;

	/* Decoded values are odd multiples of alpha / 2: 8 bits hold them exactly. */
	for (uint32_t j = 0; j < half; j++)
	{
		out->q8[j] = (int8_t) (2 * (code[j] & 15) - 15);
		out->q8[half + j] = (int8_t) (2 * (code[j] >> 4) - 15);
	}
	if (codec->kind == GRN_CODES_ROWS)
	{
		set_query(codec, GRN_ESTIMATE_L2, grn_f16_to_f32(factor.norm2) * codec->norm_unit,
				  alpha * sqrtf(codec->norm_unit) / 2, out);
		return;
	}
	for (uint32_t j = 0; j < codec->code_dims; j++)
	{
		float		u = alpha / 2 * (float) out->q8[j];

		base += codec->mean_head[j] * u;
		v[j] = u + codec->mean_head[j];
	}
	round_query(codec, GRN_ESTIMATE_PLACES, base, v, out);
	out->place = grn_place_norm(grn_f16_to_f32(factor.norm2));
}

/* Of count codes, at most GRN_CODE_ALIGN, whose dots are known. */
static void
estimate_some(const GrnCodeQuery *q, const int32_t *dot, const GrnFactor *factors,
			  uint32_t count, float *out)
{
	GrnEstimate e = {q->base, q->norm_unit, 2 * q->scale * q->alpha_unit,
		GRN_CODE_MIDDLE * (float) q->sum};
	/* what grn_dist->estimate() makes of it are the factors' lengths */
	GrnEstimate only_length = {0, q->what == GRN_ESTIMATE_IP ? q->norm_unit : 1, 0, 0};
	float		lengths[GRN_CODE_ALIGN];

	if (q->what == GRN_ESTIMATE_L2)
	{
		grn_dist->estimate(&e, dot, factors, count, out);
		return;
	}
	/* the products with directions, negative */
	e.base = -q->base;
	e.norm_unit = 0;
	e.slope = q->scale;
	grn_dist->estimate(&e, dot, factors, count, out);
	grn_dist->estimate(&only_length, dot, factors, count, lengths);
	if (q->what == GRN_ESTIMATE_IP)
		for (uint32_t i = 0; i < count; i++)
			out[i] *= lengths[i];
	else
		for (uint32_t i = 0; i < count; i++)
		{
			float		place = grn_place_norm(lengths[i]);
			float		d = q->place * q->place + place * place +
				2 * q->place * place * out[i];

			out[i] = d > 0 ? d : 0;
		}
}

void
grn_estimate(const GrnCodeQuery *q, const uint8_t *codes, const GrnFactor *factors,
			 uint32_t count, float *out)
{
	enum
	{
		PIECE = GRN_CODE_ALIGN
	};
	size_t		code_bytes = grn_code_bytes(q->code_dims);

	for (uint32_t i = 0; i < count; i += PIECE)
	{
		int32_t		dot[PIECE];
		uint32_t	n = count - i < PIECE ? count - i : PIECE;

		grn_dist->dot_q8c4(q->q8, codes + i * code_bytes, code_bytes, q->code_dims, n, dot);
		estimate_some(q, dot, factors + i, n, out + i);
	}
}

/* Pairs below which a vertex says nothing. */
#define LEAST_PAIRS 10

void
grn_count_order(const float *distances, const float *estimates, uint32_t n, GrnOrder *order)
{
	uint32_t	pairs = 0;
	uint32_t	right = 0;

	for (uint32_t i = 0; i < n; i++)
		for (uint32_t j = 0; j < i; j++)
			if (distances[i] != distances[j])
			{
				pairs++;
				/* equal estimates tell nothing */
				right += distances[i] < distances[j] ? estimates[i] < estimates[j]
					: estimates[i] > estimates[j];
			}
	if (pairs < LEAST_PAIRS)
		return;
	order->vertices++;
	order->poor += right < GRN_LEAST_ORDERED * pairs;
}
