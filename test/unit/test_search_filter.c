/*
 * test_search_filter.c - searches for rows that pass a filter, over records in memory: recall
 * and visits by the share of rows that pass, values and chains, resuming, filters that are
 * opposed to the query, signatures that stand for several values.
 */
#include "search_world.h"

#define SAMPLE 200
#define LITTLE_MEMORY 13000		/* bytes */

typedef struct Label
{
	GrnFilter	base;
	GrnSigSet	set;
	uint16_t	label;
} Label;

static bool
label_passes(const GrnFilter *self, const uint8_t *attrs)
{
	uint16_t	label;

	memcpy(&label, attrs, sizeof(label));
	return label == ((const Label *) self)->label;
}

static Label
filter_of(uint16_t label, uint8_t sig)
{
	Label		f = {.label = label};

	f.base.passes = label_passes;
	f.base.nsets = 1;
	f.set.passes[sig] = true;
	f.set.passes[GRN_SIG_ANY] = true;
	return f;
}

/* Gives the rows labels and signatures: the same records with room for both. */
static void
label_world(World *w, const uint16_t *labels, const uint8_t *sigs)
{
	GrnLayoutSpec spec = {.dim = w->dim, .degree = DEGREE, .shape = w->codec.shape,
		.form = w->layout.form, .attr_bytes = 2, .sig_bytes = 1, .payload = 8160};

	CHECK(grn_layout_of(&w->layout, &spec), "layout");
	free(w->records);
	w->records = calloc(N, w->layout.record_bytes);
	for (uint32_t i = 0; i < N; i++)
	{
		uint8_t		tid[GRN_TID_BYTES] = {0};
		GrnRecordSource src = {.x = world_row(w, i), .tids = tid, .ntids = 1,
			.attrs = (const uint8_t *) &labels[i], .sig = &sigs[i], .all_sigs = sigs,
			.next = GRN_INVALID_ID, .ids = w->graph[i], .count = w->counts[i]};

		memcpy(tid, &i, 4);
		if (w->layout.code_bytes > 0)
		{
			src.code = w->codes + (size_t) i * w->layout.code_bytes;
			src.factor = w->factors[i];
			src.all_codes = w->codes;
			src.all_factors = w->factors;
		}
		grn_record_write(&w->layout, &src, record(w, i));
	}
}

/* Rows whose label is 1: a share of them at random, the same as signature. */
static World *
random_world(double share, bool codes)
{
	World	   *w = make_world(GRN_L2, 24, GRN_FORM_F32, codes);
	uint16_t	labels[N];
	uint8_t		sigs[N];

	for (uint32_t i = 0; i < N; i++)
	{
		labels[i] = (double) (grn_random(1, 2, i) % 1000) < 1000 * share ? 1 : 2;
		sigs[i] = (uint8_t) labels[i];
	}
	label_world(w, labels, sigs);
	return w;
}

static GrnSearch *
begin_filtered(World *w, uint32_t query, uint32_t ef, const Label *f, double share,
			   uint64_t max_visits)
{
	GrnSearchParams p = {.layout = &w->layout, .codec = &w->codec, .metric = grn_metric(w->metric),
		.ef = ef, .resumable = true, .filter = &f->base, .share = share, .max_visits = max_visits};
	GrnSearch  *s = grn_search_begin(&p, &w->store, world_row(w, N + query));
	uint32_t	entry = 0;

	grn_search_entries(s, &entry, w->codes, w->factors, 1);
	for (uint32_t i = 0; i < SAMPLE; i++)
		if (grn_sig_passes(&f->base, GRN_REC_PTR(record(w, i), w->layout.off_sig)))
			grn_search_sample(s, &i, w->codes + (size_t) i * w->layout.code_bytes,
							  w->factors + i, 1);
	return s;
}

static bool
row_passes(World *w, const Label *f, uint32_t id)
{
	return label_passes(&f->base, grn_rec_attrs(&w->layout, record(w, id)));
}

/* Of the K nearest that pass, how many are among the first K found; checks what was found. */
static uint32_t
count_hits(World *w, const GrnSearch *s, uint32_t query, const Label *f, uint32_t n)
{
	const GrnFound *found = grn_search_found(s);
	Near	   *near = malloc(N * sizeof(Near));
	uint32_t	k = 0;
	uint32_t	hits = 0;
	float		bound = INFINITY;
	uint32_t	rows = 0;

	truth(w, query, near);
	for (uint32_t i = 0; i < N && k < K; i++)
		if (row_passes(w, f, near[i].id) && ++k == K)
			bound = near[i].distance;
	for (uint32_t i = 0; i < n; i++)
	{
		CHECK(i == 0 || found[i - 1].distance <= found[i].distance, "order at %u", i);
		if (found[i].ntids == 0)
			continue;
		CHECK(row_passes(w, f, found[i].id), "node %u does not pass", found[i].id);
		CHECK(memcmp(grn_search_tids(s) + (size_t) found[i].tids * GRN_TID_BYTES,
					 &found[i].id, 4) == 0, "TID of %u", found[i].id);
		hits += rows++ < K && found[i].distance <= bound * (1 + 1e-5f);
	}
	free(near);
	return hits;
}

static void
recall_by_share(void)
{
	static const double shares[] = {1, 0.5, 0.1, 0.03};
	static const double most[] = {50, 72, 160, 330};	/* visits */

	for (int i = 0; i < 4; i++)
		for (int codes = 0; codes < 2; codes++)
		{
			World	   *w = random_world(shares[i], codes);
			Label		f = filter_of(1, 1);
			uint32_t	hits = 0;
			double		visits = 0;

			f.base.sets = &f.set;
			for (uint32_t q = 0; q < QUERIES; q++)
			{
				/* without codes a filter only keeps rows out, so the list is to be long */
				uint32_t	ef = codes ? 40 : (uint32_t) (40 / shares[i]);
				GrnSearch  *s = begin_filtered(w, q, ef, &f, shares[i], 0);
				uint32_t	n = grn_search_run(s);

				hits += count_hits(w, s, q, &f, n);
				visits += (double) grn_search_visits(s) / QUERIES;
				grn_search_end(s);
			}
			CHECK(hits >= 0.96 * K * QUERIES, "share %g codes %d: %u", shares[i], codes, hits);
			CHECK(!codes || visits <= most[i], "share %g: %.1f visits", shares[i], visits);
			CHECK(w->blocks == 0, "%zu blocks left", w->blocks);
			free_world(w);
		}
}

/* Batches are disjoint, hold rows that pass alone, and nearly all of these. */
static void
resumed_filtered_searches(void)
{
	World	   *w = random_world(0.1, true);
	Label		f = filter_of(1, 1);

	f.base.sets = &f.set;
	for (uint32_t q = 0; q < 5; q++)
	{
		GrnSearch  *s = begin_filtered(w, q, 20, &f, 0.1, 0);
		uint8_t		seen[N] = {0};
		uint32_t	all = 0;
		uint32_t	pass = 0;
		uint32_t	n;

		memset(w->visited, 0, sizeof(w->visited));
		while ((n = grn_search_run(s)) > 0)
			for (uint32_t i = 0; i < n; i++)
			{
				uint32_t	id = grn_search_found(s)[i].id;

				CHECK(!seen[id] && row_passes(w, &f, id), "node %u", id);
				seen[id] = 1;
				all++;
			}
		for (uint32_t i = 0; i < N; i++)
		{
			pass += row_passes(w, &f, i);
			CHECK(w->visited[i] <= 1, "node %u was visited %u times", i, w->visited[i]);
		}
		CHECK(all >= 0.95 * pass, "%u of %u", all, pass);
		grn_search_end(s);
	}
	free_world(w);
}

/* A record's own TIDs are found by their values; its chain is left to those who read it. */
static void
values_decide(void)
{
	World	   *w = random_world(1, true);
	GrnRecord  *rec = record(w, 7);
	uint8_t    *attrs = grn_rec_attrs(&w->layout, rec);
	uint8_t    *tids = GRN_REC_PTR(rec, w->layout.off_tids);
	uint16_t	label = 9;

	/* TIDs 7 and 77, of which the first has another label */
	memcpy(world_row(w, N), world_row(w, 7), w->dim * sizeof(float));
	rec->ntids = 2;
	memcpy(tids + GRN_TID_BYTES, tids, GRN_TID_BYTES);
	tids[GRN_TID_BYTES] = 77;
	memcpy(attrs + 2, attrs, 2);
	memcpy(attrs, &label, 2);
	for (int chained = 0; chained < 2; chained++)
		for (int any = 0; any < 2; any++)
		{
			Label		f = filter_of(1, 1);
			GrnSearch  *s;
			const GrnFound *found;

			f.base.sets = &f.set;
			rec->next = chained ? 8 : GRN_INVALID_ID;
			*GRN_REC_PTR(rec, w->layout.off_sig) = any ? GRN_SIG_ANY : 1;
			s = begin_filtered(w, 0, 20, &f, 1, 0);
			CHECK(grn_search_run(s) > 0, "nothing");
			found = grn_search_found(s);
			CHECK(found->id == 7 && found->ntids == 1 && found->next == rec->next, "%u: %u TIDs",
				  found->id, found->ntids);
			CHECK(grn_search_tids(s)[(size_t) found->tids * GRN_TID_BYTES] == 77, "TID");
			grn_search_end(s);

			/* none of its own; of the chain the signature has to say whether there may be */
			f = filter_of(3, 3);
			f.base.sets = &f.set;
			if (any)
				f.set.passes[1] = f.set.passes[2] = true;
			s = begin_filtered(w, 0, 20, &f, 1, 0);
			if (grn_search_run(s) > 0)
			{
				found = grn_search_found(s);
				CHECK(chained && any && found->id == 7 && found->ntids == 0 && found->next == 8,
					  "%u is found", found->id);
			}
			else
				CHECK(!chained || !any, "the chain's node is not found");
			grn_search_end(s);
		}
	free_world(w);
}

/*
 * The rows that pass are the farthest from the query: the search gives the nodes around the query
 * up, says so, and still finds rows.  A limit of visits ends it.
 */
static void
opposed(void)
{
	for (int shared = 0; shared < 2; shared++)
	{
		World	   *w = make_world(GRN_L2, 24, GRN_FORM_F32, true);
		Near	   *near = malloc(N * sizeof(Near));
		uint16_t	labels[N];
		uint8_t		sigs[N];
		Label		f = filter_of(1, 1);
		GrnSearch  *s;
		uint32_t	n;

		f.base.sets = &f.set;
		truth(w, 0, near);
		for (uint32_t i = 0; i < N; i++)
		{
			uint32_t	id = near[i].id;

			/* the nearest third may have the signature, too */
			labels[id] = i >= N * 9 / 10 ? 1 : 2;
			sigs[id] = i >= N * 9 / 10 || (shared && i < N / 3) ? 1 : 2;
		}
		label_world(w, labels, sigs);
		s = begin_filtered(w, 0, 20, &f, 0.1, 0);
		n = grn_search_run(s);
		count_hits(w, s, 0, &f, n);
		CHECK(n >= 20, "%u found", n);
		CHECK(grn_search_dry(s), "not dry");
		CHECK(shared || grn_search_visits(s) < 200, "%u visits", (unsigned) grn_search_visits(s));
		grn_search_end(s);

		s = begin_filtered(w, 0, 20, &f, 0.1, 10);
		grn_search_run(s);
		CHECK(grn_search_truncated(s) && grn_search_visits(s) == 10, "no end");
		CHECK(grn_search_run(s) == 0, "it goes on");
		grn_search_end(s);
		free(near);
		free_world(w);
	}
}

/* A closed search visits what it was offered, nearest first, and nothing else. */
static void
closed(void)
{
	World	   *w = random_world(0.5, true);
	Label		f = filter_of(1, 1);
	uint32_t	ids[N / 3];
	uint8_t    *codes = malloc(N * 16);
	GrnFactor	factors[N / 3];
	bool		wanted[N / 3];
	uint32_t	hits = 0;

	f.base.sets = &f.set;
	for (uint32_t i = 0; i < N / 3; i++)
	{
		ids[i] = 3 * i;
		factors[i] = w->factors[3 * i];
		memcpy(codes + i * w->layout.code_bytes, w->codes + 3 * i * w->layout.code_bytes,
			   w->layout.code_bytes);
	}
	for (uint32_t q = 0; q < QUERIES; q++)
	{
		GrnSearchParams p = {.layout = &w->layout, .codec = &w->codec, .ef = 20,
			.metric = grn_metric(w->metric), .resumable = true, .closed = true,
			.filter = q % 2 == 0 ? &f.base : NULL, .share = 0.5};
		GrnSearch  *s = grn_search_begin(&p, &w->store, world_row(w, N + q));
		Near	   *near = malloc(N * sizeof(Near));
		uint32_t	all = 0;
		uint32_t	passing = 0;
		uint32_t	n;

		/* twice is once */
		for (uint32_t k = 0; k < 10; k++)
		{
			for (uint32_t i = 0; i < N / 3; i++)
				wanted[i] = (i + k) % 2 == 0;
			/* or all, in pieces of all lengths */
			for (uint32_t at = 0, count = 1; q % 3 == 0 && k == 0 && at < N / 3; at += count++)
				grn_search_listed(s, ids + at, codes + at * w->layout.code_bytes, factors + at, NULL,
								  count < N / 3 - at ? count : N / 3 - at);
			if (q % 3 != 0)
				grn_search_listed(s, ids, codes, factors, wanted, N / 3);
		}
		truth(w, q, near);
		while ((n = grn_search_run(s)) > 0)
		{
			const GrnFound *found = grn_search_found(s);

			for (uint32_t i = 0, k = 0; all == 0 && k < 10; i++)
				if (near[i].id % 3 == 0 && (p.filter == NULL || row_passes(w, &f, near[i].id)))
				{
					hits += found[k].distance <= near[i].distance * (1 + 1e-5f);
					k++;
				}
			for (uint32_t i = 0; i < n; i++)
				CHECK(found[i].id % 3 == 0, "node %u", found[i].id);
			all += n;
		}
		for (uint32_t i = 0; i < N; i += 3)
			passing += p.filter == NULL || row_passes(w, &f, i);
		CHECK(all == passing && grn_search_visits(s) == N / 3, "%u of %u, %u visits", all, passing,
			  (unsigned) grn_search_visits(s));
		free(near);
		grn_search_end(s);
	}
	CHECK(hits >= 0.97 * 10 * QUERIES, "%u", hits);
	free(codes);
	free_world(w);
}

/* A closed search visits each row once, whatever the estimates: equal, infinite, no numbers. */
static void
closed_by_any_estimates(void)
{
	World	   *w = random_world(0.5, true);
	const float units[] = {3e18f, 1e38f, INFINITY, NAN};
	float		unit = w->codec.length_unit;
	uint32_t	ids[N];
	uint8_t    *codes = malloc(N * 16);
	GrnFactor	factors[N];

	for (uint32_t round = 0; round < 200; round++)
	{
		uint32_t	kind = round % 8;
		uint32_t	n = 1 + (uint32_t) (grn_random(5, round, 0) % (round < 100 ? N : 600));
		uint32_t	ef = 1 + (uint32_t) (grn_random(6, round, 0) % 40);
		GrnSearchParams p = {.layout = &w->layout, .codec = &w->codec, .ef = ef,
			.metric = grn_metric(w->metric), .resumable = true, .closed = true};
		GrnSearch  *s;
		uint8_t		seen[N] = {0};
		uint32_t	all = 0;
		uint32_t	found;

		w->codec.length_unit = kind < 4 ? unit : units[kind - 4];
		for (uint32_t i = 0; i < n; i++)
		{
			uint32_t	from = kind == 1 ? 7 : kind == 2 && i % 5 > 0 ? 9 : i;
			uint32_t	bits = (uint32_t) grn_random(7, round, i);

			ids[i] = i;
			factors[i] = w->factors[from];
			if (kind == 3 || (kind >= 4 && i % 3 == 0))
				memcpy(&factors[i], &bits, sizeof(factors[i]));
			memcpy(codes + i * w->layout.code_bytes, w->codes + from * w->layout.code_bytes, w->layout.code_bytes);
		}
		s = grn_search_begin(&p, &w->store, world_row(w, N));
		for (uint32_t at = 0, count; at < n; at += count)
		{
			count = 1 + (uint32_t) (grn_random(8, round, at) % 300);
			if (count > n - at)
				count = n - at;
			grn_search_listed(s, ids + at, codes + at * w->layout.code_bytes, factors + at, NULL, count);
		}
		while ((found = grn_search_run(s)) > 0)
		{
			for (uint32_t i = 0; i < found; i++)
				seen[grn_search_found(s)[i].id]++;
			all += found;
		}
		for (uint32_t i = 0; i < n; i++)
			CHECK(seen[i] == 1, "round %u: row %u of %u %u times", round, i, n, seen[i]);
		CHECK(all == n && grn_search_visits(s) == n, "round %u: %u of %u, %u visits", round, all, n,
			  (unsigned) grn_search_visits(s));
		grn_search_end(s);
	}
	free(codes);
	free_world(w);
}

/* Nobody passes, not even by signature: the search ends. */
static void
nobody_passes(void)
{
	World	   *w = random_world(0.5, true);
	Label		f = filter_of(7, 7);
	GrnSearch  *s;

	f.base.sets = &f.set;
	s = begin_filtered(w, 0, 20, &f, 0.002, 0);
	CHECK(grn_search_run(s) == 0, "a row was found");
	CHECK(grn_search_run(s) == 0, "a row was found later");
	CHECK(grn_search_visits(s) <= N, "visits");
	grn_search_end(s);
	free_world(w);
}

/* Neighbors that pass and are too far are no burden to a search that nobody resumes. */
static void
little_memory(void)
{
	World	   *w = random_world(1, true);
	Label		f = filter_of(1, 1);
	GrnSearchParams p = {.layout = &w->layout, .codec = &w->codec, .metric = grn_metric(w->metric),
		.ef = 100, .filter = &f.base, .share = 1, .memory_limit = LITTLE_MEMORY};
	GrnSearch  *s = grn_search_begin(&p, &w->store, world_row(w, N));
	uint32_t	entry = 0;

	f.base.sets = &f.set;
	grn_search_entries(s, &entry, w->codes, w->factors, 1);
	CHECK(grn_search_run(s) >= p.ef && !grn_search_truncated(s), "it ended early");
	grn_search_end(s);
	free_world(w);
}

/* Dead nodes lead on; those that pass are not found. */
static void
dead_nodes(void)
{
	World	   *w = random_world(0.5, true);
	Label		f = filter_of(1, 1);
	uint32_t	hits = 0;

	f.base.sets = &f.set;
	for (uint32_t i = 1; i < N; i += 2)
	{
		record(w, i)->state = GRN_DEAD;
		record(w, i)->ntids = 0;
	}
	for (uint32_t q = 0; q < QUERIES; q++)
	{
		GrnSearch  *s = begin_filtered(w, q, 40, &f, 0.5, 0);
		uint32_t	n = grn_search_run(s);
		Near	   *near = malloc(N * sizeof(Near));
		uint32_t	k = 0;

		truth(w, q, near);
		for (uint32_t i = 0; i < N && k < K; i++)
			if (record(w, near[i].id)->state == GRN_NODE && row_passes(w, &f, near[i].id))
			{
				hits += k < n && grn_search_found(s)[k].distance <= near[i].distance * (1 + 1e-5f);
				k++;
			}
		for (uint32_t i = 0; i < n; i++)
			CHECK(grn_search_found(s)[i].state == GRN_NODE, "a dead node was found");
		free(near);
		grn_search_end(s);
	}
	CHECK(hits >= 0.95 * K * QUERIES, "%u", hits);
	free_world(w);
}

int
main(void)
{
	grn_dist_init();
	RUN(recall_by_share);
	RUN(resumed_filtered_searches);
	RUN(values_decide);
	RUN(opposed);
	RUN(closed);
	RUN(closed_by_any_estimates);
	RUN(nobody_passes);
	RUN(dead_nodes);
	RUN(little_memory);
	UNIT_END();
}
