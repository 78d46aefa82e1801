/*
 * test_prune.c - the RNG rule for single nodes: against a plain statement of it,
 * by vectors and by codes, and who gives way in a full list.
 */
#include "graph/stored/prune.h"

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

/* Does some kept neighbour stand between the owner and c? */
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
			.rows = rows[0], .stride = DIM, .dim = DIM, .dist = dist,
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
		.rows = rows[0], .stride = DIM, .dim = DIM, .dist = dist, .n = MOST_N, .most = 40
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
			.rows = rows[0], .stride = DIM, .dim = DIM, .dist = dist, .n = MOST_N, .most = 40
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

static void
yield(bool codes)
{
	float		room[DIM * (1 + 32)];
	float		scratch[32];
	GrnCodec	codec = unit_random_codec(DIM, codes ? 32 : 0, DIM, 7, room);
	GrnLayout	l;
	GrnRecord  *v;
	GrnCodeQuery query;
	uint32_t	given = 0;
	uint32_t	others = 0;

	CHECK(grn_layout(&l, DIM, 16, codec.shape, GRN_FORM_F32, 8160), "layout");
	v = calloc(1, l.record_bytes);
	for (int round = 0; round < 300; round++)
	{
		uint32_t	x_ids[4];
		GrnYield	y = {
			.layout = &l, .codec = &codec, .v = v, .x = &query,
			.x_ids = x_ids, .x_count = 4
		};
		float		v_to[4];
		int			position;
		int			far;

		/* v is the owner, rows 0..15 its neighbours, row 16 is x */
		random_rows(17);
		v->count = 16;
		if (codes)
		{
			grn_encode(&codec, owner, GRN_REC_PTR(v, l.off_code), &v->factor, scratch);
			grn_code_query(&codec, rows[16], &query, scratch);
		}
		for (uint32_t i = 0; i < 16; i++)
		{
			grn_rec_ids(&l, v)[i] = 100 + i;
			if (codes)
				grn_encode(&codec, rows[i], grn_rec_codes(&l, v) + i * l.code_bytes,
						   &grn_rec_factors(&l, v)[i], scratch);
		}
		for (uint32_t i = 0; i < 4; i++)
			x_ids[i] = 100 + 4 * i + unit_below(4);

		for (uint32_t i = 0; i < 4; i++)
			v_to[i] = dist[x_ids[i] - 100];

		/* among x's neighbours only: the farthest that is farther than x */
		y.v_to = codes ? NULL : v_to;
		y.nknown = 4;
		y.x_to_v = dist[16];
		position = grn_yield(&y);
		CHECK(position < 16, "%d", position);
		if (position >= 0)
		{
			given++;
			CHECK(grn_find_id(x_ids, 4, 100 + (uint32_t) position) >= 0, "not x's neighbour");
			/* estimates: with some slack */
			CHECK(dist[position] * (codes ? 1.5 : 1) + (codes ? 0.1 : 0) > dist[16],
				  "%g, x at %g", dist[position], dist[16]);
		}
		for (uint32_t i = 0; i < 4; i++)
			CHECK(codes || v_to[i] <= dist[16] || (position >= 0 && v_to[i] <= dist[position]),
				  "%g is farther than the one chosen", v_to[i]);
		/* what is far stays, by distance or by position */
		y.keep_far = true;
		far = grn_yield(&y);
		CHECK(codes || far < 12, "%d is among the last", far);
		CHECK(!codes || far < 0 || dist[far] < GRN_FAR * 1.5 * dist[16] + 0.1, "%g, x at %g",
			  dist[far], dist[16]);
		y.keep_far = false;
		/* x's neighbours come before others */
		y.may_add = true;
		CHECK(position < 0 || grn_yield(&y) == position, "%d instead of %d", grn_yield(&y), position);
		y.from = GRN_YIELD_FARTHER;
		CHECK(position < 0 || grn_yield(&y) == position, "%d instead of %d", grn_yield(&y), position);
		if (position < 0 && codes && (position = grn_yield(&y)) >= 0)
		{
			others++;
			CHECK(dist[position] * 1.5 + 0.1 > dist[16], "%g, x at %g", dist[position], dist[16]);
		}
		/* without common neighbours, anyone: the farthest, by distance or by position */
		y.from = GRN_YIELD_ANY;
		for (uint32_t i = 0; i < 4; i++)
			x_ids[i] = 7000 + i;
		position = grn_yield(&y);
		CHECK(codes ? position >= 0 && position < 16 : position == 15, "%d", position);
		for (uint32_t i = 0; codes && i < 16; i++)
			CHECK(dist[i] <= dist[position] * 1.3 + 0.1, "%g is farther than %g",
				  dist[i], dist[position]);
		/* but x has no room */
		y.may_add = false;
		CHECK(grn_yield(&y) == -1, "nobody can");
	}
	CHECK(given > 0, "somebody gives way sometimes");
	CHECK(others > 0 || !codes, "somebody else does, too");
	free(v);
}

/* What grn_exchange() is to do, by its description: every neighbour is compared with the answer. */
static void
exchange(void)
{
	uint32_t	taken = 0;
	uint32_t	refused = 0;
	uint32_t	kinds = 0;

	for (int round = 0; round < 2000; round++)
	{
		float		to_v[12];
		float		to_x[12];
		bool		reached[12];
		bool		one_way[12];
		GrnExchange e = {.count = 12, .to_v = to_v, .to_x = to_x, .reached = reached,
			.one_way = one_way, .x_to_v = 1 + (float) unit_below(8), .slack = 0.08f,
			.may_add = round % 3 == 0};
		bool		hidden = false;
		int			position;

		for (uint32_t i = 0; i < 12; i++)
		{
			bool		known = unit_below(5) > 0;

			to_v[i] = known ? 1 + (float) unit_below(12) : INFINITY;
			to_x[i] = known ? 1 + (float) unit_below(16) : INFINITY;
			reached[i] = unit_below(3) == 0;
			one_way[i] = known && unit_below(3) == 0;
			if (to_v[i] < e.x_to_v && to_x[i] < e.x_to_v * (1 - e.slack))
				hidden = true;
		}
		position = grn_exchange(&e);
		CHECK(position >= -1 && position < 12, "%d", position);
		refused += hidden;
		CHECK(grn_exchange_occludes(&e) == hidden, "round %d", round);
		taken += position >= 0;
		if (position >= 0)
		{
			CHECK(to_v[position] != INFINITY && to_v[position] > e.x_to_v, "%g, x at %g",
				  to_v[position], e.x_to_v);
			CHECK(reached[position] || e.may_add, "what gives way is lost");
		}
		for (int i = 0; i < 12; i++)
		{
			bool		nearer = position >= 0 && to_x[i] < to_v[i];

			if (i == position || to_v[i] == INFINITY || to_v[i] <= e.x_to_v ||
				(!reached[i] && !e.may_add))
				continue;
			CHECK(position >= 0, "%d could give way", i);
			if (position < 0)
				continue;
			if ((to_v[i] > GRN_FAR * e.x_to_v) != (to_v[position] > GRN_FAR * e.x_to_v))
				CHECK(to_v[i] > GRN_FAR * e.x_to_v, "one that leads far stays");
			else if (reached[i] != reached[position])
				CHECK(reached[position], "one that is reached comes first");
			else if (nearer != (to_x[position] < to_v[position]))
				CHECK(!nearer, "then one that x occludes");
			else if (one_way[i] != one_way[position])
				CHECK(one_way[position], "then one without an edge back");
			else
			{
				kinds++;
				CHECK(to_v[i] <= to_v[position], "then the farthest");
			}
		}
	}
	CHECK(taken > 100 && refused > 100 && kinds > 100, "%u, %u, %u", taken, refused, kinds);
}

static void
yield_by_codes(void)
{
	yield(true);
}

static void
yield_without_codes(void)
{
	yield(false);
}

int
main(void)
{
	grn_dist_init();
	RUN(prune_by_rows);
	RUN(prune_fill);
	RUN(prune_by_codes);
	RUN(yield_by_codes);
	RUN(yield_without_codes);
	RUN(exchange);
	UNIT_END();
}
