/*
 * codec.c - encoding of rows.
 */
#include "store/codec_impl.h"

#include <math.h>
#include <string.h>

#include "space/space.h"

/* Dimensions of x - c per step.  10,000 sentences take the same time with half and twice. */
#define CHUNK 256

float
grn_codec_project(const GrnCodec *codec, const float *x, float scale, const float *from, float *u)
{
	const GrnDistTable *d = grn_dist;
	size_t		dim = codec->dim;
	uint32_t	k = grn_code_dims(codec->shape);
	float		norm2 = 0;

	for (uint32_t j = 0; j < k; j++)
		u[j] = 0;
	for (size_t at = 0; at < dim; at += CHUNK)
	{
		float		diff[CHUNK];
		size_t		len = dim - at < CHUNK ? dim - at : CHUNK;

		for (size_t i = 0; i < len; i++)
			diff[i] = from != NULL ? scale * x[at + i] - from[at + i] : scale * x[at + i];
		norm2 += d->ip_f32(diff, diff, len);
		d->ip_rows(diff, codec->basis + at, dim, len, k, u);
	}
	return norm2;
}

#define SHORT_ONE 32767			/* the integer for 1; sums of products of unit vectors stay below
								 * 2^31 */

void
grn_codec_shorten(const GrnCodec *codec, int16_t *out)
{
	size_t		n = (size_t) grn_code_dims(codec->shape) * codec->dim;

	for (size_t i = 0; i < n; i++)
	{
		/* a basis from a damaged page may hold any number */
		float		b = fminf(fmaxf(codec->basis[i], -1), 1) * SHORT_ONE;

		out[i] = (int16_t) (b + (b < 0 ? -0.5f : 0.5f));
	}
}

/* The squared length of x - from; from NULL: of x. */
static float
centered_norm2(const GrnCodec *codec, const float *x, const float *from)
{
	return from != NULL ? grn_dist->l2_f32(x, from, codec->dim) : grn_dist->ip_f32(x, x, codec->dim);
}

float
grn_codec_project_query(const GrnCodec *codec, const float *q, const float *from, float *u)
{
	size_t		dim = codec->dim;
	uint32_t	k = grn_code_dims(codec->shape);
	float		norm2 = codec->short_basis != NULL ? centered_norm2(codec, q, from) : 0;
	int32_t		sums[GRN_MAX_CODE_DIMS] = {0};
	float		scale;

	/* no short basis, or a length out of range */
	if (!(norm2 > 1e-30f && norm2 < 1e30f))
		return grn_codec_project(codec, q, 1, from, u);
	scale = SHORT_ONE / sqrtf(norm2);
	for (size_t at = 0; at < dim; at += CHUNK)
	{
		int16_t		diff[CHUNK];
		size_t		len = dim - at < CHUNK ? dim - at : CHUNK;

		for (size_t i = 0; i < len; i++)
		{
			float		d = scale * (from != NULL ? q[at + i] - from[at + i] : q[at + i]);

			diff[i] = (int16_t) (d + (d < 0 ? -0.5f : 0.5f));
		}
		grn_dist->ip_rows_i16(diff, codec->short_basis + at, dim, len, k, sums);
	}
	for (uint32_t j = 0; j < k; j++)
		u[j] = (float) sums[j] / (scale * SHORT_ONE);
	return norm2;
}

float
grn_codec_project_direction(const GrnCodec *codec, const float *x, float *u, float *length)
{
	double		norm = sqrt(grn_norm2(x, codec->dim));

	*length = 0;
	if (norm > GRN_LEAST_NORM)
	{
		/* at least the smallest positive length: 0 marks a row of zeroes */
		*length = fmaxf((float) (norm / codec->norm_unit), 1e-30f);
		return grn_codec_project(codec, x, (float) (1 / norm), codec->mean, u);
	}
	memset(u, 0, grn_code_dims(codec->shape) * sizeof(float));
	return 0;
}

/*
 * The mean |u|^2 for which the steps are optimal.  kept: only the part that codes keep.
 */
static float
usual_norm2(const GrnCodec *codec, bool kept)
{
	float		sum = 0;

	GRN_FOR_BLOCKS(codec->shape, b, first, last)
	{
		float		sigma = codec->steps[b] / grn_best_steps[b];

		sum += (float) (last - first) * sigma * sigma * (kept ? 1 - grn_lost_in_bits[b] : 1);
	}
	return sum;
}

/*
 * The largest alpha, in units of the alpha of a row with |levels| = |u| = |x - c|.  alpha is
 * larger if a few large numbers of a row are clipped: 3 times larger if one of 64 numbers holds
 * the whole length.  (A direction lies at most 2 from c.)  Recall and visits are the same with half
 * and twice (6,000 sentences and image patches).
 */
#define LARGEST_ALPHA 8

/* Fills the table of factors that grn_code_query_from_code() uses for codes. */
static void
set_decoded(GrnCodec *codec)
{
	float		most = 0;

	GRN_FOR_BLOCKS(codec->shape, b, first, last)
		most = fmaxf(most, codec->steps[b] * codec->steps[b] * grn_block_middle(b));
	codec->decoded_unit = most / 127;
	GRN_FOR_BLOCKS(codec->shape, b, first, last)
		for (int level = 0; level <= grn_block_top(b); level++)
		codec->decoded[b][level] = (int8_t)
			lrintf(127 * (codec->steps[b] * codec->steps[b] / most) *
				   ((float) level - grn_block_middle(b)));
}

void
grn_codec_set_metric(GrnCodec *codec, const GrnMetricInfo *metric, float norm_unit)
{
	GrnCodeKind kind = metric->codes;

	codec->short_basis = NULL;
	codec->kind = kind;
	if (codec->power == 0)
		codec->power = metric->power;
	codec->own = metric->own_codes;
	codec->own_places = grn_is_scaled(metric->embedding) ? GRN_EXACT_PLACES : GRN_EXACT_L2;
	if (kind != GRN_CODES_ROWS)
		codec->norm_unit = norm_unit;
	codec->length_unit = kind == GRN_CODES_ROWS ? sqrtf(codec->norm_unit) : codec->norm_unit;
	if (grn_code_dims(codec->shape) > 0)
	{
		set_decoded(codec);
		codec->alpha_unit = (kind == GRN_CODES_ROWS ? LARGEST_ALPHA : 2 * LARGEST_ALPHA) /
			((float) GRN_MAX_ALPHA * sqrtf(usual_norm2(codec, false)));
	}
	if (kind == GRN_CODES_ROWS || grn_code_dims(codec->shape) == 0)
		return;
	codec->mean_norm2 = grn_codec_project(codec, codec->mean, 1, NULL, codec->mean_head);
	/* |x / |x| - c|^2 has the mean 1 - |c|^2 */
	codec->error = sqrtf(fmaxf(1 - codec->mean_norm2 - usual_norm2(codec, true), 0) / (float) codec->dim);
}

GrnCodeShape
grn_own_shape(const GrnMetricInfo *metric, GrnForm form, uint32_t dim)
{
	GrnCodeShape shape = GRN_NO_CODES;

	if (metric->own_codes != GRN_ESTIMATE_NONE && grn_may_be_codes(form, dim))
		shape.own = (uint16_t) grn_form_bytes(form, dim);
	return shape;
}

/* The level for u / step, with inverse = 1 / step. */
static inline int
quantize(float u, float inverse, int block)
{
	int			top = grn_block_top(block);
	float		c = u * inverse + (grn_block_middle(block) + 0.5f); /* adding .5 makes the
																	 * truncation below round */

	/* this order of comparisons maps NaN (of an overflowing row) to 0 */
	return c >= (float) top ? top : c > 0 ? (int) c : 0;
}

/*
 * Changes single levels by one while that reduces the expected error of queries.  A query has the
 * component c along the mean, and otherwise about sigma in each dimension of a block, the standard
 * deviation of the rows.  With errors r_j the expected squared error is sum sigma^2 r_j^2 + (sum_j
 * (B c)_j r_j)^2.  scale: the row's scale.
 */
static void
balance_levels(const GrnCodec *codec, const float *u, float scale, int8_t *levels)
{
	const float *bc = codec->mean_head;
	uint32_t	k = grn_code_dims(codec->shape);
	float		error[GRN_MAX_CODE_DIMS];	/* r_j */
	float		along = 0;
	float		least = 0;		/* least useful gain: rounding must not make a level oscillate */

	GRN_FOR_BLOCKS(codec->shape, b, first, last)
	{
		float		step = scale * codec->steps[b];
		float		sigma = codec->steps[b] / grn_best_steps[b];

		least = fmaxf(least, 1e-4f * sigma * sigma * step * step);
		for (uint32_t j = first; j < last; j++)
		{
			error[j] = step * ((float) levels[j] - grn_block_middle(b)) - u[j];
			along += bc[j] * error[j];
		}
	}
	for (uint32_t change = 0; change < k; change++)
	{
		float		best = least;
		float		moved = 0;
		uint32_t	at = k;

		GRN_FOR_BLOCKS(codec->shape, b, first, last)
		{
			float		step = scale * codec->steps[b];
			float		sigma = codec->steps[b] / grn_best_steps[b];
			float		weight = sigma * sigma;
			int8_t		top = (int8_t) grn_block_top(b);

			for (uint32_t j = first; j < last; j++)
			{
				float		slope = weight * error[j] + along * bc[j];
				float		gain = step * (2 * fabsf(slope) -
										   step * (weight + bc[j] * bc[j]));

				if (gain > best && levels[j] != (slope > 0 ? 0 : top))
				{
					best = gain;
					at = j;
					moved = slope > 0 ? -step : step;
				}
			}
		}
		if (at == k)
			return;
		levels[at] = (int8_t) (levels[at] + (moved > 0 ? 1 : -1));
		error[at] += moved;
		along += bc[at] * moved;
	}
}

/* Candidates for a row's scale, in units of the scale where |u| equals usual_norm2(). */
static const float scale_parts[] = {0.7f, 0.85f, 1.0f, 1.2f, 1.45f, 1.8f};

/*
 * The scale at which the vector of levels is most nearly parallel to u; u_j / scale is rounded to
 * steps.  Returns 0 if u is zero or not finite.
 */
static float
best_scale(const GrnCodec *codec, const float *u, float u2)
{
	float		usual = sqrtf(usual_norm2(codec, false));
	float		best = -1;
	float		scale = 0;

	/* outside this range squares of levels or alpha may overflow */
	if (!(u2 > 1e-30f && u2 < 1e36f))
		return 0;
	for (size_t s = 0; s < sizeof(scale_parts) / sizeof(scale_parts[0]); s++)
	{
		float		tried = sqrtf(u2) / usual * scale_parts[s];
		float		ud = 0;
		float		dd = 0;

		GRN_FOR_BLOCKS(codec->shape, b, first, last)
		{
			float		step = codec->steps[b];
			float		uc;
			float		cc;

			grn_dist->levels(u + first, last - first, 1 / (tried * step),
							 (float) grn_block_top(b), &uc, &cc);
			ud += step * uc;
			dd += step * step * cc;
		}
		/* the cosine, except for the constant factor 1 / |u| */
		if (ud / sqrtf(dd) > best)
		{
			best = ud / sqrtf(dd);
			scale = tried;
		}
	}
	return scale;
}

void
grn_encode_head(const GrnCodec *codec, const float *u, float norm2, float length, uint8_t *code,
				GrnFactor *factor)
{
	bool		direction = codec->kind == GRN_CODES_DIRECTIONS;
	float		u2 = grn_dist->ip_f32(u, u, grn_code_dims(codec->shape));
	float		scale = best_scale(codec, u, u2);
	float		ud = 0;
	float		alpha;
	int8_t		levels[GRN_MAX_CODE_DIMS];

	GRN_FOR_BLOCKS(codec->shape, b, first, last)
	{
		float		inverse = scale > 0 ? 1 / (scale * codec->steps[b]) : 0;

		for (uint32_t j = first; j < last; j++)
			levels[j] = (int8_t) quantize(u[j], inverse, b);
	}
	if (direction && scale > 0)
		balance_levels(codec, u, scale, levels);
	memset(code, 0, grn_code_bytes(codec->shape));
	GRN_FOR_BLOCKS(codec->shape, b, first, last)
	{
		uint32_t	bytes = grn_block_bytes(codec->shape, b);

		for (uint32_t j = first; j < last;)
			for (uint32_t i = 0; i < bytes; i++, j++)
			{
				code[i] |= (uint8_t) (levels[j] << (j - first) / bytes * grn_block_bits(b));
				ud += codec->steps[b] * u[j] * ((float) levels[j] - grn_block_middle(b));
			}
		code += bytes;
	}
	alpha = scale > 0 && ud > 0 ? u2 / ud / codec->alpha_unit : 0;
	if (!direction)
	{
		*factor = grn_factor(sqrtf(norm2) / codec->length_unit, 0);
		/* divide by the rounded length, so that length times alpha has alpha's error only */
		length = grn_factor_length(*factor);
		alpha = length > 0 ? alpha / (length * codec->length_unit) : 0;
	}
	*factor = grn_factor(length, alpha);
}

void
grn_encode(const GrnCodec *codec, const float *x, uint8_t *code, GrnFactor *factor,
		   float *scratch)
{
	float	   *u = scratch;
	float		length = 0;
	float		norm2;

	if (grn_codes_exact(codec))
	{
		(void) grn_pack_bits(x, codec->dim, code);
		*factor = (GrnFactor) {0};
		return;
	}
	norm2 = codec->kind == GRN_CODES_DIRECTIONS ? grn_codec_project_direction(codec, x, u, &length)
		: grn_codec_project(codec, x, 1, codec->mean, u);
	grn_encode_head(codec, u, norm2, length, code, factor);
}

float
grn_decode_head(const GrnCodec *codec, const uint8_t *code, GrnFactor factor, float *u)
{
	float		length = codec->length_unit * grn_factor_length(factor);
	float		scale = codec->alpha_unit * (float) grn_factor_alpha(factor);

	if (codec->kind != GRN_CODES_DIRECTIONS)
		scale *= length;
	GRN_FOR_BLOCKS(codec->shape, b, first, last)
	{
		uint32_t	bytes = grn_block_bytes(codec->shape, b);

		grn_dist->unpack(code, bytes, grn_block_bits(b), grn_block_middle(b), scale * codec->steps[b], u + first);
		code += bytes;
	}
	return length;
}

GrnFactor
grn_factor_without(const GrnCodec *codec, GrnFactor factor, float error)
{
	float		length = grn_factor_length(factor);
	float		e = error / codec->length_unit;
	float		without;

	if (!(error > 0) || codec->kind == GRN_CODES_DIRECTIONS || !(length > 0))
		return factor;
	/*
	 * the error is perpendicular to the row, and nearly perpendicular to the row's offset from c
	 */
	without = sqrtf(fmaxf(length * length - e * e, length * length / 16));
	return grn_factor(without, (float) grn_factor_alpha(factor) * length / without);
}
