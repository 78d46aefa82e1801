/*
 * search_impl.h - the state of a search, shared by the files that implement search.h.  Each part of
 * the state is written by the file that its comment names.
 */
#ifndef GRN_SEARCH_IMPL_H
#define GRN_SEARCH_IMPL_H

#include "space/space.h"
#include "store/search.h"

#include <string.h>

/*
 * Ids that prefetches remember, and candidates remembered as offered, which saves 3 to 7% of a
 * query's time; powers of two.  Half and twice take the same time (10,000 sentences, ef 40, 100).
 */
#define PREFETCH_MEMORY 128
#define OFFERED_MEMORY 512

typedef uint64_t Key;			/* distance << 32 | id << 1 | expanded */

#define KEY_ID(k) ((uint32_t) (k) >> 1)
#define KEY_EXPANDED ((Key) 1)

/* A hash set of ids. */
typedef struct IdSet
{
	uint32_t   *ids;			/* [size]; GRN_INVALID_ID marks a free slot */
	uint32_t	size;			/* power of two */
	uint32_t	used;
} IdSet;

/*
 * Slots of a new set or map of ids, a power of two.  Searches of 10,000 sentences take the same
 * time with 128 to 1,024.
 */
#define GRN_LEAST_SLOTS 1024

/* Number of listed rows that get estimates in one call: the widest kernel's batch. */
#define GRN_GATHER 16

/* An array of keys, in most places a heap with the least key on top. */
typedef struct Keys
{
	Key		   *keys;
	size_t		n;
	size_t		room;
} Keys;

/* Ids with estimates, not sorted. */
typedef struct Waiting
{
	float	   *estimates;
	uint32_t   *ids;
	size_t		n;
	size_t		room;
} Waiting;

/* The query, prepared for comparisons (search_visit.c). */
typedef struct Query
{
	const float *q;
	GrnComparison comparison;	/* used with stored vectors, unless work is set */
	void	   *packed;			/* the query by grn_query_make(), or NULL */
	float	   *work;			/* [2][dim], with by_row where rows are scaled: zeros, and room for
								 * a multiple of q */
	GrnScale	scale;			/* scale of q, set with work */
	GrnCodeQuery code;
} Query;

/* The list of candidates (search_list.c). */
typedef struct List
{
	Key		   *keys;			/* [room], sorted */
	uint32_t	n;
	uint32_t	room;			/* p.ef, or more if `farthest` bounds a run */
	uint32_t	cursor;			/* all candidates before the cursor are expanded */
	bool		grown;			/* it takes only candidates within Results.bound */
	bool		recheck;		/* the list may lack expanded ids */
	Key			offered[OFFERED_MEMORY];	/* slots by id: candidates offered lately that were
											 * near enough for the list */
} List;

/* Candidates that the list rejected, for further runs (search_list.c). */
typedef struct Rejected
{
	Keys		heap;
	bool		resumed;		/* the keys are a heap */
	uint32_t   *ids;			/* [nids] a cache of ids in the heap; only after a resume */
	size_t		nids;			/* power of two */
} Rejected;

/* Closed search: rows offered and not yet in rejected.heap (search_closed.c). */
typedef struct Closed
{
	Waiting		rows;
	float		bound;			/* rows with estimates up to this bound are in rejected.heap */
	uint8_t    *codes;			/* [GRN_GATHER] codes of rows that have no estimate yet */
	uint32_t	ids[GRN_GATHER];
	GrnFactor	factors[GRN_GATHER];
	uint32_t	ngathered;
} Closed;

/* Closed search: groups of rows, and the nearest rows of the groups taken (search_closed.c). */
typedef struct Groups
{
	Waiting		middles;		/* with the ids of groups not yet taken */
	Keys		near;			/* the nearest groups, already removed from `middles` */
	float	   *nearest;		/* [p.nearest] max-heap of the estimates of the nearest rows; NULL
								 * without groups */
	uint32_t	nnearest;
	IdSet		noted;			/* ids of rows that are or were in `nearest` */
	uint64_t	idle;			/* rows offered since a row last entered `nearest`, or since the
								 * first group was taken */
} Groups;

/* Dead nodes (search_dead.c). */
typedef struct Dead
{
	Keys		deferred;		/* heap of dead nodes that are not expanded yet */
	uint32_t	n;				/* dead nodes visited by this run */
} Dead;

/* What was prefetched (search_prefetch.c). */
typedef struct Prefetch
{
	uint32_t	window;			/* number of candidates to prefetch while visits wait for a disk */
	bool		on_disk;		/* `ids` holds prefetches from a disk */
	uint32_t	ids[PREFETCH_MEMORY];
} Prefetch;

/* With a filter: candidates whose signatures fail the filter (search_filter.c). */
typedef struct Failing
{
	Keys		heap;
	Keys		far;			/* raw_candidate() values, not sorted: too far to be expanded on
								 * arrival, and not yet counted in listings */
	Key			far_bound;		/* lower bound of the distances in `far` */
	uint64_t   *listings;		/* [size] hash map: id << 8 | number of visited records that list
								 * the id; UINT64_MAX: free slot */
	size_t		size;			/* power of two */
	size_t		used;
	uint32_t	dry;			/* nodes that failed since a failing node last showed a useful
								 * candidate */
	uint32_t	dry_at_least;	/* the same count if a shown candidate resets it only after a node
								 * has passed */
	uint32_t	dry_limit;
	IdSet		tested;			/* nodes whose rows are not in the filter's set */
	uint64_t	tests;			/* of rows' addresses, beside visits */
	uint64_t	nright;			/* visited nodes that passed */
	uint64_t	nwrong;			/* visited nodes that failed although their signatures passed */
} Failing;

/* Sums over nodes found, of distances d and their estimates e (search.c). */
typedef struct Sums
{
	double		n;
	double		d;
	double		e;
	double		dd;
	double		ee;
	double		de;
} Sums;

/* Results of this run (search.c). */
typedef struct Results
{
	GrnFound   *found;
	size_t		n;
	size_t		room;
	float	   *farthest;		/* [ef_exact] max-heap of the least distances found; NULL: the list
								 * alone ends a run */
	float	   *wanted;			/* [p.wanted] the same of fewer */
	float		bound;			/* the run leaves out candidates with larger estimates */
	double		possible;		/* deviations up to which estimates are possible (search.c) */
	Sums		sums;
} Results;

/* Parts of visited records, for results (search_visit.c). */
typedef struct Copies
{
	uint8_t    *tids;
	size_t		ntids;
	size_t		tids_room;
	uint8_t    *vectors;		/* with keep_vectors: [vectors_room] of kept_bytes() */
	size_t		nvectors;
	size_t		vectors_room;
} Copies;

/* The record being visited, copied while the store holds the record (search_visit.c). */
typedef struct Visit
{
	GrnFound	now;
	uint32_t	count;
	uint32_t	neighbors[GRN_MAX_DEGREE];
	float		estimates[GRN_MAX_DEGREE];
	bool		passing[GRN_MAX_DEGREE];	/* with a filter: does the neighbor's signature pass? */
} Visit;

struct GrnSearch
{
	GrnSearchParams p;
	GrnStore   *store;
	bool		codes;
	bool		started;		/* a run has begun before */
	bool		truncated;
	Query		query;
	List		list;
	Rejected	rejected;
	Closed		closed;
	Groups		groups;
	IdSet		set;			/* expanded ids */
	IdSet		seen;			/* without codes: ids whose distances were computed */
	Keys		entries;		/* the entry points of the search */
	Dead		dead;
	Prefetch	prefetch;
	Failing		failing;
	Results		results;
	Copies		copies;
	uint64_t	visits;
	uint64_t	wasted;			/* visits of dead nodes and of free slots */
	Visit		visit;
};

/* Does the node have TIDs that pass the filter, or a chain that may have some? */
static inline bool
has_rows(const GrnFound *f)
{
	return f->ntids > 0 || f->next != GRN_INVALID_ID;
}

/* Whether candidates that fall off the list are kept, for further runs or a bound that moves. */
static inline bool
grn_keeps_rejected(const GrnSearch *s)
{
	return s->p.resumable || s->results.farthest != NULL;
}

/* ---- memory ---- */

/* Makes room for `need` items of `size` bytes in the array *p and keeps its first `used` items. */
extern void grn_grow(GrnSearch *s, void *p, size_t size, size_t used, size_t need, size_t *room);

static inline void
reserve(GrnSearch *s, void *p, size_t size, size_t used, size_t need, size_t *room)
{
	if (need > *room)
		grn_grow(s, p, size, used, need, room);
}

/* Makes room for `more` keys. */
static inline void
reserve_keys(GrnSearch *s, Keys *k, size_t more)
{
	reserve(s, &k->keys, sizeof(Key), k->n, k->n + more, &k->room);
}

/* Offset of an expanded node's list, behind its vector, factor, code and signature. */
static inline size_t
kept_list_at(const GrnSearch *s)
{
	const GrnLayout *l = s->p.layout;

	return ((size_t) l->vec_bytes + sizeof(GrnFactor) + l->code_bytes + l->sig_bytes + 7) &
		~(size_t) 7;
}

/* Bytes of one kept node, including its list: a count and ids. */
static inline size_t
kept_bytes(const GrnSearch *s)
{
	return kept_list_at(s) + ((1 + (size_t) s->p.layout->degree) * sizeof(uint32_t) + 7) / 8 * 8;
}

/* Would the search exceed its memory limit with so many bytes more? */
extern bool grn_exceeds_memory(const GrnSearch *s, size_t more);

/* ---- keys ---- */

static inline Key
make_key(float distance, uint32_t id)
{
	return (Key) grn_ordinal(distance) << 32 | (Key) id << 1;
}

/*
 * A candidate with its distance as a float.  The conversion to a Key is half of the work on a
 * candidate, and a far candidate is rejected by comparing floats alone.
 */
static inline uint64_t
raw_candidate(float distance, uint32_t id)
{
	uint32_t	bits;

	memcpy(&bits, &distance, sizeof(bits));
	return (uint64_t) bits << 32 | (uint64_t) id << 1;
}

static inline Key
raw_key(uint64_t raw)
{
	uint32_t	bits = (uint32_t) (raw >> 32);
	float		distance;

	memcpy(&distance, &bits, sizeof(distance));
	return make_key(distance, KEY_ID(raw));
}

/* The distance that a key holds. */
static inline float
key_distance(Key key)
{
	uint32_t	bits = (uint32_t) (key >> 32);
	float		distance;

	bits ^= (uint32_t) ((int32_t) ~bits >> 31) | 0x80000000;
	memcpy(&distance, &bits, sizeof(distance));
	return distance;
}

/* Sorts n keys; scratch: [n]. */
extern void grn_sort_keys(Key *keys, Key *scratch, size_t n);

/* Heaps of keys with the least key on top. */

static inline void
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

static inline void
heap_make(Keys *heap)
{
	for (size_t i = heap->n / 2; i-- > 0;)
		heap_down(heap->keys, heap->n, i);
}

static inline Key
heap_pop(Keys *heap)
{
	Key			top = heap->keys[0];

	heap->keys[0] = heap->keys[--heap->n];
	if (heap->n > 1)
		heap_down(heap->keys, heap->n, 0);
	return top;
}

/* Adds a key to a heap that has room for one more. */
static inline void
heap_push(Keys *heap, Key key)
{
	Key		   *keys = heap->keys;
	size_t		i = heap->n++;

	for (; i > 0 && keys[(i - 1) / 2] > key; i = (i - 1) / 2)
		keys[i] = keys[(i - 1) / 2];
	keys[i] = key;
}

static inline void
heap_add(GrnSearch *s, Keys *heap, Key key)
{
	reserve_keys(s, heap, 1);
	heap_push(heap, key);
}

/* Adds x to a max-heap of the least `room` numbers; n: numbers added so far, or `room`. */
static inline void
keep_least(float *heap, uint32_t room, uint32_t n, float x)
{
	uint32_t	i = 0;

	if (n < room)
	{
		for (i = n; i > 0 && heap[(i - 1) / 2] < x; i = (i - 1) / 2)
			heap[i] = heap[(i - 1) / 2];
		heap[i] = x;
		return;
	}
	if (x >= heap[0])
		return;
	for (uint32_t child; (child = 2 * i + 1) < room; i = child)
	{
		child += child + 1 < room && heap[child + 1] > heap[child];
		if (x >= heap[child])
			break;
		heap[i] = heap[child];
	}
	heap[i] = x;
}

/* First slot for an id in a hash table of `slots` slots, a power of two. */
static inline uint32_t
hash_slot(uint32_t id, size_t slots)
{
	uint32_t	h = id * UINT32_C(0x9E3779B1);

	return (h ^ h >> 15) & (uint32_t) (slots - 1);
}

/* ---- the set of ids ---- */

static inline uint32_t
set_slot(const IdSet *set, uint32_t id)
{
	uint32_t	i = hash_slot(id, set->size);

	while (set->ids[i] != id && set->ids[i] != GRN_INVALID_ID)
		i = (i + 1) & (set->size - 1);
	return i;
}

static inline bool
set_has(const IdSet *set, uint32_t id)
{
	return set->ids[set_slot(set, id)] == id;
}

/* True if the search has expanded the id, or may have expanded it. */
static inline bool
is_expanded(const GrnSearch *s, uint32_t id)
{
	return set_has(&s->set, id);
}

/* Resizes the set to `size` slots, a power of two. */
extern void grn_set_resize(GrnSearch *s, IdSet *set, uint32_t size);
/* Adds an id.  Returns false if the set has the id already. */
extern bool grn_set_add(GrnSearch *s, IdSet *set, uint32_t id);

/* ---- search_list.c ---- */

/* The greatest key of a candidate that is near enough for a run that `farthest` bounds. */
static inline Key
bound_key(const GrnSearch *s)
{
	return s->results.n < s->p.ef_exact ? UINT64_MAX : make_key(s->results.bound, GRN_INVALID_ID >> 1);
}

/* Candidates with keys beyond this bound do not get onto the list. */
static inline Key
list_bound(const GrnSearch *s)
{
	if (s->list.n == s->list.room)
		return s->list.keys[s->list.n - 1];
	return s->list.grown ? bound_key(s) : UINT64_MAX;
}

/* True if this candidate is too far for a run that `farthest` bounds (search.c). */
static inline bool
is_beyond(const GrnSearch *s, Key key)
{
	return s->results.farthest != NULL && key > bound_key(s);
}

/* Keeps a candidate for further runs because the list has no room for it. */
extern void grn_reject(GrnSearch *s, Key key);
/* True if further runs may have candidates. */
static inline bool
has_rejected(const GrnSearch *s)
{
	return s->rejected.heap.n + s->closed.rows.n > 0;
}

/* The nearest candidate that is not expanded, at the cursor; UINT64_MAX: none is left. */
static inline Key
next_listed(GrnSearch *s)
{
	List	   *l = &s->list;

	while (l->cursor < l->n && (l->keys[l->cursor] & KEY_EXPANDED))
		l->cursor++;
	return l->cursor < l->n ? l->keys[l->cursor] : UINT64_MAX;
}

/* Offers a candidate to the list. */
extern void grn_offer(GrnSearch *s, Key key);
/*
 * Puts a node onto the list that passed although its signature was not known to pass.  The node
 * then counts among the ef nearest.
 */
extern void grn_list_found(GrnSearch *s, Key key);
/* Keeps n candidates (raw_candidate()) that are farther than the whole of a full list. */
extern void grn_reject_far(GrnSearch *s, const uint64_t *raw, uint32_t n);
/* Offers the neighbors of the node just visited, without codes after grn_measure_neighbors(). */
extern void grn_offer_neighbors(GrnSearch *s);
/* Removes a node without rows from the list, to make room for a possible result. */
extern void grn_unlist(GrnSearch *s, Key key);
/* Fills the list with the nearest rejected candidates.  Returns true if the list grew. */
extern bool grn_take_rejected(GrnSearch *s);

/* ---- search_closed.c ---- */

/* Estimates the last gathered rows and adds them to the waiting rows. */
extern void grn_end_listed(GrnSearch *s);
/*
 * Moves the nearest waiting rows, about two lists full, into `heap`, which must be empty.
 */
extern void grn_choose_waiting(GrnSearch *s, Keys *heap);

/* ---- search_visit.c ---- */

/* Prepares the query. */
extern void grn_query_begin(GrnSearch *s, const float *q);
/* Visits a node: fills s->visit.now and s->visit.neighbors.  Returns false if the slot is free. */
extern bool grn_visit(GrnSearch *s, uint32_t id);
/* The exact distance of the query to a stored vector, whose rounding error is `error`. */
extern float grn_stored_distance(const GrnSearch *s, const void *vec, float error);
/* Discards the rows and vectors that the last visit copied. */
extern void grn_forget_visit(GrnSearch *s);

/* ---- search_prefetch.c ---- */

/* Adds a candidate to the ids to prefetch unless it was prefetched lately. */
extern void grn_add_prefetch(GrnSearch *s, Key key, uint32_t *ids, uint32_t *n);
/* Prefetches the nearest candidates that were not prefetched lately. */
extern void grn_prefetch_ahead(GrnSearch *s);

/* ---- search_dead.c ---- */

/* Counts a node without rows and unlists it.  Returns true if its neighbors are offered now. */
extern bool grn_count_dead(GrnSearch *s, Key key);
/* True if the run must end after too many dead nodes.  With few, only ef bounds a run. */
extern bool grn_is_enough(GrnSearch *s);
/* Has the search cost as much as the caller allows? */
extern bool grn_has_spent(const GrnSearch *s);
/* True if the search has reached a limit that ends all its runs. */
extern bool grn_at_limit(GrnSearch *s);
/*
 * Offers again the entry points that nearer dead nodes have pushed off the list.  Vacuum ensures
 * that some entry points are live.  Returns true if the list grew.
 */
extern bool grn_offer_entries(GrnSearch *s);
/* Offers the neighbors of the nearest dead node in `deferred`. */
extern void grn_expand_deferred(GrnSearch *s);

/* ---- search_filter.c ---- */

/*
 * Copies the TIDs of the visited record that pass the filter.  Drops the record's chain if no row
 * of the chain can pass.
 */
extern void grn_filter_record(GrnSearch *s, const GrnRecord *rec);
/* Offers a candidate that fails the filter or may fail. */
extern void grn_offer_failing(GrnSearch *s, Key key);
/* Expands the candidates on the list and failing candidates, nearest first. */
extern void grn_expand_filtered(GrnSearch *s);

/* ---- search.c ---- */

/* Adds a node to the results. */
extern void grn_add_found(GrnSearch *s, const GrnFound *found);

/* ---- search_exact.c ---- */

/* Replaces s->visit.neighbors by those not seen before, and s->visit.estimates by distances. */
extern void grn_measure_neighbors(GrnSearch *s);

#endif							/* GRN_SEARCH_IMPL_H */
