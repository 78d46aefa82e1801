/*
 * cut.h - rows cut into overlapping parts, for builds that do not fit into
 * memory at once.
 */
#ifndef GRN_CUT_H
#define GRN_CUT_H

#include "graph/rows.h"

#define GRN_MAX_PARTS 256

/*
 * Each row is at home in one part, and some are guests in a second one.  Landmarks are
 * members of every part, so that the lists of other parts name them.  A landmark's own list
 * counts only where it is at home or a guest.  The members of a part lie together: rows at
 * home, then guests, each kind by row, then landmarks of other parts.
 */
typedef struct GrnParts
{
	uint32_t	nparts;
	uint32_t	nlandmarks;
	size_t		start[GRN_MAX_PARTS + 1];	/* of a part's members */
	size_t		guests[GRN_MAX_PARTS];	/* where its guests start */
	size_t		others[GRN_MAX_PARTS];	/* where other parts' landmarks do */
	uint32_t   *members;		/* [start[nparts]] rows */
	uint32_t   *home;			/* [n] position among members where a row is at home */
	uint32_t   *guest;			/* [n] the same where it is a guest, or GRN_INVALID_ID */
	uint32_t   *landmarks;		/* [nlandmarks] rows by part, or GRN_INVALID_ID; not kept */
} GrnParts;

/*
 * Cuts rows into nparts parts of about the same size.  Of each part's rows a share `overlap`
 * (0 to 1), those nearest to the border of a second part, become guests there.  The parts
 * depend on the seed but not on the number of threads.  workspace: grn_parts_bytes() bytes,
 * of which the first grn_parts_kept() hold the parts.
 */
extern size_t grn_parts_kept(size_t n, float overlap);
extern size_t grn_parts_bytes(size_t n, uint32_t dim, uint32_t nparts, float overlap);
extern void grn_parts_make(const GrnRows *rows, uint32_t nparts, float overlap, uint64_t seed,
						   GrnParallel *parallel, void *workspace, GrnParts *parts);
/* How many landmarks so many parts have, at most. */
extern uint32_t grn_parts_landmarks(size_t n, uint32_t nparts);
/*
 * The same in steps, for builds where a GPU finds the rows' parts:
 *   1. grn_parts_cells() and grn_parts_find_landmarks(): cells (in the workspace, of at least
 *      two parts) and landmarks.
 *   2. The caller sets parts->home and parts->guest to numbers of parts, by GrnCells (grn.h).
 *   3. grn_parts_list_members(): the members of each.
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
 * For rows that are read anyway, after grn_parts_cells() without overlap: the cells of rows
 * [begin, end) of `rows`, to home[begin] and so on.  n: of grn_parts_cells().
 */
extern void grn_parts_home(const GrnRows *rows, uint32_t nparts, size_t n, void *workspace,
						   size_t begin, size_t end, uint8_t *home);
extern size_t grn_parts_largest(const GrnParts *parts);

/*
 * For rows that no cells of like size separate, such as equal ones.  The rows of a part with more
 * than capacity are dealt out to several parts, by planes between them.  A share `overlap` of them,
 * those nearest to a plane, are guests beyond it.  Guests beyond capacity are left out.
 * workspace: grn_parts_bytes() of most parts.  False if that takes more parts than most;
 * the parts are then as they were.
 */
extern bool grn_parts_deal(const GrnRows *rows, uint32_t most, float overlap, size_t capacity,
						   GrnParallel *parallel, void *workspace, GrnParts *parts);

#endif							/* GRN_CUT_H */
