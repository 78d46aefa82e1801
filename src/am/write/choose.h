/*
 * choose.h - a new node's neighbours: the search for them, and which of what it finds are chosen.
 */
#ifndef GRNND_CHOOSE_H
#define GRNND_CHOOSE_H

#include "am/entries.h"
#include "am/page_store.h"
#include "am/write/edit.h"

/* A node's vector and code, as the search and the links need it. */
typedef struct GrnndPoint
{
	float	   *x;				/* [dim] */
	float		error2;			/* squared error of its record, if that keeps x rotated and x is
								 * not what it keeps; else 0 */
	uint8_t    *code;
	GrnFactor	factor;
	GrnCodeQuery *query;		/* NULL where estimates are not used */
	const GrnRecord *rec;		/* of a new row: what its record will be, without edges; or NULL */
} GrnndPoint;

/* Writes where a row x [dim] lies in the graph's space (graph/space.h); place may be x. */
extern void grnnd_place(const GrnndIndex *ix, const float *x, float *place);
/* Encodes x, which stays the caller's.  error: grnnd_noise() if x is from a record, else 0. */
extern void grnnd_make_point(const GrnndIndex *ix, float *x, float error, GrnndPoint *p);

/*
 * What an insert knows of the nodes around its row: where their rows lie, so that distances are
 * those in the graph's space, and their lists, as its search found them or as they were read since.
 */
typedef struct GrnndNear GrnndNear;

/*
 * Searches for the live nodes near p.  It sees few dead ones, so it may miss live nodes behind
 * those, but it finds one where an entry point lives.  p and entries are used by reference.  End it
 * with grnnd_near_end().
 */
extern GrnndNear *grnnd_find_near(GrnndStore *store, const GrnndPoint *p, uint32 ef,
								  const GrnndEntries *entries);
/* The search, to ask what it has found, and how many nodes that is. */
extern GrnSearch *grnnd_near_search(const GrnndNear *near, uint32 *nfound);
extern void grnnd_near_end(GrnndNear *near);

/* How many edges a new node gets. */
typedef struct GrnndShares
{
	uint32		own;			/* it begins with, or with mutual edges has at least */
	uint32		asked;			/* neighbours that are asked for a link back, these among them */
	uint32		filled;			/* of these: up to here also the nearest that the rule refused */
	uint32		links;			/* links back that it gets at most */
	uint32		least;			/* and should get, even from neighbours that then lose a nearer
								 * one, or in whose list it is occluded */
	float		slack;			/* of the rule */
	bool		mutual;			/* a neighbour that it has by choice has it, too (link.c) */
} GrnndShares;

/* mutual: whether edges may be mutual. */
extern GrnndShares grnnd_shares(const GrnndIndex *ix, bool mutual);

/* Neighbours chosen for a new node. */
typedef struct GrnndList
{
	uint32		count;
	uint32		own;			/* the first so many are for its own list */
	uint32		ids[GRN_MAX_DEGREE];
	GrnFactor	factors[GRN_MAX_DEGREE];
	uint8_t    *codes;			/* [count][code_bytes] */
	uint8_t    *sigs;			/* [count][sig_bytes] */
	bool		far;			/* one of them is GRN_FAR times as far as the nearest `own` nodes */
	/* without codes: distances in the graph's space */
	float	   *to_p;			/* [count] */
	float	   *between;		/* [count][count] */
} GrnndList;

/* The edge to list->ids[i]. */
extern GrnndEdge grnnd_list_edge(const GrnndIndex *ix, const GrnndList *list, uint32 i);

/*
 * Chooses among the live nodes that were found, by the RNG rule on exact distances, the neighbours
 * of the point that was searched for and those that are to link to it; self is not among them.
 */
extern void grnnd_choose_neighbours(GrnndNear *near, uint32 self, const GrnndShares *shares,
									GrnndList *list);

/*
 * A full node v, whose id is given, is asked to take x, the row that was searched for, whose
 * record is `self`; if strict is set it refuses where a neighbour of its occludes x.  Says by rows
 * which neighbour of v gives way (grn_exchange()): its position in v's list, or -1.  *over: a
 * neighbour of v that has an edge to it, or GRN_INVALID_ID where x has, or is to have; then *add
 * says that x has not.
 */
extern int	grnnd_exchange(GrnndNear *near, uint32 id, const GrnRecord *v, const GrnRecord *self,
						   float slack, bool strict, uint32 *over, bool *add);

/* The edge of node `from` to node `to` is to go, so later calls do not count on it. */
extern void grnnd_near_goes(GrnndNear *near, uint32 from, uint32 to);

/* The code of node id for what an insert writes while the index is filling (fit_codes.c). */
extern void grnnd_code_while_filling(Relation index, const GrnndIndex *ix, uint32 id,
									 uint8_t *code, GrnFactor *factor);

#endif							/* GRNND_CHOOSE_H */
