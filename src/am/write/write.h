/*
 * write.h - changes of an index after CREATE INDEX: edits, locks, free slots, fits and
 * maintenance.
 */
#ifndef GRNND_WRITE_H
#define GRNND_WRITE_H

#include "postgres.h"

#include "access/generic_xlog.h"
#include "access/transam.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/relcache.h"

#include "am/grnnd.h"
#include "am/index/page_store.h"
#include "space/grn.h"

/* edit.c: reading and changing records under their pages' locks. */

/* A change of records on at most MAX_GENERIC_XLOG_PAGES pages, in one WAL record. */
typedef struct GrnndEdit
{
	Relation	index;
	const GrnndIndex *ix;
	uint32		id;				/* the current record */
	GrnRecord  *rec;			/* for reading; a copy after grnnd_edit_change() */
	GenericXLogState *xlog;
	int			npages;
	Buffer		buffers[MAX_GENERIC_XLOG_PAGES];
	Page		pages[MAX_GENERIC_XLOG_PAGES];	/* copies of the changed pages */
	bool		changed[MAX_GENERIC_XLOG_PAGES];
} GrnndEdit;

/* Locks and checks the record, which may be of any state. */
extern void grnnd_edit_begin(GrnndEdit *e, Relation index, const GrnndIndex *ix, uint32 id);
/* Moves to a record of the same page or of a later page. */
extern void grnnd_edit_next(GrnndEdit *e, uint32 id);
/* Returns a copy for changes, valid until the edit ends. */
extern GrnRecord *grnnd_edit_change(GrnndEdit *e);
/* Logs the changes, if any, and releases the pages. */
extern void grnnd_edit_end(GrnndEdit *e);

/* GrnStore.edit() of a GrnndStore: one WAL record. */
extern void grnnd_store_edit(GrnStore *self, uint32_t id, GrnEditFn fn, void *arg);

/*
 * Raises an error unless the record is sound. *limit is the number of existing ids, read again if
 * an edge leads past *limit.
 */
extern void grnnd_check_record(Relation index, const GrnndIndex *ix, uint32 id,
							   const GrnRecord *rec, uint32 *limit);

/*
 * Copies the first record_bytes of record id, as far as they lie on the first page, to rec,
 * whatever the record's state. Returns the state.
 */
extern GrnState grnnd_copy_record(Relation index, const GrnndIndex *ix, uint32 id,
								  GrnRecord *rec, BufferAccessStrategy strategy);
/* Bytes that grnnd_copy_record() writes. */
extern Size grnnd_copy_bytes(const GrnndIndex *ix);

/* Copies a live node's code [code_bytes] and factor.  Returns false if no such node lives. */
extern bool grnnd_copy_own_code(Relation index, const GrnndIndex *ix, uint32 id,
								BufferAccessStrategy strategy, uint8_t *code,
								GrnFactor *factor);

/* lock.c: heavyweight locks on an index, and on its database. */

/*
 * Heavyweight locks of one index (lock.c; src/README, "Lock order").
 * - GRNND_WRITERS_LOCK: every insert holds the lock while it runs, in RowExclusiveLock if the index
 *   is unfitted, else in RowShareLock. Vacuum takes the lock in ExclusiveLock for a moment, to wait
 *   for all earlier inserts; fit_codes.c in ShareLock, to wait for inserts that write no codes.
 *   grnnd_check() holds the lock in ExclusiveLock to keep inserts out.
 * - GRNND_FIRST_LOCK serializes inserts that find no live node to link to.
 * - GRNND_UPKEEP_LOCK: vacuum and fits hold the lock in ExclusiveLock while they change pages,
 *   grnnd_check() in ShareLock.
 * - GRNND_SURVEY_LOCK: vacuum holds the lock in ExclusiveLock while it relies on lists that it has
 *   read before. An insert holds the lock in ShareLock, or drops no edge in favor of a path that
 *   vacuum does not know.
 * - GRNND_EDGE_LOCKS: a process that removes an edge to a live node beside running inserts holds
 *   one of these locks for that node (grnnd_lock_edges()).
 */
typedef enum GrnndLockKind		/* above all column numbers */
{
	GRNND_EDGE_LOCKS = 0xFE00,	/* and the next 255 numbers */
	GRNND_WRITERS_LOCK = 0xFFF0,
	GRNND_FIRST_LOCK = 0xFFF1,
	GRNND_UPKEEP_LOCK = 0xFFF2,
	GRNND_SURVEY_LOCK = 0xFFF3
} GrnndLockKind;

/*
 * Takes a lock until grnnd_unlock() or the end of the transaction. A session that waits for the
 * lock cancels no autovacuum.
 */
extern void grnnd_lock(Relation index, GrnndLockKind kind, LOCKMODE mode);
/* Returns false instead of waiting. */
extern bool grnnd_try_lock(Relation index, GrnndLockKind kind, LOCKMODE mode);
extern void grnnd_unlock(Relation index, GrnndLockKind kind, LOCKMODE mode);
/* Returns whether grnnd_lock() would have to wait. */
extern bool grnnd_is_locked(Relation index, GrnndLockKind kind, LOCKMODE mode);
/* Returns whether a session waits for a lock that this session holds in this mode. */
extern bool grnnd_lock_is_wanted(Relation index, GrnndLockKind kind, LOCKMODE mode);

/* Locks of edges to some nodes, held until grnnd_unlock_edges(). */
typedef struct GrnndEdgeLocks
{
	uint32		count;
	uint8		locks[GRN_MAX_DEGREE];	/* ascending */
} GrnndEdgeLocks;

/*
 * Locks edges to the nodes ids [n], GRN_MAX_DEGREE at most, in ExclusiveLock: by hashes of the ids,
 * in order, so that no two sessions wait for each other. Must come after all other locks of the
 * index.
 */
extern void grnnd_lock_edges(Relation index, const uint32 *ids, uint32 n, GrnndEdgeLocks *locks);
extern void grnnd_unlock_edges(Relation index, const GrnndEdgeLocks *locks);
/* GrnUpkeep.hold(), arg an index: locks edges to one node, or ends this lock. */
extern void grnnd_hold_edges(void *index, uint32_t id, bool begin);

/* Waits until every earlier insert has ended. */
extern void grnnd_wait_for_inserts(Relation index);

/*
 * Locks this database until the transaction ends, as a starting session does. A session that drops,
 * renames or copies the database then waits for this lock, instead of failing because a background
 * worker is connected. Returns false if a session is already doing so.
 */
extern bool grnnd_try_lock_database(void);
/* Returns whether a session waits for the lock on this database. */
extern bool grnnd_database_is_wanted(void);

/* maintenance.c: memory and pauses of vacuum, fits and checks. */

/* Memory that this process may use for maintenance, in bytes. */
extern Size grnnd_maintenance_memory(void);

/* vacuum_delay_point(), whose arguments differ between versions. */
extern void grnnd_delay_point(void);

/* freespace.c: slots for new records. */

/*
 * Writes rec (record_bytes, contiguous) into a free slot and logs the change; sets rec->version to
 * the slot's version. Returns the record's id. heap is for the horizon of reuse. Holds no lock on
 * return.
 */
extern uint32 grnnd_new_record(Relation index, Relation heap, const GrnndIndex *ix,
							   GrnRecord *rec);

/*
 * Writes recs [n], record_bytes apart, to a new page and logs the page. Each record's
 * `next` is the id of the following record. n is at most per_page. Returns the id of the first.
 */
extern uint32 grnnd_new_page(Relation index, const GrnndIndex *ix, char *recs, uint32 n);

/* Frees a record; the caller has registered its page. stamp: see "Slot reuse" in README. */
extern void grnnd_free_slot(GrnRecord *rec, FullTransactionId stamp);

/* Which slots of a page may be taken. */
typedef enum GrnndRoom
{
	GRNND_NO_ROOM = 0,
	GRNND_ROOM_LATER,			/* some, after transactions have ended */
	GRNND_ROOM					/* some */
} GrnndRoom;

/* heap may be NULL. */
extern GrnndRoom grnnd_page_room(Relation heap, const GrnndIndex *ix, Page page);

/* Records the room of a page in the free space map. */
extern void grnnd_note_room(Relation index, BlockNumber block, GrnndRoom room);

/* bitset.c: sets of node ids, one bit an id. */

typedef struct GrnndSet
{
	uint64	   *words;
	uint32		limit;			/* all members are below this */
	uint32		count;
} GrnndSet;

static inline Size
grnnd_set_bytes(uint32 limit)
{
	return ((Size) limit / 64 + 1) * sizeof(uint64);
}
extern void grnnd_set_init(GrnndSet *set, uint32 limit);
extern void grnnd_set_grow(GrnndSet *set, uint32 limit);
/* Removes all members. */
extern void grnnd_set_clear(GrnndSet *set);
static inline bool
grnnd_set_has(const GrnndSet *set, uint32 id)
{
	return id < set->limit && (set->words[id / 64] >> (id % 64) & 1) != 0;
}

/* Adds an id below the limit. Returns false if the id was a member. */
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

/* reach_sweeps.c: finds the nodes of an index that can be reached, by the edges on its pages. */

/*
 * A search for all nodes reachable from the marked nodes, in sweeps in the order of the file. Lists
 * noted in memory are used instead of the pages.
 */
typedef struct GrnndReach
{
	Relation	index;
	const GrnndIndex *ix;
	BufferAccessStrategy strategy;
	const GrnndSet *without;	/* nodes that the search must not enter, or NULL */
	GrnndSet   *fresh;			/* receives newly reached nodes, too, or NULL */
	GrnndSet	reached;
	GrnndSet	pending;		/* reached nodes whose lists are unread */
	uint32		first_pending;	/* lower bound of pending ids */
	GrnndSet	noted;
	uint32	   *offsets;		/* [limit] positions of noted lists in `lists` */
	uint32	   *lists;			/* count, then ids */
	Size		used;			/* uint32s */
	Size		room;
	GrnRecord  *rec;
} GrnndReach;

/* memory: bytes for the sets and, as far as the memory lasts, for noted lists. */
extern void grnnd_reach_init(GrnndReach *reach, Relation index, const GrnndIndex *ix,
							 uint32 limit, Size memory, BufferAccessStrategy strategy);
/* Notes a node's list, if memory allows. Later searches trust noted lists. */
extern void grnnd_reach_note(GrnndReach *reach, uint32 id, const uint32 *ids, uint32 count);
extern void grnnd_reach_mark(GrnndReach *reach, uint32 id);
/* Writes a node's list, noted or from its page, to ids [GRN_MAX_DEGREE]; returns its length. */
extern uint32 grnnd_reach_list(GrnndReach *reach, uint32 id, uint32 *ids);
/* Searches until all nodes reachable from the marked nodes are reached. */
extern void grnnd_reach_run(GrnndReach *reach);

/* navigable.c: adds edges to an index where searches end far from their target. */

/*
 * Searches for random nodes of the index, and adds edges where these searches end too early.
 * changed: rows of the table inserted or deleted since the last call; more changes mean more
 * searches. The caller holds GRNND_UPKEEP_LOCK.
 */
extern void grnnd_make_navigable(Relation index, BufferAccessStrategy strategy, double changed);

/* Fits of codes for an index that began with few rows, and when a fit is due. */

/* ---- fit_codes.c: fits and judges ---- */

/* The number of rows, by dimensions, at which a codec fits later rows of the same kind. */
extern PGDLLEXPORT uint32 grnnd_fit_rows(uint32 dim);
/* Returns whether codes are due to be fitted or judged, given that a node of this id exists. */
extern bool grnnd_fit_due(const GrnndMeta *meta, uint32 id);
/* Must VACUUM or grnnd_fit() measure the curve of recall anew?  limit: above all node ids. */
extern bool grnnd_recall_due(Relation index, const GrnndMeta *meta, const GrnndNotes *notes,
							 uint32 limit);
/* The state of an index's codes, as grnnd_codes() reports the state (fit_schedule.c). */
extern const char *grnnd_codes_state(const GrnndMeta *meta);
/*
 * Fits a codec to the rows of an unfitted index and gives all records their codes, or judges the
 * codes of a fitted index; then measures recall. Does nothing if nothing is due.
 *
 * Locks: the caller holds a lock on the table and on the index, and no lock on a page. The function
 * takes GRNND_UPKEEP_LOCK. With a heap, the caller holds table and index in
 * ShareUpdateExclusiveLock, and grnnd_try_lock_database(). The function then fails with 55P03 as
 * soon as another session waits for any of these locks, or if GRNND_UPKEEP_LOCK is taken.
 */
extern void grnnd_fit_codes(Relation index, Relation heap, bool in_vacuum);

/* ---- fit_schedule.c: in which process, and when ---- */

/*
 * Starts a background worker that fits or judges codes, if node id makes a fit due and no attempt
 * was made lately. If this transaction has locked the table, the worker starts at commit.
 */
extern void grnnd_request_fit(Relation index, Relation heap, uint32 id);
/*
 * Starts a background worker that measures recall with the queries of scans, if nothing speaks
 * against it.  Changes nothing itself, because a scan calls it.
 */
extern void grnnd_request_measurement(Relation index);
/*
 * Fits or judges codes in the calling process, with the locks of grnnd_fit_codes(). Sets *begun if
 * backends must read the metapage anew: the caller then sends the invalidation, also after an
 * error.
 */
extern void grnnd_fit_in_vacuum(Relation index, bool *begun);
/* Notes on the metapage, of which `page` is a copy, that codes were fitted or judged. */
extern void grnnd_note_success(Page page);

#endif							/* GRNND_WRITE_H */
