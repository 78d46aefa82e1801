/*
 * index.h - an index as each statement sees an index: pages, description, parameters, entry
 * points, owner, counters.
 */
#ifndef GRNND_INDEX_H
#define GRNND_INDEX_H

#include "postgres.h"

#include "storage/bufmgr.h"
#include "storage/itemptr.h"
#include "storage/lockdefs.h"
#include "utils/relcache.h"

#include "am/grnnd.h"
#include "am/scan/scan.h"
#include "store/record.h"
#include "store/search.h"

/* options.c: the storage parameters of an index: WITH (degree = ...). */

typedef struct GrnndOptions
{
	int32		vl_len_;
	int			degree;			/* 0: from m, or the default */
#ifdef GRNND_TEST_POINTS
	int			t1,
				t2;				/* rounds of the build, for tests that need long builds; 0: the
								 * default */
#endif
	int			seed;
	bool		codes;
	int			m;				/* hnsw's parameter; 0: not given */
	int			ef_construction;	/* hnsw's parameter; ignored */
	int			layout;			/* GrnKeep */
	int			ef_search;		/* width of scans; 0: not given */
	double		target_recall;	/* 0: not given */
} GrnndOptions;

extern PGDLLEXPORT bytea *grnnd_options(Datum reloptions, bool validate);
/*
 * The degree from the storage parameters, or the default degree.  keep: how the build keeps
 * vectors, which may differ from opts->layout.  rows: dimension, form and filter columns of the
 * rows.
 */
extern uint32 grnnd_option_degree(const GrnndOptions *opts, bool codes, GrnKeep keep,
								  const GrnLayoutSpec *rows);
/* Are the parameters within the bounds of the storage parameters? */
extern PGDLLEXPORT bool grnnd_params_are_valid(const GrnGraphParams *params);
/* The name of the storage parameter layout's value. */
extern const char *grnnd_layout_name(const GrnndOptions *options);
extern void grnnd_init_options(void);

/* page.c: pages of an index: their format, checks, and the location of records. */

/* Gives a page of records its header and its special space, or initializes an empty page. */
extern void grnnd_page_adopt(Page page, GrnndPageKind kind);
extern void grnnd_page_init(Page page, GrnndPageKind kind);
/*
 * Reads and locks a block, and checks that it is a page of this kind.  GRNND_NODES also allows a
 * new page; the caller must test PageIsNew().
 */
extern Buffer grnnd_read(Relation index, BlockNumber block, int lockmode,
						 GrnndPageKind kind, BufferAccessStrategy strategy);
/* Can the table have a row at this TID, which may come from a damaged index? */
extern bool grnnd_has_row(Relation table, const ItemPointerData *tid);
/* Prefetches n consecutive blocks, all of which exist, if the first is not in shared buffers. */
extern void grnnd_prefetch_blocks(Relation index, BlockNumber block, uint32 n);
extern void grnnd_check_page(Relation index, Buffer buffer, GrnndPageKind kind);
extern GRNND_NORETURN void grnnd_corrupt(Relation index, BlockNumber block,
										 const char *what);
/*
 * Places the areas before the nodes in a metapage whose list_pages is set: entries, codec, center,
 * books, sample, lists.  Returns the number of their blocks, with the metapage's.
 */
extern PGDLLEXPORT uint64 grnnd_place_areas(GrnndMeta *meta, const GrnLayout *l, bool centered);
extern BlockNumber grnnd_node_block(const GrnndIndex *ix, uint32 id);
extern GrnRecord *grnnd_page_record(Page page, const GrnndIndex *ix, uint32 slot);
/* Upper bound of node ids, from the size of the relation. */
extern uint32 grnnd_id_limit(Relation index, const GrnndIndex *ix);

/* cache.c: a backend's cache of index descriptions. */

/*
 * Returns the description of an index, checked (magic, format, geometry, checksum) and cached.
 * The description is valid until the end of the transaction.  The codecs' arrays and the hints are
 * valid only until the next call for any index, because that call may free the arrays.  A caller
 * that encodes must therefore call grnnd_index() again first, unless no other call was made since.
 */
extern const GrnndIndex *grnnd_index(Relation index);
/* grnnd_index() without arrays and hints.  A planner needs neither, and may plan many indexes. */
extern const GrnndIndex *grnnd_index_shape(Relation index);
/* grnnd_index() from the current metapage.  The cache may lag behind changes by fit_codes.c. */
extern const GrnndIndex *grnnd_index_anew(Relation index);
/*
 * grnnd_index_anew() with its own arrays and hints in the current memory context.  For callers of
 * index functions, because such functions may scan other indexes.
 */
extern void grnnd_copy_index(Relation index, GrnndIndex *copy);
/*
 * Do the lists on disk still match this description?  If they do not, the next call of
 * grnnd_index() reads the metapage.
 */
extern bool grnnd_lists_current(Relation index, const GrnndIndex *ix);
/* Does the current metapage say that a fit is giving records their codes? */
extern bool grnnd_is_filling(Relation index);
/* The correct checksum of the metapage. */
extern uint32 grnnd_meta_crc(const GrnndMeta *meta);
/* Does an undamaged metapage of this format have features that this version does not know? */
extern bool grnnd_has_unknown_features(const GrnndMeta *meta);
/*
 * Checks a metapage of this format in a file of `blocks` blocks.  Returns NULL and the records'
 * layout if the metapage is sound, else a static string that names the damage.  All fields used by
 * readers are then within their bounds.
 */
extern const char *grnnd_meta_fault(const GrnndMeta *meta, const GrnndKey *key,
									const GrnndAttrs *attrs, BlockNumber blocks, GrnLayout *layout);

extern uint32 grnnd_report_crc(const GrnndReport *report);
extern uint32 grnnd_measured_crc(const GrnndMeasured *measured);
extern uint32 grnnd_queried_crc(const GrnndQueried *queried);
/* Reads the parts behind GrnndMeta.  The metapage must be locked. */
extern void grnnd_read_notes(Page page, GrnndNotes *notes);

/* entries.c: reads and changes the entry page. */

typedef struct GrnndEntries
{
	uint32		count;
	uint32		ids[GRN_MAX_ENTRIES];
	GrnFactor	factors[GRN_MAX_ENTRIES];
	uint8_t    *codes;			/* [GRN_MAX_ENTRIES][code_bytes] */
	Buffer		buffer;			/* of grnnd_lock_entries() */
} GrnndEntries;

/* Allocates the struct and reads the entry page. */
extern GrnndEntries *grnnd_get_entries(Relation index, const GrnndIndex *ix);
/* An index as searches take it.  store: the address of the only store. */
extern GrnStoredGraph grnnd_stored_graph(Relation index, const GrnndIndex *ix, GrnStore *const *store);
/*
 * Reads the entry page under its exclusive lock.  grnnd_unlock_entries() writes the entries if they
 * have changed, releases the page, frees the struct, and returns `changed`.
 */
extern GrnndEntries *grnnd_lock_entries(Relation index, const GrnndIndex *ix);
extern bool grnnd_unlock_entries(Relation index, const GrnndIndex *ix, GrnndEntries *entries,
								 bool changed);
extern void grnnd_set_entry(const GrnndIndex *ix, GrnndEntries *entries, uint32 i,
							uint32 id, const uint8_t *code, GrnFactor factor);

/* owner.c: opens indexes for functions, checks privileges, and switches to a table's owner. */

/* Does the current user own the relation, or belong to the owning role? */
extern PGDLLEXPORT bool grnnd_owns(Oid relation);

/* The relation's name.  Error: 42P01 if the relation does not exist. */
extern PGDLLEXPORT const char *grnnd_existing_name(Oid relation);

/* A relation's name for messages, quoted if needed; the OID if the relation does not exist. */
extern const char *grnnd_name_of(Oid relation);

/* Raises an error unless the user has the privilege that a function needs. */
typedef void (*GrnndRightFn) (Oid index, Oid table);

/* A GrnndRightFn: raises 42501 unless the user owns the index. */
extern void grnnd_must_own(Oid index, Oid table);

/*
 * Raises 42501 unless the user may read at least one column of the relation.  Does nothing if the
 * relation does not exist.  The caller's SELECT must check all privileges after the relation is
 * locked.
 */
extern PGDLLEXPORT void grnnd_must_read(Oid relation);

/*
 * Opens an index of ours in AccessShareLock, and its table in `mode`, the table first as
 * everywhere.  If oid is a table with one index of ours, opens that index.  Calls `right` before
 * taking locks, so that a user without the privilege never waits for a lock or holds one, and
 * again under the locks.
 *
 * Errors: 42809 for another relation or a table with several indexes of ours, the errors of
 * `right`, 0A000 for an index that this session cannot read, 55000 for an invalid index.  gone_ok:
 * also opens an invalid index, and returns NULL if the relation does not exist.
 */
extern Relation grnnd_open_index(Oid oid, GrnndRightFn right, LOCKMODE mode, bool gone_ok,
								 Relation *heap);
/* Closes index and table.  The locks stay until the end of the transaction. */
extern void grnnd_close_index(Relation index, Relation heap);

/* The state before grnnd_become_owner(). */
typedef struct GrnndUser
{
	Oid			user;
	int			context;
	int			guc_level;
} GrnndUser;

/*
 * Switches to the table's owner, because index functions belong to the owner and must not run with
 * the caller's privileges.  An error restores the caller.
 */
extern void grnnd_become_owner(Relation heap, GrnndUser *before);
extern void grnnd_restore_user(const GrnndUser *before);

/* counters.c: cumulative statistics of an index, for the view grnnd_stat_indexes. */

/* Counts the work of one scan. */
extern void grnnd_count_scan(Relation index, const GrnndWork *work);
/* Counts an inserted row, and the links back to its node from neighbors. */
extern void grnnd_count_insert(Relation index, uint32 links);

#endif							/* GRNND_INDEX_H */
