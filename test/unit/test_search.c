/*
 * test_search.c - the search over records in memory: recall against brute force
 * on a graph of exact neighbours, resuming, dead and freed nodes, stale codes,
 * the memory limit, being abandoned.
 */
#include "graph/build/descent.h"
#include "graph/stored/codec_fit.h"
#include "graph/stored/search.h"
#include "unit.h"

#include <setjmp.h>

#define N 1500
#define QUERIES 40
#define DEGREE 16
#define K 10
#define NORM_UNIT 100.0f			/* inner product's, about the rows' norm */
#define SEED_DIMS 12			/* rows have about this many free dimensions */

/* Rows, their graph and their records, and the GrnStore that serves them. */
typedef struct World
{
	GrnStore	store;
	GrnMetric	metric;
	uint32_t	dim;
	uint32_t	space;
	float	   *rows;			/* [N + QUERIES][space]; queries last */
	GrnLayout	layout;
	float	   *model;
	GrnCodec	codec;
	uint8_t    *codes;
	GrnFactor  *factors;
	uint8_t    *records;		/* [N][record_bytes] */
	uint8_t    *vector;			/* a copy of the visited record's own vector */
	uint32_t	graph[N][DEGREE];
	uint8_t		counts[N];

	/* what the store was asked for */
	size_t		bytes_now;
	size_t		bytes_most;
	size_t		blocks;
	void	   *all[4096];		/* live allocations */
	uint32_t	visited[N];
	uint64_t	prefetched;
	bool		inside;			/* a visit is going on */
	jmp_buf    *escape;			/* visit() leaves by longjmp when this runs out: */
	int			visits_left;
} World;

/* ---- the store ---- */

static bool
world_visit(GrnStore *self, uint32_t id, GrnVisitFn fn, void *arg)
{
	World	   *w = (World *) self;
	const uint8_t *rec;

	if (id >= N)
	{
		CHECK(id < N, "visit of %u", id);
		return false;
	}
	if (w->escape != NULL && w->visits_left-- == 0)
		longjmp(*w->escape, 1);
	rec = w->records + (size_t) id * w->layout.record_bytes;
	w->visited[id]++;
	if (!grn_record_leads_on((const GrnRecord *) rec))
		return false;
	w->inside = true;
	memcpy(w->vector, rec + w->layout.off_vec, w->layout.vec_bytes);
	fn(arg, (const GrnRecord *) rec, w->vector);
	w->inside = false;
	return true;
}

static void
world_prefetch(GrnStore *self, const uint32_t *ids, uint32_t count)
{
	World	   *w = (World *) self;

	CHECK(!w->inside, "prefetch inside a visit");
	for (uint32_t i = 0; i < count; i++)
		CHECK(ids[i] < N, "prefetch of %u", ids[i]);
	w->prefetched += count;
}

static void *
world_alloc(GrnStore *self, size_t bytes)
{
	World	   *w = (World *) self;
	size_t	   *p = malloc(bytes + 16);

	CHECK(!w->inside, "allocation inside a visit");
	p[0] = bytes;
	for (p[1] = 0; w->all[p[1]] != NULL; p[1]++)
		;
	w->all[p[1]] = p;
	memset(p + 2, 0xA5, bytes);
	w->bytes_now += bytes;
	w->blocks++;
	if (w->bytes_now > w->bytes_most)
		w->bytes_most = w->bytes_now;
	return p + 2;
}

static void
world_free(GrnStore *self, void *ptr)
{
	World	   *w = (World *) self;
	size_t	   *p = (size_t *) ptr - 2;

	CHECK(w->all[p[1]] == p, "free of what was not allocated");
	w->all[p[1]] = NULL;
	w->bytes_now -= p[0];
	w->blocks--;
	free(p);
}

static void
world_free_all(World *w)
{
	for (size_t i = 0; i < sizeof(w->all) / sizeof(w->all[0]); i++)
		if (w->all[i] != NULL)
		{
			free(w->all[i]);
			w->all[i] = NULL;
		}
	w->bytes_now = w->bytes_most = w->blocks = 0;
}

/* ---- making one ---- */

typedef struct Near
{
	float		distance;
	uint32_t	id;
} Near;

static int
by_distance(const void *a, const void *b)
{
	const Near *x = a;
	const Near *y = b;

	if (x->distance != y->distance)
		return x->distance < y->distance ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

static float *
world_row(const World *w, size_t i)
{
	return w->rows + i * w->space;
}

/* Squared distance of two rows in the graph's space. */
static float
between(const World *w, size_t i, size_t j)
{
	GrnRows		rows = {w->rows, NULL, N, w->space, w->dim, w->metric == GRN_IP};

	return grn_row_distance(&rows, world_row(w, i), world_row(w, j));
}

/* Low-rank rows around ten centres, in the form that metric and format want. */
static void
make_rows(World *w, GrnVecFormat format)
{
	float	   *mix = malloc(SEED_DIMS * w->dim * 4);

	for (uint32_t j = 0; j < SEED_DIMS * w->dim; j++)
		mix[j] = unit_normal();
	w->rows = calloc((N + QUERIES) * w->space, 4);
	for (size_t i = 0; i < N + QUERIES; i++)
	{
		float	   *x = world_row(w, i);
		float		norm;

		for (int s = 0; s < SEED_DIMS; s++)
		{
			float		f = unit_normal() + 1.5f * (float) ((i % 10 + (size_t) s) % 3);

			for (uint32_t j = 0; j < w->dim; j++)
				x[j] += f * mix[(uint32_t) s * w->dim + j];
		}
		for (uint32_t j = 0; j < w->dim; j++)
		{
			x[j] = x[j] * 5 + unit_normal();
			if (format == GRN_VEC_U8)
				x[j] = fmaxf(0, fminf(255, roundf(x[j] + 120)));
			if (format == GRN_VEC_F16)
				x[j] = grn_f16_to_f32(grn_f32_to_f16(x[j]));
		}
		norm = sqrtf(grn_dist->ip_f32(x, x, w->dim));
		if (w->metric == GRN_COSINE)
			for (uint32_t j = 0; j < w->dim; j++)
				x[j] /= norm;
		if (w->metric == GRN_IP)
		{
			/* lengths that spread, as far as the format lets them */
			float		length = expf(0.5f * unit_normal());
			GrnScale	scale;

			for (uint32_t j = 0; j < w->dim && format == GRN_VEC_F32; j++)
				x[j] *= length;
			scale = grn_scale(grn_norm2(x, w->dim), NORM_UNIT);
			memcpy(x + w->dim, &scale, sizeof(scale));
		}
	}
	free(mix);
}

/*
 * The RNG rule on all others by distance, and one edge i -> i + 1 so that all
 * is reachable from anywhere.
 */
static void
make_graph(World *w)
{
	Near	   *near = malloc(N * sizeof(Near));

	for (uint32_t i = 0; i < N; i++)
	{
		uint32_t	next = (i + 1) % N;
		uint8_t		n = 0;

		for (uint32_t j = 0; j < N; j++)
		{
			near[j].id = j;
			near[j].distance = j == i ? INFINITY
				: between(w, i, j);
		}
		qsort(near, N, sizeof(Near), by_distance);
		for (uint32_t c = 0; c < 200 && n < DEGREE - 1; c++)
		{
			bool		keep = near[c].id != next;

			for (uint8_t k = 0; k < n && keep; k++)
				keep = between(w, near[c].id, w->graph[i][k]) > near[c].distance;
			if (keep)
				w->graph[i][n++] = near[c].id;
		}
		w->graph[i][n++] = next;
		w->counts[i] = n;
	}
	free(near);
}

static void
write_records(World *w)
{
	size_t		code_bytes = w->layout.code_bytes;

	w->records = calloc(N, w->layout.record_bytes);
	for (uint32_t i = 0; i < N; i++)
	{
		GrnRecordSource src = {0};
		uint8_t		tid[GRN_TID_BYTES] = {0};

		memcpy(tid, &i, 4);
		src.x = world_row(w, i);
		src.tids = tid;
		src.ntids = 1;
		src.next = GRN_INVALID_ID;
		src.ids = w->graph[i];
		src.count = w->counts[i];
		if (code_bytes > 0)
		{
			src.code = w->codes + i * code_bytes;
			src.factor = w->factors[i];
			src.all_codes = w->codes;
			src.all_factors = w->factors;
		}
		grn_record_write(&w->layout, &src, w->records + (size_t) i * w->layout.record_bytes);
	}
}

static World *
make_world(GrnMetric metric, uint32_t dim, GrnVecFormat format, bool codes)
{
	World	   *w = calloc(1, sizeof(World));
	GrnParallel parallel = {1, unit_run};
	GrnCodecFit fit = {0};
	void	   *work;
	float		held;
	float		scratch[GRN_MAX_CODE_DIMS];

	w->store.visit = world_visit;
	w->store.alloc = world_alloc;
	w->store.free = world_free;
	w->metric = metric;
	w->dim = dim;
	w->space = (uint32_t) grn_row_floats(metric, dim);
	make_rows(w, format);
	make_graph(w);

	fit.rows = w->rows;
	fit.nrows = N;
	fit.stride = w->space;
	fit.form = metric == GRN_IP ? GRN_FIT_DIRECTIONS : GRN_FIT_ROWS;
	fit.dim = dim;
	fit.max_code_dims = codes ? 32 : 0;
	fit.energy = 0.85f;
	work = malloc(grn_codec_fit_bytes(&fit));
	w->model = malloc(4 * grn_codec_floats(dim, 32));
	w->codec = grn_codec_fit(&fit, &parallel, w->model, work, &held);
	if (metric == GRN_IP)
		grn_codec_directions(&w->codec, NORM_UNIT);
	free(work);
	CHECK(grn_layout(&w->layout, dim, DEGREE, w->codec.code_dims, format, 8160), "layout");
	w->vector = malloc(w->layout.vec_bytes);
	w->codes = malloc(N * 16);
	w->factors = malloc(N * sizeof(GrnFactor));
	for (size_t i = 0; i < N && codes; i++)
		grn_encode(&w->codec, world_row(w, i), w->codes + i * w->layout.code_bytes,
				   w->factors + i, scratch);
	write_records(w);
	return w;
}

static void
free_world(World *w)
{
	world_free_all(w);
	free(w->rows);
	free(w->model);
	free(w->codes);
	free(w->factors);
	free(w->records);
	free(w->vector);
	free(w);
}

static GrnRecord *
record(World *w, uint32_t id)
{
	return (GrnRecord *) (w->records + (size_t) id * w->layout.record_bytes);
}

/* ---- searching it ---- */

static GrnSearch *
begin(World *w, uint32_t query, uint32_t ef, bool resumable, size_t limit, bool keep)
{
	GrnSearchParams p = {&w->layout, &w->codec, w->metric, ef, resumable, limit, keep, false};
	GrnSearch  *s = grn_search_begin(&p, &w->store, world_row(w, N + query));
	uint32_t	entry = 0;

	grn_search_entries(s, &entry, w->codes, w->factors, 1);
	return s;
}

static float
exact(const World *w, uint32_t query, uint32_t id)
{
	const float *q = world_row(w, N + query);
	const float *x = world_row(w, id);

	return w->metric == GRN_IP ? -grn_dist->ip_f32(q, x, w->dim)
		: grn_dist->l2_f32(q, x, w->dim);
}

/* The true neighbours among records of state GRN_NODE. */
static void
truth(World *w, uint32_t query, Near *near)
{
	for (uint32_t i = 0; i < N; i++)
	{
		near[i].id = i;
		near[i].distance = record(w, i)->state == GRN_NODE ? exact(w, query, i) : INFINITY;
	}
	qsort(near, N, sizeof(Near), by_distance);
}

/* Checks one run's results for themselves: order, distances, TIDs. */
static void
check_found(World *w, const GrnSearch *s, uint32_t query, uint32_t n)
{
	const GrnFound *f = grn_search_found(s);

	for (uint32_t i = 0; i < n; i++)
	{
		float		d = exact(w, query, f[i].id);
		const GrnRecord *r = record(w, f[i].id);

		CHECK(fabsf(f[i].distance - d) <= 1e-4f * (fabsf(d) + 1), "%g for %g", f[i].distance, d);
		CHECK(i == 0 || f[i - 1].distance <= f[i].distance, "order at %u", i);
		CHECK(f[i].state == r->state && f[i].ntids == r->ntids && f[i].next == r->next &&
			  f[i].version == r->version && f[i].error == r->error, "node %u", f[i].id);
		for (uint32_t t = 0; t < f[i].ntids; t++)
			CHECK(memcmp(grn_search_tids(s) + (f[i].tids + t) * GRN_TID_BYTES,
						 &f[i].id, 4) == 0, "TID of %u", f[i].id);
	}
}

static double
recall(World *w, uint32_t ef, double *visits)
{
	Near	   *near = malloc(N * sizeof(Near));
	uint32_t	hits = 0;

	*visits = 0;
	for (uint32_t q = 0; q < QUERIES; q++)
	{
		GrnSearch  *s;
		const GrnFound *f;
		uint32_t	n;
		uint32_t	live = 0;

		memset(w->visited, 0, sizeof(w->visited));
		s = begin(w, q, ef, false, 0, false);
		n = grn_search_run(s);
		f = grn_search_found(s);
		check_found(w, s, q, n);
		truth(w, q, near);
		for (uint32_t i = 0; i < n && live < K; i++)
			if (f[i].state == GRN_NODE)
			{
				hits += f[i].distance <= near[K - 1].distance * (1 + 1e-5f) + 1e-5f ||
					f[i].id == near[K - 1].id;
				live++;
			}
		for (uint32_t i = 0; i < N; i++)
			CHECK(w->visited[i] <= 1, "node %u was visited %u times", i, w->visited[i]);
		*visits += (double) grn_search_visits(s) / QUERIES;
		CHECK(grn_search_run(s) == 0, "a search that cannot resume did");
		grn_search_end(s);
		CHECK(w->blocks == 0, "%zu blocks left", w->blocks);
	}
	free(near);
	return (double) hits / (K * QUERIES);
}

static void
recall_by_metric_and_format(void)
{
	for (int metric = GRN_L2; metric <= GRN_COSINE; metric++)
		for (int format = GRN_VEC_F32; format <= GRN_VEC_U8; format++)
			for (int codes = 0; codes < 2; codes++)
			{
				World	   *w;
				double		visits,
							r;

				/* cosine's rows are fractions: nothing smaller holds them */
				if (metric == GRN_COSINE && format != GRN_VEC_F32)
					continue;
				w = make_world((GrnMetric) metric, 24, (GrnVecFormat) format, codes);
				r = recall(w, 64, &visits);
				/* inner product of rows that all point one way: hardest */
				CHECK(r >= (metric == GRN_IP ? 0.95 : 0.97), "metric %d format %d codes %d: %.3f", metric, format, codes, r);
				CHECK(codes ? visits < 110 : visits < 700, "metric %d codes %d: %.1f visits",
					  metric, codes, visits);
				free_world(w);
			}
}

/* A vector that continues on other pages reaches the search in one piece. */
static void
spanning_records(void)
{
	World	   *w = make_world(GRN_L2, 2500, GRN_VEC_F32, true);
	double		visits;

	CHECK(w->layout.span == 2, "%u", w->layout.span);
	CHECK(recall(w, 64, &visits) >= 0.97, "recall");
	free_world(w);
}

static void
small_lists(void)
{
	World	   *w = make_world(GRN_L2, 24, GRN_VEC_F32, true);

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
		GrnSearchParams p = {&w->layout, &w->codec, GRN_L2, 10, resumable, 0, false, false};
		GrnSearch  *s = grn_search_begin(&p, &w->store, world_row(w, N));

		CHECK(grn_search_run(s) == 0, "no entry, no result");
		CHECK(grn_search_run(s) == 0, "still none");
		CHECK(!grn_search_truncated(s), "truncated");
		grn_search_end(s);
	}
	CHECK(w->blocks == 0, "%zu blocks left", w->blocks);
	free_world(w);
}

/* Batches are disjoint, each in order, and together all there is. */
static void
resumed_searches_find_all(void)
{
	for (int codes = 0; codes < 2; codes++)
	{
		World	   *w = make_world(GRN_L2, 24, GRN_VEC_F32, codes);
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
					CHECK(w->visited[i] == 1, "node %u was visited %u times", i, w->visited[i]);
				CHECK(grn_search_visits(s) == N, "visits");
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
	World	   *w = make_world(GRN_L2, 24, GRN_VEC_F32, true);

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
	CHECK(w->prefetched > QUERIES * 30 && w->prefetched < QUERIES * 100, "%llu",
		  (unsigned long long) w->prefetched);
	free_world(w);
}

/* Dead nodes, freed or not, lead on, but take no result's place. */
static void
dead_nodes_are_passed(void)
{
	for (int codes = 0; codes < 2; codes++)
	{
		World	   *w = make_world(GRN_L2, 24, GRN_VEC_F32, codes);
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

/* Links that lead to empty slots are skipped, also on resuming. */
static void
empty_slots_are_skipped(void)
{
	for (int codes = 0; codes < 2; codes++)
	{
		World	   *w = make_world(GRN_L2, 24, GRN_VEC_F32, codes);
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
 * A slot freed and used again has other codes in its neighbours' records than
 * those of old: whatever the codes, a node is found once and the search ends.
 */
static void
stale_codes_do_no_harm(void)
{
	World	   *w = make_world(GRN_L2, 24, GRN_VEC_F32, true);

	for (uint32_t i = 0; i < N; i++)
	{
		uint8_t    *codes = grn_rec_codes(&w->layout, record(w, i));
		GrnFactor  *factors = grn_rec_factors(&w->layout, record(w, i));

		for (uint32_t j = 0; j < w->layout.degree * w->layout.code_bytes; j++)
			codes[j] = (uint8_t) unit_random();
		/* and any factor, infinite and no number among them */
		for (uint32_t j = 0; j < w->layout.degree; j++)
			factors[j] = (GrnFactor)
		{
			(uint16_t) unit_random(), (uint16_t) unit_random()
		};
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
		World	   *w = make_world(GRN_L2, 24, GRN_VEC_F32, codes);
		size_t		unlimited;
		size_t		limit = codes ? 12000 : 60000;
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
	World	   *w = make_world(GRN_L2, 24, GRN_VEC_F32, true);

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
			World	   *w = make_world(GRN_L2, 24, GRN_VEC_F16, codes);
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
							  memcmp(&factor, &w->factors[id], 4) == 0, "code of %u", id);
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
			World	   *w = make_world((GrnMetric) metric, 24, GRN_VEC_F32, codes);

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
	RUN(spanning_records);
	RUN(small_lists);
	RUN(resumed_searches_find_all);
	RUN(resumable_changes_nothing);
	RUN(dead_nodes_are_passed);
	RUN(empty_slots_are_skipped);
	RUN(stale_codes_do_no_harm);
	RUN(memory_stays_within_limit);
	RUN(abandoned_searches_leave_nothing);
	RUN(kept_vectors_are_the_records);
	RUN(extreme_queries);
	UNIT_END();
}
