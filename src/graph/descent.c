/*
 * descent.c - RNN-Descent on the processor's cores, in synchronous rounds.
 *
 * Each vertex has a pool of at most r (distance, id) keys, sorted, and two inboxes.  A round
 * reads one inbox of each vertex, and pushes keys to the second inbox of other vertices.  A
 * round merges each vertex's pool with the vertex's inbox and prunes the result exactly by the
 * RNG rule.  The survivors are the new pool.  Each pruned key goes to the nearest survivor
 * that occludes the key (the paper's Algorithm 2 takes the first).  An inbox keeps the
 * smallest distinct keys pushed, a set that does not depend on the order of the pushes.  The
 * graph therefore does not depend on the number of threads.
 *
 * Two keys that survived one prune cannot occlude each other, so two keys marked "old" are
 * never compared again.
 */
#include "graph/descent_impl.h"

#include <sched.h>
#include <string.h>

#include "memory/memory.h"

/*
 * Fewer rows than PROJECT_ROWS are not worth the fit of a projection: their bytes are of all
 * coordinates.  Processor time of CREATE INDEX with a fit and without, recall within .002: 8,000
 * and 20,000 fields of 1,024 dimensions 2.6 and 1.7 s, 4.3 and 3.9 s, equal at some 29,000; 10,000
 * and 20,000 sentences 1.5 and 1.1 s, 2.6 and 2.2 s; 20,000 rows of 50 to 128 dimensions as long.
 */
#define PROJECT_ROWS 32768
/* 20,000 sentences and image patches: the same recall and visits with half and twice of both. */
#define COARSE_SAMPLE 1024
#define SLICE_ROWS ((size_t) 1 << 17)
#define MOST_SLICES 16
/*
 * Positions to each side that half of the first neighbors come from.  Recall at ef 10 with half,
 * this and twice: 10,000 sentences .972, .971, .974, image patches .973, .974, .972.
 */
#define WINDOW 256

/* A key on the way to an inbox.  The push waits while the inbox is loaded into the cache. */
typedef struct Push
{
	uint32_t	to;
	uint64_t	key;
} Push;

static void
set_default(uint32_t *param, uint32_t value)
{
	if (*param == 0)
		*param = value;
}

/*
 * Rows on a line, each with two neighbors by the RNG rule, need the most rounds: with t1 = 4
 * and t2 = 3 one row in a hundred is not found by its own vector.  Builds of few rows can afford
 * more rounds, and so can builds whose first rounds leave a vertex few neighbors.  4,500 rows on a
 * line: recall at ef 10 is 1.000, with the rounds of many rows .989, in .28 and .22 s; of five
 * other sets within .002, near duplicates .504 and .490.  10,000 sentences with the rounds of few:
 * .974 instead of .971, a tenth more time.  FEW_NEIGHBORS, 10,000 rows at ef 40: a line in 64
 * dimensions 1.000, a circle in 500 .994, with 2 .996 and .975, with 4 and 8 the same; but Cauchy
 * numbers by inner product .977, with 4 .961.
 */
#define FEW_ROWS 5000
#define FEW_NEIGHBORS 3
#define MORE_OUTER 8
#define MORE_INNER 6

void
grn_default_params(GrnGraphParams *params, uint32_t dim, size_t n)
{
	set_default(&params->degree, grn_bare_degree(dim));
	set_default(&params->r, params->degree > 48 ? params->degree : 48);
	set_default(&params->s, 32);
	set_default(&params->t1, n <= FEW_ROWS ? MORE_OUTER : 4);
	set_default(&params->t2, n <= FEW_ROWS ? MORE_INNER : 3);
	if (!(params->rho > 0.0f && params->rho <= 1.0f))
		params->rho = 1.0f;
}

/* Limits parameters to the sizes of the arrays in this file. */
static GrnGraphParams
usable_params(const GrnGraphParams *params, size_t n, uint32_t dim)
{
	GrnGraphParams p = *params;

	grn_default_params(&p, dim, n);
	if (p.degree > GRN_MAX_DEGREE)
		p.degree = GRN_MAX_DEGREE;
	if (p.r > MAX_POOL)
		p.r = MAX_POOL;
	if (p.s > p.r)
		p.s = p.r;
	return p;
}

/*
 * Places the arrays in the workspace and returns its bytes.  Until the first neighbors are
 * drawn, the memory of the inboxes holds rows by vertex and the workspace of the order of
 * positions or of the projection.
 */
static size_t
place_arrays(Descent *d, void *workspace)
{
	size_t		n = d->rows.n;
	size_t		stride = grn_tile_stride(grn_project_max_dims(d->copied));
	size_t		order = grn_pivot_order_bytes(n);
	size_t		projection = d->fits && n >= PROJECT_ROWS && d->copied > 0 ? grn_project_bytes(n, d->copied) : 0;
	GrnArena	a = grn_arena(workspace);
	GrnArena	before;			/* the arena before the inboxes */

	d->pools = grn_take(&a, n, d->params.r * sizeof(uint64_t));
	d->counts = grn_take(&a, n, 1);
	d->vertex = grn_take(&a, n, sizeof(uint32_t));
	d->row_order = grn_take(&a, n, sizeof(uint32_t));
	d->bytes = grn_take(&a, n, stride);
	d->terms = grn_take(&a, n, 2 * sizeof(int32_t));
	before = a;
	d->read = grn_take(&a, n, sizeof(Inbox));
	d->write = grn_take(&a, n, sizeof(Inbox));
	d->vertex_bytes = grn_take(&before, n, stride);
	d->vertex_terms = grn_take(&before, n, 2 * sizeof(int32_t));
	d->mean = grn_take(&before, d->copied, sizeof(float));
	d->scratch = grn_take(&before, 1, order > projection ? order : projection);
	return grn_arena_bytes(before.used > a.used ? &before : &a);
}

static size_t
workspace_bytes(const GrnGraphParams *params, size_t n, uint32_t copied, bool fits)
{
	Descent		d = {.rows.n = n, .copied = copied, .fits = fits};

	d.params = usable_params(params, n, copied);
	return place_arrays(&d, NULL);
}

size_t
grn_rnnd_bytes(const GrnGraphParams *params, size_t n, uint32_t copied)
{
	return workspace_bytes(params, n, copied, true);
}

size_t
grn_rnnd_part_bytes(const GrnGraphParams *params, size_t n, uint32_t copied)
{
	return workspace_bytes(params, n, copied, false);
}

/* ---- inboxes ---- */

/*
 * Puts a key into a full inbox in place of the largest key.  A key that is larger, or in the
 * inbox already, is dropped.
 */
static void
replace_largest(Inbox *inbox, uint64_t key)
{
	uint32_t	largest = 0;

	if (key >= inbox->keys[inbox->largest])
		return;
	for (uint32_t i = 0; i < INBOX; i++)
		if (inbox->keys[i] == key)
			return;
	inbox->keys[inbox->largest] = key;
	for (uint32_t i = 1; i < INBOX; i++)
		if (inbox->keys[i] > inbox->keys[largest])
			largest = i;
	inbox->largest = (uint8_t) largest;
}

/*
 * Pushes a key to an inbox, which keeps the INBOX smallest distinct keys.  Equal keys are
 * dropped only when the inbox is full.
 */
static void
inbox_push(Inbox *inbox, uint64_t key)
{
	int			spins = 0;

	while (__atomic_exchange_n(&inbox->lock, 1, __ATOMIC_ACQUIRE))
		if (++spins % 64 == 0)
			sched_yield();
	if (inbox->full)
		replace_largest(inbox, key);
	else
	{
		inbox->keys[inbox->count++] = key;
		if (inbox->count == INBOX)
		{
			inbox->count = (uint8_t) grn_sort_distinct(inbox->keys, INBOX);
			inbox->full = inbox->count == INBOX;
			inbox->largest = INBOX - 1;
		}
	}
	__atomic_store_n(&inbox->lock, 0, __ATOMIC_RELEASE);
}

/*
 * Merges a vertex's sorted pool with the vertex's inbox (sorted here, then emptied) into out,
 * distinct and ascending.  An old key and the same key marked new differ only in the last bit;
 * the old key comes first and remains.
 */
static uint32_t
merge(const uint64_t *pool, uint32_t npool, Inbox *inbox, uint64_t *out)
{
	uint32_t	ninbox = inbox->count;
	uint32_t	i = 0;
	uint32_t	j = 0;
	uint32_t	n = 0;

	grn_sort_few_keys(inbox->keys, ninbox);
	while (i < npool || j < ninbox)
	{
		uint64_t	key;

		if (j == ninbox || (i < npool && pool[i] < inbox->keys[j]))
			key = pool[i++];
		else
			key = inbox->keys[j++];
		if (n == 0 || (out[n - 1] | KEY_NEW) != (key | KEY_NEW))
			out[n++] = key;
	}
	inbox->count = 0;
	inbox->full = 0;
	return n;
}

/* ---- a round ---- */

/*
 * Exact greedy prune of keys[0, count), which are sorted.  Survivors are written, marked old,
 * to pool (at most r).  Each occluded key becomes a push to the nearest survivor that occludes
 * the key.  Returns the number of survivors.
 */
static uint32_t
prune(Descent *d, const uint64_t *keys, uint32_t count, uint64_t *pool,
	  Push *pushes, uint32_t *npushes)
{
	GrnPanel	all;
	GrnPanel	fresh;			/* the new survivors */
	uint32_t	distances[MAX_POOL + 3];

	all.count = fresh.count = 0;
	*npushes = 0;
	for (uint32_t j = 0; j < count && all.count < d->params.r; j++)
	{
		uint32_t	id = KEY_ID(keys[j]);
		uint32_t	own = KEY_DISTANCE(keys[j]);
		bool		old = (keys[j] & KEY_NEW) == 0;
		const GrnPanel *against = old ? &fresh : &all;
		uint32_t	best = 0;

		if (against->count > 0)
		{
			grn_tile_dists(&d->tile, id, against, distances);
			for (uint32_t i = 1; i < against->count; i++)
				if (distances[i] < distances[best])
					best = i;
			if (distances[best] <= own)
			{
				Push	   *push = &pushes[(*npushes)++];

				push->to = against->ids[best];
				push->key = KEY(distances[best], id);
				__builtin_prefetch(&d->write[push->to], 1);
				continue;
			}
		}
		pool[all.count] = keys[j] & ~KEY_NEW;
		grn_panel_add(&all, &d->tile, id);
		if (!old)
			grn_panel_add(&fresh, &d->tile, id);
	}
	return all.count;
}

/* The state of one vertex in a round, between the merge and the pushes. */
typedef struct VertexStep
{
	uint64_t	keys[MAX_TILE];
	uint32_t	count;
} VertexStep;

static void
begin_step(Descent *d, size_t v, VertexStep *step)
{
	step->count = merge(d->pools + v * d->params.r, d->counts[v], &d->read[v], step->keys);
	for (uint32_t i = 0; i < step->count; i++)
		grn_tile_prefetch(&d->tile, KEY_ID(step->keys[i]));
}

static void
update_range(void *arg, int worker, size_t begin, size_t end)
{
	Descent    *d = arg;
	VertexStep	steps[2];
	Push		pushes[2][MAX_TILE];
	uint32_t	npushes[2] = {0, 0};

	(void) worker;
	begin_step(d, begin, &steps[begin & 1]);
	for (size_t v = begin; v < end; v++)
	{
		VertexStep *step = &steps[v & 1];
		Push	   *earlier = pushes[(v + 1) & 1];
		uint32_t	nearlier = npushes[(v + 1) & 1];
		bool		any_new = false;

		/*
		 * While the rows of this vertex are compared, the rows of the next vertex and the
		 * inboxes of this vertex's pushes are loaded into the cache.  The pushes of the vertex
		 * before follow.
		 */
		if (v + 1 < end)
			begin_step(d, v + 1, &steps[(v + 1) & 1]);
		for (uint32_t i = 0; i < step->count; i++)
			any_new |= step->keys[i] & KEY_NEW;
		npushes[v & 1] = 0;
		if (any_new)
		{
			d->counts[v] = (uint8_t) prune(d, step->keys, step->count,
										   d->pools + v * d->params.r,
										   pushes[v & 1], &npushes[v & 1]);
			if (!__atomic_load_n(&d->moving, __ATOMIC_RELAXED))
				__atomic_store_n(&d->moving, true, __ATOMIC_RELAXED);
		}
		for (uint32_t i = 0; i < nearlier; i++)
			inbox_push(&d->write[earlier[i].to], earlier[i].key);
	}
	for (uint32_t i = 0; i < npushes[(end - 1) & 1]; i++)
		inbox_push(&d->write[pushes[(end - 1) & 1][i].to], pushes[(end - 1) & 1][i].key);
}

/* Offers v to u for each edge v -> u in the nearest share rho of v's pool. */
static void
reverse_range(void *arg, int worker, size_t begin, size_t end)
{
	Descent    *d = arg;

	(void) worker;
	for (size_t v = begin; v < end; v++)
	{
		const uint64_t *pool = d->pools + v * d->params.r;
		uint32_t	count = (uint32_t) ceilf(d->params.rho * (float) d->counts[v]);

		for (uint32_t i = 0; i < count; i++)
		{
			uint32_t	u = KEY_ID(pool[i]);

			if (i + 4 < count)
				__builtin_prefetch(&d->read[KEY_ID(pool[i + 4])], 1);
			inbox_push(&d->read[u], KEY(KEY_DISTANCE(pool[i]), (uint32_t) v));
		}
	}
}

/* ---- start and end ---- */

/* Rows as signed bytes, by vertex.  d->not_bytes: a value is no integer from 0 to 255. */
static void
bytes_range(void *arg, int worker, size_t begin, size_t end)
{
	Descent    *d = arg;
	uint32_t	dim = d->rows.dim;
	float		scratch[GRN_MOST_DIMS];

	(void) worker;
	if (__atomic_load_n(&d->not_bytes, __ATOMIC_RELAXED))
		return;
	for (size_t i = begin; i < end; i++)
	{
		const float *x = grn_row_values(&d->rows, grn_row(&d->rows, i), scratch);
		int8_t	   *bytes = d->vertex_bytes + i * d->stride;
		int			other = 0;

		for (uint32_t j = 0; j < dim; j++)
		{
			int32_t		value = x[j] >= 0.0f && x[j] <= 255.0f ? (int32_t) x[j] : -1;

			other |= x[j] != (float) value || value < 0;
			bytes[j] = (int8_t) (value - 128);
		}
		if (other)
		{
			__atomic_store_n(&d->not_bytes, 1, __ATOMIC_RELAXED);
			return;
		}
		memset(bytes + dim, 0, d->stride - dim);
		grn_tile_terms(bytes, d->stride, d->vertex_terms + 2 * i);
	}
}

/* Projects rows, by vertex. */
static void
project_range(void *arg, int worker, size_t begin, size_t end)
{
	Descent    *d = arg;

	(void) worker;
	grn_project_rows(&d->project, &d->rows, begin, end, d->stride,
					 d->vertex_bytes + begin * d->stride, d->vertex_terms + 2 * begin);
}

/* Copies rows and bytes from the order of vertices to the order of positions. */
static void
place_range(void *arg, int worker, size_t begin, size_t end)
{
	Descent    *d = arg;

	(void) worker;
	for (size_t i = begin; i < end; i++)
	{
		uint32_t	v = d->vertex[i];

		d->row_order[i] = d->rows.order ? d->rows.order[v] : v;
		if (!d->use_bytes)
			continue;
		memcpy(d->bytes + i * d->stride, d->vertex_bytes + v * d->stride, d->stride);
		memcpy(d->terms + 2 * i, d->vertex_terms + 2 * (size_t) v, 2 * sizeof(int32_t));
	}
}

/*
 * Draws s distinct random neighbors, half of them from near positions.  If there are at most
 * s other vertices, returns all of them.
 */
static uint32_t
random_neighbors(const Descent *d, size_t v, uint32_t *ids)
{
	size_t		n = d->rows.n;
	uint32_t	s = d->params.s;
	uint32_t	count = 0;

	if (n - 1 <= s)
	{
		for (size_t u = 0; u < n; u++)
			if (u != v)
				ids[count++] = (uint32_t) u;
		return count;
	}
	for (uint64_t draw = 0; count < s; draw++)
	{
		uint64_t	random = grn_random(d->params.seed, v, draw);
		size_t		u = (size_t) (((random >> 32) * n) >> 32);
		bool		known;

		if (n > 4 * WINDOW && draw < s / 2)
		{
			size_t		low = v < WINDOW ? 0 : v > n - WINDOW ? n - 2 * WINDOW : v - WINDOW;

			u = low + (size_t) (random >> 32) % (2 * WINDOW);
		}
		known = u == v;
		for (uint32_t i = 0; i < count && !known; i++)
			known = ids[i] == u;
		if (!known)
			ids[count++] = (uint32_t) u;
	}
	return count;
}

static void
draw_first_range(void *arg, int worker, size_t begin, size_t end)
{
	Descent    *d = arg;

	(void) worker;
	for (size_t v = begin; v < end; v++)
	{
		uint32_t	ids[MAX_POOL];
		uint32_t	distances[MAX_POOL + 3];
		uint64_t   *pool = d->pools + v * d->params.r;
		uint32_t	count = random_neighbors(d, v, ids);
		GrnPanel	panel;

		panel.count = 0;
		for (uint32_t i = 0; i < count; i++)
			grn_tile_prefetch(&d->tile, ids[i]);
		for (uint32_t i = 0; i < count; i++)
			grn_panel_add(&panel, &d->tile, ids[i]);
		if (count > 0)
			grn_tile_dists(&d->tile, (uint32_t) v, &panel, distances);
		for (uint32_t i = 0; i < count; i++)
			pool[i] = KEY(distances[i], ids[i]);
		grn_sort_few_keys(pool, count);
		d->counts[v] = (uint8_t) count;
		memset(&d->read[v], 0, 8);
		memset(&d->write[v], 0, 8);
	}
}

static void
empty_range(void *arg, int worker, size_t begin, size_t end)
{
	Descent    *d = arg;

	(void) worker;
	for (size_t v = begin; v < end; v++)
		d->read[v].count = d->read[v].full = 0;
}

/* Chooses how rows are compared (as floats if by_floats), and orders the positions. */
static void
prepare_comparison(Descent *d, GrnParallel *parallel, bool by_floats)
{
	size_t		n = d->rows.n;

	if (!by_floats)
	{
		d->stride = grn_tile_stride(d->rows.dim);
		d->not_bytes = grn_is_scaled(d->rows.embedding);
		parallel->run(parallel, n, GRN_GRAIN, bytes_range, d);
		d->use_bytes = true;
		if (d->not_bytes)
		{
			if (d->fits && n >= PROJECT_ROWS)
				grn_project_fit(&d->project, &d->rows, d->params.seed, parallel, d->scratch);
			else
			{
				if (d->fits)
					d->project = (GrnProject) {.dims = d->rows.dim};
				grn_project_part(&d->project, &d->rows, parallel, d->mean);
			}
			d->stride = grn_tile_stride(d->project.dims);
			parallel->run(parallel, n, GRN_GRAIN, project_range, d);
		}
	}
	else
		d->use_bytes = false;
	if (d->use_bytes)
		grn_tile_bytes(&d->tile, d->vertex_bytes, d->vertex_terms, d->stride);
	else
		grn_tile_floats(&d->tile, &d->rows);
	grn_pivot_order(&d->tile, n, d->params.seed, parallel, d->vertex,
					d->scratch);
	parallel->run(parallel, n, GRN_GRAIN, place_range, d);
	d->rows.order = d->row_order;
	if (d->use_bytes)
		grn_tile_bytes(&d->tile, d->bytes, d->terms, d->stride);
	else
		grn_tile_floats(&d->tile, &d->rows);
}

/*
 * Returns true if the projection's bytes cannot order the neighbors of many vertices, as in
 * tight clusters far from each other.
 */
static bool
too_coarse(const Descent *d)
{
	uint32_t	seen = 0;
	uint32_t	close = 0;
	uint32_t	fine = grn_least_fine(d->project.dims);

	if (!(d->use_bytes && d->not_bytes))
		return false;
	for (size_t i = 0; i < COARSE_SAMPLE; i++)
	{
		size_t		v = d->rows.n * i / COARSE_SAMPLE;

		if (d->counts[v] == 0)
			continue;
		seen++;
		close += KEY_DISTANCE(d->pools[v * d->params.r]) < fine;
	}
	return close > seen / GRN_MOST_COARSE;
}

/* More rounds if pools are short. */
static void
set_rounds(Descent *d)
{
	uint64_t	neighbors = 0;

	for (size_t v = 0; v < d->rows.n; v++)
		neighbors += d->counts[v];
	if (neighbors >= FEW_NEIGHBORS * (uint64_t) d->rows.n)
		return;
	d->params.t1 = d->params.t1 < MORE_OUTER ? MORE_OUTER : d->params.t1;
	d->params.t2 = d->params.t2 < MORE_INNER ? MORE_INNER : d->params.t2;
}

/* A round is divided into slices.  Progress is reported after each slice. */
typedef struct Slice
{
	Descent    *d;
	size_t		first;
} Slice;

static void
slice_range(void *arg, int worker, size_t begin, size_t end)
{
	Slice	   *slice = arg;

	update_range(slice->d, worker, slice->first + begin, slice->first + end);
}

static size_t
slices_of(size_t n)
{
	return n / SLICE_ROWS < MOST_SLICES ? n / SLICE_ROWS + 1 : MOST_SLICES;
}

/* Runs one outer iteration.  done and total count slices. */
static void
run_outer_iteration(Descent *d, GrnParallel *parallel, uint32_t rounds, GrnProgressFn progress,
					void *progress_ctx, uint64_t *done, uint64_t total)
{
	size_t		n = d->rows.n;
	size_t		slices = slices_of(n);

	for (uint32_t inner = 0; inner < rounds; inner++)
	{
		Inbox	   *swap = d->read;

		d->moving = false;
		for (size_t i = 0; i < slices; i++)
		{
			Slice		slice = {d, n * i / slices};

			parallel->run(parallel, n * (i + 1) / slices - slice.first, GRN_GRAIN, slice_range, &slice);
			++*done;
			if (progress)
				progress(progress_ctx, *done < total ? *done : total, total);
		}
		d->read = d->write;
		d->write = swap;
		/* All inboxes are empty, so later rounds would change nothing. */
		if (!d->moving)
		{
			*done += (rounds - 1 - inner) * slices;
			break;
		}
	}
}

/* The lists of few vertices: each list has the nearest of all others, by exact distances. */
static void
list_nearest(Descent *d)
{
	GrnGraph   *graph = d->graph;
	uint32_t	n = (uint32_t) d->rows.n;

	for (uint32_t v = 0; v < n; v++)
	{
		uint64_t   *pool = d->pools + (size_t) v * d->params.r;

		for (uint32_t u = 0; u < v; u++)
		{
			float		distance = grn_row_distance(&d->rows, grn_row(&d->rows, v), grn_row(&d->rows, u));
			uint32_t	bits;

			memcpy(&bits, &distance, sizeof(bits));
			pool[u] = KEY(bits, u);
			d->pools[(size_t) u * d->params.r + v - 1] = KEY(bits, v);
		}
	}
	for (uint32_t v = 0; v < n; v++)
	{
		uint64_t   *pool = d->pools + (size_t) v * d->params.r;

		grn_sort_few_keys(pool, n - 1);
		graph->counts[v] = (uint8_t) (n - 1 < graph->degree ? n - 1 : graph->degree);
		for (uint32_t i = 0; i < graph->counts[v]; i++)
			graph->ids[(size_t) v * graph->degree + i] = KEY_ID(pool[i]);
	}
}

void
grn_rnnd_build_part(const GrnRows *rows, const GrnGraphParams *params,
					bool fill, GrnParallel *parallel, const GrnProject *project, void *workspace,
					GrnGraph *graph, GrnProgressFn progress, void *progress_ctx)
{
	Descent		d;
	size_t		n = rows->n;
	uint64_t	done = 0;
	uint64_t	total;

	memset(&d, 0, sizeof(d));
	d.rows = *rows;
	d.graph = graph;
	d.copied = grn_copied_dims(rows);
	d.fits = project == NULL;
	if (project)
		d.project = *project;
	d.params = usable_params(params, n, rows->dim);
	graph->n = (uint32_t) n;
	if (n == 0)
		return;
	place_arrays(&d, workspace);
	/* lists have room for all others, or searches start from all vertices */
	if (fill && n <= d.params.r + 1 && (n <= graph->degree + 1 || n <= GRN_MAX_ENTRIES))
	{
		list_nearest(&d);
		return;
	}
	prepare_comparison(&d, parallel, d.copied == 0);
	parallel->run(parallel, n, GRN_GRAIN, draw_first_range, &d);

	/* The first outer iteration begins with random neighbors and has one more round. */
	total = ((uint64_t) d.params.t1 * d.params.t2 + 1) * slices_of(n);
	for (uint32_t outer = 0; outer < d.params.t1; outer++)
	{
		run_outer_iteration(&d, parallel, d.params.t2 + (outer == 0), progress, progress_ctx, &done,
							total);
		if (outer == 0 && too_coarse(&d))
		{
			d.rows = *rows;
			prepare_comparison(&d, parallel, true);
			parallel->run(parallel, n, GRN_GRAIN, draw_first_range, &d);
			done = 0;
			run_outer_iteration(&d, parallel, d.params.t2 + 1, progress, progress_ctx, &done, total);
		}
		if (outer == 0)
			set_rounds(&d);
		if (outer + 1 == d.params.t1)
		{
			/* Keys pushed in the last round were pruned.  Only edges of pools may fill lists. */
			parallel->run(parallel, n, GRN_GRAIN, empty_range, &d);
			d.params.rho = 1.0f;
		}
		parallel->run(parallel, n, GRN_GRAIN, reverse_range, &d);
	}
	grn_write_lists(&d, parallel, fill);
}

void
grn_rnnd_build(const GrnRows *rows, const GrnGraphParams *params,
			   bool fill, GrnParallel *parallel, void *workspace, GrnGraph *graph,
			   GrnProgressFn progress, void *progress_ctx)
{
	grn_rnnd_build_part(rows, params, fill, parallel, NULL, workspace, graph, progress,
						progress_ctx);
}
