/*
 * vacuum.h - declarations shared by the files of a vacuum: vacuum.c, vacuum_entries.c,
 * vacuum_lists.c, refill_lists.c, repair.c.
 */
#ifndef GRNND_VACUUM_H
#define GRNND_VACUUM_H

#include "am/filter/filter.h"
#include "am/index/page_store.h"
#include "am/write/link.h"
#include "am/write/write.h"

typedef struct GrnndVacuum
{
	Relation	index;
	const GrnndIndex *ix;
	Relation	heap;			/* NULL before PostgreSQL 16 */
	BufferAccessStrategy strategy;
	IndexBulkDeleteResult *stats;
	IndexBulkDeleteCallback callback;
	void	   *callback_state;
	uint32		limit;			/* ids below this existed at the start */
	uint32		built;			/* live nodes of the build, by the survey */
	GrnndSet	live;			/* nodes with rows, by the survey */
	GrnndSet	dead;			/* nodes without rows, or about to lose all rows */
	GrnndSet	dirty;			/* pages with dead TIDs, counted from the first node page */
	GrnndSet	crowded;		/* those of the dirty pages with lists full of dead nodes */
	bool		returned;		/* a dying node has got another row */
	GrnndSet	changed;		/* nodes that have lost rows, if the index has lists of values */
	GrnndSet	empty;			/* chained records without TIDs, records of lists without rows */
	GrnndSet	listed;			/* pages with records of lists */
	bool		has_empty_list; /* an earlier vacuum left empty records of lists, or a fit left
								 * garbage */
	struct
	{
		Size		limit;		/* bytes for `reach`, then for vacuum_lists.c */
		MemoryContext context;	/* of all memory of the vacuum */
		Size		peak;		/* largest size of the context, for tests */
	}			memory;
	GrnndReach	reach;
	GrnndSet	chained;		/* nodes that have chains */
	bool		bare;			/* some of the chained nodes have no TID of their own */
	GrnndLongest longest;
} GrnndVacuum;

/* Updates v->memory.peak with the memory now in use (vacuum.c). */
extern void grnnd_note_memory(GrnndVacuum *v);

/* ---- vacuum_entries.c: entry points in place of dead ones ---- */

/* The new entries[0]. */
typedef struct GrnndRoot
{
	uint32		id;				/* GRN_INVALID_ID: none, the index is empty */
	uint32		expected;		/* content of entries[0] when it was read */
	GrnFactor	factor;
	uint8_t    *code;
} GrnndRoot;

/* Reads the current entries[0]. */
extern void grnnd_read_root(GrnndVacuum *v, GrnndRoot *root);
/*
 * Chooses the current entries[0] if it lives, else another entry point or a neighbor of the dead
 * entry point, else any live node.
 */
extern void grnnd_choose_root(GrnndVacuum *v, GrnndRoot *root);
/* Makes node id the new root, with its record's code.  Returns false if the node is dead. */
extern bool grnnd_take_root(GrnndVacuum *v, uint32 id, GrnndRoot *root);
/* Writes root to entries[0], unless it is there already or entries[0] is not root->expected. */
extern bool grnnd_publish_root(GrnndVacuum *v, const GrnndRoot *root);
/* Replaces dead entry points by live ones (grn_far_entry()), and some by the longest noted rows. */
extern void grnnd_renew_entries(GrnndVacuum *v);
/* Replaces entry points before nodes die: entries[0] stays, and root becomes an entry point. */
extern void grnnd_prepare_entries(GrnndVacuum *v, const GrnndRoot *root);

/* ---- vacuum_lists.c ---- */

/*
 * Drops dead nodes from the lists of values, changed nodes from lists of values that they have
 * lost, and empty records from the chains of lists; the empty records are added to v->empty.
 */
extern void grnnd_clean_lists(GrnndVacuum *v);

/* ---- refill_lists.c ---- */

/* State for lists that lose dead neighbors; v->dead is complete. */
typedef struct GrnndRefill GrnndRefill;
extern GrnndRefill *grnnd_refill_begin(GrnndVacuum *v, GrnndStore *store);
/*
 * Writes the new list of rec into `fixed`, a copy of its hot part: the live neighbors and, if
 * `fill` is set, nearby nodes in place of the dead neighbors.
 */
extern void grnnd_refill_list(GrnndRefill *f, const GrnRecord *rec, uint32 id, bool fill,
							  GrnRecord *fixed);

/* ---- repair.c ---- */

/*
 * Before nodes die: makes all other nodes reachable without the dying nodes, by added edges alone,
 * and gives searches entry points that stay alive.
 */
extern void grnnd_prepare(GrnndVacuum *v);
/* Takes all dead nodes out of the graph, and keeps every live node reachable at any moment. */
extern void grnnd_repair(GrnndVacuum *v);
/* Memory of grnnd_prepare() beside the memory of v. */
extern Size grnnd_prepare_bytes(uint32 limit);

#endif							/* GRNND_VACUUM_H */
