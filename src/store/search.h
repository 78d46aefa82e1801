/*
 * search.h - best-first search of the stored graph.
 *
 * Scans, inserts, vacuum's repair, the command line and tests share this search.  The search reads
 * storage through GrnStore.visit(), which calls back while it holds a node's record.  The search
 * holds no lock between visits.  The codes in a node's record give estimated distances of the
 * node's neighbors, and the stored vector gives the node's exact distance in the same visit.
 * Candidates are expanded in the order of estimates; results are sorted by exact distance.
 */
#ifndef GRN_SEARCH_H
#define GRN_SEARCH_H

#include <math.h>

#include "store/codec.h"
#include "store/filter.h"

/*
 * Reads the record of node id and calls fn(arg, rec, vec).  rec is the record's hot part.  vec is
 * the whole own vector: it lies behind rec if the record fits a page, otherwise the store gathers
 * it from several pages.  Returns false without calling fn if the id is an empty slot, which a
 * stale link may name.  May longjmp.
 */
typedef void (*GrnVisitFn) (void *arg, const GrnRecord *rec, const void *vec);
/* Changes the edges of a record, of which rec is the hot part. */
typedef void (*GrnEditFn) (void *arg, GrnRecord *rec);
#define GRN_MAX_AHEAD 32

typedef struct GrnStore
{
	bool		(*visit) (struct GrnStore *self, uint32_t id, GrnVisitFn fn, void *arg);
	/* optional, not for searches: calls fn(arg, rec) and keeps what fn changes; id must be a node */
	void		(*edit) (struct GrnStore *self, uint32_t id, GrnEditFn fn, void *arg);
	struct GrnAbsent *absent;	/* view without a node that visits must not see (absent.c), or NULL */
	/* true while the search reads rows without their neighbors; set by the search for a run */
	bool		skips_neighbors;
	/*
	 * optional, for filters with has(): may[i] = may a row of the node pass?  The store reads no more
	 * than the rows' addresses.
	 */
	void		(*test) (struct GrnStore *self, const GrnFilter *filter, const uint32_t *ids, uint32_t count,
						 bool *may);
	/* optional: the search will visit these ids soon, in this order */
	void		(*prefetch) (struct GrnStore *self, const uint32_t *ids, uint32_t count);
	/*
	 * Number of ids that the search may prefetch before it visits them, while visits wait for a
	 * disk; at most GRN_MAX_AHEAD.  0: a prefetch only brings a few records into the processor's
	 * cache.  The store may change this field at any time.
	 */
	uint32_t	ahead;
	/* memory until the search ends; never NULL (the store reports the error or aborts) */
	void	   *(*alloc) (struct GrnStore *self, size_t bytes);
	void		(*free) (struct GrnStore *self, void *p);
} GrnStore;

/* A graph in stores, and where searches of it begin. */
typedef struct GrnStoredGraph
{
	const GrnLayout *layout;
	const GrnCodec *codec;
	const GrnMetricInfo *metric;
	GrnStore   *const *stores;	/* one for each thread that searches */
	const uint32_t *entries;	/* [nentries], and the codes and factors of these nodes */
	const uint8_t *entry_codes;
	const GrnFactor *entry_factors;
	uint32_t	nentries;
} GrnStoredGraph;

/*
 * Copies the first bytes of a record's hot part to rec [bytes], sizeof(GrnRecord) or more, and the
 * row to x [dim] unless x is NULL.  Returns false for an empty slot.
 */
extern bool grn_read_record(GrnStore *store, const GrnLayout *l, uint32_t id, GrnRecord *rec, size_t bytes,
							float *x);

/* A node that the search expanded. */
typedef struct GrnFound
{
	float		distance;		/* exact for the stored vector: grn_compare(), or with by_row the
								 * squared distance in the graph's space */
	float		error;			/* GrnRecord.error */
	uint32_t	id;
	uint16_t	version;
	uint8_t		state;			/* GRN_NODE in all results */
	uint8_t		ntids;
	uint32_t	next;			/* first record of the chain of further TIDs */
	uint32_t	tids;			/* offset into grn_search_tids(), counted in TIDs */
	uint32_t	kept;			/* with keep_vectors: for grn_search_vector() */
	float		norm2;			/* with norms: the squared length of the row */
} GrnFound;

/* The contrast (GrnContrast) of two distances, or of two inner products; 0: not known. */
static inline float
grn_contrast(float nearer, float farther)
{
	/* no ratio of two floats overflows a double */
	return nearer * farther > 0 ? fabsf((float) log((double) farther / nearer)) : 0;
}

/*
 * Dead nodes that one run of width ef may visit: eight for each live node of ef, and a constant for
 * small ef.  A scan that needs more rows runs the next batch.  50 and 500 of 20,000 sentences left
 * by a delete: the same recall, pages of queries and time of VACUUM with a quarter and twice.
 */
#define GRN_DEAD_LIMIT(ef) (8 * (ef) + 64)

typedef struct GrnSearchParams
{
	const GrnLayout *layout;
	const GrnCodec *codec;		/* without codes neighbors are visited for exact distances; NULL is
								 * then allowed unless by_row */
	const GrnMetricInfo *metric;
	uint32_t	ef;				/* size of the candidate list (beam width), >= 1 */
	uint32_t	ef_exact;		/* with codes: a run finds what a search by exact distances finds
								 * with so many candidates, nearly (search.c); 0: ef alone counts */
	uint32_t	wanted;			/* with ef_exact: number of nearest rows, at most ef_exact, that
								 * errors of estimates should not hide; 0: a quarter of ef_exact */
	bool		resumable;		/* keep candidates that fall off the list, for further runs */
	size_t		memory_limit;	/* bytes of resumable state; 0: no limit */
	bool		keep_vectors;	/* keep vectors and neighbor lists of expanded nodes (for inserts) */
	bool		norms;			/* GrnFound.norm2 is wanted */
	bool		by_row;			/* q is a row: distances are in the graph's space */
	uint32_t	dead_limit;		/* dead nodes that one run may visit (GRN_DEAD_LIMIT); 0: no limit */
	uint64_t	wasted_limit;	/* visits of dead nodes and free slots, over all runs, that end the
								 * search; 0: no limit */
	uint64_t	max_visits;		/* visits that end a search among nodes that are dead or fail the
								 * filter; 0: no limit */
	uint32_t	tests_per_visit;	/* tests of rows' addresses that count as a visit towards
									 * max_visits; 0: tests do not count */
	const GrnFilter *filter;	/* only rows that pass are found; NULL: all rows pass.  Kept by
								 * reference */
	double		share;			/* with filter: estimated share of rows that pass, > 0 */
	bool		closed;			/* with codes: visit only the rows given to grn_search_listed(),
								 * not their neighbors */
	uint32_t	nearest;		/* closed searches with groups: see grn_search_settled(); 0: never
								 * settled */
	uint32_t	patience;
} GrnSearchParams;

typedef struct GrnSearch GrnSearch;

/*
 * Starts a search for q: [dim] floats, kept by reference until grn_search_end().  A caller may
 * abandon a search at any time, because the store owns all its memory.
 */
extern GrnSearch *grn_search_begin(const GrnSearchParams *params, GrnStore *store,
								   const float *q);

/* Offers `count` entry points, with their codes if the index has codes. */
extern void grn_search_entries(GrnSearch *s, const uint32_t *ids, const uint8_t *codes,
							   const GrnFactor *factors, uint32_t count);

/* The same for a search of a graph from its entry points; fills p's layout, codec and metric. */
extern GrnSearch *grn_search_graph(const GrnStoredGraph *g, GrnStore *store, GrnSearchParams *p, const float *q);

/* Offers a closed search the coded rows with wanted[i]; NULL: all `count` rows. */
extern void grn_search_listed(GrnSearch *s, const uint32_t *ids, const uint8_t *codes,
							  const GrnFactor *factors, const bool *wanted, uint32_t count);

/*
 * Tells a closed search which groups of rows exist (group.h): an id and the code of the group's
 * middle for each.  next_group() removes and returns the id of the group with the nearest middle,
 * or GRN_INVALID_ID if none is left.
 */
extern void grn_search_groups(GrnSearch *s, const uint32_t *ids, const uint8_t *codes,
							  const GrnFactor *factors, uint32_t count);
extern uint32_t grn_search_next_group(GrnSearch *s);
/*
 * True if the groups not yet taken are unlikely to hold one of the p.nearest nearest rows.  The
 * condition: of the rows offered since the first group was taken, the last fifth, and at least
 * p.patience rows, have brought no nearer row.
 */
extern bool grn_search_settled(const GrnSearch *s);
extern bool grn_search_has_groups(const GrnSearch *s);
extern uint32_t grn_search_patience(const GrnSearch *s);

/*
 * With a filter and codes: offers those rows of a sample of the index as candidates.  All
 * signatures in the sample must pass the filter.
 */
extern void grn_search_sample(GrnSearch *s, const uint32_t *ids, const uint8_t *codes,
							  const GrnFactor *factors, uint32_t count);

/*
 * Runs until the ef nearest candidates are all expanded.  Afterwards found[0..n) are the nodes
 * expanded by this call, sorted by exact distance.
 *
 * A following call resumes the search, with room for ef more candidates.  The call returns 0 if no
 * candidate is left, or if memory_limit, max_visits or wasted_limit is reached
 * (grn_search_truncated() is then true).
 *
 * Nodes without rows do not count among the ef and are not reported.  The search follows their
 * edges while it also finds live nodes.  Where dead nodes are many, the search defers their
 * expansion: unexpanded entry points and rejected candidates come first.
 */
extern uint32_t grn_search_run(GrnSearch *s);
extern const GrnFound *grn_search_found(const GrnSearch *s);
extern const uint8_t *grn_search_tids(const GrnSearch *s);	/* [.] of GRN_TID_BYTES each */
extern const void *grn_search_vector(const GrnSearch *s, uint32_t found_index);
/* code, signature (behind the code) and factor of an expanded node (keep_vectors) */
extern const uint8_t *grn_search_code(const GrnSearch *s, uint32_t found_index,
									  GrnFactor *factor);
/* the neighbors of an expanded node at its visit (keep_vectors) */
extern const uint32_t *grn_search_list(const GrnSearch *s, uint32_t found_index, uint32_t *count);
extern bool grn_search_truncated(const GrnSearch *s);	/* ended by a limit */
/*
 * With a filter: true if the last run gave up on failing candidates that are nearer to the query
 * than its results.  The filter then selects rows far from the query, and a list of the passing
 * rows serves better.
 */
extern bool grn_search_dry(const GrnSearch *s);
extern uint64_t grn_search_visits(const GrnSearch *s);	/* records visited so far */
extern uint64_t grn_search_wasted(const GrnSearch *s);	/* visits that count toward wasted_limit */
extern void grn_search_end(GrnSearch *s);

/*
 * absent.c: a view of a graph without one of its nodes, for recall measurements with a stored row
 * as the query.
 *
 * Queries of applications are seldom rows.  A row as a query finds too many of its neighbors,
 * because its own node lists them.  A search that skips the node finds too few, because nodes near
 * it have an edge to the skipped node in place of a useful edge.  A build without the row would
 * have given these nodes another edge: to the nearest row that the rule (prune.h) accepts beside
 * the rest of the list.  In many dimensions that row is seldom a neighbor of the absent node, and
 * edges among the absent node's neighbors would lead a query to all nearest rows at once.
 *
 * So each list that names the absent node is pruned again, with the node's neighbors and their
 * neighbors as candidates.  The first candidate that the rule accepts replaces the absent node.
 * If the rule accepts none, the nearest candidate does, as in a build.
 * test/bench/recall/results.md compares such searches with queries that are not rows.
 */

typedef struct GrnAbsent GrnAbsent;

/*
 * Reads a node and its neighbors from a store, and allocates memory from the store.  Returns NULL
 * if the id is not a node.  codec: the codec of the records' codes; without codes searches skip
 * the node, and lists stay unchanged.
 */
extern GrnAbsent *grn_absent_begin(GrnStore *store, const GrnLayout *l, const GrnCodec *codec,
								   uint32_t id);
/* Frees the view. a may be NULL. */
extern void grn_absent_end(GrnStore *store, GrnAbsent *a);

/*
 * The view of record id: NULL (no record) for the absent node; rec, or a copy of rec with the
 * replaced edge.  A copy is valid until the next call.  Does not allocate.  a may be NULL.
 */
extern const GrnRecord *grn_absent_view(GrnAbsent *a, uint32_t id, const GrnRecord *rec);

/* connect.c, navigable.c: changes of the edges of a finished graph, for builds and vacuum. */

/* What changes the edges of a finished graph works on. */
typedef struct GrnUpkeep
{
	GrnStoredGraph graph;		/* its stores have edit(); the first makes all edges */
	GrnParallel *parallel;		/* NULL: the caller searches alone, in the first store */
	/*
	 * a bit for each node below limit: is it reached?  Full lists rely on edges of these nodes
	 * alone.  NULL: all nodes are
	 */
	const uint64_t *reached;
	uint32_t	limit;
	/* optional, if others use the graph: called often, while no record is held; may longjmp */
	void		(*poll) (void *arg);
	/* optional, the same: begins and ends a time in which nobody else removes edges to node id */
	void		(*hold) (void *arg, uint32_t id, bool begin);
	void	   *arg;
} GrnUpkeep;

static inline bool
grn_is_reached(const GrnUpkeep *u, uint32_t id)
{
	return u->reached == NULL || (id < u->limit && (u->reached[id / 64] >> id % 64 & 1) != 0);
}

/* edges.c: adds edges. */

/* An edge that a full list may give up: to node id, to which neighbor `by` leads as well. */
typedef struct GrnSpare
{
	uint32_t	id;				/* GRN_INVALID_ID: none */
	uint32_t	by;				/* GRN_INVALID_ID: id need not stay reachable */
} GrnSpare;

#define GRN_NO_SPARE ((GrnSpare) {GRN_INVALID_ID, GRN_INVALID_ID})

/* grn_read_record() of the hot part, for a node alone. */
extern bool grn_read_node(GrnStore *store, const GrnLayout *l, uint32_t id, GrnRecord *rec, float *x);
/* Returns the neighbor to which most other neighbors of a record lead. */
extern GrnSpare grn_spare_edge(const GrnUpkeep *u, GrnStore *store, const GrnRecord *rec);
/*
 * Gives node `from` an edge; a full list gives up `spare`.  Returns false if the list has changed
 * so that neither is possible.  spare.by may be the edge's end.
 */
extern bool grn_give_edge(const GrnUpkeep *u, uint32_t from, const GrnEdge *edge, GrnSpare spare);

/* connect.c: gives edges to nodes that are not reached. */

/*
 * Gives node x an edge from a reached node: from a neighbor, from `near` (may be GRN_INVALID_ID),
 * from a node that a search finds, or from the root.  All reached nodes stay reached.  Returns
 * false if x is gone, or if others change the lists all the time.
 */
extern bool grn_connect_node(const GrnUpkeep *u, uint32_t root, uint32_t x, uint32_t near);
/*
 * The same for all nodes of a build.  reach() adds to the set of reached nodes what a node that is
 * connected now leads to, and itself.  The result does not depend on the number of threads.
 */
extern void grn_connect_nodes(const GrnUpkeep *u, uint32_t root, void (*reach) (void *arg, uint32_t id));

/* navigable.c: adds edges where searches end too early. */

typedef struct GrnNavigation
{
	GrnUpkeep	upkeep;
	uint64_t	seed;
	uint64_t	stream;			/* other numbers lead to other targets */
	uint32_t	ids;			/* ids of targets are below this */
	uint32_t	first;			/* searches of the first round, */
	uint32_t	round;			/* of each later round, >= first, */
	double		most;			/* and of all rounds together: no round begins after so many */
} GrnNavigation;

/*
 * Searches for random nodes as a query does, and gives the nearest node found an edge to the
 * target where a search ends too early.  Ends after a round that adds nearly no edge.  All nodes
 * reachable before stay so.  The result does not depend on the number of threads.
 */
extern void grn_make_navigable(const GrnNavigation *n);

#endif							/* GRN_SEARCH_H */
