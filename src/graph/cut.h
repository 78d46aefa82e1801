/*
 * cut.h - divides rows into overlapping parts, for builds that do not fit into memory at once.
 */
#ifndef GRN_CUT_H
#define GRN_CUT_H

#include "graph/graph.h"
#include "space/kernels/tile.h"
#include "space/rows.h"

#define GRN_MAX_PARTS 256

/*
 * Each row is at home in one part, and may be a guest in a second part.  Landmarks are members
 * of every part, so that lists in every part can name landmarks.  A landmark's own list counts
 * only in the parts where the landmark is at home or a guest.  The members of a part are
 * adjacent: rows at home, then guests, both in order of rows, then landmarks of other parts.
 */
typedef struct GrnParts
{
	uint32_t	nparts;
	uint32_t	nlandmarks;
	size_t		start[GRN_MAX_PARTS + 1];	/* first member of each part */
	size_t		guests[GRN_MAX_PARTS];	/* first guest of each part */
	size_t		others[GRN_MAX_PARTS];	/* first landmark from another part, for each part */
	uint32_t   *members;		/* [start[nparts]] rows */
	uint32_t   *home;			/* [n] position of a row among the members of its home */
	uint32_t   *guest;			/* [n] position of a row among the members of the part it is a
								 * guest in, or GRN_INVALID_ID */
	uint32_t   *landmarks;		/* [nlandmarks] rows by part, or GRN_INVALID_ID; not part of
								 * grn_parts_kept() */
} GrnParts;

/*
 * Divides rows into nparts parts of about the same size.  A share `overlap` (0 to 1) of each
 * part's rows become guests in a second part: the rows nearest to the border.  The parts
 * depend on the seed, and not on the number of threads.  workspace: grn_parts_bytes() bytes;
 * the first grn_parts_kept() hold the result.
 */
extern size_t grn_parts_kept(size_t n, float overlap);
extern size_t grn_parts_bytes(size_t n, uint32_t dim, uint32_t nparts, float overlap);
extern void grn_parts_make(const GrnRows *rows, uint32_t nparts, float overlap, uint64_t seed,
						   GrnParallel *parallel, void *workspace, GrnParts *parts);
/* Returns the most landmarks of nparts parts. */
extern uint32_t grn_parts_landmarks(size_t n, uint32_t nparts);
/*
 * The same in steps, for builds where a GPU finds the rows' parts:
 * 1. grn_parts_cells() and grn_parts_find_landmarks() find cells (in the workspace; at least
 *    two parts) and landmarks.
 * 2. The caller sets parts->home and parts->guest to numbers of parts, by GrnCells (grn.h).
 * 3. grn_parts_list_members() lists the members of each part.
 */
extern void grn_parts_cells(const GrnRows *rows, uint32_t nparts, float overlap, uint64_t seed,
							GrnParallel *parallel, void *workspace, GrnParts *parts,
							GrnCells *cells);
extern void grn_parts_find_landmarks(const GrnRows *rows, uint32_t nparts, float overlap,
									 uint64_t seed, GrnParallel *parallel, void *workspace,
									 GrnParts *parts);
extern void grn_parts_list_members(const GrnRows *rows, uint32_t nparts, float overlap,
								   GrnParallel *parallel, void *workspace, GrnParts *parts);
/*
 * Finds the cells of rows [begin, end) and writes them to home[begin, end), during a pass that
 * reads the rows for another purpose.  grn_parts_cells() must have run without overlap.  n:
 * the rows of grn_parts_cells().
 */
extern void grn_parts_home(const GrnRows *rows, uint32_t nparts, size_t n, void *workspace,
						   size_t begin, size_t end, uint8_t *home);
extern size_t grn_parts_largest(const GrnParts *parts);

/*
 * Divides parts with more than `capacity` rows into several parts, for rows that cells of
 * similar size cannot separate, for example equal rows.  Planes separate the new parts.  A
 * share `overlap` of the rows, those nearest to a plane, become guests beyond the plane.
 * Guests beyond the capacity are left out.  workspace: grn_parts_bytes() for `most` parts.
 * Returns false, and changes nothing, if more than `most` parts would be needed.
 */
extern bool grn_parts_deal(const GrnRows *rows, uint32_t most, float overlap, size_t capacity,
						   GrnParallel *parallel, void *workspace, GrnParts *parts);

/* merge.c: makes one graph of the lists of the parts' graphs. */

/*
 * Makes the graph of all rows from the lists of the parts' graphs: lists [members][graph->degree]
 * of rows, with GRN_INVALID_ID after the last neighbor of a short list.  A row gets the
 * neighbors from both of its lists that pass the RNG rule, and then the nearest remaining
 * neighbors, up to the degree.
 */
extern void grn_parts_merge(const GrnTile *tile, const GrnParts *parts, const uint32_t *lists, GrnParallel *parallel,
							GrnGraph *graph);

#endif							/* GRN_CUT_H */
