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
 *
 * Without codes the search must visit every neighbor for its distance.  The search then remembers
 * all visited ids with the result of the visit (struct Node), so the expansion of a node does not
 * visit the node again.
 */
#include "graph/stored/search_impl.h"

#include <math.h>

#include "graph/space.h"
#include "graph/stored/own.h"

#define MIN_SET 256				/* slots of the first id set; power of two */

void
grn_add_found(GrnSearch *s, const GrnFound *found, uint32_t kept)
{
	if (s->nfound == s->found_room)
	{
		uint32_t	room = s->found_room;

		reserve32(s, &s->kept, sizeof(uint32_t), s->nfound, room + 1, &s->found_room);
		s->found_room = room;
		reserve32(s, &s->found, sizeof(GrnFound), s->nfound, room + 1, &s->found_room);
	}
	s->found[s->nfound] = *found;
	s->kept[s->nfound++] = kept;
}

/* Without codes: visits id unless it was visited before, and offers it. */
static void
discover(GrnSearch *s, uint32_t id)
{
	Node	   *node;

	if (set_has(&s->set, id))
		return;
	if (!grn_visit(s, id))
	{
		grn_set_add(s, &s->set, id, GRN_INVALID_ID);
		return;
	}
	reserve32(s, &s->nodes, sizeof(Node), s->nnodes, s->nnodes + 1, &s->nodes_room);
	reserve(s, &s->links, sizeof(uint32_t), s->nlinks, s->nlinks + s->count, &s->links_room);
	if (s->now.state != GRN_NODE)
		grn_forget_visit(s);
	node = &s->nodes[s->nnodes];
	node->found = s->now;
	node->first = (uint32_t) s->nlinks;
	node->count = s->count;
	node->deferred = false;
	node->kept = s->now_kept;
	if (s->count > 0)			/* links is NULL before the first link */
		memcpy(s->links + s->nlinks, s->neighbors, s->count * sizeof(uint32_t));
	s->nlinks += s->count;
	grn_set_add(s, &s->set, id, s->nnodes++);
	grn_offer(s, make_key(s->now.distance, id));
}

/* ---- the end of a run over estimates ---- */

/*
 * The list keeps the candidates with the least estimates.  An estimate has an error, so the list
 * of ef candidates lacks some of the ef nearest rows.  hnsw, whose ef_search users know, keeps a
 * list of exact distances.  With ef_exact a search therefore keeps a longer list.  Its run expands
 * the first ef candidates, and further ones while their estimates are below the ef_exact-th least
 * distance found.  The larger the errors, the more candidates have such estimates; without errors
 * the run visits ef nodes.
 *
 * LONGEST_LIST, for each of ef_exact: sets of 8,000 rows (test/bench/anydata) visit 1.3 to 1.5 ef.
 * With 2 they visit up to 1.8 ef and find as much at the same number of visits; with 1 they miss
 * 1.2 to 2.3 times as many rows at the same ef.
 */
#define LONGEST_LIST 1.5

/*
 * By inner product the error of an estimate is in proportion to the row's length.  Rows that are
 * far longer than others would be missed whenever their estimates are too low.  So a row counts
 * with the inner product that is DOUBT standard deviations above its estimate: the longer the row,
 * the earlier its visit.  Rows of equal length keep their order.  With 0, 1, 2 and 3 recall at ef
 * 40 is .979, .995, 1.000 and 1.000 (Pareto lengths), .928, .944, .945 and .946 (log-normal
 * lengths), .784, .798, .794 and .793 (Gaussian rows).
 */
#define DOUBT 2

/* Do estimates stand for the distances by which the search's results are compared? */
static bool
is_bounded(const GrnSearch *s)
{
	return s->codes && s->p.ef_exact > 0 && !s->p.closed && s->p.filter == NULL &&
		s->p.metric->surrogate_beam == 0 && !grn_codes_exact(s->p.codec);
}

static void
expand_coded(GrnSearch *s, Key key)
{
	if (!grn_set_add(s, &s->set, KEY_ID(key), 0))
		return;
	if (!grn_visit(s, KEY_ID(key)))
	{
		grn_unlist(s, key);
		return;
	}
	if (s->now.state == GRN_NODE)
	{
		grn_add_found(s, &s->now, s->now_kept);
		if (s->farthest != NULL)
			keep_least(s->farthest, s->p.ef_exact, s->nfound - 1, s->now.distance);
	}
	else
	{
		grn_forget_visit(s);
		if (!grn_count_dead(s, key))
			return;
	}
	if (!s->p.closed)
		grn_offer_keys(s, s->neighbors, s->estimates, s->count);
	if (s->store->prefetch != NULL)
		grn_prefetch_ahead(s);
}

void
grn_discover_neighbors(GrnSearch *s, uint32_t id)
{
	uint32_t   *slot = &s->set.nodes[set_slot(&s->set, id)];
	Node		node = s->nodes[*slot];
	uint32_t	ids[GRN_MAX_DEGREE];
	uint32_t	n = 0;
	uint32_t	prefetched = 0;

	*slot = GRN_INVALID_ID;
	for (uint32_t i = 0; i < node.count; i++)
		if (!set_has(&s->set, s->links[node.first + i]))
			ids[n++] = s->links[node.first + i];
	for (uint32_t i = 0; i < n; i++)
	{
		/* prefetch half a window at a time, so each visit waits for an older prefetch */
		uint32_t	ahead = s->store->ahead > 0 ? s->store->ahead : n;

		if (s->store->prefetch != NULL && prefetched < n && prefetched <= i + ahead / 2)
		{
			uint32_t	until = i + ahead < n ? i + ahead : n;

			s->store->prefetch(s->store, ids + prefetched, until - prefetched);
			prefetched = until;
		}
		discover(s, ids[i]);
	}
}

static void
expand_exact(GrnSearch *s, Key key)
{
	uint32_t	at = s->set.nodes[set_slot(&s->set, KEY_ID(key))];

	if (at == GRN_INVALID_ID || s->nodes[at].deferred)
		return;
	if (s->nodes[at].found.state == GRN_NODE)
		grn_add_found(s, &s->nodes[at].found, s->nodes[at].kept);
	else if (!grn_count_dead(s, key))
	{
		s->nodes[at].deferred = true;
		return;
	}
	grn_discover_neighbors(s, KEY_ID(key));
}

/* ---- the main loop ---- */

/* Prepares the query for comparisons with stored vectors, if their form has such a preparation. */
static void
pack_query(GrnSearch *s)
{
	const GrnLayout *l = s->p.layout;
	size_t		bytes = grn_query_bytes(s->comparison, l->form, l->dim);

	if (bytes == 0)
		return;
	s->packed = s->store->alloc(s->store, bytes);
	if (!grn_own_query(l, s->q, s->packed))
	{
		s->store->free(s->store, s->packed);
		s->packed = NULL;
	}
}

GrnSearch *
grn_search_begin(const GrnSearchParams *params, GrnStore *store, const float *q)
{
	GrnSearch  *s = store->alloc(store, sizeof(GrnSearch));
	uint32_t	room;
	uint32_t	size = MIN_SET;

	/* The large arrays at the end of the struct need no clearing. */
	memset(s, 0, offsetof(GrnSearch, neighbors));
	memset(s->prefetched, 0xFF, sizeof(s->prefetched));
	memset(s->offered_keys, 0, sizeof(s->offered_keys));
	s->visits = 0;
	s->tests = 0;
	s->wasted = 0;
	s->failing.far_bound = UINT64_MAX;
	s->p = *params;
	s->store = store;
	s->q = q;
	s->comparison = params->by_row ? GRN_BETWEEN_PLACES : params->metric->comparison;
	pack_query(s);
	s->codes = params->codec != NULL && grn_has_codes(params->codec) &&
		params->layout->code_bytes > 0;
	if (s->codes)
	{
		float		scratch[GRN_MAX_CODE_DIMS];

		if (params->code_query != NULL)
			s->code_query = *params->code_query;
		else if (params->by_row ||
				 (params->metric->surrogate_beam > 0 && !grn_codes_exact(params->codec)))
			grn_code_query_row(params->codec, q, &s->code_query, scratch);
		else
			grn_code_query(params->codec, q, &s->code_query, scratch);
		/* by inner product, base counts once for each unit of a row's length */
		if (s->code_query.what == GRN_ESTIMATE_IP && params->code_query == NULL)
			s->code_query.base += DOUBT * params->codec->error * (float) sqrt(grn_norm2(q, params->layout->dim));
	}
	if (params->by_row && grn_is_scaled(params->metric->embedding))
	{
		s->place = store->alloc(store, 2 * (size_t) params->layout->dim * sizeof(float));
		memcpy(s->place, q, params->layout->dim * sizeof(float));
		s->q_scale = grn_scale(grn_norm2(q, params->layout->dim), params->codec->norm_unit,
							   params->metric->power);
		grn_place(s->place, params->layout->dim, params->codec->norm_unit, params->metric->power);
	}
	s->first = params->ef;
	if (is_bounded(s))
	{
		uint32_t	longest = (uint32_t) (params->ef_exact * LONGEST_LIST);

		s->farthest = store->alloc(store, params->ef_exact * sizeof(float));
		s->p.ef = longest > params->ef ? longest : params->ef;
	}
	s->list = store->alloc(store, s->p.ef * sizeof(Key));
	while (size < 4 * (uint64_t) s->p.ef && size < UINT32_C(1) << 20)
		size *= 2;
	grn_set_resize(s, &s->set, size);
	if (s->codes && params->filter != NULL && params->filter->has != NULL)
		grn_set_resize(s, &s->failing.tested, MIN_SET);
	/* One run seldom expands more than one and a half times ef. */
	room = s->p.ef + s->p.ef / 2 + 16;
	reserve(s, &s->tids, GRN_TID_BYTES, 0, (size_t) room + UINT8_MAX, &s->tids_room);
	s->kept = store->alloc(store, room * sizeof(uint32_t));
	reserve32(s, &s->found, sizeof(GrnFound), 0, room, &s->found_room);
	if (params->closed && s->codes)
		s->gathered = store->alloc(store, (size_t) GRN_GATHER * params->layout->code_bytes);
	if (params->resumable)
		reserve(s, &s->rejected_keys, sizeof(Key), 0, (size_t) room * params->layout->degree,
				&s->rejected_room);
	return s;
}

void
grn_search_entries(GrnSearch *s, const uint32_t *ids, const uint8_t *codes,
				   const GrnFactor *factors, uint32_t count)
{
	for (uint32_t first = 0; first < count; first += GRN_MAX_DEGREE)
	{
		uint32_t	n = count - first < GRN_MAX_DEGREE ? count - first : GRN_MAX_DEGREE;

		reserve32(s, &s->entries, sizeof(Key), s->nentries, s->nentries + n, &s->entries_room);
		if (s->codes)
			grn_estimate(&s->code_query,
						 codes + (size_t) first * s->p.layout->code_bytes,
						 factors + first, n, s->estimates);
		for (uint32_t i = 0; i < n; i++)
			if (s->codes && s->p.filter != NULL)
				grn_offer_failing(s, ids[first + i], s->estimates[i]);
			else if (s->codes)
			{
				Key			key = make_key(s->estimates[i], ids[first + i]);

				s->entries[s->nentries++] = key;
				grn_offer(s, key);
			}
			else
			{
				uint32_t	nnodes = s->nnodes;

				discover(s, ids[first + i]);
				if (s->nnodes > nnodes)
					s->entries[s->nentries++] = make_key(s->now.distance, ids[first + i]);
			}
	}
}

/* Sorts the results of the run by exact distance. */
static void
sort_found(GrnSearch *s)
{
	uint32_t	n = s->nfound;
	Key		   *keys = s->store->alloc(s->store, 2 * n * sizeof(Key) + 1);
	GrnFound   *sorted = s->store->alloc(s->store, n * sizeof(GrnFound) + 1);
	uint32_t   *kept = s->store->alloc(s->store, n * sizeof(uint32_t) + 1);

	for (uint32_t i = 0; i < n; i++)
		keys[i] = (Key) grn_ordinal(s->found[i].distance) << 32 | i;
	grn_sort_keys(keys, keys + n, n);
	for (uint32_t i = 0; i < n; i++)
	{
		sorted[i] = s->found[(uint32_t) keys[i]];
		kept[i] = s->kept[(uint32_t) keys[i]];
	}
	memcpy(s->found, sorted, n * sizeof(GrnFound));
	memcpy(s->kept, kept, n * sizeof(uint32_t));
	s->store->free(s->store, keys);
	s->store->free(s->store, sorted);
	s->store->free(s->store, kept);
}

/* Expands the candidates on the list.  Returns false if grn_is_enough() ended the run. */
static bool
expand_list(GrnSearch *s)
{
	while (s->cursor < s->listed)
	{
		Key			key = s->list[s->cursor];

		if (key & KEY_EXPANDED)
		{
			s->cursor++;
			continue;
		}
		if (grn_is_enough(s))
			return false;
		if (s->cursor >= s->first && is_beyond(s, key))
			break;
		s->list[s->cursor++] |= KEY_EXPANDED;
		if (s->codes)
			expand_coded(s, key);
		else
			expand_exact(s, key);
	}
	return true;
}

static void
expand_all(GrnSearch *s)
{
	s->ndead = 0;
	if (s->codes && s->p.filter != NULL)
		grn_expand_filtered(s);
	else
		while (expand_list(s))
		{
			if (s->ndead == 0 || s->nfound >= s->first)
				break;
			if (grn_offer_entries(s) || grn_take_rejected(s))
				continue;
			if (s->ndeferred == 0 || grn_is_enough(s))
				break;
			grn_expand_deferred(s);
		}
	/* unexpanded candidates on the list belong to the next run */
	for (; s->cursor < s->listed; s->cursor++)
		if (!(s->list[s->cursor] & KEY_EXPANDED))
			grn_reject(s, s->list[s->cursor]);
}

uint32_t
grn_search_run(GrnSearch *s)
{
	bool		resume = s->started;
	bool		closed = s->codes && s->p.closed;

	if (resume && (!s->p.resumable || s->truncated))
		return s->nfound = 0;
	s->started = true;
	s->nfound = 0;
	if (s->codes)
	{
		/* Without codes, TIDs and vectors belong to visited nodes that later runs will expand. */
		s->ntids = 0;
		s->nkept = 0;
	}
	if (closed)
		grn_end_listed(s);
	s->store->skips_neighbors = closed;
	if (!resume)
	{
		if (closed)
			grn_take_rejected(s);
		expand_all(s);
	}
	/* A list that holds only dead nodes or freed slots gives no result, so try the next list. */
	while (s->nfound == 0 && s->p.resumable && !grn_at_limit(s) &&
		   (has_rejected(s) || s->ndeferred > 0 || s->failing.n + s->failing.nfar > 0))
	{
		s->listed = 0;
		s->cursor = 0;
		grn_take_rejected(s);
		if (s->listed == 0 && s->ndeferred > 0)
			grn_expand_deferred(s);
		expand_all(s);
	}
	s->store->skips_neighbors = false;
	sort_found(s);
	if (s->p.resumable && s->p.memory_limit > 0 && grn_search_bytes(s) > s->p.memory_limit)
		s->truncated = true;
	return s->nfound;
}

const GrnFound *
grn_search_found(const GrnSearch *s)
{
	return s->found;
}

const uint8_t *
grn_search_tids(const GrnSearch *s)
{
	return s->tids;
}

const void *
grn_search_vector(const GrnSearch *s, uint32_t found_index)
{
	return s->vectors + kept_bytes(s) * s->kept[found_index];
}

const uint8_t *
grn_search_code(const GrnSearch *s, uint32_t found_index, GrnFactor *factor)
{
	const uint8_t *at = (const uint8_t *) grn_search_vector(s, found_index) +
		s->p.layout->vec_bytes;

	memcpy(factor, at, sizeof(GrnFactor));
	return at + sizeof(GrnFactor);
}

const uint32_t *
grn_search_list(const GrnSearch *s, uint32_t found_index, uint32_t *count)
{
	const uint32_t *list = (const uint32_t *) ((const uint8_t *) grn_search_vector(s, found_index) +
											   kept_list_at(s));

	*count = *list;
	return list + 1;
}

const GrnCodeQuery *
grn_search_code_query(const GrnSearch *s)
{
	return &s->code_query;
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
	void	   *arrays[] = {s->list, s->rejected_keys, s->rows.estimates, s->rows.ids,
		s->groups.estimates, s->groups.ids, s->near_groups, s->nearest, s->noted.ids, s->gathered,
		s->set.ids, s->set.nodes, s->found,
		s->kept, s->tids, s->vectors, s->nodes, s->links, s->packed, s->place, s->deferred, s->entries,
		s->kept_ids, s->farthest, s->failing.tested.ids, s->failing.heap, s->failing.far, s->failing.listings};

	for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++)
		if (arrays[i] != NULL)
			store->free(store, arrays[i]);
	store->free(store, s);
}
