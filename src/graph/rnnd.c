/*
 * rnnd.c - RNN-Descent on the CPU's cores, in synchronous rounds.
 *
 * Each vertex has a pool of at most r (distance, id) keys, sorted, and two
 * inboxes: one that this round reads, one that this round's other vertices push
 * into.  A round takes each vertex's pool and inbox together, prunes them
 * exactly by the RNG rule, keeps the survivors as the new pool, and pushes each
 * one pruned to the nearest survivor that occludes it (paper, Algorithm 2,
 * which takes the first).  An inbox keeps the smallest distinct keys that were
 * pushed, a set that does not depend on the order of the pushes; so neither
 * does the graph on the number of threads.
 *
 * Two keys that survived the same prune cannot occlude each other, so pairs of
 * keys marked "old" are never compared again.
 */
#include "rnnd.h"
#include "tile.h"

#include <sched.h>
#include <string.h>

/* Keys: distance (see tile.h) above, then id, then the mark of a new key. */
#define KEY(distance, id) ((uint64_t) (distance) << 32 | (uint64_t) (id) << 1 | 1)
#define KEY_DISTANCE(key) ((uint32_t) ((key) >> 32))
#define KEY_ID(key) ((uint32_t) (key) >> 1)
#define KEY_NEW UINT64_C(1)

/*
 * Keys an inbox holds.  With its header an inbox is a whole number of cache
 * lines.  Fewer lose recall: see test/bench/graph/defaults.
 */
#define INBOX 47
#define MAX_POOL GRN_MAX_DEGREE
#define MAX_TILE (MAX_POOL + INBOX)
#define GRAIN 256				/* vertices a worker takes at a time */
#define ALIGN 64

typedef struct Inbox
{
	uint8_t		lock;
	uint8_t		count;
	uint8_t		largest;		/* index of the largest key, once full */
	uint8_t		unused[5];
	uint64_t	keys[INBOX];
} Inbox;

typedef struct Descent
{
	GrnTile		tile;
	const GrnRows *rows;
	GrnGraphParams params;
	GrnGraph   *graph;
	uint64_t   *pools;			/* [n][r] */
	uint8_t    *counts;			/* [n] of pools */
	Inbox	   *read;			/* [n] */
	Inbox	   *write;			/* [n] */
	uint8_t    *bytes;
	int32_t    *terms;
	uint8_t		not_bytes;		/* some row is not integers 0..255 */
	uint32_t	round;			/* names the reverse samples */
} Descent;

static size_t
aligned(size_t bytes)
{
	return (bytes + ALIGN - 1) & ~(size_t) (ALIGN - 1);
}

static void
set_default(uint32_t *param, uint32_t value)
{
	if (*param == 0)
		*param = value;
}

void
grn_default_params(GrnGraphParams *params, uint32_t dim, size_t n)
{
	(void) dim;
	(void) n;
	set_default(&params->degree, 32);
	set_default(&params->r, 32);
	set_default(&params->s, 20);
	set_default(&params->t1, 4);
	set_default(&params->t2, 3);
	if (!(params->rho > 0.0f && params->rho <= 1.0f))
		params->rho = 1.0f;
}

/* The limits that the arrays here have. */
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

size_t
grn_rnnd_bytes(const GrnGraphParams *params, size_t n, uint32_t dim)
{
	GrnGraphParams p = usable_params(params, n, dim);

	return ALIGN + aligned(n * p.r * sizeof(uint64_t)) + aligned(n) +
		2 * aligned(n * sizeof(Inbox)) +
		n * grn_tile_byte_stride(dim) + aligned(n * 2 * sizeof(int32_t));
}

/* ---- inboxes ---- */

static void
inbox_push(Inbox *inbox, uint64_t key)
{
	int			spins = 0;
	uint32_t	count;
	uint32_t	largest = 0;

	while (__atomic_exchange_n(&inbox->lock, 1, __ATOMIC_ACQUIRE))
		if (++spins % 64 == 0)
			sched_yield();
	count = inbox->count;
	if (count == INBOX && key >= inbox->keys[inbox->largest])
		goto done;
	for (uint32_t i = 0; i < count; i++)
		if (inbox->keys[i] == key)
			goto done;
	if (count < INBOX)
	{
		inbox->keys[count] = key;
		inbox->count = (uint8_t) ++count;
	}
	else
		inbox->keys[inbox->largest] = key;
	if (count == INBOX)
	{
		for (uint32_t i = 1; i < INBOX; i++)
			if (inbox->keys[i] > inbox->keys[largest])
				largest = i;
		inbox->largest = (uint8_t) largest;
	}
done:
	__atomic_store_n(&inbox->lock, 0, __ATOMIC_RELEASE);
}

static void
sort_keys(uint64_t *keys, uint32_t count)
{
	for (uint32_t i = 1; i < count; i++)
	{
		uint64_t	key = keys[i];
		uint32_t	j = i;

		for (; j > 0 && keys[j - 1] > key; j--)
			keys[j] = keys[j - 1];
		keys[j] = key;
	}
}

/*
 * Merges a vertex's sorted pool with its inbox (sorted here, then emptied) into
 * out, distinct and ascending.  An old key and the same one new differ in the
 * last bit alone, and the old one comes first and stays.
 */
static uint32_t
merge(const uint64_t *pool, uint32_t npool, Inbox *inbox, uint64_t *out)
{
	uint32_t	ninbox = inbox->count;
	uint32_t	i = 0;
	uint32_t	j = 0;
	uint32_t	n = 0;

	sort_keys(inbox->keys, ninbox);
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
	return n;
}

/* ---- a round ---- */

/*
 * Exact greedy prune of keys[0, count), sorted, of vertex v: survivors go, marked
 * old, into pool (at most r); what a survivor occludes is pushed to the nearest
 * such survivor.
 */
static uint32_t
prune(Descent *d, const uint64_t *keys, uint32_t count, uint64_t *pool)
{
	uint32_t	kept[MAX_POOL]; /* ids */
	uint32_t	kept_new[MAX_POOL];	/* ids of the new among them */
	uint32_t	distances[MAX_POOL];
	uint32_t	nkept = 0;
	uint32_t	nkept_new = 0;

	for (uint32_t j = 0; j < count && nkept < d->params.r; j++)
	{
		uint32_t	id = KEY_ID(keys[j]);
		uint32_t	own = KEY_DISTANCE(keys[j]);
		bool		old = (keys[j] & KEY_NEW) == 0;
		const uint32_t *against = old ? kept_new : kept;
		uint32_t	nagainst = old ? nkept_new : nkept;
		uint32_t	best = UINT32_MAX;
		uint32_t	occluder = 0;

		d->tile.dists(&d->tile, id, against, nagainst, distances);
		for (uint32_t i = 0; i < nagainst; i++)
			if (distances[i] < best)
			{
				best = distances[i];
				occluder = against[i];
			}
		if (nagainst > 0 && best <= own)
		{
			inbox_push(&d->write[occluder], KEY(best, id));
			continue;
		}
		kept[nkept] = id;
		pool[nkept] = keys[j] & ~KEY_NEW;
		nkept++;
		if (!old)
			kept_new[nkept_new++] = id;
	}
	return nkept;
}

static void
update_range(void *arg, int worker, size_t begin, size_t end)
{
	Descent    *d = arg;
	uint32_t	r = d->params.r;
	uint64_t	tiles[2][MAX_TILE];
	uint32_t	counts[2];

	(void) worker;
	counts[begin & 1] = merge(d->pools + begin * r, d->counts[begin], &d->read[begin],
							  tiles[begin & 1]);
	for (size_t v = begin; v < end; v++)
	{
		uint64_t   *keys = tiles[v & 1];
		uint32_t	count = counts[v & 1];
		bool		any_new = false;

		/* The next vertex's rows travel while this one's are compared. */
		if (v + 1 < end)
		{
			uint64_t   *next = tiles[(v + 1) & 1];
			uint32_t	n = merge(d->pools + (v + 1) * r, d->counts[v + 1],
								  &d->read[v + 1], next);

			counts[(v + 1) & 1] = n;
			for (uint32_t i = 0; i < n; i++)
				grn_tile_prefetch(&d->tile, KEY_ID(next[i]));
		}
		for (uint32_t i = 0; i < count; i++)
			any_new |= keys[i] & KEY_NEW;
		if (any_new)
			d->counts[v] = (uint8_t) prune(d, keys, count, d->pools + v * r);
	}
}

/* Each edge v -> u is offered to u, or a sample rho of them. */
static void
reverse_range(void *arg, int worker, size_t begin, size_t end)
{
	Descent    *d = arg;
	uint64_t	limit = (uint64_t) ((double) d->params.rho * 4294967296.0);

	(void) worker;
	for (size_t v = begin; v < end; v++)
	{
		const uint64_t *pool = d->pools + v * d->params.r;

		for (uint32_t i = 0; i < d->counts[v]; i++)
		{
			uint32_t	u = KEY_ID(pool[i]);

			if (i + 4 < d->counts[v])
				__builtin_prefetch(&d->read[KEY_ID(pool[i + 4])], 1);
			if (limit >> 32 == 0 &&
				grn_random(d->params.seed, d->round, v << 32 | u) >> 32 >= limit)
				continue;
			inbox_push(&d->read[u], KEY(KEY_DISTANCE(pool[i]), (uint32_t) v));
		}
	}
}

/* ---- start and end ---- */

static void
bytes_range(void *arg, int worker, size_t begin, size_t end)
{
	Descent    *d = arg;
	size_t		stride = grn_tile_byte_stride(d->rows->dim);

	(void) worker;
	if (__atomic_load_n(&d->not_bytes, __ATOMIC_RELAXED))
		return;
	if (!grn_tile_is_bytes(d->rows, begin, end))
	{
		__atomic_store_n(&d->not_bytes, 1, __ATOMIC_RELAXED);
		return;
	}
	for (size_t i = begin; i < end; i++)
		grn_tile_bytes_prepare(grn_row(d->rows, i), d->rows->dim, stride,
							   d->bytes + i * stride, d->terms + 2 * i);
}

/* s distinct random neighbours; all others where there are no more than s. */
static void
start_range(void *arg, int worker, size_t begin, size_t end)
{
	Descent    *d = arg;
	size_t		n = d->rows->n;
	uint32_t	r = d->params.r;

	(void) worker;
	for (size_t v = begin; v < end; v++)
	{
		uint32_t	ids[MAX_POOL];
		uint32_t	distances[MAX_POOL];
		uint64_t   *pool = d->pools + v * r;
		uint32_t	count = 0;

		if (n - 1 <= d->params.s)
		{
			for (size_t u = 0; u < n; u++)
				if (u != v)
					ids[count++] = (uint32_t) u;
		}
		else
			for (uint64_t draw = 0; count < d->params.s; draw++)
			{
				uint64_t	random = grn_random(d->params.seed, v, draw);
				uint32_t	u = (uint32_t) (((random >> 32) * n) >> 32);
				bool		known = u == v;

				for (uint32_t i = 0; i < count && !known; i++)
					known = ids[i] == u;
				if (!known)
					ids[count++] = u;
			}
		for (uint32_t i = 0; i < count; i++)
			grn_tile_prefetch(&d->tile, ids[i]);
		d->tile.dists(&d->tile, (uint32_t) v, ids, count, distances);
		for (uint32_t i = 0; i < count; i++)
			pool[i] = KEY(distances[i], ids[i]);
		sort_keys(pool, count);
		d->counts[v] = (uint8_t) count;
		d->read[v].count = d->write[v].count = 0;
		d->read[v].lock = d->write[v].lock = 0;
	}
}

static void
empty_range(void *arg, int worker, size_t begin, size_t end)
{
	Descent    *d = arg;

	(void) worker;
	for (size_t v = begin; v < end; v++)
		d->read[v].count = 0;
}

/*
 * The stored list: the survivors, then, up to degree, the nearest of the
 * vertices that chose this one; all by distance.
 */
static void
finish_range(void *arg, int worker, size_t begin, size_t end)
{
	Descent    *d = arg;
	uint32_t	degree = d->graph->degree;

	(void) worker;
	for (size_t v = begin; v < end; v++)
	{
		const uint64_t *pool = d->pools + v * d->params.r;
		Inbox	   *inbox = &d->read[v];
		uint64_t	keys[MAX_POOL];
		uint32_t	npool = d->counts[v] < degree ? d->counts[v] : degree;
		uint32_t	count = npool;

		for (uint32_t i = 0; i < npool; i++)
			keys[i] = pool[i] | KEY_NEW;
		sort_keys(inbox->keys, inbox->count);
		for (uint32_t i = 0; i < inbox->count && count < degree; i++)
		{
			bool		known = false;

			for (uint32_t j = 0; j < npool && !known; j++)
				known = keys[j] == inbox->keys[i];
			if (!known)
				keys[count++] = inbox->keys[i];
		}
		sort_keys(keys, count);
		for (uint32_t i = 0; i < count; i++)
			d->graph->ids[v * degree + i] = KEY_ID(keys[i]);
		d->graph->counts[v] = (uint8_t) count;
	}
}

bool
grn_rnnd_build(const GrnRows *rows, const GrnGraphParams *params,
			   GrnParallel *parallel, void *workspace, GrnGraph *graph,
			   GrnProgressFn progress, void *progress_ctx)
{
	Descent		d;
	size_t		n = rows->n;
	uint8_t    *w = (uint8_t *) aligned((size_t) workspace);
	uint64_t	done = 0;
	uint64_t	total;

	memset(&d, 0, sizeof(d));
	d.rows = rows;
	d.graph = graph;
	d.params = usable_params(params, n, rows->dim);
	d.pools = (uint64_t *) w;
	w += aligned(n * d.params.r * sizeof(uint64_t));
	d.counts = w;
	w += aligned(n);
	d.read = (Inbox *) w;
	w += aligned(n * sizeof(Inbox));
	d.write = (Inbox *) w;
	w += aligned(n * sizeof(Inbox));
	d.bytes = w;
	w += n * grn_tile_byte_stride(rows->dim);
	d.terms = (int32_t *) w;

	graph->n = (uint32_t) n;
	if (n == 0)
		return true;

	parallel->run(parallel, n, GRAIN, bytes_range, &d);
	if (d.not_bytes)
		grn_tile_floats(&d.tile, rows);
	else
		grn_tile_bytes(&d.tile, d.bytes, d.terms, grn_tile_byte_stride(rows->dim));
	parallel->run(parallel, n, GRAIN, start_range, &d);

	/* The first outer iteration starts from nothing: one more round. */
	total = (uint64_t) d.params.t1 * d.params.t2 + 1;
	for (uint32_t outer = 0; outer < d.params.t1; outer++)
	{
		for (uint32_t inner = 0; inner < d.params.t2 + (outer == 0); inner++)
		{
			Inbox	   *swap = d.read;

			parallel->run(parallel, n, GRAIN, update_range, &d);
			d.read = d.write;
			d.write = swap;
			d.round++;
			if (progress && !progress(progress_ctx, GRN_PHASE_DESCENT, ++done, total))
				return false;
		}
		if (outer + 1 == d.params.t1)
		{
			/* What the last round pushed was pruned; only chosen edges fill. */
			parallel->run(parallel, n, 64 * GRAIN, empty_range, &d);
			d.params.rho = 1.0f;
		}
		parallel->run(parallel, n, GRAIN, reverse_range, &d);
	}
	parallel->run(parallel, n, GRAIN, finish_range, &d);
	return true;
}
