/*
 * unit.h - what the unit tests share: checks, random numbers, memory that ends
 * at a page nobody may touch, and a parallel-for without threads.
 *
 * A test is a function; RUN(f) prints "ok f" or "not ok f".
 */
#ifndef UNIT_H
#define UNIT_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "space/grn.h"
#include "store/codec.h"

static int	unit_failures_here;
static int	unit_failed_tests;

#define CHECK(cond, ...) \
	do { \
		if (!(cond)) \
		{ \
			if (unit_failures_here++ < 5) \
			{ \
				printf("# %s:%d: %s: ", __FILE__, __LINE__, #cond); \
				printf(__VA_ARGS__); \
				printf("\n"); \
			} \
		} \
	} while (0)

#define RUN(f) \
	do { \
		unit_failures_here = 0; \
		f(); \
		printf("%s %s\n", unit_failures_here ? "not ok" : "ok", #f); \
		fflush(stdout); \
		unit_failed_tests += unit_failures_here > 0; \
	} while (0)

#define UNIT_END() return unit_failed_tests > 0

/* Nothing is left out to save time: make check-all. */
static inline bool
unit_all(void)
{
	const char *all = getenv("GRNND_ALL");

	return all && *all;
}

static uint64_t unit_counter;

static inline uint64_t
unit_random(void)
{
	return grn_random(20261121, 1, unit_counter++);
}

static inline uint32_t
unit_below(uint32_t n)
{
	return (uint32_t) (unit_random() % n);
}

/* Uniform in [0, 1). */
static inline float
unit_uniform(void)
{
	return (float) (unit_random() >> 40) / 16777216.0f;
}

/* Standard normal. */
static inline float
unit_normal(void)
{
	double		u = ((double) (unit_random() >> 11) + 0.5) / 9007199254740992.0;

	return (float) (sqrt(-2 * log(u)) * cos(6.283185307179586 * unit_uniform()));
}

/*
 * bytes of memory that end where a page without access begins: reading past the
 * end dies, also in vector instructions that the sanitizer does not see.
 */
static inline void *
unit_guarded(size_t bytes)
{
	size_t		page = (size_t) sysconf(_SC_PAGESIZE);
	size_t		pages = (bytes + page - 1) / page;
	uint8_t    *p = mmap(NULL, (pages + 1) * page, PROT_READ | PROT_WRITE,
						 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || mprotect(p + pages * page, page, PROT_NONE) != 0)
	{
		perror("guarded memory");
		exit(2);
	}
	return p + pages * page - bytes;
}

static inline void
unit_guarded_free(void *p, size_t bytes)
{
	size_t		page = (size_t) sysconf(_SC_PAGESIZE);
	size_t		pages = (bytes + page - 1) / page;

	munmap((uint8_t *) p + bytes - pages * page, (pages + 1) * page);
}

/* Hands pieces out backwards, and cuts them as if there were several threads. */
static inline void
unit_run(GrnParallel *self, size_t n, size_t grain, GrnRangeFn fn, void *arg)
{
	size_t		piece = self->nworkers > 1 ? (grain + 1) / 2 : grain;
	size_t		pieces = (n + piece - 1) / piece;

	for (size_t i = pieces; i-- > 0;)
		fn(arg, (int) (i % (size_t) self->nworkers), i * piece,
		   (i + 1) * piece < n ? (i + 1) * piece : n);
}

/* A codec with mean 0 and random directions: one row says nothing of others. */
static inline GrnCodec
unit_random_codec(uint32_t dim, uint32_t code_dims, float norm_unit, uint64_t seed, float *model)
{
	GrnParallel parallel = {1, unit_run};
	float	   *row = calloc(dim, sizeof(float));
	GrnCodecFit fit = {.rows = row, .nrows = 1, .stride = dim, .dim = dim,
		.max_code_dims = code_dims, .energy = 1, .seed = seed};
	void	   *workspace = malloc(grn_codec_fit_bytes(&fit));
	float		held;
	GrnCodec	codec = grn_codec_fit(&fit, &parallel, model, workspace, &held);

	/* as of rows of this variance */
	for (int b = 0; b < GRN_CODE_BLOCKS; b++)
		codec.steps[b] *= sqrtf(norm_unit / codec.norm_unit);
	codec.norm_unit = norm_unit;
	grn_codec_set_metric(&codec, grn_metric(GRN_L2), norm_unit);
	free(workspace);
	free(row);
	return codec;
}

#endif							/* UNIT_H */
