/*
 * navigable.h - adds edges where searches of a graph end far from their targets.
 */
#ifndef GRN_NAVIGABLE_H
#define GRN_NAVIGABLE_H

#include "store/search.h"

typedef struct GrnNavigation
{
	const GrnLayout *layout;
	const GrnCodec *codec;
	const GrnMetricInfo *metric;
	GrnStore   *const *stores;	/* [parallel->nworkers], with edit(); the first makes all edges */
	GrnParallel *parallel;		/* NULL: the caller searches alone, in stores[0] */
	const uint32_t *entries;	/* [nentries], and the codes and factors of these nodes */
	const uint8_t *entry_codes;
	const GrnFactor *entry_factors;
	uint32_t	nentries;
	uint64_t	seed;
	uint64_t	stream;			/* other numbers lead to other targets */
	uint32_t	ids;			/* ids of targets are below this */
	uint32_t	first;			/* searches of the first round, */
	uint32_t	round;			/* of each later round, >= first, */
	double		most;			/* and of all rounds together: no round begins after so many */
	/* optional, if others use the graph: called often, while no record is held; may longjmp */
	void		(*poll) (void *arg);
	/* with poll: begins and ends a time in which nobody else changes edges */
	void		(*alone) (void *arg, bool begin);
	void	   *arg;
} GrnNavigation;

/*
 * Searches for random nodes as a query does, and gives the nearest node found an edge to the
 * target where a search ends too early.  Ends after a round that adds nearly no edge.  All nodes
 * reachable before stay so.  The result does not depend on the number of threads.
 */
extern void grn_make_navigable(const GrnNavigation *n);

/*
 * Returns the position of the neighbor to which most other neighbors of a record lead, so that
 * the record can give up this edge; *by: the last of these other neighbors.  -1: none.
 */
extern int	grn_spare_edge(GrnStore *store, const GrnLayout *l, const GrnRecord *rec, uint32_t *by);

#endif							/* GRN_NAVIGABLE_H */
