/*
 * prepare.c - the first pass over collected rows: every value finite, the
 * largest norm, the smallest exact format, inner product's scales (space.h).
 */
#include "builder/prepare.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "graph/space.h"

#define GRAIN 1024
/* Norms by powers of two: from GRN_LEAST_NORM to the square root of the largest float. */
#define OCTAVES 256
#define OCTAVE_ONE 128			/* norms from 1/2 to 1 */

typedef struct Prepare
{
	float	   *base;
	size_t		n;
	size_t		stride;
	uint32_t	dim;
	size_t		bad;			/* smallest row with a value not finite, or n */
	uint32_t	max_norm2;		/* bits of a float >= 0, whose order is theirs */
	uint32_t	formats;		/* bit per GrnVecFormat seen */
	uint32_t   *octaves;		/* [OCTAVES] rows by their norm, or NULL */
	double		norm_unit;
} Prepare;

static void
scan_range(void *arg, int worker, size_t begin, size_t end)
{
	Prepare    *p = arg;
	float		most = 0;
	uint32_t	formats = 0;
	uint32_t	bits;
	uint32_t	seen;

	(void) worker;
	for (size_t i = begin; i < end; i++)
	{
		const float *x = p->base + i * p->stride;
		double		norm2;
		float		zero = 0;

		for (uint32_t j = 0; j < p->dim; j++)
			zero += x[j] * 0.0f;	/* NaN where x[j] is not finite */
		if (zero != 0.0f)
		{
			size_t		bad = __atomic_load_n(&p->bad, __ATOMIC_RELAXED);

			while (i < bad &&
				   !__atomic_compare_exchange_n(&p->bad, &bad, i, false,
												__ATOMIC_RELAXED, __ATOMIC_RELAXED))
				;
			return;
		}
		norm2 = grn_norm2(x, p->dim);
		if (p->octaves != NULL && sqrt(norm2) > GRN_LEAST_NORM && norm2 <= FLT_MAX)
		{
			int			exponent;

			(void) frexp(sqrt(norm2), &exponent);
			__atomic_fetch_add(&p->octaves[OCTAVE_ONE + exponent], 1, __ATOMIC_RELAXED);
		}
		/* rounded up, so that no row's norm exceeds the largest */
		if (norm2 > most)
			most = nextafterf((float) norm2, INFINITY);
		if (!(formats & 1u << GRN_VEC_F32))
			formats |= 1u << grn_vec_smallest(x, p->dim);
	}
	__atomic_fetch_or(&p->formats, formats, __ATOMIC_RELAXED);
	memcpy(&bits, &most, sizeof(bits));
	seen = __atomic_load_n(&p->max_norm2, __ATOMIC_RELAXED);
	while (bits > seen &&
		   !__atomic_compare_exchange_n(&p->max_norm2, &seen, bits, false,
										__ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

/* The power of two above the median of all norms but zero; 1 where there is none. */
static double
typical_norm(const uint32_t *octaves)
{
	uint64_t	rows = 0;
	uint64_t	below = 0;
	int			i = 0;

	for (i = 0; i < OCTAVES; i++)
		rows += octaves[i];
	if (rows == 0)
		return 1;
	for (i = 0; 2 * (below + octaves[i]) < rows; i++)
		below += octaves[i];
	return ldexp(1, i - OCTAVE_ONE);
}

static void
scale_range(void *arg, int worker, size_t begin, size_t end)
{
	Prepare    *p = arg;

	(void) worker;
	for (size_t i = begin; i < end; i++)
	{
		float	   *x = p->base + i * p->stride;
		GrnScale	scale = grn_scale(grn_norm2(x, p->dim), p->norm_unit);

		memcpy(x + p->dim, &scale, sizeof(scale));
	}
}

bool
grn_prepare(float *base, size_t n, size_t stride, const GrnMetricInfo *metric, uint32_t dim,
			GrnPool *pool, GrnPrepared *out, GrnFailure *failure)
{
	Prepare		p;
	GrnParallel *parallel = grn_pool_parallel(pool);
	float		max_norm2;
	uint32_t	octaves[OCTAVES] = {0};

	memset(&p, 0, sizeof(p));
	p.base = base;
	p.n = n;
	p.stride = stride;
	p.dim = dim;
	p.bad = n;
	if (metric->embedding == GRN_EMBED_SCALED)
		p.octaves = octaves;
	parallel->run(parallel, n, GRAIN, scan_range, &p);
	if (p.bad < n)
		return grn_fail(failure, "22000", "Vectors must hold finite numbers.",
						"row %zu holds a value that is NaN or infinite", p.bad + 1);
	memcpy(&max_norm2, &p.max_norm2, sizeof(max_norm2));
	if (!isfinite(max_norm2))
		return grn_fail(failure, "22003", "Scale the vectors down.",
						"the squared length of a vector is out of range");
	out->max_norm = sqrtf(max_norm2);
	/* each of these holds what the next one holds: f16 has all integers to 2048 */
	out->vec_format = p.formats & 1u << GRN_VEC_F32 ? GRN_VEC_F32 :
		p.formats & 1u << GRN_VEC_F16 ? GRN_VEC_F16 :
		p.formats & 1u << GRN_VEC_U8 ? GRN_VEC_U8 : GRN_VEC_F32;
	out->norm_unit = 0;
	if (metric->embedding == GRN_EMBED_SCALED)
	{
		p.norm_unit = typical_norm(octaves);
		out->norm_unit = (float) p.norm_unit;
		parallel->run(parallel, n, GRAIN, scale_range, &p);
	}
	return true;
}
