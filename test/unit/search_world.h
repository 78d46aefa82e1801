/*
 * search_world.h - rows, their graph and their records in plain memory, for tests of searches.
 */
#ifndef SEARCH_WORLD_H
#define SEARCH_WORLD_H

#include "graph/descent.h"
#include "space/space.h"
#include "store/codec.h"
#include "store/group.h"
#include "store/search.h"
#include "unit.h"

#include <setjmp.h>

#define N 1500
#define QUERIES 40
#define DEGREE 16
#define K 10
#define NORM_UNIT 100.0f		/* inner product's, about the rows' norm */
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
	uint32_t	visited[N];		/* with the neighbors, or in a closed search */
	uint32_t	measured[N];	/* without codes, without the neighbors */
	uint64_t	prefetched;
	uint8_t		asked[N];		/* the store was asked for these */
	uint64_t	unasked;		/* visits of others */
	bool		inside;			/* a visit is going on */
	jmp_buf    *escape;			/* visit() leaves by longjmp when this runs out: */
	int			visits_left;
} World;

/* ---- the store ---- */

static inline bool
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
	if (self->skips_neighbors && w->layout.code_bytes == 0)
		w->measured[id]++;
	else
		w->visited[id]++;
	w->unasked += !w->asked[id];
	if (!grn_record_leads_on((const GrnRecord *) rec))
		return false;
	w->inside = true;
	memcpy(w->vector, rec + w->layout.off_vec, w->layout.vec_bytes);
	rec = (const uint8_t *) grn_absent_view(self->absent, id, (const GrnRecord *) rec);
	if (rec != NULL)
		fn(arg, (const GrnRecord *) rec, w->vector);
	w->inside = false;
	return rec != NULL;
}

static inline void
world_prefetch(GrnStore *self, const uint32_t *ids, uint32_t count)
{
	World	   *w = (World *) self;

	CHECK(!w->inside, "prefetch inside a visit");
	for (uint32_t i = 0; i < count; i++)
	{
		CHECK(ids[i] < N, "prefetch of %u", ids[i]);
		if (ids[i] < N)
			w->asked[ids[i]] = 1;
	}
	w->prefetched += count;
}

static inline void *
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

static inline void
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

static inline void
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

static inline int
by_distance(const void *a, const void *b)
{
	const Near *x = a;
	const Near *y = b;

	if (x->distance != y->distance)
		return x->distance < y->distance ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

static inline float *
world_row(const World *w, size_t i)
{
	return w->rows + i * w->space;
}

/* Rows, n of them in the order [n], or the first n. */
static inline GrnRows
world_rows(const World *w, const uint32_t *order, size_t n)
{
	return (GrnRows) {.base = w->rows, .order = order, .n = n,
					  .row_bytes = w->space * sizeof(float), .dim = w->dim,
					  .embedding = grn_metric(w->metric)->embedding, .form = GRN_FORM_F32};
}

/* Rows by their codes, for groups of so many. */
static inline GrnGrouping
world_grouping(const World *w, uint32_t room)
{
	return (GrnGrouping) {.codec = &w->codec, .codes = w->codes, .factors = w->factors, .room = room,
						  .seed = 7};
}

/* Any codes of n rows; by round: of no length, all equal, of equal numbers, or none of these. */
static inline void
any_codes_of(uint32_t round, uint32_t n, uint32_t bytes, uint8_t *codes, GrnFactor *factors)
{
	for (uint32_t i = 0; i < n; i++)
	{
		uint32_t	bits = round % 4 == 0 ? 0 : round % 4 == 1 ? 0x12345678 : (uint32_t) unit_random();

		memcpy(&factors[i], &bits, sizeof(bits));
		for (uint32_t j = 0; j < bytes; j++)
			codes[(size_t) i * bytes + j] = (uint8_t) (round % 4 < 3 ? 17 * j : unit_random());
	}
}

/* Squared distance of two rows in the graph's space. */
static inline float
between(const World *w, size_t i, size_t j)
{
	GrnRows		rows = world_rows(w, NULL, N);

	return grn_row_distance(&rows, world_row(w, i), world_row(w, j));
}

/* Low-rank rows around ten centers, in the form that metric and format want. */
static inline void
make_rows(World *w, GrnForm format)
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
			if (format == GRN_FORM_U8)
				x[j] = fmaxf(0, fminf(255, roundf(x[j] + 120)));
			if (format == GRN_FORM_BITS)
				x[j] = x[j] > 0;
			if (format == GRN_FORM_F16)
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

			for (uint32_t j = 0; j < w->dim && format == GRN_FORM_F32; j++)
				x[j] *= length;
			scale = grn_scale(grn_norm2(x, w->dim), NORM_UNIT, GRN_USUAL_POWER);
			memcpy(x + w->dim, &scale, sizeof(scale));
		}
	}
	free(mix);
}

/*
 * The RNG rule on all others by distance, and one edge i -> i + 1 so that all
 * is reachable from anywhere.
 */
static inline void
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

static inline void
write_records(World *w)
{
	size_t		code_bytes = w->layout.code_bytes;

	/* the last page is empty from N on */
	w->records = calloc(N + w->layout.per_page, w->layout.record_bytes);
	for (uint32_t i = 0; i < N; i++)
	{
		GrnRecordSource src = {0};
		uint8_t		tid[GRN_TID_BYTES] = {0};

		memcpy(tid, &i, 4);
		tid[4] = 1;
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

static inline World *
make_world(GrnMetric metric, uint32_t dim, GrnForm format, bool codes)
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
	w->space = (uint32_t) grn_row_floats(grn_metric(metric), dim);
	make_rows(w, format);
	make_graph(w);

	fit.rows = w->rows;
	fit.nrows = N;
	fit.stride = w->space;
	fit.embedding = grn_metric(metric)->embedding;
	fit.kind = grn_metric(metric)->codes;
	fit.dim = dim;
	fit.max_code_dims = codes ? 32 : 0;
	fit.energy = 0.85f;
	work = malloc(grn_codec_fit_bytes(&fit));
	w->model = malloc(4 * grn_codec_floats(dim, 32));
	w->codec = grn_codec_fit(&fit, &parallel, w->model, work, &held);
	grn_codec_set_metric(&w->codec, grn_metric(metric), NORM_UNIT);
	free(work);
	CHECK(grn_layout(&w->layout, dim, DEGREE, w->codec.shape, format, 8160), "layout");
	w->vector = malloc(w->layout.vec_bytes);
	w->codes = malloc(N * 16);
	w->factors = malloc(N * sizeof(GrnFactor));
	for (size_t i = 0; i < N && codes; i++)
		grn_encode(&w->codec, world_row(w, i), w->codes + i * w->layout.code_bytes,
				   w->factors + i, scratch);
	write_records(w);
	return w;
}

static inline void
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

static inline GrnRecord *
record(World *w, uint32_t id)
{
	return (GrnRecord *) (w->records + (size_t) id * w->layout.record_bytes);
}

/* ---- searching it ---- */

static inline GrnSearch *
begin(World *w, uint32_t query, uint32_t ef, bool resumable, size_t limit, bool keep)
{
	GrnSearchParams p = {.layout = &w->layout, .codec = &w->codec, .metric = grn_metric(w->metric),
		.ef = ef, .ef_exact = ef, .wanted = 10, .resumable = resumable, .memory_limit = limit, .keep_vectors = keep};
	GrnSearch  *s = grn_search_begin(&p, &w->store, world_row(w, N + query));
	uint32_t	entry = 0;

	grn_search_entries(s, &entry, w->codes, w->factors, 1);
	return s;
}

static inline float
exact(const World *w, uint32_t query, uint32_t id)
{
	const float *q = world_row(w, N + query);
	const float *x = world_row(w, id);

	return grn_compare(grn_metric(w->metric)->comparison, GRN_FORM_F32, q, x, w->dim);
}

/* The true neighbors among records of state GRN_NODE. */
static inline void
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
static inline void
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

static inline double
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
		memset(w->measured, 0, sizeof(w->measured));
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
			CHECK(w->visited[i] <= 1 && w->measured[i] <= 1, "node %u was visited %u times, measured %u", i,
				  w->visited[i], w->measured[i]);
		*visits += (double) grn_search_visits(s) / QUERIES;
		CHECK(grn_search_run(s) == 0, "a search that cannot resume did");
		grn_search_end(s);
		CHECK(w->blocks == 0, "%zu blocks left", w->blocks);
	}
	free(near);
	return (double) hits / (K * QUERIES);
}

#endif							/* SEARCH_WORLD_H */
