/*
 * search_impl.h - the state of a search, for the files of search.h: search.c (its course),
 * search_list.c (candidates: the list, and what it rejects), search_closed.c (candidates that are
 * rows of lists), search_set.c (ids that have been
 * dealt with), search_visit.c (records), search_mates.c (other records of a page),
 * search_dead.c (nodes without rows) and search_filter.c (nodes that fail a filter).
 */
#ifndef GRN_SEARCH_IMPL_H
#define GRN_SEARCH_IMPL_H

#include "graph/space.h"
#include "graph/stored/search.h"

#include <string.h>

#define PREFETCH_MEMORY 128		/* ids, or pages, remembered as asked for; power of two */
#define OFFERED_MEMORY 512		/* candidates remembered as offered; power of two */

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

typedef struct GrnMates GrnMates;

/* Rows of lists that get estimates at once: as many as the widest kernel takes. */
#define GRN_GATHER 16

/* Ids in no order, with estimates. */
typedef struct Waiting
{
	float	   *estimates;
	uint32_t   *ids;
	size_t		n;
	size_t		room;
} Waiting;

/* With a filter: candidates whose signatures fail it. */
typedef struct Failing
{
	Key		   *heap;
	size_t		n;
	size_t		room;
	uint64_t   *far;			/* no heap, and no keys (raw_candidate()): too far to be expanded
								 * when they came, and not counted among listings yet */
	size_t		nfar;
	size_t		far_room;
	Key			far_bound;		/* all of them are beyond it */
	uint64_t   *listings;		/* [size] id << 8 | records visited that list it; UINT64_MAX */
	size_t		size;			/* power of two */
	size_t		used;
	uint32_t	dry;			/* nodes that failed, since one last showed a candidate to keep */
	uint32_t	dry_at_least;	/* dry, were it not for candidates that may fail by their values */
	uint32_t	dry_limit;
	uint64_t	nshown;			/* neighbours of nodes visited that passed, */
	uint64_t	npassing;		/* and those of them whose signatures pass */
	uint64_t	nright;			/* nodes visited that passed, */
	uint64_t	nwrong;			/* and that failed although their signatures passed */
} Failing;

struct GrnSearch
{
	GrnSearchParams p;
	GrnStore   *store;
	const float *q;
	GrnComparison comparison;	/* with stored vectors, unless place is set */
	void	   *packed;			/* the query by grn_query_make(), or NULL */
	float	   *place;			/* [2][dim] by_row where rows are scaled: of q and of the record */
	GrnScale	q_scale;		/* of q, then */
	GrnCodeQuery code_query;
	bool		codes;
	bool		started;		/* has run before */
	bool		resumed;		/* rejected_keys is a heap */
	bool		truncated;
	bool		recheck;		/* the list no longer holds all expanded ids */

	Key		   *list;			/* [ef], sorted */
	uint32_t	listed;
	uint32_t	cursor;			/* no candidate before it is unexpanded */

	Key		   *rejected_keys;	/* by the list, for further runs */
	size_t		rejected;
	size_t		rejected_room;
	Waiting		rows;			/* of a closed search: what was offered and is no rejected key yet */
	float		chosen;			/* rows up to this have become rejected keys */
	Waiting		groups;			/* their middles, and the ids of those that are yet to be taken */
	Key		   *near_groups;	/* heap: the nearest of them, which wait no more */
	size_t		nnear_groups;
	size_t		near_groups_room;
	bool		groups_begun;	/* one has been taken */
	float	   *nearest;		/* [p.nearest] estimates of the nearest rows, the farthest first: a
								 * heap; NULL: there are no groups */
	uint32_t	nnearest;
	IdSet		noted;			/* those that are, or were, among them */
	uint64_t	offered;		/* rows, since the first group was taken */
	uint64_t	idle;			/* and since one came among the nearest */
	uint8_t    *gathered;		/* codes of rows that wait for an estimate, room for GRN_GATHER */
	uint32_t	ngathered;
	uint32_t   *kept_ids;		/* [nkept_ids] some of their ids, now or before; only resumed */
	size_t		nkept_ids;		/* power of two */
	IdSet		set;			/* expanded ids; without codes: visited ids */
	Key		   *deferred;		/* heap: dead nodes whose neighbours are yet to be offered */
	size_t		ndeferred;
	size_t		deferred_room;
	Key		   *entries;		/* what the search began with */
	uint32_t	nentries;
	uint32_t	entries_room;
	uint32_t	ndead;			/* dead nodes that this run has visited */
	GrnMates   *mates;			/* NULL: no page has been taken as a whole */
	bool		took_mates;		/* this run has */
	uint32_t	window;			/* candidates that are asked for, where visits wait for a disk */
	bool		asked_disk;		/* asked[] are of that kind */
	Failing		failing;

	/* this run's results */
	GrnFound   *found;
	uint32_t	nfound;
	uint32_t	found_room;
	uint32_t   *kept;			/* [found_room] slot of found[i]'s vector and code */
	uint8_t    *tids;
	size_t		ntids;
	size_t		tids_room;
	uint8_t    *vectors;		/* with keep_vectors: [kept_room] of kept_bytes() */
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
	size_t		tids_before;	/* ntids and nkept as they were before the visit */
	uint32_t	kept_before;
	uint32_t	count;
	uint32_t	neighbours[GRN_MAX_DEGREE];
	float		estimates[GRN_MAX_DEGREE];
	bool		passing[GRN_MAX_DEGREE];	/* with a filter: by signature */

	uint32_t	gathered_ids[GRN_GATHER];
	GrnFactor	gathered_factors[GRN_GATHER];

	uint32_t	asked[PREFETCH_MEMORY];
	uint64_t	visits;
	uint64_t	vain;			/* those of dead nodes and of free slots */
	Key			offered_keys[OFFERED_MEMORY];	/* by id: what has come near enough for the list
												 * lately */
};

/* Has a node TIDs that pass the filter, or a chain that may have some? */
static inline bool
has_rows(const GrnFound *f)
{
	return f->ntids > 0 || f->next != GRN_INVALID_ID;
}

/* ---- memory ---- */

/* Room for need items of size bytes in *p, of which used are kept. */
extern void grn_grow(GrnSearch *s, void *p, size_t size, size_t used, size_t need, size_t *room);

static inline void
reserve(GrnSearch *s, void *p, size_t size, size_t used, size_t need, size_t *room)
{
	if (need > *room)
		grn_grow(s, p, size, used, need, room);
}

static inline void
reserve32(GrnSearch *s, void *p, size_t size, uint32_t used, uint32_t need, uint32_t *room)
{
	size_t		r = *room;

	if (need <= *room)
		return;
	grn_grow(s, p, size, used, need, &r);
	*room = (uint32_t) r;
}

/* Where an expanded node's list is kept, behind its vector, factor, code and signature. */
static inline size_t
kept_list_at(const GrnSearch *s)
{
	const GrnLayout *l = s->p.layout;

	return ((size_t) l->vec_bytes + sizeof(GrnFactor) + l->code_bytes + l->sig_bytes + 7) &
		~(size_t) 7;
}

/* Bytes of all that; the list is a count and ids. */
static inline size_t
kept_bytes(const GrnSearch *s)
{
	return kept_list_at(s) + ((1 + (size_t) s->p.layout->degree) * sizeof(uint32_t) + 7) / 8 * 8;
}

/* Bytes that grow as the search goes on; results of one run are not counted. */
extern size_t grn_search_bytes(const GrnSearch *s);

/* ---- keys ---- */

static inline Key
make_key(float distance, uint32_t id)
{
	return (Key) grn_ordinal(distance) << 32 | (Key) id << 1;
}

/*
 * A candidate whose distance has not been made an ordinal yet, which is half of the work on one
 * that is told to be far by a comparison of floats.
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

/* The distance of a key. */
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

/* Heaps of keys, the least on top. */

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
heap_make(Key *heap, size_t n)
{
	for (size_t i = n / 2; i-- > 0;)
		heap_down(heap, n, i);
}

static inline Key
heap_pop(Key *heap, size_t *n)
{
	Key			top = heap[0];

	heap[0] = heap[--*n];
	if (*n > 1)
		heap_down(heap, *n, 0);
	return top;
}

/* There is room for one more. */
static inline void
heap_push(Key *heap, size_t *n, Key key)
{
	size_t		i = (*n)++;

	for (; i > 0 && heap[(i - 1) / 2] > key; i = (i - 1) / 2)
		heap[i] = heap[(i - 1) / 2];
	heap[i] = key;
}

/* Where to look for an id first in a table of so many slots, a power of two. */
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

/* Has this search, or may it have, dealt with the id already? */
static inline bool
is_expanded(const GrnSearch *s, uint32_t id)
{
	uint32_t	i = set_slot(&s->set, id);

	if (s->set.ids[i] != id)
		return false;
	/* Without codes the set holds all visited ids; expanded ones have no node. */
	return s->codes || s->set.nodes[i] == GRN_INVALID_ID ||
		s->nodes[s->set.nodes[i]].deferred;
}

/* Gives the set so many slots, a power of two. */
extern void grn_set_resize(GrnSearch *s, IdSet *set, uint32_t size);
/* Adds an id with its node; false where it was there. */
extern bool grn_set_add(GrnSearch *s, IdSet *set, uint32_t id, uint32_t node);

/* ---- search_list.c ---- */

/* No candidate beyond this comes onto the list. */
static inline Key
list_bound(const GrnSearch *s)
{
	return s->listed == s->p.ef ? s->list[s->listed - 1] : UINT64_MAX;
}

/* Keeps a candidate that the list has no room for, for further runs. */
extern void grn_reject(GrnSearch *s, Key key);
/* May there be more candidates for further runs? */
static inline bool
has_rejected(const GrnSearch *s)
{
	return s->rejected + s->rows.n > 0;
}

/* Offers a candidate to the list. */
extern void grn_offer(GrnSearch *s, Key key);
/* Offers a candidate that has been expanded already. */
extern void grn_list_expanded(GrnSearch *s, Key key);
/* Keeps candidates [n] by raw_candidate() that are farther than all of a full list. */
extern void grn_reject_far(GrnSearch *s, const uint64_t *raw, uint32_t n);
/* Offers n candidates at their estimates. */
extern void grn_offer_keys(GrnSearch *s, const uint32_t *ids, const float *estimates, uint32_t n);
/*
 * Takes a node without rows off the list, so that there is room for one that may
 * be a result.
 */
extern void grn_unlist(GrnSearch *s, Key key);
/*
 * Fills the list with the nearest of what was rejected before.  Returns whether it took any.
 */
extern bool grn_take_rejected(GrnSearch *s);

/* ---- search_closed.c ---- */

/* Has the last rows that grn_search_listed() was given wait with the others. */
extern void grn_end_listed(GrnSearch *s);
/*
 * Makes the nearest of what waits, about as many as two lists hold, the heap of what was rejected,
 * which is empty.
 */
extern void grn_choose_waiting(GrnSearch *s);

/* ---- search_visit.c ---- */

/* Visits a node into s->now and s->neighbours; false where nothing is there. */
extern bool grn_visit(GrnSearch *s, uint32_t id);
/* Copies a record into s->now, all but its edges, while the store holds it; there is room. */
extern void grn_take_record(GrnSearch *s, uint32_t id, const GrnRecord *rec, const void *vec);
/* Gives back the room of what the last visit copied, and forgets the node's mates. */
extern void grn_forget_visit(GrnSearch *s);
/* Asks the store for the nearest candidates that it was not asked for lately. */
extern void grn_ask_ahead(GrnSearch *s);

/* ---- search_mates.c ---- */

extern void grn_mates_end(GrnSearch *s);
/* Before a visit of s->id: makes room for its mates, if this search takes any. */
extern void grn_mates_ready(GrnSearch *s);
/* Are pages taken as wholes now? */
static inline bool
takes_mates(const GrnSearch *s)
{
	return s->mates != NULL && s->store->whole_pages;
}

/* During the visit, of a node: copies what the other records of its page say. */
extern void grn_take_mates(GrnSearch *s);
/* After it: expands those that come onto the list, and offers the neighbours of all. */
extern void grn_offer_mates(GrnSearch *s);
extern void grn_forget_mates(GrnSearch *s);

/* ---- search_dead.c ---- */

/*
 * Counts a node without rows, and takes it off the list.  Nothing of it is kept.  Returns
 * whether its neighbours are to be offered now.
 */
extern bool grn_meet_dead(GrnSearch *s, Key key);
/*
 * Is it time to end a run among dead nodes?  Where these are few, ef alone bounds a run.
 */
extern bool grn_is_enough(GrnSearch *s);
/* Has the search reached a limit that ends it for good? */
extern bool grn_is_vain(GrnSearch *s);
/*
 * Offers the entry points again that nearer dead nodes have pushed off the list.  Vacuum
 * sees to it that some of them live.  Returns whether it took any.
 */
extern bool grn_offer_entries(GrnSearch *s);
/* Offers the neighbours of the nearest dead node that waits for that. */
extern void grn_expand_deferred(GrnSearch *s);

/* ---- search_filter.c ---- */

/* Copies those TIDs of the record being visited that pass; drops its chain where that cannot. */
extern void grn_filter_record(GrnSearch *s, const GrnRecord *rec);
/* Offers a candidate that fails the filter, or may fail. */
extern void grn_offer_failing(GrnSearch *s, uint32_t id, float estimate);
/* Expands the list and what fails the filter. */
extern void grn_expand_filtered(GrnSearch *s);

/* ---- search.c ---- */

/* Adds what the last visit found to the results. */
extern void grn_add_found(GrnSearch *s, const GrnFound *found, uint32_t kept);

/* Without codes: visits the neighbours of a node, and so ends its expansion. */
extern void grn_discover_neighbours(GrnSearch *s, uint32_t id);

#endif							/* GRN_SEARCH_IMPL_H */
