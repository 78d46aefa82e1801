/*
 * search.h - best-first search of the stored graph, one body for scans,
 * inserts, vacuum repair, the command line and tests.
 *
 * The search sees storage through GrnStore.visit(), which brings a node's
 * record and calls back while it holds it; no lock is held between visits.  A
 * node's neighbours get distances estimated from the codes in the very record
 * being visited; its own exact distance is computed at the same time.
 * Candidates are expanded by estimate; results are by exact distance.
 */
#ifndef GRN_SEARCH_H
#define GRN_SEARCH_H

#include "graph/stored/estimate.h"
#include "graph/stored/filter.h"

/*
 * Brings the record of node id and calls fn(arg, rec, vec) with it.  rec is the
 * hot part; vec the whole own vector, which lies behind rec where the record
 * fits a page and is gathered by the store where it spans several.  Returns
 * false, without calling fn, where the id holds nothing to visit (an empty slot
 * behind a stale link).  May longjmp.
 */
typedef void (*GrnVisitFn) (void *arg, const GrnRecord *rec, const void *vec);
#define GRN_MAX_AHEAD 32

typedef struct GrnStore
{
	bool		(*visit) (struct GrnStore *self, uint32_t id, GrnVisitFn fn, void *arg);
	/*
	 * Optional, for searches that may take pages as wholes: during fn, the other records of the
	 * page that the visited one lies on; id is one of the page.  They are not checked: check() ends
	 * with an error where a record is not sound.
	 */
	const GrnRecord *(*mate) (struct GrnStore *self, uint32_t id);
	void		(*check) (struct GrnStore *self, uint32_t id, const GrnRecord *rec);
	/* whether pages are taken as wholes now; the store changes it as it likes */
	bool		whole_pages;
	/* whether the search reads no neighbours now: it says so for its run's time */
	bool		rows_alone;
	/* optional: the search will visit these ids soon, the first of them first */
	void		(*prefetch) (struct GrnStore *self, const uint32_t *ids, uint32_t count);
	/*
	 * How many ids the search may have asked for and not visited yet, where a visit would wait for
	 * them; GRN_MAX_AHEAD at most.  0: asking brings a few of them into the processor's cache.  The
	 * store changes it as it likes.
	 */
	uint32_t	ahead;
	/* memory until the search ends; never NULL (ereport or abort instead) */
	void	   *(*alloc) (struct GrnStore *self, size_t bytes);
	void		(*free) (struct GrnStore *self, void *p);
} GrnStore;

/* What a search found at a node it expanded. */
typedef struct GrnFound
{
	float		distance;		/* exact by the stored vector: grn_compare(), or by_row the squared
								 * distance in the space of the graph */
	float		error;			/* GrnRecord.error */
	uint32_t	id;
	uint16_t	version;
	uint8_t		state;			/* GRN_NODE in results */
	uint8_t		ntids;
	uint32_t	next;			/* chain of further TIDs */
	uint32_t	tids;			/* offset into GrnSearch.tids, in TIDs */
} GrnFound;

typedef struct GrnSearchParams
{
	const GrnLayout *layout;
	const GrnCodec *codec;		/* without codes neighbours are visited for exact distances; may be
								 * NULL then, unless by_row */
	const GrnMetricInfo *metric;
	uint32_t	ef;				/* candidate list size, >= 1 */
	bool		resumable;		/* keep what falls off the list, for further runs */
	size_t		memory_limit;	/* of resumable state, bytes; 0: none */
	bool		keep_vectors;	/* copy expanded nodes' vectors and lists (for inserts) */
	bool		skip_killed;	/* TIDs of GRN_KILLED records are not looked at */
	bool		by_row;			/* q is a row: distances are those of the graph's space */
	uint32_t	dead_limit;		/* dead nodes that one run visits at most; 0: no limit */
	uint64_t	vain_limit;		/* visits of dead nodes and free slots by all runs; after so many
								 * the search ends; 0: no limit */
	uint64_t	max_visits;		/* among nodes that are dead, or fail the filter, a search ends
								 * after this many; 0: none */
	const GrnFilter *filter;	/* only rows that pass are found; NULL: all.  Kept by reference */
	double		share;			/* with filter: of the rows that pass, a guess > 0 */
	bool		closed;			/* with codes: what grn_search_listed() offered is visited, no
								 * neighbours */
	const GrnCodeQuery *code_query; /* the query made ready for estimates, by another search; or
									 * NULL */
	uint32_t	nearest;		/* closed, with groups: what grn_search_settled() goes by; 0: never */
	uint32_t	patience;
} GrnSearchParams;

typedef struct GrnSearch GrnSearch;

/*
 * q: [dim] floats, kept by reference until grn_search_end().  A search may
 * be abandoned at any time: all its memory is the store's.
 */
extern GrnSearch *grn_search_begin(const GrnSearchParams *params, GrnStore *store,
								   const float *q);

/* Offers an entry point, with its code where the index has codes. */
extern void grn_search_entries(GrnSearch *s, const uint32_t *ids, const uint8_t *codes,
							   const GrnFactor *factors, uint32_t count);

/* Offers a closed search those of count coded rows that are wanted; NULL: all. */
extern void grn_search_listed(GrnSearch *s, const uint32_t *ids, const uint8_t *codes,
							  const GrnFactor *factors, const bool *wanted, uint32_t count);

/*
 * Tells a closed search of groups of rows that it may be offered (group.h), each by an id and the
 * code of its middle.  next_group() takes the one whose middle is nearest among those that are
 * left, or GRN_INVALID_ID.
 */
extern void grn_search_groups(GrnSearch *s, const uint32_t *ids, const uint8_t *codes,
							  const GrnFactor *factors, uint32_t count);
extern uint32_t grn_search_next_group(GrnSearch *s);
/*
 * Is it unlikely that a group which is left holds one of the p.nearest nearest rows?  So it is
 * when of the rows that were offered since the first group was taken the last fifth, and
 * p.patience rows at least, have shown none.
 */
extern bool grn_search_settled(const GrnSearch *s);
extern bool grn_search_has_groups(const GrnSearch *s);
extern uint32_t grn_search_patience(const GrnSearch *s);

/*
 * With a filter and codes, offers rows of a sample of the index whose signatures pass: they are
 * candidates, as entry points are.
 */
extern void grn_search_sample(GrnSearch *s, const uint32_t *ids, const uint8_t *codes,
							  const GrnFactor *factors, uint32_t count);

/* The query as it is ready for estimates; of an index with codes. */
extern const GrnCodeQuery *grn_search_code_query(const GrnSearch *s);

/*
 * Runs until the ef nearest candidates are all expanded.  Afterwards found[0..n)
 * are the nodes expanded by this call, nearest first by exact distance.
 * A following call resumes where this one stopped, with room for ef more; it
 * returns 0 when nothing is left to expand, or memory_limit, max_visits or vain_limit is reached
 * (then grn_search_truncated() is true).
 *
 * Nodes without rows do not count among the ef and are not reported.  They lead the
 * search on while live nodes are found beside them.  Where they are many, those already
 * visited wait until nothing else is left, and the entry points that the search has not
 * expanded come before them.
 */
extern uint32_t grn_search_run(GrnSearch *s);
extern const GrnFound *grn_search_found(const GrnSearch *s);
/*
 * How many of the last run's nodes were among the ef nearest candidates to the end.  Where pages
 * were taken as wholes, some others were only on the list as long as that was short.
 */
extern uint32_t grn_search_led(const GrnSearch *s);
extern const uint8_t *grn_search_tids(const GrnSearch *s);	/* [.] of GRN_TID_BYTES */
extern const void *grn_search_vector(const GrnSearch *s, uint32_t found_index);
/* own code, the own signature behind it, and factor of an expanded node (keep_vectors) */
extern const uint8_t *grn_search_code(const GrnSearch *s, uint32_t found_index,
									  GrnFactor *factor);
/* the neighbours that an expanded node had then (keep_vectors) */
extern const uint32_t *grn_search_list(const GrnSearch *s, uint32_t found_index, uint32_t *count);
extern bool grn_search_truncated(const GrnSearch *s);	/* by a limit */
/*
 * With a filter: the last run gave up although candidates that fail the filter, and are nearer
 * to the query than what it found, may lead to rows that pass.  So it is where the filter is
 * opposed to the query, and a list of the rows that pass serves better.
 */
extern bool grn_search_dry(const GrnSearch *s);
extern uint64_t grn_search_visits(const GrnSearch *s);	/* records visited so far, */
extern uint64_t grn_search_vain(const GrnSearch *s);	/* and those of them for vain_limit */
extern void grn_search_end(GrnSearch *s);

#endif							/* GRN_SEARCH_H */
