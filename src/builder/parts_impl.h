/*
 * parts_impl.h - what the steps of a build in parts share: parts.c on either device,
 * parts_digests.c and parts_gpus.c on GPUs, parts_cores.c and parts_merge.c on the processor's
 * cores.
 */
#ifndef GRN_PARTS_IMPL_H
#define GRN_PARTS_IMPL_H

#include "builder/gpu_team.h"
#include "builder/parts.h"
#include "graph/arena.h"
#include "graph/construct/cut.h"
#include "graph/construct/projection.h"

#define GRN_PART_SLACK 1.1		/* a part's size over the mean of all */
#define GRN_PART_GRAIN 1024		/* rows that a thread takes at a time */

typedef struct GrnPartsBuild
{
	GrnGraphJob *job;
	GrnParallel *parallel;
	GrnGraphParams params;		/* completed */
	GrnGpuOptions options;		/* of a part's build */
	GrnTeam		team;
	GrnGpuFit	fit;
	uint64_t	kept;			/* bytes of digests that stay on each device; 0: digests has them */
	uint8_t    *digests;		/* [n][fit.digest_bytes] */
	GrnCells	cells;			/* n = 0: one part */
	pthread_mutex_t finding;	/* held until they are found */
	bool		other;			/* rows are no integers 0..255 */
	bool		coarse;			/* GrnGpuTimes.coarse of a part */
	bool		spread;			/* all would fit one device: for speed alone */
	bool		apart;			/* no device writes to another */
	float		overlap;		/* share of rows that are in two parts */
	size_t		piece;			/* rows of an item, */
	size_t		pieces;			/* and items of the step */
	size_t		counted;		/* of them */
	GrnParts	parts;
	uint32_t	by_size[GRN_MAX_PARTS]; /* parts, largest first */
	void	   *cutting;		/* workspace of the cut, where the parts stay */
	uint32_t   *lists;			/* [members][degree] */
	uint8_t    *counts;			/* [members] */
	uint64_t	rounds;			/* of all parts, done by GPUs */
	uint64_t	finished;		/* parts that cores have built */
	GrnFailure *failure;
} GrnPartsBuild;

/* ---- parts.c ---- */

/* Completed parameters, the devices, and the overlap. */
extern void grn_parts_begin(GrnPartsBuild *p, GrnGraphJob *job, GrnFailure *failure);
/* How many parts are needed where none may have more than capacity rows; 0: too many. */
extern uint32_t grn_parts_needed(uint64_t n, float overlap, uint64_t capacity);
/* Raises the overlap to what so many parts need; false where it was enough. */
extern bool grn_parts_raise_overlap(GrnPartsBuild *p, uint32_t nparts);
/* How many parts are tried where nparts leave one too large: at most, and next. */
extern uint32_t grn_parts_most(uint32_t nparts);
extern uint32_t grn_parts_more(uint32_t nparts, uint32_t most);
/* Takes room for the parts and for the lists of all their members. */
extern void grn_parts_take_lists(GrnPartsBuild *p, GrnArena *arena);
/*
 * Takes, where the former begins, the workspace of a cut into at most grn_parts_most(nparts),
 * which leaves the parts at its start; returns where it ends.
 */
extern size_t grn_parts_take_cut(GrnPartsBuild *p, GrnArena arena, uint32_t nparts);
/*
 * Cuts rows, on cores, until no part is larger than capacity, of which nparts hold all rows.
 */
extern void grn_parts_cut(GrnPartsBuild *p, uint32_t nparts, uint32_t most, uint64_t capacity);
/* Once the parts are what they will be: their order, and what is reported of them. */
extern void grn_parts_are_cut(GrnPartsBuild *p);
/* Rows and room for the lists of a part; order, [members] or NULL, becomes theirs. */
extern GrnRows grn_part_rows(const GrnPartsBuild *p, uint32_t part, uint32_t *order,
							 GrnGraph *graph);
/* A part's lists name its members by number; now by row. */
extern void grn_part_name_lists(const GrnPartsBuild *p, uint32_t part, const GrnGraph *graph);

/* ---- parts_merge.c ---- */

/*
 * The lists of all parts, which name rows, into the graph.  Rows are compared as they are, or by
 * their projections, which it makes in a workspace of grn_parts_merge_workspace() bytes.
 */
extern void grn_parts_merge_on_cores(GrnPartsBuild *p, const GrnProject *project, void *workspace);
extern size_t grn_parts_merge_workspace(const GrnRows *rows);

/* ---- parts_digests.c ---- */

/* The rows of an item where there are so many in all. */
extern void grn_parts_set_piece(GrnPartsBuild *p, uint64_t rows);
/* One more is done: the step of the progress moves. */
extern void grn_parts_count_item(GrnPartsBuild *p);
/* What the merge takes of a device at least. */
extern uint64_t grn_parts_merge_bytes(const GrnPartsBuild *p, const GrnGpuFit *fit);
/* Fits the projection of the digests; each device may take limit bytes. */
extern GrnGpuStatus grn_parts_fit_digests(GrnPartsBuild *p, uint64_t limit, GrnGpuError *err);
/*
 * Room for all rows' digests on all devices, each of which may take limit bytes.  A device
 * that fails is lost.  If memory is short on one, no device keeps digests.
 */
extern GrnGpuStatus grn_parts_keep_digests(GrnPartsBuild *p, uint64_t limit, GrnGpuError *err);
/* Those of devices from the first one on. */
extern void grn_parts_drop_digests(GrnPartsBuild *p, int first);
/* Rows to digests and into parts none of which is larger than capacity. */
extern GrnGpuStatus grn_parts_digest(GrnPartsBuild *p, uint32_t nparts, uint32_t most,
									 uint64_t capacity, GrnGpuError *err);
/* What steps leave for the next ones. */
extern void grn_parts_free_arenas(GrnPartsBuild *p);

#endif							/* GRN_PARTS_IMPL_H */
