/*
 * search.c - best-first search over records: a sorted list of the ef nearest
 * candidates by estimate, each visited once.
 *
 * A candidate is one 64-bit key: its distance as an ordered integer, its id, and
 * whether it has been expanded.  All records hold the same code of a row, so a
 * row always gets the same key, and its place in the sorted list tells whether
 * it is there already: no set of seen ids is needed, only one of expanded
 * ids (which also guards against rows whose code changed under the search).
 *
 * A resumable search keeps what the list rejects in an array.  The first resume
 * makes it a heap; each resume starts from its ef nearest.
 *
 * Without codes every neighbour must be visited for its distance.  Then all
 * visited ids are remembered, with what their visit found (struct Node), so
 * that their expansion visits nothing.
 */
#include "graph/stored/search.h"

#include <math.h>
#include <string.h>

#include "graph/space.h"

/*
 * Candidates at the front of the list that are asked for.  On SIFT 8 would ask for
 * 2.2 times the records that get visited, 4 for 1.4 times, 2 for 1.1 times.
 */
#define PREFETCH_WINDOW 4
#define PREFETCH_MEMORY 64		/* ids remembered as asked for; power of two */
#define CACHE_LINE 64
#define MIN_SET 256				/* slots of the first set of ids; power of two */

/*
 * With a dead_limit, dead nodes lead on at once while a run has met at most this many of
 * them, and this many more for each live node found.  So where up to two thirds of the
 * nodes are dead, searches go as if all lived.
 */
#define DEAD_AT_FIRST 4
#define DEAD_PER_LIVE 2

typedef uint64_t Key;			/* distance << 32 | id << 1 | expanded */

#define KEY_ID(k) ((uint32_t) (k) >> 1)
#define KEY_EXPANDED ((Key) 1)

/* Set of ids; with codes off it also maps an id to its Node. */
typedef struct IdSet
{
	uint32_t   *ids;			/* [size], GRN_INVALID_ID: empty */
	uint32_t   *nodes;			/* [size], only without codes */
	uint32_t	size;			/* power of two */
	uint32_t	used;
} IdSet;

/* Without codes: what a visit found, until the expansion. */
typedef struct Node
{
	GrnFound	found;
	uint32_t	first;			/* into links */
	uint32_t	count;
	uint32_t	kept;			/* slot of vector and code, with keep_vectors */
	bool		deferred;		/* dead, and its expansion is put off */
} Node;

struct GrnSearch
{
	GrnSearchParams p;
	GrnStore   *store;
	const float *q;
	float	   *place;			/* [2][dim] by_row where rows are scaled: of q and of the record */
	GrnCodeQuery code_query;
	bool		codes;
	bool		started;		/* has run before */
	bool		resumed;		/* discard is a heap */
	bool		truncated;
	bool		recheck;		/* the list no longer holds all expanded ids */

	Key		   *list;			/* [ef], sorted */
	uint32_t	listed;
	uint32_t	cursor;			/* no candidate before it is unexpanded */

	Key		   *discard;
	size_t		discarded;
	size_t		discard_room;
	IdSet		set;			/* expanded ids; without codes: visited ids */
	Key		   *deferred;		/* heap: dead nodes whose neighbours are yet to be offered */
	size_t		ndeferred;
	size_t		deferred_room;
	Key		   *entries;		/* what the search began with */
	uint32_t	nentries;
	uint32_t	entries_room;
	uint32_t	ndead;			/* dead nodes that this run has visited */

	/* this run's results */
	GrnFound   *found;
	uint32_t	nfound;
	uint32_t	found_room;
	uint32_t   *kept;			/* [found_room] slot of found[i]'s vector and code */
	uint8_t    *tids;
	size_t		ntids;
	size_t		tids_room;
	uint8_t    *vectors;		/* with keep_vectors: [kept_room] vector, factor, code */
	uint32_t	nkept;
	uint32_t	kept_room;

	/* without codes */
	Node	   *nodes;
	uint32_t	nnodes;
	uint32_t	nodes_room;
	uint32_t   *links;
	size_t		nlinks;
	size_t		links_room;

	/* the record being visited, copied under its lock */
	uint32_t	id;
	GrnFound	now;
	uint32_t	now_kept;
	uint32_t	count;
	uint32_t	neighbours[GRN_MAX_DEGREE];
	float		estimates[GRN_MAX_DEGREE];

	uint32_t	asked[PREFETCH_MEMORY];
	uint64_t	visits;
};

/* ---- memory ---- */

/* Room for need items of size bytes in *p, of which used are kept. */
static void
reserve(GrnSearch *s, void *p, size_t size, size_t used, size_t need, size_t *room)
{
	void	  **array = p;
	size_t		grown = *room * 2 > need ? *room * 2 : need;
	void	   *bigger;

	if (need <= *room)
		return;
	bigger = s->store->alloc(s->store, grown * size);
	if (used > 0)
		memcpy(bigger, *array, used * size);
	if (*array != NULL)
		s->store->free(s->store, *array);
	*array = bigger;
	*room = grown;
}

static void
reserve32(GrnSearch *s, void *p, size_t size, uint32_t used, uint32_t need, uint32_t *room)
{
	size_t		r = *room;

	if (need <= *room)
		return;
	reserve(s, p, size, used, need, &r);
	*room = (uint32_t) r;
}

static size_t
kept_bytes(const GrnSearch *s)
{
	const GrnLayout *l = s->p.layout;

	return ((size_t) l->vec_bytes + sizeof(GrnFactor) + l->code_bytes + 7) & ~(size_t) 7;
}

/* Bytes that grow as the search goes on; results of one run are not counted. */
static size_t
state_bytes(const GrnSearch *s)
{
	return (s->discard_room + s->deferred_room) * sizeof(Key) +
		(size_t) s->set.size * (s->codes ? 4 : 8) +
		(size_t) s->nodes_room * sizeof(Node) + s->links_room * 4 +
		(s->codes ? 0 : s->tids_room * GRN_TID_BYTES + kept_bytes(s) * s->kept_room);
}

/* ---- keys ---- */

/* Distances as integers in the same order; a NaN is the largest of all. */
static inline uint32_t
ordered(float distance)
{
	uint32_t	bits;

	if (distance != distance)
		return UINT32_MAX;
	memcpy(&bits, &distance, sizeof(bits));
	return bits ^ ((uint32_t) ((int32_t) bits >> 31) | 0x80000000);
}

static inline Key
make_key(float distance, uint32_t id)
{
	return (Key) ordered(distance) << 32 | (Key) id << 1;
}

/* Sorts n keys; scratch: [n].  Merges runs, short ones by insertion. */
static void
sort_keys(Key *keys, Key *scratch, size_t n)
{
	enum
	{
		RUN = 16
	};
	Key		   *from = keys;
	Key		   *to = scratch;

	for (size_t a = 0; a < n; a += RUN)
		for (size_t i = a + 1; i < n && i < a + RUN; i++)
		{
			Key			k = keys[i];
			size_t		j = i;

			for (; j > a && keys[j - 1] > k; j--)
				keys[j] = keys[j - 1];
			keys[j] = k;
		}
	for (size_t width = RUN; width < n; width *= 2)
	{
		Key		   *t = from;

		for (size_t a = 0; a < n; a += 2 * width)
		{
			size_t		m = a + width < n ? a + width : n;
			size_t		e = a + 2 * width < n ? a + 2 * width : n;
			size_t		i = a;
			size_t		j = m;

			for (size_t o = a; o < e; o++)
				to[o] = i < m && (j == e || from[i] <= from[j]) ? from[i++] : from[j++];
		}
		from = to;
		to = t;
	}
	if (from != keys)
		memcpy(keys, from, n * sizeof(Key));
}

/* ---- set of ids ---- */

static inline uint32_t
set_slot(const IdSet *set, uint32_t id)
{
	uint32_t	h = id * UINT32_C(0x9E3779B1);
	uint32_t	i = (h ^ h >> 15) & (set->size - 1);

	while (set->ids[i] != id && set->ids[i] != GRN_INVALID_ID)
		i = (i + 1) & (set->size - 1);
	return i;
}

static inline bool
set_has(const IdSet *set, uint32_t id)
{
	return set->ids[set_slot(set, id)] == id;
}

static void
set_resize(GrnSearch *s, uint32_t size)
{
	IdSet		old = s->set;
	IdSet		set = {NULL, NULL, size, old.used};

	set.ids = s->store->alloc(s->store, (size_t) size * sizeof(uint32_t));
	memset(set.ids, 0xFF, (size_t) size * sizeof(uint32_t));
	if (!s->codes)
		set.nodes = s->store->alloc(s->store, (size_t) size * sizeof(uint32_t));
	for (uint32_t i = 0; i < old.size; i++)
		if (old.ids[i] != GRN_INVALID_ID)
		{
			uint32_t	to = set_slot(&set, old.ids[i]);

			set.ids[to] = old.ids[i];
			if (!s->codes)
				set.nodes[to] = old.nodes[i];
		}
	s->set = set;
	if (old.ids != NULL)
		s->store->free(s->store, old.ids);
	if (old.nodes != NULL)
		s->store->free(s->store, old.nodes);
}

/* Adds an id with its node; false where it was there. */
static bool
set_add(GrnSearch *s, uint32_t id, uint32_t node)
{
	uint32_t	i = set_slot(&s->set, id);

	if (s->set.ids[i] == id)
		return false;
	if ((s->set.used + 1) * 2 > s->set.size)
	{
		set_resize(s, s->set.size * 2);
		i = set_slot(&s->set, id);
	}
	s->set.ids[i] = id;
	if (!s->codes)
		s->set.nodes[i] = node;
	s->set.used++;
	return true;
}

/* ---- what the list rejected ---- */

static void
heap_down(Key *heap, size_t n, size_t i)
{
	Key			k = heap[i];

	for (size_t child; (child = 2 * i + 1) < n; i = child)
	{
		if (child + 1 < n && heap[child + 1] < heap[child])
			child++;
		if (k <= heap[child])
			break;
		heap[i] = heap[child];
	}
	heap[i] = k;
}

static void
heap_make(Key *heap, size_t n)
{
	for (size_t i = n / 2; i-- > 0;)
		heap_down(heap, n, i);
}

static Key
heap_pop(Key *heap, size_t *n)
{
	Key			top = heap[0];

	heap[0] = heap[--*n];
	if (*n > 1)
		heap_down(heap, *n, 0);
	return top;
}

/* There is room for one more. */
static void
heap_push(Key *heap, size_t *n, Key key)
{
	size_t		i = (*n)++;

	for (; i > 0 && heap[(i - 1) / 2] > key; i = (i - 1) / 2)
		heap[i] = heap[(i - 1) / 2];
	heap[i] = key;
}

/* Has this search, or may it have, dealt with the id already? */
static bool
is_expanded(const GrnSearch *s, uint32_t id)
{
	uint32_t	i = set_slot(&s->set, id);

	if (s->set.ids[i] != id)
		return false;
	/* Without codes the set holds all visited ids; expanded ones have no node. */
	return s->codes || s->set.nodes[i] == GRN_INVALID_ID ||
		s->nodes[s->set.nodes[i]].deferred;
}

/*
 * Makes room in a full discard array: ids come once for each record that links to
 * them, so dropping repeats and expanded ids often frees most of it.
 */
static void
discard_compact(GrnSearch *s)
{
	Key		   *scratch = s->store->alloc(s->store, s->discarded * sizeof(Key) + 1);
	size_t		n = 0;

	sort_keys(s->discard, scratch, s->discarded);
	s->store->free(s->store, scratch);
	for (size_t i = 0; i < s->discarded; i++)
		if ((n == 0 || s->discard[i] != s->discard[n - 1]) &&
			!is_expanded(s, KEY_ID(s->discard[i])))
			s->discard[n++] = s->discard[i];
	s->discarded = n;			/* sorted, so it is a heap, too */
}

static void
discard_add(GrnSearch *s, Key key)
{
	if (!s->p.resumable || s->truncated)
		return;
	if (s->discarded == s->discard_room)
	{
		discard_compact(s);
		if (s->discarded * 2 > s->discard_room)
		{
			if (s->p.memory_limit > 0 &&
				state_bytes(s) + s->discard_room * sizeof(Key) > s->p.memory_limit)
			{
				s->truncated = true;
				return;
			}
			reserve(s, &s->discard, sizeof(Key), s->discarded,
					s->discard_room * 2, &s->discard_room);
		}
	}
	if (s->resumed)
		heap_push(s->discard, &s->discarded, key);
	else
		s->discard[s->discarded++] = key;
}

/* ---- candidates ---- */

/*
 * First place in the list whose key is not less.  Without branches: which way it
 * goes is random, and a wrong guess would cost more than the search.
 */
static inline uint32_t
list_place(const GrnSearch *s, Key key)
{
	const Key  *base = s->list;
	uint32_t	n = s->listed;

	if (n == 0)
		return 0;
	while (n > 1)
	{
		uint32_t	half = n / 2;

		base += half & (0 - (uint32_t) (base[half - 1] < key));
		n -= half;
	}
	return (uint32_t) (base - s->list) + (*base < key);
}

/* Offers a candidate to the list. */
static void
offer(GrnSearch *s, Key key)
{
	uint32_t	place = list_place(s, key);

	if (place < s->listed && (s->list[place] | KEY_EXPANDED) == (key | KEY_EXPANDED))
		return;
	if (s->recheck && is_expanded(s, KEY_ID(key)))
		return;
	if (place == s->p.ef)
	{
		discard_add(s, key);
		return;
	}
	if (s->listed == s->p.ef)
	{
		Key			last = s->list[--s->listed];

		if (!(last & KEY_EXPANDED))
			discard_add(s, last);
	}
	memmove(s->list + place + 1, s->list + place, (s->listed - place) * sizeof(Key));
	s->list[place] = key;
	s->listed++;
	if (place < s->cursor)
		s->cursor = place;
}

/*
 * Offers the neighbours of the node just visited.  Most are farther than all of a
 * full list; these are told apart first, without branches.
 */
static void
offer_neighbours(GrnSearch *s)
{
	Key			near[GRN_MAX_DEGREE];
	uint32_t	n = 0;
	Key			bound = s->listed == s->p.ef ? s->list[s->listed - 1] : UINT64_MAX;

	if (s->p.resumable && !s->resumed && s->discard_room - s->discarded >= s->count)
	{
		Key		   *far = s->discard + s->discarded;
		uint32_t	nfar = 0;

		for (uint32_t i = 0; i < s->count; i++)
		{
			Key			key = make_key(s->estimates[i], s->neighbours[i]);

			near[n] = far[nfar] = key;
			n += key <= bound;
			nfar += key > bound;
		}
		s->discarded += nfar;
	}
	else
		for (uint32_t i = 0; i < s->count; i++)
		{
			Key			key = make_key(s->estimates[i], s->neighbours[i]);

			near[n] = key;
			n += key <= bound;
			if (key > bound)
				discard_add(s, key);
		}
	for (uint32_t i = 0; i < n; i++)
		offer(s, near[i]);
}

/* ---- visits ---- */

/* The exact distance of the query to a stored vector. */
static float
stored_distance(const GrnSearch *s, const void *vec)
{
	const GrnLayout *l = s->p.layout;

	if (s->place != NULL)
	{
		float	   *row = s->place + l->dim;

		grn_vec_load(l->vec_format, vec, l->dim, row);
		grn_place(row, l->dim, s->p.codec->norm_unit);
		return grn_dist->l2_f32(s->place, row, l->dim);
	}
	return grn_compare(s->p.metric->comparison, l->vec_format, s->q, vec, l->dim);
}

/* Runs while the store holds the record: copies, computes, does nothing else. */
static void
on_visit(void *arg, const GrnRecord *rec, const void *vec)
{
	GrnSearch  *s = arg;
	const GrnLayout *l = s->p.layout;

	/* A record comes from far: ask for all of it before waiting for any of it. */
	for (uint32_t at = 0; at < l->hot_bytes; at += CACHE_LINE)
		__builtin_prefetch(GRN_REC_PTR(rec, at));
	for (uint32_t at = 0; at < l->vec_bytes; at += CACHE_LINE)
		__builtin_prefetch((const uint8_t *) vec + at);

	s->now.distance = stored_distance(s, vec);
	s->now.error = rec->error;
	s->now.id = s->id;
	s->now.version = rec->version;
	s->now.state = rec->state;
	s->now.ntids = rec->ntids;
	s->now.next = rec->next;
	s->now.tids = (uint32_t) s->ntids;
	memcpy(s->tids + s->ntids * GRN_TID_BYTES, GRN_REC_PTR(rec, l->off_tids),
		   rec->ntids * GRN_TID_BYTES);
	s->ntids += rec->ntids;

	s->count = rec->count;
	memcpy(s->neighbours, grn_rec_ids(l, rec), rec->count * sizeof(uint32_t));
	if (s->codes)
		grn_estimate(&s->code_query, grn_rec_codes(l, rec), grn_rec_factors(l, rec),
					 rec->count, s->estimates);

	if (s->p.keep_vectors)
	{
		uint8_t    *to = s->vectors + kept_bytes(s) * s->nkept;

		memcpy(to, vec, l->vec_bytes);
		memcpy(to + l->vec_bytes, &rec->factor, sizeof(GrnFactor));
		memcpy(to + l->vec_bytes + sizeof(GrnFactor),
			   GRN_REC_PTR(rec, l->off_code), l->code_bytes);
		s->now_kept = s->nkept++;
	}
}

/* Visits a node into s->now and s->neighbours; false where nothing is there. */
static bool
visit(GrnSearch *s, uint32_t id)
{
	/* on_visit() must not allocate: it runs under the store's lock. */
	reserve(s, &s->tids, GRN_TID_BYTES, s->ntids, s->ntids + UINT8_MAX, &s->tids_room);
	if (s->p.keep_vectors)
		reserve32(s, &s->vectors, kept_bytes(s), s->nkept, s->nkept + 1, &s->kept_room);
	s->id = id;
	s->visits++;
	return s->store->visit(s->store, id, on_visit, s);
}

/* Gives back the room of what the last visit copied. */
static void
forget_visit(GrnSearch *s)
{
	s->ntids -= s->now.ntids;
	if (s->p.keep_vectors)
		s->nkept--;
}

static void
add_found(GrnSearch *s, const GrnFound *found, uint32_t kept)
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

/* Without codes: visits id if that has not happened, and offers it. */
static void
discover(GrnSearch *s, uint32_t id)
{
	Node	   *node;

	if (set_has(&s->set, id))
		return;
	if (!visit(s, id))
	{
		set_add(s, id, GRN_INVALID_ID);
		return;
	}
	reserve32(s, &s->nodes, sizeof(Node), s->nnodes, s->nnodes + 1, &s->nodes_room);
	reserve(s, &s->links, sizeof(uint32_t), s->nlinks, s->nlinks + s->count, &s->links_room);
	if (s->now.state != GRN_NODE)
		forget_visit(s);
	node = &s->nodes[s->nnodes];
	node->found = s->now;
	node->first = (uint32_t) s->nlinks;
	node->count = s->count;
	node->deferred = false;
	node->kept = s->now_kept;
	memcpy(s->links + s->nlinks, s->neighbours, s->count * sizeof(uint32_t));
	s->nlinks += s->count;
	set_add(s, id, s->nnodes++);
	offer(s, make_key(s->now.distance, id));
}

/* Asks the store for the nearest candidates that it was not asked for lately. */
static void
ask_ahead(GrnSearch *s)
{
	uint32_t	ids[PREFETCH_WINDOW];
	uint32_t	n = 0;
	uint32_t	seen = 0;

	for (uint32_t i = s->cursor; i < s->listed && seen < PREFETCH_WINDOW; i++)
	{
		uint32_t	id = KEY_ID(s->list[i]);
		uint32_t   *asked = &s->asked[id & (PREFETCH_MEMORY - 1)];

		if (s->list[i] & KEY_EXPANDED)
			continue;
		seen++;
		if (*asked != id)
			ids[n++] = *asked = id;
	}
	if (n > 0)
		s->store->prefetch(s->store, ids, n);
}

/*
 * Takes a node without rows off the list, so that its place goes to one that may
 * be a result.
 */
static void
unlist(GrnSearch *s, Key key)
{
	for (uint32_t i = 0; i < s->listed; i++)
		if (s->list[i] == (key | KEY_EXPANDED))
		{
			memmove(s->list + i, s->list + i + 1, (s->listed - i - 1) * sizeof(Key));
			s->listed--;
			if (s->cursor > i)
				s->cursor--;
			s->recheck = true;
			return;
		}
}

/* Has this run met more dead nodes than may lead on at once? */
static bool
are_many(const GrnSearch *s)
{
	return s->ndead > DEAD_AT_FIRST + DEAD_PER_LIVE * s->nfound;
}

/*
 * Counts a node without rows, and takes it off the list.  Nothing of it is kept.  Returns
 * whether its neighbours are to be offered now.
 */
static bool
meet_dead(GrnSearch *s, Key key)
{
	unlist(s, key);
	s->ndead++;
	if (s->p.dead_limit == 0 || !are_many(s))
		return true;
	reserve(s, &s->deferred, sizeof(Key), s->ndeferred, s->ndeferred + 1, &s->deferred_room);
	heap_push(s->deferred, &s->ndeferred, key);
	return false;
}

static void
expand_coded(GrnSearch *s, Key key)
{
	if (!set_add(s, KEY_ID(key), 0))
		return;
	if (!visit(s, KEY_ID(key)))
	{
		unlist(s, key);
		return;
	}
	if (s->now.state == GRN_NODE)
		add_found(s, &s->now, s->now_kept);
	else
	{
		forget_visit(s);
		if (!meet_dead(s, key))
			return;
	}
	offer_neighbours(s);
	if (s->store->prefetch != NULL)
		ask_ahead(s);
}

/* Without codes: visits the neighbours of a node, and so ends its expansion. */
static void
discover_neighbours(GrnSearch *s, uint32_t id)
{
	uint32_t   *slot = &s->set.nodes[set_slot(&s->set, id)];
	Node		node = s->nodes[*slot];

	*slot = GRN_INVALID_ID;
	if (s->store->prefetch != NULL)
	{
		uint32_t	ids[GRN_MAX_DEGREE];
		uint32_t	n = 0;

		for (uint32_t i = 0; i < node.count; i++)
			if (!set_has(&s->set, s->links[node.first + i]))
				ids[n++] = s->links[node.first + i];
		if (n > 0)
			s->store->prefetch(s->store, ids, n);
	}
	for (uint32_t i = 0; i < node.count; i++)
		discover(s, s->links[node.first + i]);
}

static void
expand_exact(GrnSearch *s, Key key)
{
	uint32_t	at = s->set.nodes[set_slot(&s->set, KEY_ID(key))];

	if (at == GRN_INVALID_ID || s->nodes[at].deferred)
		return;
	if (s->nodes[at].found.state == GRN_NODE)
		add_found(s, &s->nodes[at].found, s->nodes[at].kept);
	else if (!meet_dead(s, key))
	{
		s->nodes[at].deferred = true;
		return;
	}
	discover_neighbours(s, KEY_ID(key));
}

/* Offers the neighbours of the nearest dead node that waits for that. */
static void
expand_deferred(GrnSearch *s)
{
	uint32_t	id = KEY_ID(heap_pop(s->deferred, &s->ndeferred));

	s->ndead++;
	if (!s->codes)
		discover_neighbours(s, id);
	else if (visit(s, id))
	{
		forget_visit(s);
		offer_neighbours(s);
	}
}

/* ---- the search ---- */

GrnSearch *
grn_search_begin(const GrnSearchParams *params, GrnStore *store, const float *q)
{
	GrnSearch  *s = store->alloc(store, sizeof(GrnSearch));
	uint32_t	room;
	uint32_t	size = MIN_SET;

	/* The large arrays inside need no clearing. */
	memset(s, 0, offsetof(GrnSearch, neighbours));
	memset(s->asked, 0xFF, sizeof(s->asked));
	s->visits = 0;
	s->p = *params;
	s->store = store;
	s->q = q;
	s->codes = params->codec != NULL && params->codec->code_dims > 0 &&
		params->layout->code_dims > 0;
	if (s->codes)
	{
		float		scratch[GRN_MAX_CODE_DIMS];

		if (params->by_row)
			grn_code_query_row(params->codec, q, &s->code_query, scratch);
		else
			grn_code_query(params->codec, q, &s->code_query, scratch);
	}
	if (params->by_row && params->metric->embedding == GRN_EMBED_SCALED)
	{
		s->place = store->alloc(store, 2 * (size_t) params->layout->dim * sizeof(float));
		memcpy(s->place, q, params->layout->dim * sizeof(float));
		grn_place(s->place, params->layout->dim, params->codec->norm_unit);
	}

	s->list = store->alloc(store, params->ef * sizeof(Key));
	while (size < 4 * (uint64_t) params->ef && size < UINT32_C(1) << 20)
		size *= 2;
	set_resize(s, size);
	/* Expansions of one run seldom exceed ef by half. */
	room = params->ef + params->ef / 2 + 16;
	reserve(s, &s->tids, GRN_TID_BYTES, 0, (size_t) room + UINT8_MAX, &s->tids_room);
	s->kept = store->alloc(store, room * sizeof(uint32_t));
	reserve32(s, &s->found, sizeof(GrnFound), 0, room, &s->found_room);
	if (params->resumable)
		reserve(s, &s->discard, sizeof(Key), 0,
				(size_t) room * params->layout->degree, &s->discard_room);
	return s;
}

void
grn_search_entries(GrnSearch *s, const uint32_t *ids, const uint8_t *codes,
				   const GrnFactor *factors, uint32_t count)
{
	for (uint32_t first = 0; first < count; first += GRN_MAX_DEGREE)
	{
		uint32_t	n = count - first < GRN_MAX_DEGREE ? count - first : GRN_MAX_DEGREE;

		reserve32(s, &s->entries, sizeof(Key), s->nentries, s->nentries + n,
				  &s->entries_room);
		if (s->codes)
			grn_estimate(&s->code_query,
						 codes + (size_t) first * s->p.layout->code_bytes,
						 factors + first, n, s->estimates);
		for (uint32_t i = 0; i < n; i++)
			if (s->codes)
			{
				Key			key = make_key(s->estimates[i], ids[first + i]);

				s->entries[s->nentries++] = key;
				offer(s, key);
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

/*
 * Fills the list with the nearest of what was rejected before.  Returns whether any got a
 * place.
 */
static bool
take_discarded(GrnSearch *s)
{
	uint32_t	listed = s->listed;

	if (!s->resumed)
		heap_make(s->discard, s->discarded);
	s->resumed = true;
	s->recheck = true;
	while (s->discarded > 0 && s->listed < s->p.ef)
		offer(s, heap_pop(s->discard, &s->discarded));
	return s->listed > listed;
}

/* Results of the run, nearest first. */
static void
sort_found(GrnSearch *s)
{
	uint32_t	n = s->nfound;
	Key		   *keys = s->store->alloc(s->store, 2 * n * sizeof(Key) + 1);
	GrnFound   *sorted = s->store->alloc(s->store, n * sizeof(GrnFound) + 1);
	uint32_t   *kept = s->store->alloc(s->store, n * sizeof(uint32_t) + 1);

	for (uint32_t i = 0; i < n; i++)
		keys[i] = (Key) ordered(s->found[i].distance) << 32 | i;
	sort_keys(keys, keys + n, n);
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

/*
 * Is it time to end a run among dead nodes?  Where these are few, ef alone bounds a run.
 */
static bool
is_enough(GrnSearch *s)
{
	if (!are_many(s))
		return false;
	if ((s->p.max_visits > 0 && s->visits >= s->p.max_visits) ||
		(s->p.memory_limit > 0 && state_bytes(s) > s->p.memory_limit))
		s->truncated = true;
	return s->truncated || (s->p.dead_limit > 0 && s->ndead >= s->p.dead_limit);
}

/* Expands the list.  False: is_enough(). */
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
		if (is_enough(s))
			return false;
		s->list[s->cursor++] |= KEY_EXPANDED;
		if (s->codes)
			expand_coded(s, key);
		else
			expand_exact(s, key);
	}
	return true;
}

/*
 * Offers the entry points again that nearer dead nodes have pushed off the list.  Vacuum
 * sees to it that some of them live.  Returns whether any got a place.
 */
static bool
offer_entries(GrnSearch *s)
{
	uint32_t	listed = s->listed;

	for (uint32_t i = 0; i < s->nentries && s->listed < s->p.ef; i++)
		if (!is_expanded(s, KEY_ID(s->entries[i])))
			offer(s, s->entries[i]);
	return s->listed > listed;
}

static void
expand_all(GrnSearch *s)
{
	s->ndead = 0;
	while (expand_list(s))
	{
		if (s->ndead == 0 || s->nfound >= s->p.ef)
			break;
		if (offer_entries(s) || take_discarded(s))
			continue;
		if (s->ndeferred == 0 || is_enough(s))
			break;
		expand_deferred(s);
	}
	/* what is left on the list belongs to the next run */
	for (; s->cursor < s->listed; s->cursor++)
		if (!(s->list[s->cursor] & KEY_EXPANDED))
			discard_add(s, s->list[s->cursor]);
}

uint32_t
grn_search_run(GrnSearch *s)
{
	bool		resume = s->started;

	if (resume && (!s->p.resumable || s->truncated))
		return s->nfound = 0;
	s->started = true;
	s->nfound = 0;
	if (s->codes)
	{
		/* Without codes these belong to visits whose expansion is to come. */
		s->ntids = 0;
		s->nkept = 0;
	}
	if (!resume)
		expand_all(s);
	/* Dead nodes, or slots freed meanwhile, may leave a whole list without results. */
	while (s->nfound == 0 && s->p.resumable && !s->truncated &&
		   (s->discarded > 0 || s->ndeferred > 0))
	{
		s->listed = 0;
		s->cursor = 0;
		take_discarded(s);
		if (s->listed == 0 && s->ndeferred > 0)
			expand_deferred(s);
		expand_all(s);
	}
	sort_found(s);
	if (s->p.resumable && s->p.memory_limit > 0 && state_bytes(s) > s->p.memory_limit)
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

void
grn_search_end(GrnSearch *s)
{
	GrnStore   *store = s->store;
	void	   *arrays[] = {s->list, s->discard, s->set.ids, s->set.nodes, s->found,
		s->kept, s->tids, s->vectors, s->nodes, s->links, s->place, s->deferred, s->entries};

	for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++)
		if (arrays[i] != NULL)
			store->free(store, arrays[i]);
	store->free(store, s);
}
