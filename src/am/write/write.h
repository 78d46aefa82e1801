/*
 * write.h - what the files that change a finished index share: locks, slots,
 * changes of one record, links, reachability.
 */
#ifndef GRNND_WRITE_H
#define GRNND_WRITE_H

#include "am/grnnd.h"

#include "graph/stored/prune.h"

#include "access/transam.h"
#include "storage/lmgr.h"

/*
 * Heavyweight locks of one index (lock.c; src/README, "Lock order").  Every insert holds
 * GRNND_WRITERS_LOCK while it runs: in RowShareLock where it writes codes, or the index has
 * none, and in RowExclusiveLock where the index is unfitted.  Vacuum takes it for a moment in
 * ExclusiveLock, to know that inserts from before have ended, and fit_codes.c in ShareLock, to
 * know that those have ended which write no codes.  GRNND_FIRST_LOCK serialises those who
 * find no live node to link to.
 */
typedef enum GrnndLockKind		/* beyond the numbers of columns */
{
	GRNND_WRITERS_LOCK = 0xFFF0,
	GRNND_FIRST_LOCK = 0xFFF1
} GrnndLockKind;

/* Held until grnnd_unlock() or the end of the transaction. */
extern void grnnd_lock(Relation index, GrnndLockKind kind, LOCKMODE mode);
/* False where it would have to wait. */
extern bool grnnd_try_lock(Relation index, GrnndLockKind kind, LOCKMODE mode);
extern void grnnd_unlock(Relation index, GrnndLockKind kind, LOCKMODE mode);

/* ---- freespace.c ---- */

/*
 * Puts rec (record_bytes, contiguous) into a free slot and logs it; sets
 * rec->version, which is the slot's.  Returns its id.  heap is for the horizon
 * of reuse.  Holds no lock when it returns.
 */
extern uint32 grnnd_new_record(Relation index, Relation heap, const GrnndIndex *ix,
							   GrnRecord *rec);

/* Makes a record free; the caller registered its page.  stamp: see "Slot reuse". */
extern void grnnd_free_slot(GrnRecord *rec, FullTransactionId stamp);

/* Tells the free space map of a page's free slots; now: not only later. */
extern void grnnd_note_free(Relation index, BlockNumber block, bool now);

/* Has the page free slots, and may one be taken now?  heap may be NULL. */
extern bool grnnd_has_free(Relation heap, const GrnndIndex *ix, Page page, bool *now);

/* ---- edit.c: records under their pages' exclusive locks ---- */

/*
 * A change of one record, or of several on at most MAX_GENERIC_XLOG_PAGES pages,
 * which is one WAL record.
 */
typedef struct GrnndEdit
{
	Relation	index;
	const GrnndIndex *ix;
	uint32		id;				/* the record at hand */
	GrnRecord  *rec;			/* to read; a copy as soon as it is changed */
	GenericXLogState *xlog;
	int			npages;
	Buffer		buffers[MAX_GENERIC_XLOG_PAGES];
	Page		pages[MAX_GENERIC_XLOG_PAGES];	/* copies of those changed */
	bool		changed[MAX_GENERIC_XLOG_PAGES];
} GrnndEdit;

/* Locks and checks the record; it may be of any state. */
extern void grnnd_edit_begin(GrnndEdit *e, Relation index, const GrnndIndex *ix, uint32 id);
/* Goes on to a record of the same page or of a later one. */
extern void grnnd_edit_next(GrnndEdit *e, uint32 id);
/* The copy to change, good until the edit ends. */
extern GrnRecord *grnnd_edit_change(GrnndEdit *e);
/* Logs the changes, if there were any, and releases the pages. */
extern void grnnd_edit_end(GrnndEdit *e);

/*
 * Ends with an error unless the record is sound.  *limit is the number of ids
 * that exist, read again where a link leads past it.
 */
extern void grnnd_check_record(Relation index, const GrnndIndex *ix, uint32 id,
							   const GrnRecord *rec, uint32 *limit);

/*
 * Copies the first record_bytes - or what of them lies on the first page - of
 * record id to rec, whatever its state.  Returns its state.
 */
extern GrnState grnnd_copy_record(Relation index, const GrnndIndex *ix, uint32 id,
								  GrnRecord *rec, BufferAccessStrategy strategy);
/* Bytes that grnnd_copy_record() writes. */
extern Size grnnd_copy_bytes(const GrnndIndex *ix);

/* Of edge i; 0 without codes. */
extern GrnFactor grnnd_edge_factor(const GrnLayout *l, const GrnRecord *rec, uint32 i);
/* Appends an edge to a record that has room. */
extern void grnnd_add_edge(const GrnLayout *l, GrnRecord *rec, uint32 id,
						   const uint8_t *code, GrnFactor factor);
/* Sets edge i. */
extern void grnnd_set_edge(const GrnLayout *l, GrnRecord *rec, uint32 i, uint32 id,
						   const uint8_t *code, GrnFactor factor);

/* ---- entries.c ---- */

typedef struct GrnndEntries
{
	uint32		count;
	uint32		ids[GRN_MAX_ENTRIES];
	GrnFactor	factors[GRN_MAX_ENTRIES];
	uint8_t	   *codes;			/* [GRN_MAX_ENTRIES][code_bytes] */
} GrnndEntries;

/* Allocates and reads. */
extern GrnndEntries *grnnd_get_entries(Relation index, const GrnndIndex *ix);
/*
 * Changes the entry page under its exclusive lock: fn edits the entries and
 * returns whether they are to be written.
 */
typedef bool (*GrnndEntriesFn) (GrnndEntries *entries, void *arg);
extern bool grnnd_change_entries(Relation index, const GrnndIndex *ix,
								 GrnndEntriesFn fn, void *arg);
extern void grnnd_set_entry(const GrnndIndex *ix, GrnndEntries *entries, uint32 i,
							uint32 id, const uint8_t *code, GrnFactor factor);
/*
 * Inner product: the median length of the entry points that are a sample of the rows, in
 * the codec's unit; 0 where codes say nothing of lengths.
 */
extern float grnnd_typical_length(const GrnndIndex *ix, const GrnndEntries *entries);
/* ---- link.c ---- */

/* A node's vector and code, as the search and the links need it. */
typedef struct GrnndPoint
{
	float	   *x;				/* [dim] */
	uint8_t    *code;
	GrnFactor	factor;
	GrnCodeQuery *query;		/* NULL where nobody estimates by codes */
} GrnndPoint;

/* Encodes x, which stays the caller's. */
extern void grnnd_make_point(const GrnndIndex *ix, float *x, GrnndPoint *p);

/* entries.c: a new node may become an entry point; entries: as its insert has seen them. */
extern void grnnd_offer_entry(Relation index, const GrnndIndex *ix, uint32 id,
							  const GrnndPoint *p, const GrnndEntries *entries);
/* Makes a node entries[0] where `expected` stands there still; false: it does not. */
extern bool grnnd_put_first_entry(Relation index, const GrnndIndex *ix, uint32 id,
								  const GrnndPoint *p, uint32 expected);

/* Neighbours chosen for a new list. */
typedef struct GrnndList
{
	uint32		count;
	uint32		ids[GRN_MAX_DEGREE];
	GrnFactor	factors[GRN_MAX_DEGREE];
	uint8_t    *codes;			/* [degree][code_bytes] */
	/* without codes: distances in the graph's space */
	float	   *to_p;			/* [count] */
	float	   *between;		/* [count][count] */
} GrnndList;

/*
 * Chooses the out-neighbours of p among the live nodes that a search's last run
 * found, by the RNG rule on exact distances; self is not among them.
 */
extern void grnnd_choose_neighbours(const GrnndIndex *ix, GrnSearch *search,
									uint32 nfound, const GrnndPoint *p,
									uint32 self, GrnndList *list);

/*
 * Searches for the live nodes near p.  It sees few dead ones, so it may miss live nodes
 * behind those, but it finds one where an entry point lives.  Sets *nfound; p and
 * entries are used by reference.  End it with grn_search_end().
 */
extern GrnSearch *grnnd_find_near(GrnndStore *store, const GrnndPoint *p, uint32 ef,
								  const GrnndEntries *entries, uint32 *nfound);

/*
 * Links to a node x (vector: p) from the nodes `from`, nearest first: from each where
 * a neighbour that x serves gives way (grn_yield()), from `least` of them where any
 * farther one does, and from one in any case where that can be had.
 */
typedef struct GrnndLinkPlan
{
	const GrnndPoint *p;
	const uint32 *from;			/* [nfrom] */
	uint32		nfrom;
	uint32		least;
	const GrnndList *chosen;	/* x's list, if it was chosen for this, or NULL */
	bool		dead_allowed;	/* vacuum: edges to dead nodes may be made, it drops them later */
} GrnndLinkPlan;
typedef struct GrnndLink GrnndLink;

/*
 * Looks at the nodes that are to have a link to x, and adds the edges that x needs for
 * it to self, x's record.  id: x, GRN_INVALID_ID where it is yet to be written.  All
 * arguments are used by reference.
 */
extern GrnndLink *grnnd_plan_links(Relation index, const GrnndIndex *ix,
								   const GrnndLinkPlan *plan, GrnRecord *self, uint32 id);
/* Makes the links to x, which is written now.  Returns whether it got one. */
extern bool grnnd_make_links(GrnndLink *link, uint32 id, uint16 version);
/* Both, for a node that is there; it gets edges to plan->chosen, too, as far as it has room. */
extern bool grnnd_link_node(Relation index, const GrnndIndex *ix, const GrnndLinkPlan *plan,
							uint32 id, uint16 version);

/* ---- reach.c: sets of node ids, and what can be reached ---- */

typedef struct GrnndSet
{
	uint64	   *words;
	uint32		limit;			/* ids below it can be members */
	uint32		count;
} GrnndSet;

static inline Size
grnnd_set_bytes(uint32 limit)
{
	return ((Size) limit / 64 + 1) * sizeof(uint64);
}
extern void grnnd_set_init(GrnndSet *set, uint32 limit);
extern void grnnd_set_grow(GrnndSet *set, uint32 limit);
/* Leaves no member. */
extern void grnnd_set_clear(GrnndSet *set);
static inline bool
grnnd_set_has(const GrnndSet *set, uint32 id)
{
	return id < set->limit && (set->words[id / 64] >> (id % 64) & 1) != 0;
}
/* Adds an id below the limit; false where it was a member. */
static inline bool
grnnd_set_add(GrnndSet *set, uint32 id)
{
	uint64		bit = UINT64CONST(1) << (id % 64);

	if (set->words[id / 64] & bit)
		return false;
	set->words[id / 64] |= bit;
	set->count++;
	return true;
}
static inline void
grnnd_set_remove(GrnndSet *set, uint32 id)
{
	if (grnnd_set_has(set, id))
	{
		set->words[id / 64] &= ~(UINT64CONST(1) << (id % 64));
		set->count--;
	}
}
/* The smallest member from id on, or GRN_INVALID_ID. */
extern uint32 grnnd_set_next(const GrnndSet *set, uint32 id);

/*
 * Breadth-first search over all nodes, in sweeps through the file in its order.
 * Lists noted in memory are used instead of the pages.
 */
typedef struct GrnndReach
{
	Relation	index;
	const GrnndIndex *ix;
	BufferAccessStrategy strategy;
	const GrnndSet *without;	/* not to be entered, or NULL */
	GrnndSet   *fresh;			/* also gets what is newly reached, or NULL */
	GrnndSet	reached;
	GrnndSet	pending;		/* reached, but their lists not looked at */
	uint32		first_pending;	/* none of them lies before it */
	GrnndSet	noted;
	uint32	   *offsets;		/* [limit] of noted lists in lists */
	uint32	   *lists;			/* count, then ids */
	Size		used;			/* uint32s */
	Size		room;
	GrnRecord  *rec;
} GrnndReach;

/* memory: bytes for its sets and, as far as that goes, for noted lists. */
extern void grnnd_reach_init(GrnndReach *reach, Relation index, const GrnndIndex *ix,
							 uint32 limit, Size memory, BufferAccessStrategy strategy);
/* Remembers a node's list, where there is room; lists noted are trusted later. */
extern void grnnd_reach_note(GrnndReach *reach, uint32 id, const uint32 *ids, uint32 count);
extern void grnnd_reach_mark(GrnndReach *reach, uint32 id);
/*
 * A node's list as noted, else as its page has it, written to ids [GRN_MAX_DEGREE];
 * returns its length.
 */
extern uint32 grnnd_reach_list(GrnndReach *reach, uint32 id, uint32 *ids);
/* Goes on until everything that can be reached from the marked nodes is. */
extern void grnnd_reach_run(GrnndReach *reach);

/* Memory that this process may use for maintenance, in bytes. */
extern Size grnnd_maintenance_memory(void);

/* ---- vacuum.c, repair.c, refill_lists.c, entries.c ---- */

typedef struct GrnndVacuum
{
	Relation	index;
	const GrnndIndex *ix;
	Relation	heap;			/* NULL before PostgreSQL 16 */
	BufferAccessStrategy strategy;
	IndexBulkDeleteResult *stats;
	IndexBulkDeleteCallback callback;
	void	   *callback_state;
	uint32		limit;			/* ids that existed at the start */
	GrnndSet	live;			/* nodes with rows, as the survey found them */
	GrnndSet	dead;			/* nodes without rows, or that are to lose all they have */
	GrnndSet	dirty;			/* pages with dead TIDs, counted from the first node page */
	GrnndSet	empty;			/* chained records without TIDs */
	Size		memory;			/* bytes for what refill_lists.c keeps */
	GrnndReach	reach;
	GrnndSet	chained;		/* nodes that have chains */
	bool		bare;			/* some of those have no TID of their own */
	uint32		nlongest;		/* inner product: live nodes, the longest first */
	uint32		longest[GRN_MAX_ENTRIES];
	float		lengths[GRN_MAX_ENTRIES];
} GrnndVacuum;

/* What is to stand in entries[0]. */
typedef struct GrnndRoot
{
	uint32		id;				/* GRN_INVALID_ID: nothing, the index is empty */
	uint32		expected;		/* what stood there when it was read */
	GrnFactor	factor;
	uint8_t    *code;
} GrnndRoot;

/* What stands there now. */
extern void grnnd_read_root(GrnndVacuum *v, GrnndRoot *root);
/*
 * The same while that lives, else one of the other entry points or of the dead one's
 * neighbours, else any live node.
 */
extern void grnnd_choose_root(GrnndVacuum *v, GrnndRoot *root);
/* Makes id the root to be, with its code as its own record has it; false: it is not alive. */
extern bool grnnd_take_root(GrnndVacuum *v, uint32 id, GrnndRoot *root);
/* Writes it, unless it stands there, or something else than expected. */
extern bool grnnd_publish_root(GrnndVacuum *v, const GrnndRoot *root);
/* Notes a live node that may be one of the longest. */
extern void grnnd_note_length(GrnndVacuum *v, uint32 id, GrnFactor factor);
/* Has the longest noted take places among the entry points. */
extern void grnnd_enter_longest(GrnndVacuum *v);
/*
 * Drops entry points that are dead, and has random live nodes and the longest noted take
 * their places.
 */
extern void grnnd_renew_entries(GrnndVacuum *v);
/* The same before nodes die: entries[0] stays, and root is among the new ones. */
extern void grnnd_prepare_entries(GrnndVacuum *v, const GrnndRoot *root);

/* For lists that lose dead neighbours; v->dead is complete. */
typedef struct GrnndRefill GrnndRefill;
extern GrnndRefill *grnnd_refill_begin(GrnndVacuum *v, GrnndStore *store);
/* Writes the list that rec is to have into `fixed`, a copy of its hot part. */
extern void grnnd_refill_list(GrnndRefill *f, const GrnRecord *rec, uint32 id,
							  GrnRecord *fixed);

/*
 * Before nodes die: makes all others reachable without them, by edges that are only
 * added, and gives searches entry points that stay alive.
 */
extern void grnnd_prepare(GrnndVacuum *v);
/*
 * Takes all dead nodes out of the graph, keeping every live one reachable at
 * any moment.
 */
extern void grnnd_repair(GrnndVacuum *v);
/* Waits until every insert that began before has ended. */
extern void grnnd_wait_for_inserts(Relation index);
/* vacuum_delay_point(), whose arguments differ between versions. */
extern void grnnd_delay_point(void);

#endif							/* GRNND_WRITE_H */
