/*
 * parts_impl.h - the state of a build in parts, shared by parts.c (both kinds of device),
 * parts_digests.c and parts_gpus.c (GPUs), parts_cores.c and parts_merge.c (the processor's cores).
 */
#ifndef GRN_PARTS_IMPL_H
#define GRN_PARTS_IMPL_H

#include "builder/build_graph.h"
#include "builder/gpus.h"
#include "graph/cut.h"
#include "graph/descent.h"
#include "memory/memory.h"

/*
 * Largest size of a part, as a multiple of the mean size.  Recall at ef 40 of 20,000 sentences and
 * image patches in parts (.97 and .98): .04 and .02 less with half, .014 and .0005 less with twice.
 */
#define GRN_PART_SLACK 1.1

/* The items of a step of all GPUs. */
typedef struct GrnItems
{
	size_t		n;
	size_t		rows;			/* rows of an item */
	size_t		counted;		/* finished items, or rounds of parts' builds */
} GrnItems;

typedef struct GrnPartsBuild
{
	GrnGraphJob *job;
	GrnParallel *parallel;
	GrnGraphParams params;		/* parameters with defaults filled in */
	GrnGpuOptions options;		/* options of a part's build */
	GrnTeam		team;
	GrnGpuFit	fit;
	uint64_t	kept;			/* bytes of digests that each device keeps; 0: the host keeps the
								 * digests */
	uint8_t    *digests;		/* [n][fit.digest_bytes] if the host keeps the digests */
	GrnCells	cells;			/* n = 0: a single part */
	pthread_mutex_t finding;	/* locked until the cells are found */
	bool		other;			/* some value is not an integer 0..255, so exact digests fail */
	bool		coarse;			/* some part has set GrnGpuTimes.coarse */
	bool		spread;			/* a single device could hold all rows, but several devices are
								 * faster */
	bool		apart;			/* no device writes to another device */
	float		overlap;		/* share of rows that are in two parts */
	GrnItems	items;
	GrnParts	parts;
	uint32_t	by_size[GRN_MAX_PARTS]; /* part numbers, largest part first */
	void	   *cutting;		/* workspace of the cut; `parts` lies in this workspace */
	uint32_t   *lists;			/* [members][degree] */
	uint8_t    *counts;			/* [members] */
	uint64_t	finished;		/* parts that cores have built */
	GrnFailure *failure;
} GrnPartsBuild;

/* ---- parts.c ---- */

/* Initializes p: the parameters, the devices and the overlap. */
extern void grn_parts_begin(GrnPartsBuild *p, GrnGraphJob *job, GrnFailure *failure);
/* Returns the least number of parts of at most `capacity` rows.  0: more than GRN_MAX_PARTS. */
extern uint32_t grn_parts_needed(uint64_t n, float overlap, uint64_t capacity);
/* Raises the overlap to the share for nparts parts.  Returns false if it was large enough. */
extern bool grn_parts_raise_overlap(GrnPartsBuild *p, uint32_t nparts);
/*
 * Numbers of parts for further attempts after a cut into nparts has left a part too large: the
 * largest number, and the next number.
 */
extern uint32_t grn_parts_most(uint32_t nparts);
extern uint32_t grn_parts_more(uint32_t nparts, uint32_t most);
/* Reserves memory for the parts and for the lists of all members. */
extern void grn_parts_take_lists(GrnPartsBuild *p, GrnArena *arena);
/*
 * Reserves the workspace of a cut into at most grn_parts_most(nparts) parts, from the arena's
 * present position.  The cut leaves the parts at the start of the workspace.  Returns the end of
 * the workspace.
 */
extern size_t grn_parts_take_cut(GrnPartsBuild *p, GrnArena arena, uint32_t nparts);
/*
 * Cuts rows on cores until no part has more than `capacity` rows.  nparts: a number of parts of
 * this capacity that can hold all rows.
 */
extern void grn_parts_cut(GrnPartsBuild *p, uint32_t nparts, uint32_t most, uint64_t capacity);
/* Sorts the finished parts by size and enters the parts' figures into the report. */
extern void grn_parts_report_cut(GrnPartsBuild *p);
/*
 * Returns the rows of a part, and sets *graph to the arrays of the part's lists.  order [members]
 * is filled with the part's rows; NULL: the caller needs no order.
 */
extern GrnRows grn_part_rows(const GrnPartsBuild *p, uint32_t part, uint32_t *order,
							 GrnGraph *graph);
/* Replaces the member numbers in a part's lists by row numbers. */
extern void grn_part_name_lists(const GrnPartsBuild *p, uint32_t part, const GrnGraph *graph);

/* ---- parts_merge.c ---- */

/*
 * Merges the lists of all parts into the graph.  The lists name rows.  Rows are compared exactly,
 * or by their projections in a workspace of grn_parts_merge_workspace() bytes.
 */
extern void grn_parts_merge_on_cores(GrnPartsBuild *p, const GrnProject *project, void *workspace);
extern size_t grn_parts_merge_workspace(const GrnRows *rows);

/* ---- parts_digests.c ---- */

/* Divides `rows` rows into items. */
extern void grn_parts_set_piece(GrnPartsBuild *p, uint64_t rows);
/* Counts a finished item, and reports the progress. */
extern void grn_parts_count_item(GrnPartsBuild *p);
/* Device memory in bytes that a merge needs at least. */
extern uint64_t grn_parts_merge_bytes(const GrnPartsBuild *p, const GrnGpuFit *fit);
/* Fits the projection of the digests within `limit` bytes on each device. */
extern GrnGpuStatus grn_parts_fit_digests(GrnPartsBuild *p, uint64_t limit, GrnGpuError *err);
/*
 * Reserves memory for the digests of all rows on all devices, within `limit` bytes on each device.
 * A device that fails is lost.  If memory is short on any device, no device keeps digests.
 */
extern GrnGpuStatus grn_parts_keep_digests(GrnPartsBuild *p, uint64_t limit, GrnGpuError *err);
/* Frees the digests on devices first, first + 1, ... */
extern void grn_parts_drop_digests(GrnPartsBuild *p, int first);
/* Digests the rows and cuts the rows into parts of at most `capacity` rows. */
extern GrnGpuStatus grn_parts_digest(GrnPartsBuild *p, uint32_t nparts, uint32_t most,
									 uint64_t capacity, GrnGpuError *err);
/* Frees the arenas that steps have left on the devices. */
extern void grn_parts_free_arenas(GrnPartsBuild *p);

#endif							/* GRN_PARTS_IMPL_H */
