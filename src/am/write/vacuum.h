/*
 * vacuum.h - what the files of a vacuum share: vacuum.c, vacuum_entries.c, refill_lists.c,
 * repair.c.
 */
#ifndef GRNND_VACUUM_H
#define GRNND_VACUUM_H

#include "am/page_store.h"
#include "am/sample.h"
#include "am/write/bitset.h"
#include "am/write/entry_points.h"
#include "am/write/reach_sweeps.h"

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
	uint32		built;			/* live nodes of the build, as the survey found them */
	GrnndSet	live;			/* nodes with rows, as the survey found them */
	GrnndSet	dead;			/* nodes without rows, or that are to lose all they have */
	GrnndSet	dirty;			/* pages with dead TIDs, counted from the first node page */
	GrnndSet	crowded;		/* of those, pages with lists that are full of dead nodes */
	bool		returned;		/* a node that was to die has got another row before */
	GrnndSet	changed;		/* nodes that have lost rows, if there are lists of values */
	GrnndSet	empty;			/* chained records without TIDs, records of lists without rows */
	GrnndSet	listed;			/* pages with records of lists */
	bool		has_empty_list; /* an earlier vacuum left some without rows, or a fit garbage */
	GrnndDraw	draw;			/* of the live nodes */
	Size		memory;			/* bytes for what refill_lists.c keeps, then vacuum_lists.c */
	MemoryContext context;		/* of all this */
	Size		peak;			/* its bytes, at most, for tests */
	GrnndReach	reach;
	GrnndSet	chained;		/* nodes that have chains; then records in chains of lists */
	bool		bare;			/* some of those have no TID of their own */
	GrnndLongest longest;
} GrnndVacuum;

/* Takes down how much memory is in use now (vacuum.c). */
extern void grnnd_note_memory(GrnndVacuum *v);

/* ---- vacuum_entries.c: entry points in place of dead ones ---- */

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
/*
 * Replaces entry points that are dead by random live nodes, and some by the longest noted.
 */
extern void grnnd_renew_entries(GrnndVacuum *v);
/* The same before nodes die: entries[0] stays, and root is among the new ones. */
extern void grnnd_prepare_entries(GrnndVacuum *v, const GrnndRoot *root);

/* ---- vacuum_lists.c ---- */

/*
 * Drops dead nodes from the lists by values, changed ones from those of values that they have no
 * more, and records without rows out of their chains; those join v->empty.
 */
extern void grnnd_clean_lists(GrnndVacuum *v);

/* ---- refill_lists.c ---- */

/* For lists that lose dead neighbours; v->dead is complete. */
typedef struct GrnndRefill GrnndRefill;
extern GrnndRefill *grnnd_refill_begin(GrnndVacuum *v, GrnndStore *store);
/* Writes the list that rec is to have into `fixed`, a copy of its hot part. */
extern void grnnd_refill_list(GrnndRefill *f, const GrnRecord *rec, uint32 id,
							  GrnRecord *fixed);

/* ---- repair.c ---- */

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
/* Memory that grnnd_prepare() takes beside what v has. */
extern Size grnnd_prepare_bytes(uint32 limit);

#endif							/* GRNND_VACUUM_H */
