/*
 * test_sizes.c - what builds ask memory for, at row counts that nobody can allocate: the functions
 * that lay workspaces out run with no workspace, and only count.
 *
 * Of some rows more, each of these sizes grows by a fixed number of bytes a row, so a product that
 * was made in 32 bits, or a sum that wrapped, shows as a size below that of fewer rows.
 */
#include "unit.h"

#include "graph/cut.h"
#include "graph/descent.h"
#include "graph/descent_impl.h"
#include "graph/graph.h"
#include "memory/memory.h"
#include "space/rows.h"
#include "store/prune.h"

#define FEW ((size_t) 1 << 26)

/* Around where 31 and 32 bits end, and far beyond. */
static const size_t counts[] = {
	GRN_MAX_NODES - 1, GRN_MAX_NODES, (size_t) 1 << 32, ((size_t) 1 << 32) + 1, (size_t) 1 << 40
};
#define NCOUNTS (sizeof(counts) / sizeof(counts[0]))

static const uint32_t dims[] = {1, 128, 2000, GRN_MAX_DIM, GRN_MOST_DIMS};
#define NDIMS (sizeof(dims) / sizeof(dims[0]))

typedef size_t (*SizeFn) (size_t n, uint32_t dim);

/* size(n) is, nearly to the byte, what size(FEW) says of that many rows. */
static void
check_grows(const char *name, SizeFn size)
{
	for (size_t d = 0; d < NDIMS; d++)
		for (size_t i = 0; i < NCOUNTS; i++)
		{
			double		few = (double) size(FEW, dims[d]);
			double		slope = ((double) size(2 * FEW, dims[d]) - few) / FEW;
			double		want = few + slope * ((double) counts[i] - FEW);
			double		got = (double) size(counts[i], dims[d]);

			CHECK(slope >= 0 && fabs(got - want) < 1e-5 * want,
				  "%s of %zu rows of %u dimensions: %.0f bytes, %.0f by those of fewer", name,
				  counts[i], dims[d], got, want);
		}
}

static size_t
descent(size_t n, uint32_t dim)
{
	GrnGraphParams params = {.degree = GRN_MAX_DEGREE, .r = UINT32_MAX, .s = UINT32_MAX};

	return grn_rnnd_bytes(&params, n, dim);
}

static size_t
cut(size_t n, uint32_t dim)
{
	return grn_parts_bytes(n, dim, GRN_MAX_PARTS, 1.0F);
}

static size_t
kept(size_t n, uint32_t dim)
{
	(void) dim;
	return grn_parts_kept(n, 1.0F);
}

static size_t
connected(size_t n, uint32_t dim)
{
	(void) dim;
	return grn_reach_bytes(n);
}

static size_t
pivot_order(size_t n, uint32_t dim)
{
	(void) dim;
	return grn_pivot_order_bytes(n);
}

static size_t
rows(size_t n, uint32_t dim)
{
	return n * grn_row_bytes(GRN_FORM_F32, GRN_EMBED_SCALED, dim);
}

/* Members are named by 32 bits, and one name is kept for none. */
static void
members_can_be_named(void)
{
	static const float overlaps[] = {0, 0.3F, 0.9F};	/* no build asks for more by itself */
	const size_t n = GRN_MAX_NODES - 1;

	for (size_t i = 0; i < sizeof(overlaps) / sizeof(overlaps[0]); i++)
	{
		/* besides members, that is what each row has */
		size_t		members = grn_parts_kept(n, overlaps[i]) / sizeof(uint32_t) - 2 * n;

		CHECK(members >= n && members - 3 * GRN_ALIGNMENT <= GRN_INVALID_ID, "%zu members with an overlap of %g",
			  members, (double) overlaps[i]);
	}
}

static void
sizes_grow_with_rows(void)
{
	check_grows("the descent", descent);
	check_grows("cutting into parts", cut);
	check_grows("parts that are kept", kept);
	check_grows("connecting", connected);
	check_grows("the order of positions", pivot_order);
	check_grows("rows", rows);
}

/* A projection is fitted to a sample. */
static void
samples_do_not_grow(void)
{
	for (size_t d = 0; d < NDIMS; d++)
	{
		GrnCodecFit fit = {.dim = dims[d], .max_code_dims = dims[d], .nrows = FEW};
		size_t		few = grn_codec_fit_bytes(&fit);

		for (size_t i = 0; i < NCOUNTS; i++)
		{
			CHECK(grn_project_bytes(counts[i], dims[d]) == grn_project_bytes(FEW, dims[d]),
				  "projection of %zu rows of %u dimensions", counts[i], dims[d]);
			fit.nrows = counts[i];
			CHECK(grn_codec_fit_bytes(&fit) == few, "codec of %zu rows of %u dimensions", counts[i], dims[d]);
		}
		CHECK(few > 2 * sizeof(float) * dims[d] * (size_t) dims[d], "a codec of %u dimensions fits in %zu bytes",
			  dims[d], few);
	}
}

/* No array wraps: what cannot be counted is more than any memory. */
static void
arenas_do_not_wrap(void)
{
	static const size_t large[] = {
		(size_t) 1 << 31, (size_t) 1 << 32, ((size_t) 1 << 33) - 1, ((size_t) 1 << 63) - 1,
		(size_t) 1 << 63, SIZE_MAX - 128, SIZE_MAX - 64, SIZE_MAX - 63, SIZE_MAX
	};

	for (size_t i = 0; i < sizeof(large) / sizeof(large[0]); i++)
		for (size_t j = 0; j < sizeof(large) / sizeof(large[0]); j++)
		{
			GrnArena	a = grn_arena(NULL);
			GrnArena	b = grn_arena(NULL);
			unsigned	__int128 product = (unsigned __int128) large[i] * large[j];
			unsigned	__int128 sum = (unsigned __int128) large[i] + large[j];

			grn_take(&a, large[i], large[j]);
			CHECK((unsigned __int128) grn_arena_bytes(&a) >= product || grn_arena_bytes(&a) == GRN_NO_SIZE,
				  "%zu * %zu: %zu", large[i], large[j], grn_arena_bytes(&a));
			CHECK(product > SIZE_MAX / 2 || grn_arena_bytes(&a) != GRN_NO_SIZE, "%zu * %zu can be counted",
				  large[i], large[j]);
			grn_take(&b, large[i], 1);
			grn_take(&b, 1, large[j]);
			CHECK((unsigned __int128) grn_arena_bytes(&b) >= sum || grn_arena_bytes(&b) == GRN_NO_SIZE,
				  "%zu + %zu: %zu", large[i], large[j], grn_arena_bytes(&b));
			grn_take(&b, 1, 1);
			CHECK(sum < SIZE_MAX - 1024 || grn_arena_bytes(&b) == GRN_NO_SIZE, "%zu + %zu + 1", large[i], large[j]);
		}
	for (size_t i = 0; i < NDIMS; i++)
	{
		CHECK(descent((size_t) 1 << 59, dims[i]) == GRN_NO_SIZE, "a descent of 2^59 rows");
		CHECK(cut((size_t) 1 << 62, dims[i]) == GRN_NO_SIZE, "parts of 2^62 rows");
	}
}

int
main(void)
{
	RUN(sizes_grow_with_rows);
	RUN(members_can_be_named);
	RUN(samples_do_not_grow);
	RUN(arenas_do_not_wrap);
	UNIT_END();
}
