/*
 * test_prune.c - the RNG rule for single nodes: against a plain statement of it,
 * by vectors and by codes, and the neighbor to evict from a full list.
 */
#include "store/prune.h"

#include <math.h>

#include "unit.h"

#define DIM 8
#define MOST_N 80

static float rows[MOST_N][DIM];
static float owner[DIM];
static float dist[MOST_N];

static float
l2(const float *a, const float *b)
{
	return grn_dist->l2_f32(a, b, DIM);
}

static void
random_rows(uint32_t n)
{
	for (uint32_t j = 0; j < DIM; j++)
		owner[j] = (float) unit_below(1000) / 1000;
	for (uint32_t i = 0; i < n; i++)
	{
		for (uint32_t j = 0; j < DIM; j++)
			rows[i][j] = (float) unit_below(1000) / 1000;
		/* a few equal rows */
		if (i > 3 && unit_below(10) == 0)
			memcpy(rows[i], rows[unit_below(i)], sizeof(rows[i]));
		dist[i] = l2(owner, rows[i]);
	}
}

/* Does some kept neighbor stand between the owner and c? */
static bool
occluded(uint32_t c, const uint32_t *keep, uint32_t nkeep, uint32_t nfixed)
{
	for (uint32_t a = 0; a < nfixed; a++)
		if (dist[a] <= dist[c] && l2(rows[a], rows[c]) < dist[c])
			return true;
	for (uint32_t k = 0; k < nkeep; k++)
		if (keep[k] != c && dist[keep[k]] <= dist[c] &&
			l2(rows[keep[k]], rows[c]) < dist[c])
			return true;
	return false;
}

static void
prune_by_rows(void)
{
	for (int round = 0; round < 300; round++)
	{
		uint32_t	n = 1 + unit_below(MOST_N);
		uint32_t	keep[MOST_N];
		uint32_t	again[MOST_N];
		uint32_t	at[MOST_N];
		float		elsewhere[MOST_N][DIM];
		GrnPrune	p = {
			.rows = rows[0], .stride = DIM, .dim = DIM, .form = GRN_FORM_FLOATS, .dist = dist,
			.n = n, .nfixed = unit_below(n < 10 ? n : 10),
			.most = 1 + unit_below(40)
		};
		void	   *workspace = malloc(grn_prune_bytes(n));
		uint32_t	nkeep;

		random_rows(n);
		nkeep = grn_prune(&p, keep, workspace);
		CHECK(nkeep + p.nfixed <= p.most || nkeep == 0, "%u of %u", nkeep, p.most);
		for (uint32_t k = 0; k < nkeep; k++)
		{
			CHECK(keep[k] >= p.nfixed && keep[k] < n, "%u", keep[k]);
			CHECK(k == 0 || dist[keep[k - 1]] <= dist[keep[k]], "order at %u", k);
			/* only by those before it, as the rule goes from near to far */
			CHECK(!occluded(keep[k], keep, k, p.nfixed), "%u is occluded", keep[k]);
		}
		/* with room left, all others are */
		if (nkeep + p.nfixed < p.most)
			for (uint32_t c = p.nfixed; c < n; c++)
			{
				bool		kept = false;

				for (uint32_t k = 0; k < nkeep; k++)
					kept |= keep[k] == c;
				CHECK(kept || occluded(c, keep, nkeep, p.nfixed), "%u left out", c);
			}
		/* the same rows, wherever they are */
		for (uint32_t i = 0; i < n; i++)
		{
			at[i] = n - 1 - i;
			memcpy(elsewhere[at[i]], rows[i], sizeof(rows[i]));
		}
		p.rows = elsewhere[0];
		p.at = at;
		CHECK(grn_prune(&p, again, workspace) == nkeep &&
			  memcmp(again, keep, nkeep * sizeof(uint32_t)) == 0, "others by their places");
		free(workspace);
	}
}

static void
prune_fill(void)
{
	uint32_t	keep[MOST_N];
	GrnPrune	p = {
		.rows = rows[0], .stride = DIM, .dim = DIM, .form = GRN_FORM_FLOATS, .dist = dist, .n = MOST_N, .most = 40
	};
	void	   *workspace = malloc(grn_prune_bytes(MOST_N));
	uint32_t	by_rule;
	uint32_t	filled;

	random_rows(MOST_N);
	by_rule = grn_prune(&p, keep, workspace);
	p.fill = by_rule + 7;
	filled = grn_prune(&p, keep, workspace);
	CHECK(by_rule < 30, "%u by the rule", by_rule);
	CHECK(filled == by_rule + 7, "%u, by the rule %u", filled, by_rule);
	for (uint32_t i = 0; i < filled; i++)
		CHECK(grn_find_id(keep, i, keep[i]) < 0, "%u twice", keep[i]);
	free(workspace);
}

/* Codes are estimates: nearly the same choice as by vectors. */
/* Refused candidates fill the list by other numbers than distances. */
static void
prune_fill_wanted(void)
{
	float		wanted[MOST_N];
	uint32_t	keep[MOST_N];
	bool		kept[MOST_N] = {false};
	GrnPrune	p = {.rows = rows[0], .stride = DIM, .dim = DIM, .form = GRN_FORM_FLOATS, .dist = dist,
		.n = MOST_N, .most = MOST_N};
	void	   *workspace = malloc(grn_prune_bytes(MOST_N));
	uint32_t	by_rule;
	float		last = 0;

	random_rows(MOST_N);
	for (uint32_t i = 0; i < MOST_N; i++)
		wanted[i] = (float) (i * 37 % MOST_N);
	by_rule = grn_prune(&p, keep, workspace);
	p.fill = by_rule + 7;
	p.wanted = wanted;
	CHECK(grn_prune(&p, keep, workspace) == by_rule + 7, "%u by the rule", by_rule);
	for (uint32_t k = 0; k < by_rule + 7; k++)
	{
		kept[keep[k]] = true;
		last = k >= by_rule && wanted[keep[k]] > last ? wanted[keep[k]] : last;
	}
	for (uint32_t c = 0; c < MOST_N; c++)
		CHECK(kept[c] || wanted[c] > last, "%u left out", c);
	free(workspace);
}

static void
prune_by_codes(void)
{
	float		room[DIM * (1 + 32)];
	float		scratch[32];
	GrnCodec	codec = unit_random_codec(DIM, 32, DIM, 7, room);
	uint8_t		codes[MOST_N * 16];
	GrnFactor	factors[MOST_N];
	void	   *workspace = malloc(grn_prune_bytes(MOST_N));
	uint32_t	same = 0;
	uint32_t	all = 0;

	for (int round = 0; round < 100; round++)
	{
		uint32_t	keep[MOST_N];
		uint32_t	other[MOST_N];
		GrnPrune	p = {
			.rows = rows[0], .stride = DIM, .dim = DIM, .form = GRN_FORM_FLOATS, .dist = dist, .n = MOST_N, .most = 40
		};
		uint32_t	nkeep;
		uint32_t	nother;

		random_rows(MOST_N);
		for (uint32_t i = 0; i < MOST_N; i++)
			grn_encode(&codec, rows[i], codes + i * 16, &factors[i], scratch);
		nkeep = grn_prune(&p, keep, workspace);
		p.codec = &codec;
		p.codes = codes;
		p.factors = factors;
		nother = grn_prune(&p, other, workspace);
		for (uint32_t i = 0; i < nother; i++)
			same += grn_find_id(keep, nkeep, other[i]) >= 0;
		all += nkeep > nother ? nkeep : nother;
	}
	CHECK(same > all * 0.75, "%u of %u the same", same, all);
	free(workspace);
}

/* Whether x may replace neighbor i: by distance, and by product if lists are filled by products. */
static bool
may_replace(const GrnEvict *e, bool occluded, int i)
{
	return e->to_v[i] != INFINITY && e->to_v[i] > (occluded ? OCCLUDED_NEAREST : 1) * e->x_to_v &&
		(e->wanted == NULL || e->wanted[i] > e->x_wanted);
}

/* Compares two neighbors by row `row` of the table in prune.h: 1 if a is better, -1 if b is. */
static int
compare_by(int row, const GrnEvict *e, bool occluded, int a, int b)
{
	bool		farther[2] = {may_replace(e, occluded, a), may_replace(e, occluded, b)};

	if (row > 0 && !farther[0])
		return a - b;
	switch (row)
	{
		case 0:
			return farther[0] - farther[1];
		case 1:
			return e->reached[a] - e->reached[b];
		case 2:
			return (e->to_x[a] < e->to_v[a]) - (e->to_x[b] < e->to_v[b]);
		case 3:
			return e->one_way[a] - e->one_way[b];
		default:
			return (e->to_v[a] * e->to_x[b] > e->to_v[b] * e->to_x[a]) -
				(e->to_v[a] * e->to_x[b] < e->to_v[b] * e->to_x[a]);
	}
}

/* grn_evict() against its table: every neighbor is compared with the answer. */
static void
evict(void)
{
	uint32_t	taken[3] = {0};
	uint32_t	refused = 0;
	uint32_t	replaced = 0;	/* by an occluded x with a larger product */
	uint32_t	decided[5] = {0};

	for (int round = 0; round < 6000; round++)
	{
		float		to_v[12];
		float		to_x[12];
		float		wanted[12];
		bool		reached[12];
		bool		one_way[12];
		GrnEvict	e = {.level = round % 3, .count = 12, .to_v = to_v, .to_x = to_x,
			.reached = reached, .one_way = one_way, .x_to_v = (float) unit_below(8), .slack = 0.08f,
			.may_add = unit_below(3) == 0, .wanted = unit_below(2) ? wanted : NULL, .x_wanted = 6};
		bool		occluded = false;
		int			position;

		for (uint32_t i = 0; i < 12; i++)
		{
			bool		known = unit_below(5) > 0;

			to_v[i] = known ? 1 + (float) unit_below(12) : INFINITY;
			to_x[i] = known ? 1 + (float) unit_below(16) : INFINITY;
			reached[i] = unit_below(3) == 0;
			one_way[i] = known && unit_below(3) == 0;
			wanted[i] = known ? (float) unit_below(12) : INFINITY;
			if (to_v[i] < e.x_to_v && to_x[i] < e.x_to_v * (1 - e.slack))
				occluded = e.level == GRN_EVICT_UNOCCLUDED;
		}
		position = grn_evict(&e);
		CHECK(position >= -1 && position < 12, "%d", position);
		if (occluded && e.wanted == NULL)
		{
			refused++;
			CHECK(position < 0, "x is occluded, %d", position);
			continue;
		}
		taken[e.level] += position >= 0;
		if (position >= 0)
		{
			replaced += occluded;
			CHECK(e.level == GRN_EVICT_ANY || may_replace(&e, occluded, position),
				  "%g, x at %g", to_v[position], e.x_to_v);
			CHECK(reached[position] || e.may_add, "a neighbor is lost");
		}
		for (int i = 0; i < 12; i++)
		{
			int			order = 0;
			int			row = 0;

			if (i == position || (!reached[i] && !e.may_add) ||
				(e.level != GRN_EVICT_ANY && !may_replace(&e, occluded, i)))
				continue;
			CHECK(position >= 0, "%d was possible", i);
			if (position < 0)
				continue;
			while (order == 0 && row < 5)
				order = compare_by(row++, &e, occluded, position, i);
			CHECK(order >= 0, "round %d: %d is better than %d by row %d", round, i, position, row - 1);
			decided[row - 1]++;
		}
	}
	CHECK(taken[0] > 100 && taken[1] > 100 && taken[2] > 100 && refused > 100 && replaced > 100,
		  "%u, %u, %u, %u, %u", taken[0], taken[1], taken[2], refused, replaced);
	for (int row = 0; row < 5; row++)
		CHECK(decided[row] > 100, "row %d decides %u times", row, decided[row]);
}

int
main(void)
{
	grn_dist_init();
	RUN(prune_by_rows);
	RUN(prune_fill);
	RUN(prune_fill_wanted);
	RUN(prune_by_codes);
	RUN(evict);
	UNIT_END();
}
