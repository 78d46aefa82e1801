/*
 * test_paper.c - the order of pairs that the paper's kernels follow (cuda/paper/pair_order.h), and
 * the reference of the paper's pseudo code that they are tested against on a GPU.
 */
#include "unit.h"

#include "paper_reference.h"

static void
pairs_are_numbered(void)
{
	uint32_t	number = 0;

	for (uint32_t i = 1; i < REF_MOST; i++)
		for (uint32_t j = 0; j < i; j++, number++)
		{
			uint32_t	got_i;
			uint32_t	got_j;

			grn_pair_slots(number, &got_i, &got_j);
			CHECK(got_i == i && got_j == j, "pair %u is %u, %u", number, got_i, got_j);
		}
}

/* Each number comes once. */
static void
orders_are_permutations(void)
{
	static uint8_t seen[1 << 13];

	for (uint32_t bits = 1; bits <= 13; bits++)
		for (uint64_t key = 0; key < 50; key++)
		{
			uint32_t	count = 0;

			memset(seen, 0, sizeof(seen));
			for (uint32_t x = 0; x < 1u << bits; x++)
			{
				uint32_t	y = grn_pair_permuted(x, bits, grn_random(1, key, 0), grn_random(1, key, 1));

				CHECK(y < 1u << bits, "%u of %u bits", y, bits);
				count += !seen[y];
				seen[y] = 1;
			}
			CHECK(count == 1u << bits, "%u of %u numbers", count, 1u << bits);
		}
	CHECK(grn_pair_bits(1) == 1 && grn_pair_bits(2) == 1 && grn_pair_bits(3) == 2 &&
		  grn_pair_bits(496) == 9 && grn_pair_bits(8128) == 13, "bits of pairs");
}

/*
 * Over many keys each pair stands anywhere equally often, and of two pairs each comes first
 * in half of the orders; the bounds are six standard deviations wide.
 */
static void
orders_are_random(void)
{
	enum
	{
	BITS = 9, PAIRS = 496, KEYS = 4000, BINS = 16};
	static uint32_t at[1 << BITS];
	static uint32_t bins[PAIRS][BINS];
	static uint32_t first[PAIRS];
	double		share = (double) KEYS / BINS;

	memset(bins, 0, sizeof(bins));
	memset(first, 0, sizeof(first));
	for (uint64_t key = 0; key < KEYS; key++)
	{
		uint32_t	next = 0;

		for (uint32_t x = 0; x < 1u << BITS; x++)
		{
			uint32_t	y = grn_pair_permuted(x, BITS, grn_random(2, key, 0), grn_random(2, key, 1));

			if (y < PAIRS)
				at[y] = next++;
		}
		for (uint32_t p = 0; p < PAIRS; p++)
		{
			bins[p][at[p] * BINS / PAIRS]++;
			first[p] += at[p] < at[(p + 1) % PAIRS];
		}
	}
	for (uint32_t p = 0; p < PAIRS; p++)
	{
		CHECK(fabs(first[p] - KEYS / 2.0) < 6 * sqrt(KEYS / 4.0), "pair %u comes before the next %u times",
			  p, first[p]);
		for (int b = 0; b < BINS; b++)
			CHECK(fabs(bins[p][b] - share) < 6 * sqrt(share), "pair %u in bin %d %u times", p, b, bins[p][b]);
	}
}

/* On a line: 0 at 0, 1 at 10, 2 at 11, 3 at 30. */
static void
reference_redirects(void)
{
	static const float line[] = {0, 10, 11, 30};
	RefPool		pool1[4] = {{.count = 3, .id = {1, 2, 3}}};
	RefPool		pool2[4];
	Ref			ref = {line, 4, 1, 32, 1, 0, 0};

	/* ascending: 1 takes 2 (1 < 11), then 3 (20 < 30) */
	ref_update(&ref, pool1, pool2, 0);
	CHECK(pool2[0].count == 1 && pool2[0].id[0] == 1, "vertex 0 keeps the nearest");
	CHECK(pool2[1].count == 2 && pool2[1].id[0] == 2 && pool2[1].id[1] == 3, "1 gets 2 and 3");
	CHECK(pool2[2].count == 0 && pool2[3].count == 0, "nothing else");
	/* descending: of 3 and 2, 3 goes to 2; then 2 to 1 */
	ref.order = 2;
	ref_update(&ref, pool1, pool2, 0);
	CHECK(pool2[0].count == 1 && pool2[0].id[0] == 1, "vertex 0 keeps the nearest");
	CHECK(pool2[2].count == 1 && pool2[2].id[0] == 3, "2 gets 3");
	CHECK(pool2[1].count == 1 && pool2[1].id[0] == 2, "1 gets 2");
	/* one pair alone: 3 is redirected, 2 stays */
	ref.pairs = 1;
	ref_update(&ref, pool1, pool2, 0);
	CHECK(pool2[0].count == 2, "two are left");
	/* a full pool keeps the nearest */
	ref.r = 2;
	ref.pairs = 0;
	pool2[0].count = 0;
	ref_insert(&ref, 3, 0, &pool2[0]);
	ref_insert(&ref, 2, 0, &pool2[0]);
	ref_insert(&ref, 2, 0, &pool2[0]);
	ref_insert(&ref, 1, 0, &pool2[0]);
	ref_insert(&ref, 3, 0, &pool2[0]);
	CHECK(pool2[0].count == 2 && pool2[0].id[0] == 1 && pool2[0].id[1] == 2, "1 takes the place of 3");
	/* reverse edges of one of three: of the first slot, or of the nearest */
	ref.r = 32;
	pool1[0].id[0] = 3;
	pool1[0].id[2] = 1;
	ref_reverse(&ref, pool1, pool2, 0.3f, false);
	CHECK(pool2[3].count == 1 && pool2[3].id[0] == 0 && pool2[1].count == 0, "3 gets 0");
	ref_reverse(&ref, pool1, pool2, 0.3f, true);
	CHECK(pool2[1].count == 1 && pool2[1].id[0] == 0 && pool2[3].count == 0, "1 gets 0");
}

/*
 * With all pairs and room in the pools, whatever the order: no pair of what a vertex keeps
 * would redirect, and each neighbor is kept or stands in the pool of a nearer one.
 */
static void
reference_keeps_the_rule(void)
{
	enum
	{
	N = 60, D = 4};
	static float rows[N * D];
	static RefPool pool1[N];
	static RefPool pool2[N];

	for (uint32_t i = 0; i < N * D; i++)
		rows[i] = (float) (grn_random(5, 0, i) % 100);
	for (uint32_t v = 0; v < N; v++)
		for (pool1[v].count = 0; pool1[v].count < 20; pool1[v].count++)
			pool1[v].id[pool1[v].count] = (v + 1 + pool1[v].count * (N - 1) / 20) % N;
	for (int order = 0; order < 3; order++)
	{
		Ref			ref = {rows, N, D, REF_MOST, order, 0, 9};

		ref_update(&ref, pool1, pool2, 3);
		for (uint32_t v = 0; v < N; v++)
			for (uint32_t i = 0; i < 20; i++)
			{
				uint32_t	x = pool1[v].id[i];
				bool		kept = false;
				bool		given = false;

				for (uint32_t j = 0; j < pool2[v].count; j++)
					kept |= pool2[v].id[j] == x;
				for (uint32_t k = 0; k < 20; k++)
					for (uint32_t j = 0; j < pool2[pool1[v].id[k]].count; j++)
						given |= pool2[pool1[v].id[k]].id[j] == x && ref_nearer(&ref, v, pool1[v].id[k], x);
				CHECK(kept || given, "order %d: vertex %u lost %u", order, v, x);
			}
		/* the vertex's own, without what others gave it */
		for (uint32_t v = 0; v < N; v++)
		{
			static RefPool alone[N];

			memset(alone, 0, sizeof(alone));
			ref_update_vertex(&ref, v, &pool1[v], alone, 3);
			for (uint32_t i = 0; i < alone[v].count; i++)
				for (uint32_t j = 0; j < i; j++)
				{
					uint32_t	x = alone[v].id[i];
					uint32_t	y = alone[v].id[j];
					double		most = fmax(ref_distance(&ref, v, x), ref_distance(&ref, v, y));

					CHECK(ref_distance(&ref, x, y) >= most, "order %d: vertex %u keeps %u and %u", order, v, x, y);
				}
		}
	}
}

int
main(void)
{
	RUN(pairs_are_numbered);
	RUN(orders_are_permutations);
	RUN(orders_are_random);
	RUN(reference_redirects);
	RUN(reference_keeps_the_rule);
	UNIT_END();
}
