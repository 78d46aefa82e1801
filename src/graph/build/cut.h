/*
 * cut.h - rows cut into overlapping parts, for builds that do not fit into
 * memory at once.
 */
#ifndef GRN_CUT_H
#define GRN_CUT_H

#include "graph/rows.h"

#define GRN_MAX_PARTS 256

/*
 * Each row is at home in one part; some are guests in a second one.  Landmarks are members
 * of every part, so that others' lists name them: their own lists count at home (and as
 * guests) alone.  Members of a part lie together: those at home, guests, each kind by row,
 * and other parts' landmarks.
 */
typedef struct GrnParts
{
	uint32_t	nparts;
	uint32_t	nlandmarks;
	size_t		start[GRN_MAX_PARTS + 1];	/* of a part's members */
	size_t		guests[GRN_MAX_PARTS];	/* where its guests start */
	size_t		others[GRN_MAX_PARTS];	/* where other parts' landmarks do */
	uint32_t   *members;		/* [start[nparts]] rows */
	uint32_t   *home;			/* [n] place among members where a row is at home */
	uint32_t   *guest;			/* [n] the same where it is a guest, or GRN_INVALID_ID */
	uint32_t   *landmarks;		/* [nlandmarks] rows by part, or GRN_INVALID_ID; not kept */
} GrnParts;

/*
 * Cuts rows into nparts parts of about the same size; a share `overlap` of each part's own,
 * those nearest to the border of a second part, become guests there (0 to 1).
 * The same for a seed whatever the number of threads.  workspace:
 * grn_parts_bytes(), of which the first grn_parts_kept() hold the parts.
 */
extern size_t grn_parts_kept(size_t n, float overlap);
extern size_t grn_parts_bytes(size_t n, uint32_t dim, uint32_t nparts, float overlap);
extern void grn_parts_make(const GrnRows *rows, uint32_t nparts, float overlap, uint64_t seed,
						   GrnParallel *parallel, void *workspace, GrnParts *parts);
/* How many landmarks so many parts have, at most. */
extern uint32_t grn_parts_landmarks(size_t n, uint32_t nparts);
/*
 * The same in steps, where another than the processor's cores tells rows: cells (in the
 * workspace, of two parts at least) and landmarks; the caller's parts->home and guest,
 * numbers of parts by grn.h's GrnCells; then the members' places.
 */
extern void grn_parts_cells(const GrnRows *rows, uint32_t nparts, float overlap, uint64_t seed,
							GrnParallel *parallel, void *workspace, GrnParts *parts,
							GrnCells *cells);
extern void grn_parts_find_landmarks(const GrnRows *rows, uint32_t nparts, float overlap,
									 uint64_t seed, GrnParallel *parallel, void *workspace,
									 GrnParts *parts);
extern void grn_parts_place(const GrnRows *rows, uint32_t nparts, float overlap,
							GrnParallel *parallel, void *workspace, GrnParts *parts);
extern size_t grn_parts_largest(const GrnParts *parts);

/*
 * For rows that no border parts, such as equal ones: deals out those of parts with more than
 * capacity, whatever their places, to several, where a share `overlap` of them are guests of
 * the next one; elsewhere guests beyond capacity go.  workspace: grn_parts_bytes() of most
 * parts.  False where it takes more of them, and then the parts are as they were.
 */
extern bool grn_parts_deal(const GrnRows *rows, uint32_t most, float overlap, size_t capacity,
						   GrnParallel *parallel, void *workspace, GrnParts *parts);

#endif							/* GRN_CUT_H */
