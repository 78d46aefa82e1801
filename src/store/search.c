/*
 * search.c - best-first search over records.
 *
 * The candidate list is sorted and holds the ef nearest candidates by estimate.  Each candidate is
 * visited once.  A candidate is one 64-bit key: distance as an ordered integer, id, and a bit that
 * marks expanded candidates.  All records hold identical codes of a row, so a row always gets the
 * same key, and a lookup in the sorted list finds duplicates.  The search therefore needs no set
 * of seen ids.  It needs only a set of expanded ids, which also guards against rows whose code
 * changes during the search.
 *
 * A resumable search keeps the candidates that the list rejects in an array.  The first resume
 * makes the array a heap.  Each resume starts from the ef nearest rejected candidates.
 */
#include "store/search_impl.h"

#include <math.h>

void
grn_add_found(GrnSearch *s, const GrnFound *found)
{
	Results    *r = &s->results;

	reserve(s, &r->found, sizeof(GrnFound), r->n, r->n + 1, &r->room);
	r->found[r->n++] = *found;
}

/* ---- the end of a run over estimates ---- */

/*
 * The list keeps the candidates with the least estimates.  An estimate has an error, so the ef
 * candidates lack some of the ef nearest rows.  hnsw, whose ef_search users know, keeps a list of
 * exact distances.  With ef_exact a search therefore goes on behind the first ef candidates, as
 * long as estimates are usual for one of the ef_exact nearest rows found, or possible for one of
 * the wanted rows, and up to MOST_VISITS times the width.  Distances and estimates of the nodes
 * found have a line of regression.  The line gives the mean estimate at a distance, and the nodes
 * give the standard deviation of estimates from the line.  The larger the errors, the more
 * candidates are visited.
 *
 * Usual are estimates up to USUAL standard deviations above the mean.  Possible are estimates up to
 * sqrt(2 ln ef_exact) deviations, which the greatest of ef_exact errors is likely to reach: the
 * wider a run, the fewer rows its graph misses, and the fewer may be missed by estimates.  So runs
 * find as much as runs by exact distances at the same ef, or more.  Two deviations at every width,
 * this limit, and three: ten nearest rows at ef 40, a hundred at ef 200 (10,000 rows): sentences of
 * 1,536 dimensions .762, .861, .890 by 68, 114, 136 visits, .909, .973, .973; halves of 10
 * dimensions .986, .993, .994, .976, .998, .995; 64 normal dimensions, 1,000 rows .984, .988, .993,
 * .994, 1.000, .999.  At equal recall visits are the same.  test/bench/decisions.md has the others.
 */
#define USUAL 1
/*
 * A bound of the time where estimates tell hardly anything.  Recall of ten rows at ef 40 and of a
 * hundred at ef 200 with a quarter, half, this and twice (10,000 rows): 512 dimensions in clusters
 * of unequal size .954 and .969, .976 and .992, .986 and .997, .987 and .997; one-hot rows with
 * noise 1.000 and .888, .957, .986, .992; sentences .996 and .999 with each, in equal time.
 */
#define MOST_VISITS 16

static bool
is_bounded(const GrnSearch *s)
{
	return s->codes && s->p.ef_exact > 0 && !s->p.closed && s->p.filter == NULL &&
		!grn_codes_exact(s->p.codec);
}

/*
 * By inner product estimates are bounds (DOUBT in search_visit.c), so they need no line.  One and a
 * half times the width are visited as far as the ef_exact nearest rows found, and then candidates
 * as far as the wanted rows, up to MOST_VISITS times twice their number.
 */
static bool
has_line(const GrnSearch *s)
{
	return s->query.code.what != GRN_ESTIMATE_IP;
}

static void
begin_bound(GrnSearch *s)
{
	GrnSearchParams *p = &s->p;

	if (p->wanted > p->ef_exact)
		p->wanted = p->ef_exact;
	if (p->wanted == 0)
		p->wanted = (p->ef_exact + 3) / 4;
	s->results.farthest = s->store->alloc(s->store, p->ef_exact * sizeof(float));
	s->results.wanted = s->store->alloc(s->store, p->wanted * sizeof(float));
	s->results.possible = sqrt(2 * log(p->ef_exact));
}

/* Room of the list before it grows. */
static uint32_t
first_room(const GrnSearch *s)
{
	uint32_t	room = s->results.farthest != NULL ? s->p.ef_exact + s->p.ef_exact / 2 : 0;

	return room > s->p.ef ? room : s->p.ef;
}

/* Moves the bound after a node was found, the last of the results. */
static void
move_bound(GrnSearch *s, double estimate)
{
	Results    *r = &s->results;
	Sums	   *sum = &r->sums;
	uint32_t	before = (uint32_t) r->n - 1;
	double		d = r->found[before].distance;

	keep_least(r->farthest, s->p.ef_exact, before, (float) d);
	keep_least(r->wanted, s->p.wanted, before, (float) d);
	r->bound = s->list.grown ? r->wanted[0] : r->farthest[0];
	if (!has_line(s))
		return;
	sum->n++;
	sum->d += d;
	sum->e += estimate;
	sum->dd += d * d;
	sum->ee += estimate * estimate;
	sum->de += d * estimate;
	if (r->n >= s->p.ef_exact)
	{
		double		share = 1 / sum->n;
		double		mean_d = sum->d * share;
		double		mean_e = sum->e * share;
		double		variance = sum->dd * share - mean_d * mean_d;
		double		both = sum->de * share - mean_d * mean_e;
		double		slope = variance > 0 ? both / variance : 0;
		double		error2 = sum->ee * share - mean_e * mean_e - slope * both;
		double		error = error2 > 0 ? sqrt(error2) : 0;
		double		usual = slope * (r->farthest[0] - mean_d) + USUAL * error;
		double		possible = slope * (r->wanted[0] - mean_d) + r->possible * error;

		r->bound = (float) (mean_e + (usual > possible ? usual : possible));
	}
}

/*
 * No candidate is left on the list of a first run: takes rejected candidates within the bound.
 * Returns true if there are any.
 */
static bool
take_within_bound(GrnSearch *s)
{
	List	   *l = &s->list;
	Keys	   *rejected = &s->rejected.heap;
	uint32_t	listed = l->n;
	size_t		n = rejected->n;
	size_t		left = 0;
	Key			bound;

	if (s->results.farthest == NULL || s->rejected.resumed || next_listed(s) != UINT64_MAX)
		return false;
	if (!l->grown)
	{
		uint64_t	width = s->p.ef > s->p.ef_exact ? s->p.ef : s->p.ef_exact;
		uint64_t	few = 2 * (uint64_t) s->p.wanted;
		uint64_t	room = MOST_VISITS * (has_line(s) || width < few ? width : few);
		Key		   *keys;

		if (s->p.max_visits > 0 && s->p.max_visits < room)
			room = s->p.max_visits;
		if (room <= l->room)
			return false;
		keys = s->store->alloc(s->store, room * sizeof(Key));

		memcpy(keys, l->keys, l->n * sizeof(Key));
		s->store->free(s->store, l->keys);
		l->keys = keys;
		l->room = (uint32_t) room;
		l->grown = l->recheck = true;
		if (!has_line(s))
			s->results.bound = s->results.wanted[0];
	}
	bound = bound_key(s);
	/* a thousand keys or more, of which a few are within the bound */
	for (size_t i = 0; i < n; i++)
	{
		Key			key = rejected->keys[i];

		if (key > bound)
			rejected->keys[left++] = key;
		else
		{
			rejected->n = left; /* the list may reject another */
			grn_offer(s, key);
			left = rejected->n;
		}
	}
	rejected->n = left;
	if (l->n == listed)
		return false;
	if (s->store->prefetch != NULL)
		grn_prefetch_ahead(s);
	return true;
}

static void
expand(GrnSearch *s, Key key)
{
	if (!grn_set_add(s, &s->set, KEY_ID(key)))
		return;
	if (!grn_visit(s, KEY_ID(key)))
	{
		grn_unlist(s, key);
		return;
	}
	if (s->visit.now.state == GRN_NODE)
	{
		grn_add_found(s, &s->visit.now);
		if (s->results.farthest != NULL)
			move_bound(s, key_distance(key));
	}
	else
	{
		grn_forget_visit(s);
		if (!grn_count_dead(s, key))
			return;
	}
	if (!s->p.closed)
		grn_offer_neighbors(s);
	if (s->codes && s->store->prefetch != NULL)
		grn_prefetch_ahead(s);
}

/* ---- the main loop ---- */

GrnSearch *
grn_search_begin(const GrnSearchParams *params, GrnStore *store, const float *q)
{
	GrnSearch  *s = store->alloc(store, sizeof(GrnSearch));
	uint32_t	room;
	uint32_t	size = GRN_LEAST_SLOTS;

	memset(s, 0, offsetof(GrnSearch, visit.neighbors));
	memset(s->prefetch.ids, 0xFF, sizeof(s->prefetch.ids));
	s->failing.far_bound = UINT64_MAX;
	s->p = *params;
	s->store = store;
	s->codes = params->codec != NULL && grn_has_codes(params->codec) &&
		params->layout->code_bytes > 0;
	s->p.closed = s->codes && params->closed;
	grn_query_begin(s, q);
	if (is_bounded(s))
		begin_bound(s);
	s->list.room = first_room(s);
	s->list.keys = store->alloc(store, s->list.room * sizeof(Key));
	while (size < 4 * (uint64_t) s->list.room && size < UINT32_C(1) << 20)
		size *= 2;
	grn_set_resize(s, &s->set, size);
	if (!s->codes)
		grn_set_resize(s, &s->seen, 4 * size);
	if (s->codes && params->filter != NULL && params->filter->has != NULL)
		grn_set_resize(s, &s->failing.tested, GRN_LEAST_SLOTS);
	/* One run seldom expands more than one and a half times ef. */
	room = s->list.room + s->list.room / 2 + 16;
	reserve(s, &s->copies.tids, GRN_TID_BYTES, 0, (size_t) room + UINT8_MAX, &s->copies.tids_room);
	reserve(s, &s->results.found, sizeof(GrnFound), 0, room, &s->results.room);
	if (s->p.closed)
		s->closed.codes = store->alloc(store, (size_t) GRN_GATHER * params->layout->code_bytes);
	if (grn_keeps_rejected(s))
		reserve_keys(s, &s->rejected.heap, (size_t) room * params->layout->degree);
	return s;
}

void
grn_search_entries(GrnSearch *s, const uint32_t *ids, const uint8_t *codes,
				   const GrnFactor *factors, uint32_t count)
{
	for (uint32_t first = 0; first < count; first += GRN_MAX_DEGREE)
	{
		uint32_t	n = count - first < GRN_MAX_DEGREE ? count - first : GRN_MAX_DEGREE;
		float	   *estimates = s->visit.estimates;

		reserve_keys(s, &s->entries, n);
		if (s->codes)
			grn_estimate(&s->query.code,
						 codes + (size_t) first * s->p.layout->code_bytes,
						 factors + first, n, estimates);
		memcpy(s->visit.neighbors, ids + first, n * sizeof(uint32_t));
		s->visit.count = n;
		if (!s->codes)
			grn_measure_neighbors(s);
		for (uint32_t i = 0; i < s->visit.count; i++)
		{
			Key			key = make_key(estimates[i], s->visit.neighbors[i]);

			if (s->codes && s->p.filter != NULL)
			{
				grn_offer_failing(s, key);
				continue;
			}
			s->entries.keys[s->entries.n++] = key;
			grn_offer(s, key);
		}
	}
}

GrnSearch *
grn_search_graph(const GrnStoredGraph *g, GrnStore *store, GrnSearchParams *p, const float *q)
{
	GrnSearch  *s;

	p->layout = g->layout;
	p->codec = g->codec;
	p->metric = g->metric;
	s = grn_search_begin(p, store, q);
	grn_search_entries(s, g->entries, g->entry_codes, g->entry_factors, g->nentries);
	return s;
}

/* Sorts the results of the run by exact distance. */
static void
sort_found(GrnSearch *s)
{
	Results    *r = &s->results;
	size_t		n = r->n;
	Key		   *keys = s->store->alloc(s->store, 2 * n * sizeof(Key) + 1);
	GrnFound   *sorted = s->store->alloc(s->store, n * sizeof(GrnFound) + 1);

	for (size_t i = 0; i < n; i++)
		keys[i] = (Key) grn_ordinal(r->found[i].distance) << 32 | i;
	grn_sort_keys(keys, keys + n, n);
	for (size_t i = 0; i < n; i++)
		sorted[i] = r->found[(uint32_t) keys[i]];
	memcpy(r->found, sorted, n * sizeof(GrnFound));
	s->store->free(s->store, keys);
	s->store->free(s->store, sorted);
}

/* Expands the candidates on the list.  Returns false if grn_is_enough() ended the run. */
static bool
expand_list(GrnSearch *s)
{
	for (Key key; (key = next_listed(s)) != UINT64_MAX;)
	{
		if (grn_is_enough(s))
			return false;
		if (s->list.cursor >= s->p.ef && is_beyond(s, key))
			break;
		s->list.keys[s->list.cursor++] |= KEY_EXPANDED;
		expand(s, key);
	}
	return true;
}

static void
expand_all(GrnSearch *s)
{
	s->dead.n = 0;
	if (s->codes && s->p.filter != NULL)
		grn_expand_filtered(s);
	else
		while (expand_list(s))
		{
			if (take_within_bound(s))
				continue;
			if (s->dead.n == 0 || s->results.n >= s->p.ef)
				break;
			if (grn_offer_entries(s) || grn_take_rejected(s))
				continue;
			if (s->dead.deferred.n == 0 || grn_is_enough(s))
				break;
			grn_expand_deferred(s);
		}
	/* unexpanded candidates on the list belong to the next run */
	for (Key key; (key = next_listed(s)) != UINT64_MAX; s->list.cursor++)
		grn_reject(s, key);
}

uint32_t
grn_search_run(GrnSearch *s)
{
	bool		resume = s->started;

	s->results.n = 0;
	if (resume && (!s->p.resumable || s->truncated))
		return 0;
	s->started = true;
	s->copies.ntids = 0;
	s->copies.nvectors = 0;
	if (s->p.closed)
		grn_end_listed(s);
	s->store->skips_neighbors = s->p.closed;
	if (!resume)
	{
		if (s->p.closed)
			grn_take_rejected(s);
		expand_all(s);
	}
	/* A list that holds only dead nodes or freed slots gives no result, so try the next list. */
	while (s->results.n == 0 && grn_keeps_rejected(s) && !grn_at_limit(s) &&
		   (has_rejected(s) || s->dead.deferred.n > 0 || s->failing.heap.n + s->failing.far.n > 0))
	{
		s->list.n = 0;
		s->list.cursor = 0;
		s->list.room = first_room(s);
		s->list.grown = false;
		grn_take_rejected(s);
		if (s->list.n == 0 && s->dead.deferred.n > 0)
			grn_expand_deferred(s);
		expand_all(s);
	}
	s->store->skips_neighbors = false;
	sort_found(s);
	if (grn_keeps_rejected(s) && grn_exceeds_memory(s, 0))
		s->truncated = true;
	return (uint32_t) s->results.n;
}

const GrnFound *
grn_search_found(const GrnSearch *s)
{
	return s->results.found;
}

bool
grn_search_truncated(const GrnSearch *s)
{
	return s->truncated;
}

uint64_t
grn_search_visits(const GrnSearch *s)
{
	return s->visits;
}

uint64_t
grn_search_wasted(const GrnSearch *s)
{
	return s->wasted;
}

void
grn_search_end(GrnSearch *s)
{
	GrnStore   *store = s->store;
	void	   *arrays[] = {s->query.packed, s->query.work, s->list.keys, s->rejected.heap.keys,
		s->rejected.ids, s->closed.rows.estimates, s->closed.rows.ids, s->closed.codes,
		s->groups.middles.estimates, s->groups.middles.ids, s->groups.near.keys, s->groups.nearest,
		s->groups.noted.ids, s->set.ids, s->seen.ids, s->entries.keys, s->dead.deferred.keys,
		s->failing.heap.keys, s->failing.far.keys, s->failing.listings, s->failing.tested.ids,
		s->results.found, s->results.farthest, s->results.wanted, s->copies.tids, s->copies.vectors};

	for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++)
		if (arrays[i] != NULL)
			store->free(store, arrays[i]);
	store->free(store, s);
}
