/*
 * codec.c - encoding of rows.
 */
#include "graph/stored/codec_impl.h"

#include <math.h>
#include <string.h>

#include "graph/space.h"

#define CHUNK 256				/* dimensions of x - c at a time */

float
grn_codec_project(const GrnCodec *codec, const float *x, float scale, const float *from, float *u)
{
	const GrnDistTable *d = grn_dist;
	size_t		dim = codec->dim;
	float		norm2 = 0;

	for (uint32_t j = 0; j < codec->code_dims; j++)
		u[j] = 0;
	for (size_t at = 0; at < dim; at += CHUNK)
	{
		float		diff[CHUNK];
		size_t		len = dim - at < CHUNK ? dim - at : CHUNK;

		for (size_t i = 0; i < len; i++)
			diff[i] = from != NULL ? scale * x[at + i] - from[at + i] : scale * x[at + i];
		norm2 += d->ip_f32(diff, diff, len);
		d->ip_rows(diff, codec->basis + at, dim, len, codec->code_dims, u);
	}
	return norm2;
}

float
grn_codec_project_direction(const GrnCodec *codec, const float *x, float *u, float *length)
{
	double		norm = sqrt(grn_norm2(x, codec->dim));

	*length = 0;
	if (norm > GRN_LEAST_NORM)
	{
		/* not 0 in half precision, for that is zero's */
		*length = fmaxf((float) (norm / codec->norm_unit), 1e-7f);
		return grn_codec_project(codec, x, (float) (1 / norm), codec->mean, u);
	}
	memset(u, 0, codec->code_dims * sizeof(float));
	return 0;
}

void
grn_codec_set_kind(GrnCodec *codec, GrnCodeKind kind, float norm_unit)
{
	codec->kind = kind;
	if (kind == GRN_CODES_ROWS)
		return;
	codec->norm_unit = norm_unit;
	if (codec->code_dims == 0)
		return;
	codec->mean_norm2 = grn_codec_project(codec, codec->mean, 1, NULL, codec->mean_head);
}

static inline int
quantise(float u, float inverse)
{
	float		c = u * inverse + (GRN_CODE_MIDDLE + 0.5f); /* truncated below: rounds */

	/* in this order a NaN (of an overflowing row) becomes 0 */
	return c >= GRN_CODE_LEVELS - 1 ? GRN_CODE_LEVELS - 1 : c > 0 ? (int) c : 0;
}

/*
 * Changes single levels by one while that lessens the error that a query of these
 * data sees.  It has the share c along the mean and else about the same in all
 * dimensions: so with errors r_j, sum r_j^2 + weight (sum_j (B c)_j r_j)^2, weight the
 * squared ratio of the two.
 */
static void
balance(const GrnCodec *codec, const float *u, float inverse, int8_t *levels)
{
	const float *bc = codec->mean_head;
	uint32_t	k = codec->code_dims;
	float		weight = (float) k / fmaxf(1 - codec->mean_norm2, 0.05f);
	float		along = 0;

	for (uint32_t j = 0; j < k; j++)
		along += bc[j] * ((float) levels[j] - GRN_CODE_MIDDLE - u[j] * inverse);
	for (uint32_t change = 0; change < k; change++)
	{
		float		best = 0;
		uint32_t	place = 0;
		int			step = 0;

		for (uint32_t j = 0; j < k; j++)
		{
			float		r = (float) levels[j] - GRN_CODE_MIDDLE - u[j] * inverse;
			float		slope = r + weight * along * bc[j];
			float		gain = 2 * fabsf(slope) - 1 - weight * bc[j] * bc[j];

			if (gain > best && levels[j] != (slope > 0 ? 0 : GRN_CODE_LEVELS - 1))
			{
				best = gain;
				place = j;
				step = slope > 0 ? -1 : 1;
			}
		}
		/* rounding must not make it go to and fro */
		if (best < 1e-4f)
			return;
		levels[place] = (int8_t) (levels[place] + step);
		along += bc[place] * (float) step;
	}
}

/* Parts of max |u| that the outermost level stands for, tried in this order. */
static const float scale_parts[] = {0.65f, 0.75f, 0.85f, 0.92f, 1.0f, 1.08f};

void
grn_encode(const GrnCodec *codec, const float *x, uint8_t *code, GrnFactor *factor,
		   float *scratch)
{
	uint32_t	k = codec->code_dims;
	uint32_t	half = k / 2;
	float	   *u = scratch;
	float		length = 0;
	bool		direction = codec->kind == GRN_CODES_DIRECTIONS;
	float		norm2 = direction ? grn_codec_project_direction(codec, x, u, &length)
		: grn_codec_project(codec, x, 1, codec->mean, u);
	float		max = grn_largest(u, k);
	float		alpha = 0;
	float		best = -1;
	float		inverse = 0;
	int8_t		levels[GRN_MAX_CODE_DIMS];

	/* The scale whose code points most nearly along u. */
	if (max > 1e-30f && max < 1e18f)
		for (size_t s = 0; s < sizeof(scale_parts) / sizeof(scale_parts[0]); s++)
		{
			float		inv = GRN_CODE_MIDDLE / (max * scale_parts[s]);
			float		uc;
			float		cc;

			grn_dist->levels(u, k, inv, &uc, &cc);
			/* cosine, without the length of u */
			if (uc / sqrtf(cc) > best)
			{
				best = uc / sqrtf(cc);
				inverse = inv;
				alpha = grn_dist->ip_f32(u, u, k) / uc;
			}
		}
	for (uint32_t j = 0; j < k; j++)
		levels[j] = (int8_t) quantise(u[j], inverse);
	if (direction && best > 0)
	{
		float		uc = 0;

		balance(codec, u, inverse, levels);
		for (uint32_t j = 0; j < k; j++)
			uc += u[j] * ((float) levels[j] - GRN_CODE_MIDDLE);
		alpha = grn_dist->ip_f32(u, u, k) / uc;
	}
	for (uint32_t j = 0; j < half; j++)
		code[j] = (uint8_t) (levels[j] | levels[half + j] << 4);
	factor->norm2 = grn_f32_to_f16(direction ? length : norm2 / codec->norm_unit);
	factor->alpha = grn_f32_to_f16(direction ? alpha : alpha / sqrtf(codec->norm_unit));
}
