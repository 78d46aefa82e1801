/*
 * test_search.c - the search over records in memory: recall against brute force
 * on a graph of exact neighbors, resuming, dead and freed nodes, stale codes,
 * the memory limit, being abandoned.
 */
#include "search_world.h"
#include "store/search_impl.h"

static void
recall_by_metric_and_format(void)
{
	for (int metric = GRN_L2; metric <= GRN_L1; metric++)
		for (int format = GRN_FORM_F32; format <= GRN_FORM_U8; format++)
			for (int codes = 0; codes < (metric == GRN_L1 ? 1 : 2); codes++)
			{
				World	   *w;
				double		visits,
							r;

				/* cosine's rows are fractions: nothing smaller holds them */
				if (metric == GRN_COSINE && format != GRN_FORM_F32)
					continue;
				w = make_world((GrnMetric) metric, 24, (GrnForm) format, codes);
				r = recall(w, 64, &visits);
				/* inner product of rows that all point one way: hardest */
				CHECK(r >= (metric == GRN_IP ? 0.95 : 0.97), "metric %d format %d codes %d: %.3f", metric, format, codes, r);
				CHECK(visits < (codes ? 110 : 700), "metric %d codes %d: %.1f visits", metric, codes, visits);
				free_world(w);
			}
}

/*
 * A search that starts from a row goes by the space of the graph, whatever a query would be
 * compared by: it finds the row itself and its neighbors there.
 */
static void
rows_are_found_in_the_graphs_space(void)
{
	for (int metric = GRN_L2; metric <= GRN_L1; metric++)
		for (int codes = 0; codes < (metric == GRN_L1 ? 1 : 2); codes++)
		{
			World	   *w = make_world((GrnMetric) metric, 24, GRN_FORM_F32, codes);
			GrnSearchParams p = {.layout = &w->layout, .codec = &w->codec, .metric = grn_metric(w->metric),
				.ef = 64, .by_row = true};
			uint32_t	entry = 0;
			uint32_t	hits = 0;

			for (uint32_t row = 0; row < N; row += 60)
			{
				GrnSearch  *s = grn_search_begin(&p, &w->store, world_row(w, row));
				const GrnFound *f;
				uint32_t	n;

				grn_search_entries(s, &entry, w->codes, w->factors, 1);
				n = grn_search_run(s);
				f = grn_search_found(s);
				hits += n > 0 && f[0].id == row;
				for (uint32_t i = 0; i < n; i++)
				{
					float		d = between(w, row, f[i].id);

					CHECK(fabsf(f[i].distance - d) <= 1e-3f * (d + 1), "metric %d: %g for %g",
						  metric, f[i].distance, d);
					CHECK(i == 0 || f[i - 1].distance <= f[i].distance, "order at %u", i);
				}
				grn_search_end(s);
			}
			CHECK(hits >= N / 60 * 9 / 10, "metric %d codes %d: %u of %d rows", metric, codes, hits, N / 60);
			free_world(w);
		}
}

/* Bits are compared as bits, whether a query is some or comes as floats between. */
static void
recall_of_bits(void)
{
	for (int codes = 0; codes < 2; codes++)
	{
		World	   *w = make_world(GRN_HAMMING, 300, GRN_FORM_BITS, codes);
		double		visits;
		double		r = recall(w, 64, &visits);

		CHECK(r >= 0.97, "codes %d: %.3f", codes, r);
		free_world(w);
	}
}

/* A vector that continues on other pages reaches the search in one piece. */
static void
spanning_records(void)
{
	World	   *w = make_world(GRN_L2, 2500, GRN_FORM_F32, true);
	double		visits;

	CHECK(w->layout.span == 2, "%u", w->layout.span);
	CHECK(recall(w, 64, &visits) >= 0.97, "recall");
	free_world(w);
}

static void
small_lists(void)
{
	World	   *w = make_world(GRN_L2, 24, GRN_FORM_F32, true);

	for (uint32_t ef = 1; ef <= 3; ef++)
	{
		GrnSearch  *s = begin(w, 0, ef, false, 0, false);
		uint32_t	n = grn_search_run(s);

		CHECK(n >= ef, "ef %u: %u", ef, n);
		check_found(w, s, 0, n);
		grn_search_end(s);
	}
	for (int resumable = 0; resumable < 2; resumable++)
	{
		GrnSearchParams p = {.layout = &w->layout, .codec = &w->codec, .metric = grn_metric(GRN_L2),
			.ef = 10, .resumable = resumable};
		GrnSearch  *s = grn_search_begin(&p, &w->store, world_row(w, N));

		CHECK(grn_search_run(s) == 0, "no entry, no result");
		CHECK(grn_search_run(s) == 0, "still none");
		CHECK(!grn_search_truncated(s), "truncated");
		grn_search_end(s);
	}
	CHECK(w->blocks == 0, "%zu blocks left", w->blocks);
	free_world(w);
}

/*
 * The estimate that bounds a run with n nodes found: usual for the ef-th, or possible for the
 * wanted-th.
 */
static double
bound_of(World *w, GrnSearch *s, uint32_t n, uint32_t ef, uint32_t wanted)
{
	const GrnFound *found = grn_search_found(s);
	double		sum[5] = {0};
	double		slope;
	double		error;

	for (uint32_t i = 0; i < n; i++)
	{
		double		d = found[i].distance;
		float		e;

		grn_estimate_ids(&s->query.code, w->codes, w->layout.code_bytes, w->factors, &found[i].id, 1, &e);
		sum[0] += d / n;
		sum[1] += e / n;
		sum[2] += d * d / n;
		sum[3] += d * e / n;
		sum[4] += (double) e * e / n;
	}
	slope = (sum[3] - sum[0] * sum[1]) / (sum[2] - sum[0] * sum[0]);
	error = sqrt(sum[4] - sum[1] * sum[1] - slope * (sum[3] - sum[0] * sum[1]));
	return sum[1] + fmax(slope * (found[ef - 1].distance - sum[0]) + error,
						 slope * (found[wanted - 1].distance - sum[0]) + 2 * error);
}

/*
 * A run over estimates ends with no candidate whose estimate is usual for the ef-th least distance
 * found or possible for the wanted-th, unless it has found 16 ef.  By inner product it ends with
 * none whose estimate is below the wanted-th distance.
 */
static void
runs_allow_for_errors_of_estimates(GrnMetric metric)
{
	uint32_t	ef = metric == GRN_IP ? 10 : 40;
	uint32_t	wanted = 10;
	uint32_t	most = 16 * ef;
	World	   *w = make_world(metric, 24, GRN_FORM_F32, true);
	uint32_t	limited = 0;
	uint32_t	more = 0;

	for (uint32_t q = 0; q < QUERIES; q++)
	{
		GrnSearch  *s = begin(w, q, ef, false, 0, false);
		uint32_t	n = grn_search_run(s);
		const GrnFound *found = grn_search_found(s);
		double		bound = metric == GRN_IP ? found[wanted - 1].distance : bound_of(w, s, n, ef, wanted);
		bool		seen[N] = {false};

		CHECK(n >= ef && n <= most + 8, "%u found", n);
		more += n > ef;
		for (uint32_t i = 0; i < n; i++)
			seen[found[i].id] = true;
		for (uint32_t i = 0; i < n && n < most; i++)
		{
			uint32_t	id = found[i].id;
			float		estimate[DEGREE];

			limited += i == 0;
			grn_estimate_ids(&s->query.code, w->codes, w->layout.code_bytes, w->factors,
							 w->graph[id], w->counts[id], estimate);
			for (uint32_t e = 0; e < w->counts[id]; e++)
				CHECK(seen[w->graph[id][e]] || estimate[e] >= bound - 1e-4 * fabs(bound),
					  "query %u: %g is below %g", q, estimate[e], bound);
		}
		grn_search_end(s);
	}
	CHECK(more > QUERIES / 2 && limited > QUERIES / 2, "%u visited more than ef, %u ended before %u", more, limited, most);
	free_world(w);
}

static void
runs_by_distance(void)
{
	runs_allow_for_errors_of_estimates(GRN_L2);
}

static void
runs_by_product(void)
{
	runs_allow_for_errors_of_estimates(GRN_IP);
}

/* Dead nodes among the near ones do not make such a run look for more than ef results. */
static void
dead_nodes_do_not_extend_runs(void)
{
	World	   *w = make_world(GRN_L2, 24, GRN_FORM_F32, true);
	uint32_t	ef = 40;

	for (uint32_t i = 0; i < N; i++)
		if (i % 4 != 0)
		{
			record(w, i)->state = GRN_DEAD;
			record(w, i)->ntids = 0;
		}
	for (uint32_t q = 0; q < QUERIES; q++)
	{
		uint64_t	visits[2];

		for (int exact = 0; exact < 2; exact++)
		{
			GrnSearchParams p = {.layout = &w->layout, .codec = &w->codec, .metric = grn_metric(w->metric),
				.ef = exact ? ef : ef + ef / 2, .ef_exact = exact ? ef : 0, .resumable = true, .dead_limit = N};
			GrnSearch  *s = grn_search_begin(&p, &w->store, world_row(w, N + q));
			uint32_t	entry = 0;

			grn_search_entries(s, &entry, w->codes, w->factors, 1);
			CHECK(grn_search_run(s) >= ef, "query %u", q);
			visits[exact] = grn_search_visits(s);
			grn_search_end(s);
		}
		CHECK(visits[1] < visits[0], "query %u: %llu visits, %llu for 1.5 ef", q,
			  (unsigned long long) visits[1], (unsigned long long) visits[0]);
	}
	free_world(w);
}

/*
 * By inner product a search takes each row for one whose estimate is too low by about two standard
 * deviations, which are in proportion to the row's length.
 */
static void
long_rows_come_early(void)
{
	World	   *w = make_world(GRN_IP, 24, GRN_FORM_F32, true);
	double		sum = 0;
	double		squares = 0;

	for (uint32_t q = 0; q < QUERIES; q++)
	{
		const float *x = world_row(w, N + q);
		GrnSearch  *s = begin(w, q, 40, false, 0, false);

		for (uint32_t id = 0; id < N; id++)
		{
			const float *y = world_row(w, id);
			float		estimate;
			double		error;

			grn_estimate_ids(&s->query.code, w->codes, w->layout.code_bytes, w->factors, &id, 1, &estimate);
			error = (estimate + grn_dist->ip_f32(x, y, w->dim)) / sqrt(grn_norm2(x, w->dim) * grn_norm2(y, w->dim));
			sum += error;
			squares += error * error;
		}
		grn_search_end(s);
	}
	sum /= QUERIES * N;
	squares = sqrt(squares / (QUERIES * N) - sum * sum);
	/* codes of few dimensions err less than the codec expects from the variance that they lose */
	CHECK(sum < -squares && fabs(sum + 2 * w->codec.error) < squares / 2,
		  "moved by %g, standard deviation %g, by the codec %g", sum, squares, w->codec.error);
	free_world(w);
}

/* Batches are disjoint, each in order, and together all there is. */
static void
resumed_searches_find_all(void)
{
	for (int codes = 0; codes < 2; codes++)
	{
		World	   *w = make_world(GRN_L2, 24, GRN_FORM_F32, codes);
		Near	   *near = malloc(N * sizeof(Near));

		for (uint32_t q = 0; q < 5; q++)
			for (uint32_t ef = 1; ef <= 100; ef += 33)
			{
				uint8_t		seen[N] = {0};
				uint32_t	all = 0;
				uint32_t	n;
				uint32_t	hits = 0;
				GrnSearch  *s;

				memset(w->visited, 0, sizeof(w->visited));
				memset(w->measured, 0, sizeof(w->measured));
				s = begin(w, q, ef, true, 0, false);
				truth(w, q, near);
				while ((n = grn_search_run(s)) > 0)
				{
					const GrnFound *f = grn_search_found(s);

					check_found(w, s, q, n);
					for (uint32_t i = 0; i < n; i++)
					{
						CHECK(!seen[f[i].id], "node %u twice", f[i].id);
						seen[f[i].id] = 1;
					}
					all += n;
					if (all >= 200 && hits == 0)
						for (uint32_t i = 0; i < 100; i++)
							hits += seen[near[i].id];
				}
				CHECK(all == N, "codes %d ef %u: %u of %u", codes, ef, all, N);
				CHECK(hits >= 97, "codes %d ef %u: %u of the 100 nearest", codes, ef, hits);
				CHECK(!grn_search_truncated(s), "truncated");
				CHECK(grn_search_run(s) == 0, "more than all");
				for (uint32_t i = 0; i < N; i++)
					CHECK(w->visited[i] == 1 && w->measured[i] == !codes, "node %u was visited %u times, measured %u", i,
						  w->visited[i], w->measured[i]);
				CHECK(grn_search_visits(s) == (codes ? N : 2 * N), "visits");
				grn_search_end(s);
				CHECK(w->blocks == 0, "%zu blocks left", w->blocks);
			}
		free(near);
		free_world(w);
	}
}

/* A resumable search's first batch is the same as the other's. */
static void
resumable_changes_nothing(void)
{
	World	   *w = make_world(GRN_L2, 24, GRN_FORM_F32, true);

	for (uint32_t q = 0; q < QUERIES; q++)
	{
		GrnSearch  *a = begin(w, q, 30, false, 0, false);
		GrnSearch  *b = begin(w, q, 30, true, 0, false);
		GrnSearch  *c;
		uint32_t	n = grn_search_run(a);

		w->store.prefetch = world_prefetch;
		c = begin(w, q, 30, false, 0, false);
		CHECK(grn_search_run(b) == n && grn_search_run(c) == n, "%u", n);
		w->store.prefetch = NULL;
		for (uint32_t i = 0; i < n; i++)
			CHECK(grn_search_found(a)[i].id == grn_search_found(b)[i].id &&
				  grn_search_found(a)[i].id == grn_search_found(c)[i].id, "result %u", i);
		grn_search_end(a);
		grn_search_end(b);
		grn_search_end(c);
	}
	/* nearly every visit was asked for before, and not many times more */
	CHECK(w->prefetched > QUERIES * 30 && w->prefetched < QUERIES * 120, "%llu",
		  (unsigned long long) w->prefetched);
	free_world(w);
}

/*
 * A store whose visits wait for a disk is asked for nearly all that a search visits, and for less
 * than twice as much, however many it may be asked for at once.  Results are the same.
 */
static void
disks_are_asked_ahead(void)
{
	static const uint32_t widths[] = {2, 5, 17, GRN_MAX_AHEAD};

	for (int codes = 0; codes < 2; codes++)
	{
		World	   *w = make_world(GRN_L2, 24, GRN_FORM_F32, codes);

		for (uint32_t width = 0; width < 4; width++)
		{
			uint64_t	visits = 0;

			w->prefetched = 0;
			for (uint32_t q = 0; q < QUERIES; q++)
			{
				GrnSearch  *a = begin(w, q, 60, false, 0, false);
				uint32_t	n = grn_search_run(a);
				GrnSearch  *b;

				memset(w->asked, 0, sizeof(w->asked));
				w->store.prefetch = world_prefetch;
				w->store.ahead = widths[width];
				w->unasked = 0;
				b = begin(w, q, 60, false, 0, false);
				CHECK(grn_search_run(b) == n && grn_search_visits(a) == grn_search_visits(b), "%u", n);
				visits += grn_search_visits(b);
				for (uint32_t i = 0; i < n; i++)
					CHECK(grn_search_found(a)[i].id == grn_search_found(b)[i].id, "result %u", i);
				w->store.prefetch = NULL;
				w->store.ahead = 0;
				grn_search_end(a);
				grn_search_end(b);
				/* the entry point */
				CHECK(w->unasked <= 1, "%llu visits nobody asked for",
					  (unsigned long long) w->unasked);
			}
			/*
			 * (in so small a graph more comes onto the list and leaves it again than in a large
			 * one)
			 */
			CHECK(w->prefetched < visits * (codes ? 2 : 1.02),
				  "%llu asked for, %llu visits", (unsigned long long) w->prefetched,
				  (unsigned long long) visits);
		}
		free_world(w);
	}
}

/* Dead nodes, freed or not, lead on, but are no results and take no result's place. */
static void
dead_nodes_are_passed(void)
{
	for (int codes = 0; codes < 2; codes++)
	{
		World	   *w = make_world(GRN_L2, 24, GRN_FORM_F32, codes);
		double		visits;
		double		r;

		for (uint32_t i = 0; i < N; i++)
			if (unit_below(10) < 6)
			{
				record(w, i)->state = i % 2 ? GRN_DEAD : GRN_FREE;
				record(w, i)->ntids = 0;
			}
		r = recall(w, 40, &visits);
		CHECK(r >= 0.95, "codes %d: %.3f", codes, r);
		for (uint32_t q = 0; q < QUERIES; q++)
		{
			GrnSearch  *s = begin(w, q, 40, false, 0, false);
			uint32_t	n = grn_search_run(s);
			uint32_t	live = 0;

			for (uint32_t i = 0; i < n; i++)
				live += grn_search_found(s)[i].state == GRN_NODE;
			CHECK(live >= 36, "%u live of %u", live, n);
			grn_search_end(s);
		}
		free_world(w);
	}
}

/*
 * Among dead nodes a run keeps to dead_limit, and a search to max_visits and to wasted_limit.
 * Resumed without these limits the search finds all live nodes, each once.
 */
static void
dead_nodes_have_a_limit(void)
{
	for (int codes = 0; codes < 2; codes++)
	{
		World	   *w = make_world(GRN_L2, 24, GRN_FORM_F32, codes);
		GrnSearchParams p = {.layout = &w->layout, .codec = &w->codec, .metric = grn_metric(GRN_L2), .ef = 20,
			.resumable = true, .dead_limit = 100};
		uint32_t	entry = 0;
		uint32_t	live = 0;
		uint32_t	all = 0;
		uint32_t	n;
		uint64_t	visits;
		GrnSearch  *s;

		for (uint32_t i = 0; i < N; i++)
			if (i % 50 != 0)
			{
				record(w, i)->state = GRN_DEAD;
				record(w, i)->ntids = 0;
			}
			else
				live++;
		s = grn_search_begin(&p, &w->store, world_row(w, N));
		grn_search_entries(s, &entry, w->codes, w->factors, 1);
		while ((n = grn_search_run(s)) > 0)
		{
			check_found(w, s, 0, n);
			all += n;
		}
		CHECK(all == live, "codes %d: %u of %u", codes, all, live);
		grn_search_end(s);

		p.resumable = false;
		s = grn_search_begin(&p, &w->store, world_row(w, N));
		grn_search_entries(s, &entry, w->codes, w->factors, 1);
		grn_search_run(s);
		visits = grn_search_visits(s);
		CHECK(visits <= (codes ? 100 + 20 + 1 : (100 + 20 + 1) * w->layout.degree), "codes %d: %llu",
			  codes, (unsigned long long) visits);
		grn_search_end(s);

		p.resumable = true;
		p.dead_limit = 0;
		p.max_visits = 50;
		s = grn_search_begin(&p, &w->store, world_row(w, N));
		grn_search_entries(s, &entry, w->codes, w->factors, 1);
		while (grn_search_run(s) > 0)
			;
		CHECK(grn_search_truncated(s), "codes %d", codes);
		/* without codes an expansion visits all neighbors, and the first few go on in any case */
		CHECK(grn_search_visits(s) <= 50 + (codes ? 0 : 8 * w->layout.degree), "codes %d: %llu",
			  codes, (unsigned long long) grn_search_visits(s));
		grn_search_end(s);

		p.dead_limit = 100;
		p.max_visits = 0;
		p.wasted_limit = 150;
		all = 0;
		s = grn_search_begin(&p, &w->store, world_row(w, N));
		grn_search_entries(s, &entry, w->codes, w->factors, 1);
		while ((n = grn_search_run(s)) > 0)
			all += n;
		CHECK(grn_search_truncated(s), "codes %d", codes);
		visits = grn_search_visits(s);
		CHECK(visits >= all + 150 && visits <= all + 150 + (codes ? 0 : w->layout.degree),
			  "codes %d: %llu", codes, (unsigned long long) visits);
		grn_search_end(s);
		free_world(w);
	}
}

/* Links that lead to empty slots are skipped, also on resuming. */
static void
empty_slots_are_skipped(void)
{
	for (int codes = 0; codes < 2; codes++)
	{
		World	   *w = make_world(GRN_L2, 24, GRN_FORM_F32, codes);
		uint32_t	live = N;
		uint32_t	all = 0;
		uint32_t	n;
		double		visits;
		GrnSearch  *s;

		for (uint32_t i = 1; i < N; i += 5)
		{
			record(w, i)->state = i % 2 ? GRN_FREE : GRN_TIDS;
			record(w, i)->count = 0;
			live--;
		}
		CHECK(recall(w, 64, &visits) > 0.9, "codes %d", codes);
		s = begin(w, 0, 3, true, 0, false);
		while ((n = grn_search_run(s)) > 0)
			all += n;
		CHECK(all <= live && all > live * 9 / 10, "codes %d: %u of %u", codes, all, live);
		grn_search_end(s);
		free_world(w);
	}
}

/*
 * A slot freed and used again has other codes in its neighbors' records than
 * those of old: whatever the codes, a node is found once and the search ends.
 */
static void
stale_codes_do_no_harm(void)
{
	World	   *w = make_world(GRN_L2, 24, GRN_FORM_F32, true);

	for (uint32_t i = 0; i < N; i++)
	{
		uint8_t    *codes = grn_rec_codes(&w->layout, record(w, i));
		GrnFactor  *factors = grn_rec_factors(&w->layout, record(w, i));

		for (uint32_t j = 0; j < w->layout.degree * w->layout.code_bytes; j++)
			codes[j] = (uint8_t) unit_random();
		/* and any factor */
		for (uint32_t j = 0; j < w->layout.degree; j++)
			factors[j] = (GrnFactor) {(uint32_t) unit_random()};
	}
	for (uint32_t q = 0; q < 5; q++)
		for (int resumable = 0; resumable < 2; resumable++)
		{
			uint8_t		seen[N] = {0};
			uint32_t	all = 0;
			uint32_t	n;
			GrnSearch  *s = begin(w, q, 20, resumable, 0, false);

			while ((n = grn_search_run(s)) > 0)
			{
				check_found(w, s, q, n);
				for (uint32_t i = 0; i < n; i++)
					CHECK(seen[grn_search_found(s)[i].id]++ == 0, "node %u twice",
						  grn_search_found(s)[i].id);
				all += n;
			}
			CHECK(all >= 20 && (!resumable || all == N), "%u", all);
			grn_search_end(s);
		}
	free_world(w);
}

static void
memory_stays_within_limit(void)
{
	for (int codes = 0; codes < 2; codes++)
	{
		World	   *w = make_world(GRN_L2, 24, GRN_FORM_F32, codes);
		size_t		unlimited;
		size_t		limit = codes ? 12000 : 20000;
		uint32_t	all = 0;
		uint32_t	n;
		GrnSearch  *s = begin(w, 0, 5, true, 0, false);

		while (grn_search_run(s) > 0)
			;
		unlimited = w->bytes_most;
		grn_search_end(s);
		world_free_all(w);

		s = begin(w, 0, 5, true, limit, false);
		while ((n = grn_search_run(s)) > 0)
			all += n;
		CHECK(grn_search_truncated(s), "%zu bytes sufficed for %u nodes", unlimited, all);
		CHECK(all >= 5 && all < N, "%u", all);
		/* beside it: the list, one run's results, an array while it grows */
		CHECK(w->bytes_most < 3 * limit && w->bytes_most < unlimited, "codes %d: %zu of %zu",
			  codes, w->bytes_most, unlimited);
		CHECK(grn_search_run(s) == 0, "went on");
		grn_search_end(s);
		CHECK(w->blocks == 0, "%zu blocks left", w->blocks);
		free_world(w);
	}
}

/* As ereport() does it: the allocator's owner frees all. */
static void
abandoned_searches_leave_nothing(void)
{
	World	   *w = make_world(GRN_L2, 24, GRN_FORM_F32, true);

	for (int left = 0; left < 60; left++)
	{
		jmp_buf		escape;

		w->visits_left = left;
		w->escape = &escape;
		if (setjmp(escape) == 0)
		{
			GrnSearch  *s = begin(w, 1, 40, true, 0, true);

			while (grn_search_run(s) > 0)
				;
			CHECK(false, "came back");
		}
		w->escape = NULL;
		world_free_all(w);
	}
	free_world(w);
}

/* Inserts get the stored vector and the code of every node found. */
static void
kept_vectors_are_the_records(void)
{
	for (int codes = 0; codes < 2; codes++)
		for (int resumable = 0; resumable < 2; resumable++)
		{
			World	   *w = make_world(GRN_L2, 24, GRN_FORM_F16, codes);
			GrnSearch  *s = begin(w, 3, 30, resumable, 0, true);

			for (int run = 0; run < 3; run++)
			{
				uint32_t	n = grn_search_run(s);

				CHECK(n > 0 || (run > 0 && !resumable), "%u", n);
				for (uint32_t i = 0; i < n; i++)
				{
					uint32_t	id = grn_search_found(s)[i].id;
					GrnFactor	factor;
					const uint8_t *code = grn_search_code(s, i, &factor);

					CHECK(memcmp(grn_search_vector(s, i),
								 GRN_REC_PTR(record(w, id), w->layout.off_vec),
								 w->layout.vec_bytes) == 0, "vector of %u", id);
					if (codes)
						CHECK(memcmp(code, w->codes + id * w->layout.code_bytes,
									 w->layout.code_bytes) == 0 &&
							  memcmp(&factor, &w->factors[id], sizeof(factor)) == 0, "code of %u", id);
				}
			}
			grn_search_end(s);
			free_world(w);
		}
}

/* Queries at the end of the number range: results come, and the search ends. */
static void
extreme_queries(void)
{
	static const float sizes[] = {0, 1e-44f, 1e18f, 1e19f, 3e38f};

	for (int codes = 0; codes < 2; codes++)
		for (int metric = GRN_L2; metric <= GRN_IP; metric++)
		{
			World	   *w = make_world((GrnMetric) metric, 24, GRN_FORM_F32, codes);

			for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
			{
				uint32_t	all = 0;
				uint32_t	n;
				GrnSearch  *s;

				for (uint32_t j = 0; j < w->dim; j++)
					world_row(w, N)[j] = j % 2 ? -sizes[i] : sizes[i];
				s = begin(w, 0, 20, true, 0, false);
				while ((n = grn_search_run(s)) > 0)
					all += n;
				CHECK(all == N, "%g: %u", sizes[i], all);
				grn_search_end(s);
			}
			free_world(w);
		}
}

int
main(void)
{
	grn_dist_init();
	RUN(recall_by_metric_and_format);
	RUN(recall_of_bits);
	RUN(long_rows_come_early);
	RUN(spanning_records);
	RUN(small_lists);
	RUN(runs_by_distance);
	RUN(runs_by_product);
	RUN(dead_nodes_do_not_extend_runs);
	RUN(resumed_searches_find_all);
	RUN(resumable_changes_nothing);
	RUN(disks_are_asked_ahead);
	RUN(dead_nodes_are_passed);
	RUN(dead_nodes_have_a_limit);
	RUN(empty_slots_are_skipped);
	RUN(stale_codes_do_no_harm);
	RUN(memory_stays_within_limit);
	RUN(abandoned_searches_leave_nothing);
	RUN(kept_vectors_are_the_records);
	RUN(extreme_queries);
	RUN(rows_are_found_in_the_graphs_space);
	UNIT_END();
}
