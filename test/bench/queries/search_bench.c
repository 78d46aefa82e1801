/*
 * search_bench.c - src/store's search over records in plain memory: visits and
 * time of a query at recall@10 0.95 and 0.99, without a server.
 *
 *   cc -O2 -g -std=gnu11 -pthread -Isrc -o search_bench test/bench/queries/search_bench.c \
 *      $(find src/memory src/space src/store src/graph -name '*.c') src/builder/thread_pool.c -lm
 *   search_bench [options] BASE.fbin QUERY.fbin GRAPH.ibin     (GRAPH: grnnd_paper's)
 *
 *   --metric l2|ip|cosine|l1  distance (default l2)
 *   --codes 32x4+96x2+64x1  the codes' shape, or their bytes, in the best shape (0: no codes;
 *                           default: chosen by cost)
 *   --format NAME           own vectors: f32, f16, u8, rotated4, rotated2, rotated1 (default: the
 *                           smallest that is lossless).  Recall of others than lossless ones is
 *                           that after re-ranking by exact distances, as scans do it; "rows" are
 *                           those that it reads
 *   --queries N             the first N queries (1000)
 *   --payload N             usable bytes of a page (8160)
 *   --access NS             busy time a visit, as a stand-in for a buffer manager (0)
 *   --resumable             as iterative scans search
 *   --prefetch              let the store fetch ahead into the processor's cache
 *   --ef N[,N...]           these list sizes alone
 *   --repeat N              a time is the least of N (5)
 *   --pass S                queries filter by a label that a share S of the rows has, at random
 *   --tenants N,WHICH       rows have the label of their cell, of N around random rows; queries
 *                           filter by their own cell's, by a random one's, or by that of one
 *                           of the farthest tenth of cells (own, random, far)
 *   --checked               a filter is only checked at visits: no signatures, no sample
 */
#include "builder/threads.h"
#include "graph/descent.h"
#include "graph/graph.h"
#include "store/codec.h"
#include "store/group.h"
#include "store/search.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define K 10
#define SAMPLE 1000
#define SAMPLE_PAGE 170			/* rows of it are looked at together, until */
#define ENOUGH 64				/* so many pass */
#define ARENA (64 << 20)

typedef struct Matrix
{
	int32_t		rows;
	int32_t		columns;
	void	   *data;			/* [rows][columns] of 4 bytes */
}			Matrix;

typedef struct Bench
{
	GrnStore	store;
	/* options */
	GrnMetric	metric;
	int			code_bytes;		/* -1: by cost */
	GrnCodeShape shape;			/* given */
	int			format;			/* 0: the smallest */
	uint32_t	queries;
	uint32_t	payload;
	uint32_t	access;			/* ns */
	bool		resumable;
	const char *efs;			/* given */
	int			repeat;
	double		pass;			/* share of the rows that pass, 0: no filter */
	uint32_t	tenants;
	const char *which;			/* tenant */
	bool		checked;
	/* data */
	uint32_t	dim;
	uint32_t	space;
	uint32_t	n;
	float		norm_unit;		/* inner product: the largest norm */
	float	   *base;			/* [n][space] */
	float	   *query;			/* [queries][space] */
	uint32_t   *truth;			/* [queries][K] */
	float	   *bound;			/* [queries] distance of the K-th neighbor */
	uint32_t   *row_of;			/* [n] of the node */
	uint16_t   *labels;			/* [n] */
	uint16_t   *wanted;			/* [queries] */
	uint32_t   *centers;		/* [tenants] rows */
	uint32_t	sample[SAMPLE];
	uint32_t	nsample;
	uint8_t    *sample_codes;
	GrnFactor	sample_factors[SAMPLE];
	uint8_t		sample_sigs[SAMPLE];
	GrnGraph	graph;
	uint32_t	entry;
	GrnLayout	layout;
	float	   *model;
	GrnCodec	codec;
	float		held;
	uint8_t    *codes_of;
	GrnFactor  *factors;
	uint8_t    *records;
	GrnParallel *parallel;
	/* the store */
	char	   *arena;
	size_t		used;
	uint32_t   *page_stamp;
	uint32_t	stamp;
	uint64_t	pages;
	uint64_t	asked;
}			Bench;

static void
die(const char *what, const char *name)
{
	fprintf(stderr, "search_bench: %s%s%s\n", what, name ? ": " : "", name ? name : "");
	exit(2);
}

static double
seconds(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

static Matrix
read_matrix(const char *path)
{
	Matrix		m;
	FILE	   *f = fopen(path, "rb");
	size_t		count;

	if (!f || fread(&m.rows, 4, 1, f) != 1 || fread(&m.columns, 4, 1, f) != 1)
		die("cannot read", path);
	count = (size_t) m.rows * (size_t) m.columns;
	m.data = malloc(4 * count);
	if (!m.data || fread(m.data, 4, count, f) != count)
		die("cannot read", path);
	fclose(f);
	return m;
}

/* ---- the store ---- */

static bool
bench_visit(GrnStore *self, uint32_t id, GrnVisitFn fn, void *arg)
{
	Bench	   *b = (Bench *) self;
	const uint8_t *rec = b->records + (size_t) id * b->layout.record_bytes;

	if (b->page_stamp)
	{
		uint32_t	page = grn_node_page(&b->layout, id);

		b->pages += b->page_stamp[page] != b->stamp;
		b->page_stamp[page] = b->stamp;
	}
	if (b->access > 0)
		for (double end = seconds(CLOCK_MONOTONIC) + 1e-9 * b->access;
			 seconds(CLOCK_MONOTONIC) < end;)
			;
	fn(arg, (const GrnRecord *) rec, rec + b->layout.off_vec);
	return true;
}

/* What a store could do that finds the page of an id without waiting. */
static void
bench_prefetch(GrnStore *self, const uint32_t *ids, uint32_t count)
{
	Bench	   *b = (Bench *) self;

	b->asked += count;
	for (uint32_t i = 0; i < count; i++)
	{
		const uint8_t *rec = b->records + (size_t) ids[i] * b->layout.record_bytes;

		for (uint32_t at = 0; at < b->layout.record_bytes; at += 64)
			__builtin_prefetch(rec + at);
	}
}

static void *
bench_alloc(GrnStore *self, size_t bytes)
{
	Bench	   *b = (Bench *) self;
	void	   *p = b->arena + b->used;

	b->used += (bytes + 63) & ~(size_t) 63;
	if (b->used > ARENA)
		die("out of memory", NULL);
	return p;
}

static void
bench_free(GrnStore *self, void *p)
{
	(void) self;
	(void) p;
}

/* ---- preparation ---- */

static void
read_rows(Bench * b, const char *base, const char *query)
{
	Matrix		m = read_matrix(base);
	Matrix		q = read_matrix(query);
	float		most = 0;

	if (m.columns != q.columns)
		die("base and queries differ in dimensions", NULL);
	b->n = (uint32_t) m.rows;
	b->dim = (uint32_t) m.columns;
	b->space = (uint32_t) grn_row_floats(grn_metric(b->metric), b->dim);
	if (b->queries > (uint32_t) q.rows)
		b->queries = (uint32_t) q.rows;
	b->base = calloc((size_t) b->n * b->space, 4);
	b->query = calloc((size_t) b->queries * b->space, 4);
	for (size_t i = 0; i < b->n + (size_t) b->queries; i++)
	{
		bool		is_query = i >= b->n;
		float	   *to = is_query ? b->query + (i - b->n) * b->space : b->base + i * b->space;
		float		norm;

		memcpy(to, (float *) (is_query ? q.data : m.data) +
			   (is_query ? i - b->n : i) * b->dim, 4 * b->dim);
		norm = sqrtf(grn_dist->ip_f32(to, to, b->dim));
		if (b->metric == GRN_COSINE)
			for (uint32_t j = 0; j < b->dim; j++)
				to[j] /= norm;
		if (!is_query && norm > most)
			most = norm;
	}
	for (size_t i = 0; i < b->n && b->metric == GRN_IP; i++)
	{
		float	   *x = b->base + i * b->space;
		GrnScale	scale = grn_scale(grn_norm2(x, b->dim), most, GRN_USUAL_POWER);

		memcpy(x + b->dim, &scale, sizeof(scale));
	}
	b->norm_unit = most;
	free(m.data);
	free(q.data);
}

static float
exact(const Bench * b, const float *q, uint32_t id)
{
	const float *x = b->base + (size_t) id * b->space;

	return grn_compare(grn_metric(b->metric)->comparison, GRN_FORM_F32, q, x, b->dim);
}

#include "search_bench_filters.h"

static void
find_truth(void *arg, int worker, size_t begin, size_t end)
{
	Bench	   *b = arg;

	(void) worker;
	for (size_t i = begin; i < end; i++)
	{
		float		best[K];
		uint32_t	n = 0;

		for (uint32_t id = 0; id < b->n; id++)
		{
			float		d;
			uint32_t	at;

			if (filters(b) && b->labels[id] != b->wanted[i])
				continue;
			d = exact(b, b->query + i * b->space, id);
			if (n == K && d >= best[K - 1])
				continue;
			at = n < K ? n++ : K - 1;
			for (; at > 0 && best[at - 1] > d; at--)
				best[at] = best[at - 1];
			best[at] = d;
		}
		b->bound[i] = n == K ? best[K - 1] : INFINITY;
	}
}

static void
encode_rows(void *arg, int worker, size_t begin, size_t end)
{
	Bench	   *b = arg;
	float		scratch[GRN_MAX_CODE_DIMS];

	(void) worker;
	for (size_t i = begin; i < end; i++)
		grn_encode(&b->codec, b->base + i * b->space,
				   b->codes_of + i * b->layout.code_bytes, &b->factors[i], scratch);
}

static GrnRows
rows_of(const Bench * b)
{
	return (GrnRows) {.base = b->base, .n = b->n, .row_bytes = b->space * sizeof(float),
					  .dim = b->dim, .embedding = grn_metric(b->metric)->embedding, .form = GRN_FORM_F32};
}

static void
read_graph(Bench * b, const char *path)
{
	Matrix		m = read_matrix(path);
	GrnRows		rows = rows_of(b);
	int32_t    *ids = m.data;

	if ((uint32_t) m.rows != b->n || m.columns > GRN_MAX_DEGREE)
		die("not a graph of these rows", path);
	b->graph.ids = m.data;
	b->graph.n = b->n;
	b->graph.degree = (uint32_t) m.columns;
	b->graph.counts = calloc(b->n, 1);
	for (size_t i = 0; i < b->n; i++)
		while (b->graph.counts[i] < m.columns && ids[i * m.columns + b->graph.counts[i]] >= 0)
			b->graph.counts[i]++;
	b->entry = grn_medoid(&rows, 1);
}

static void
fit_codes(Bench * b)
{
	GrnForm		format = GRN_FORM_U8;
	GrnCodecFit fit = {.rows = b->base, .nrows = b->n, .stride = b->space, .dim = b->dim,
		.embedding = grn_metric(b->metric)->embedding,
		.kind = grn_metric(b->metric)->codes,
		.shape = b->shape, .seed = 1};
	GrnCodeCosts costs;
	uint32_t   *sample;
	void	   *work;
	double		start;

	for (size_t i = 0; i < b->n && format != GRN_FORM_F32; i++)
	{
		GrnForm		f = grn_form_smallest(b->base + i * b->space, b->dim);

		format = grn_form_wider(format, f);
	}
	if (b->format != 0)
		format = (GrnForm) b->format;
	fit.max_code_dims = b->code_bytes != 0 ? grn_max_code_dims(b->dim) : 0;
	grn_layout_code_costs(b->dim, b->graph.degree, format, b->payload, &costs);
	if (b->code_bytes > 0)
		for (int i = 0; i <= GRN_MAX_CODE_BYTES / GRN_CODE_STEP; i++)
			costs.visit[i] = i == b->code_bytes / GRN_CODE_STEP ? 1 : INFINITY;
	if (grn_code_dims(b->shape) == 0)
		fit.costs = &costs;
	fit.nsample = b->n < 20000 ? b->n : 20000;
	sample = malloc(fit.nsample * 4);
	for (size_t i = 0; i < fit.nsample; i++)
		sample[i] = (uint32_t) (i * b->n / fit.nsample);
	fit.sample = sample;
	work = malloc(grn_codec_fit_bytes(&fit));
	b->model = malloc(4 * grn_codec_floats(b->dim, fit.max_code_dims) + 4);
	start = seconds(CLOCK_MONOTONIC);
	b->codec = grn_codec_fit(&fit, b->parallel, b->model, work, &b->held);
	grn_codec_set_metric(&b->codec, grn_metric(b->metric), b->norm_unit);
	printf("fit of %zu rows %.2f s", fit.nsample, seconds(CLOCK_MONOTONIC) - start);
	free(work);
	free(sample);
	if (!grn_layout_of(&b->layout, &(GrnLayoutSpec) {.dim = b->dim, .degree = b->graph.degree,
													 .shape = b->codec.shape, .form = format, .payload = b->payload,
													 .attr_bytes = filters(b) ? 2 : 0, .sig_bytes = filters(b) ? 1 : 0}))
		die("codes do not fit a page", NULL);
	b->codes_of = malloc((size_t) b->n * b->layout.code_bytes + 1);
	b->factors = malloc((size_t) b->n * sizeof(GrnFactor));
	start = seconds(CLOCK_MONOTONIC);
	if (grn_has_codes(&b->codec))
		b->parallel->run(b->parallel, b->n, 1024, encode_rows, b);
	printf(", codes %.2f s\n", seconds(CLOCK_MONOTONIC) - start);
}

/* Records in the order of pages; base is permuted along, so that ids are positions. */
static void
write_records(Bench * b)
{
	uint32_t   *position = malloc(4 * (size_t) b->n);
	void	   *work = malloc(16 * (size_t) b->n);
	uint8_t    *sigs = malloc(b->n);
	size_t		code_bytes = b->layout.code_bytes;
	GrnRows		rows = rows_of(b);
	double		start;

	for (uint32_t i = 0; i < b->n; i++)
		sigs[i] = signature(b->labels[i]);

	b->row_of = malloc(4 * (size_t) b->n);
	start = seconds(CLOCK_MONOTONIC);
	if (!grn_cut_order(&rows, b->layout.per_page, position, b->parallel, work))
		die("out of memory", NULL);
	printf("order %.2f s\n", seconds(CLOCK_MONOTONIC) - start);
	/* free slots fill the last page */
	b->records = calloc((size_t) b->n + b->layout.per_page, b->layout.record_bytes);
	for (uint32_t i = 0; i < b->n; i++)
	{
		GrnRecordSource src = {0};
		uint8_t		tid[GRN_TID_BYTES] = {0};
		uint32_t	ids[GRN_MAX_DEGREE];
		const uint32_t *from = b->graph.ids + (size_t) i * b->graph.degree;

		for (uint32_t j = 0; j < b->graph.counts[i]; j++)
			ids[j] = position[from[j]];
		b->row_of[position[i]] = i;
		src.x = b->base + (size_t) i * b->space;
		src.code = b->codes_of + (size_t) i * b->layout.code_bytes;
		src.factor = b->factors[i];
		src.tids = tid;
		src.sig = sigs + i;
		src.all_sigs = sigs;
		src.attrs = (const uint8_t *) (b->labels + i);
		src.ntids = 1;
		src.next = GRN_INVALID_ID;
		src.ids = ids;
		src.code_index = from;
		src.count = b->graph.counts[i];
		src.all_codes = b->codes_of;
		src.all_factors = b->factors;
		grn_record_write(&b->layout, &src,
						 b->records + (size_t) position[i] * b->layout.record_bytes);
	}
	b->nsample = b->n < SAMPLE ? b->n : SAMPLE;
	b->sample_codes = malloc(SAMPLE * code_bytes + 1);
	for (uint32_t i = 0; i < b->nsample; i++)
	{
		uint32_t	row = (uint32_t) ((uint64_t) i * b->n / b->nsample);

		b->sample[i] = position[row];
		b->sample_sigs[i] = sigs[row];
		b->sample_factors[i] = b->factors[row];
		memcpy(b->sample_codes + i * code_bytes, b->codes_of + row * code_bytes, code_bytes);
	}
	free(sigs);
	/* The search starts where the entry's record went, by its own code. */
	memmove(b->codes_of, b->codes_of + (size_t) b->entry * b->layout.code_bytes,
			b->layout.code_bytes);
	b->factors[0] = b->factors[b->entry];
	b->entry = position[b->entry];
	free(position);
	free(work);
}

/* ---- measuring ---- */

typedef struct Result
{
	double		recall;
	double		visits;
	double		pages;
	double		asked;
	double		us;
	double		rows;			/* read for re-ranking */
	double		dry;			/* share of queries that should be handed over */
	double		few;			/* and that found less than K rows */
}			Result;

/*
 * The K nearest of what a search has found, by exact distances of the rows that a scan would read
 * (src/am/scan/rerank.c).  Returns how many of them are among the nearest; counts what is read.
 */
static uint32_t
rerank(const Bench * b, uint32_t query, const GrnFound *found, uint32_t n, uint64_t *rows)
{
	const GrnFormInfo *form = grn_form(b->layout.form);
	double		share = form->deviations > 0 ? form->deviations / sqrt(b->dim) : 1;
	float		nearest[K];
	double	   *least = malloc(n * sizeof(double) + 1);
	uint32_t	near = 0;
	uint32_t	hits = 0;

	for (uint32_t i = 0; i < n; i++)
		least[i] = grn_metric(b->metric)->bound(&(GrnBound) {
															 .compared = found[i].distance, .error = found[i].error * (share < 1 ? share : 1),
															 .across = form->rotated ? found[i].error : 0, .dim = b->dim
															 });
	for (;;)
	{
		uint32_t	at = 0;
		float		d;
		uint32_t	j;

		for (uint32_t i = 1; i < n; i++)
			if (least[i] < least[at])
				at = i;
		if (n == 0 || isinf(least[at]) ||
			(near == K && least[at] >= grn_metric(b->metric)->value(nearest[K - 1])))
			break;
		least[at] = INFINITY;
		d = exact(b, b->query + (size_t) query * b->space, b->row_of[found[at].id]);
		(*rows)++;
		if (near == K && d >= nearest[K - 1])
			continue;
		for (j = near < K ? near++ : K - 1; j > 0 && nearest[j - 1] > d; j--)
			nearest[j] = nearest[j - 1];
		nearest[j] = d;
	}
	for (uint32_t j = 0; j < near; j++)
		hits += nearest[j] <= b->bound[query];
	free(least);
	return hits;
}

static Result
measure(Bench * b, uint32_t ef, int repeats)
{
	GrnSearchParams p = {.layout = &b->layout, .codec = &b->codec, .metric = grn_metric(b->metric),
		.ef = ef, .resumable = b->resumable};
	Result		r = {.us = INFINITY};

	for (int repeat = 0; repeat < repeats; repeat++)
	{
		uint64_t	hits = 0;
		uint64_t	visits = 0;
		uint64_t	rows = 0;
		double		reranking = 0;
		bool		rounded = !grn_form(b->layout.form)->lossless && (b->format != 0 && b->format != GRN_FORM_U8);
		uint32_t	dry = 0;
		uint32_t	few = 0;
		double		start = seconds(CLOCK_THREAD_CPUTIME_ID);

		b->pages = b->asked = 0;
		for (uint32_t i = 0; i < b->queries; i++)
		{
			GrnSearch  *s;
			uint32_t	n;
			LabelFilter filter;
			uint32_t	picked[SAMPLE]; /* of the sample: those that pass */
			uint32_t	npicked = 0;
			uint32_t	seen = 0;

			b->used = 0;
			b->stamp++;
			if (filters(b))
			{
				make_filter(&filter, b->wanted[i], b->checked);
				for (; seen < b->nsample && (npicked < ENOUGH || seen % SAMPLE_PAGE != 0); seen++)
				{
					/* as if they were in a random order */
					uint32_t	j = (uint32_t) (seen * 617 % b->nsample);

					if (grn_sig_passes(&filter.base, b->sample_sigs + j))
						picked[npicked++] = j;
				}
				p.filter = &filter.base;
				p.share = (npicked + 1.0) / (seen + 2.0);
			}
			s = grn_search_begin(&p, &b->store, b->query + (size_t) i * b->space);
			grn_search_entries(s, &b->entry, b->codes_of, b->factors, 1);
			for (uint32_t j = 0; j < npicked && !b->checked; j++)
				grn_search_sample(s, &b->sample[picked[j]],
								  b->sample_codes + (size_t) picked[j] * b->layout.code_bytes,
								  &b->sample_factors[picked[j]], 1);
			n = grn_search_run(s);
			dry += filters(b) && grn_search_dry(s);
			few += n < K;
			/* ties with the K-th count */
			if (rounded)
			{
				double		began = seconds(CLOCK_THREAD_CPUTIME_ID);

				hits += rerank(b, i, grn_search_found(s), n, &rows);
				reranking += seconds(CLOCK_THREAD_CPUTIME_ID) - began;
			}
			for (uint32_t j = 0; !rounded && j < n && j < K; j++)
				hits += grn_search_found(s)[j].distance <=
					b->bound[i] + 1e-5f * fabsf(b->bound[i]);
			visits += grn_search_visits(s);
			grn_search_end(s);
		}
		start = (seconds(CLOCK_THREAD_CPUTIME_ID) - start - reranking) * 1e6 / b->queries;
		r.rows = (double) rows / b->queries;
		r.dry = (double) dry / b->queries;
		r.few = (double) few / b->queries;
		r.recall = (double) hits / K / b->queries;
		r.visits = (double) visits / b->queries;
		r.asked = (double) b->asked / b->queries;
		r.pages = (double) b->pages / b->queries;
		if (start < r.us)
			r.us = start;
	}
	return r;
}

static void
report(Bench * b, uint32_t ef)
{
	Result		pages;
	Result		r;

	/* Counting pages costs time of its own, so it has its own pass. */
	b->page_stamp = calloc((size_t) b->n * b->layout.span, 4);
	pages = measure(b, ef, 1);
	free(b->page_stamp);
	b->page_stamp = NULL;
	r = measure(b, ef, b->repeat);
	printf("recall %.4f  ef %3u  visits %6.1f  pages %6.1f  rows %4.1f  prefetched %6.1f  %7.1f us  %7.0f q/s  %.0f ns a visit\n",
		   r.recall, ef, r.visits, pages.pages, r.rows, r.asked, r.us, 1e6 / r.us, 1e3 * r.us / r.visits);
	if (filters(b))
		printf("    handed over %.3f, found too few %.3f\n", r.dry, r.few);
	fflush(stdout);
}

/* The smallest list that reaches the recall, between bounds. */
static uint32_t
find_ef(Bench * b, double recall)
{
	uint32_t	low = K;
	uint32_t	high = 2000;

	while (low < high)
	{
		uint32_t	ef = low + (high - low) / (high > 4 * low ? 8 : 2);

		if (measure(b, ef, 1).recall >= recall)
			high = ef;
		else
			low = ef + 1;
	}
	return low;
}

int
main(int argc, char **argv)
{
	static const struct option options[] = {
		{"metric", 1, NULL, 'm'}, {"codes", 1, NULL, 'c'},
		{"format", 1, NULL, 'f'}, {"queries", 1, NULL, 'q'}, {"payload", 1, NULL, 'p'},
		{"access", 1, NULL, 'a'}, {"resumable", 0, NULL, 'r'}, {"ef", 1, NULL, 'E'},
		{"repeat", 1, NULL, 'R'}, {"prefetch", 0, NULL, 'P'}, {"pass", 1, NULL, 's'},
		{"tenants", 1, NULL, 't'}, {"checked", 0, NULL, 'C'},
		{NULL, 0, NULL, 0}
	};
	Bench	   *b = calloc(1, sizeof(Bench));
	GrnPool    *pool;
	int			c;

	b->metric = GRN_L2;
	b->code_bytes = -1;
	b->queries = 1000;
	b->payload = 8160;
	b->repeat = 5;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
		switch (c)
		{
			case 'm':
				if (grn_metric_named(optarg) == NULL)
					die("no such metric", optarg);
				b->metric = grn_metric_named(optarg)->id;
				break;
			case 'f':
				for (int i = GRN_FORM_F32; i <= GRN_FORM_ROTATED1; i++)
					if (strcmp(optarg, grn_form((GrnForm) i)->name) == 0)
						b->format = i;
				if (b->format == 0)
					die("no such form", optarg);
				break;
			case 'c':
				if (sscanf(optarg, "%hux4+%hux2+%hux1", b->shape.dims, b->shape.dims + 1,
						   b->shape.dims + 2) != 3)
				{
					b->shape = GRN_NO_CODES;
					b->code_bytes = atoi(optarg);
				}
				break;
			case 'q':
				b->queries = (uint32_t) atoi(optarg);
				break;
			case 'p':
				b->payload = (uint32_t) atoi(optarg);
				break;
			case 'a':
				b->access = (uint32_t) atoi(optarg);
				break;
			case 'r':
				b->resumable = true;
				break;
			case 'E':
				b->efs = optarg;
				break;
			case 'P':
				b->store.prefetch = bench_prefetch;
				break;
			case 's':
				b->pass = atof(optarg);
				break;
			case 't':
				b->tenants = (uint32_t) atoi(optarg);
				b->which = strchr(optarg, ',') ? strchr(optarg, ',') + 1 : "random";
				break;
			case 'C':
				b->checked = true;
				break;
			case 'R':
				b->repeat = atoi(optarg);
				break;
			default:
				die("see the head of search_bench.c for options", NULL);
		}
	if (argc - optind != 3)
		die("needs BASE.fbin QUERY.fbin GRAPH.ibin", NULL);

	grn_dist_init();
	pool = grn_pool_start(2);
	b->parallel = grn_pool_parallel(pool);
	b->store.visit = bench_visit;
	b->store.alloc = bench_alloc;
	b->store.free = bench_free;
	b->arena = malloc(ARENA);
	read_rows(b, argv[optind], argv[optind + 1]);
	read_graph(b, argv[optind + 2]);
	b->bound = malloc(4 * b->queries);
	make_labels(b);
	b->parallel->run(b->parallel, b->queries, 8, find_truth, b);
	fit_codes(b);
	write_records(b);
	printf("%u rows, %u dimensions, degree %u; codes of %ux4+%ux2+%ux1 in %u bytes hold %.4f; "
		   "%s vectors; record of %u + %u bytes, %u a page, %u pages; %s\n", b->n, b->dim,
		   b->graph.degree, b->codec.shape.dims[0], b->codec.shape.dims[1],
		   b->codec.shape.dims[2], b->layout.code_bytes, b->held,
		   grn_form(b->layout.form)->name, b->layout.hot_bytes,
		   b->layout.record_bytes - b->layout.hot_bytes, b->layout.per_page, b->layout.span,
		   grn_dist->name);
	if (b->efs != NULL)
		for (const char *ef = b->efs; ef != NULL; ef = strchr(ef, ',') ? strchr(ef, ',') + 1 : NULL)
			report(b, (uint32_t) atoi(ef));
	else
	{
		report(b, find_ef(b, 0.95));
		report(b, find_ef(b, 0.99));
	}
	return 0;
}
