/*
 * beam.h - the state of best-first searches of a graph under construction: the nearest
 * vertices that a search has found, and the vertices that the search has seen.
 */
#ifndef GRN_BEAM_H
#define GRN_BEAM_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "graph/graph.h"

#define GRN_BEAM_WIDTH 32

/* A key orders as (distance, id) does.  distance: an integer in the order of distances. */
#define GRN_BEAM_KEY(distance, id) ((uint64_t) (distance) << 32 | (id))

/* Keys are sorted, nearest first.  An empty beam is all zeros. */
typedef struct GrnBeam
{
	uint32_t	count;
	uint64_t	keys[GRN_BEAM_WIDTH];
	bool		expanded[GRN_BEAM_WIDTH];
} GrnBeam;

static inline void
grn_beam_offer(GrnBeam *b, uint64_t key)
{
	uint32_t	at;

	if (b->count == GRN_BEAM_WIDTH && key >= b->keys[GRN_BEAM_WIDTH - 1])
		return;
	for (uint32_t i = 0; i < b->count; i++)
		if (b->keys[i] == key)
			return;
	at = b->count < GRN_BEAM_WIDTH ? b->count++ : GRN_BEAM_WIDTH - 1;
	for (; at > 0 && b->keys[at - 1] > key; at--)
	{
		b->keys[at] = b->keys[at - 1];
		b->expanded[at] = b->expanded[at - 1];
	}
	b->keys[at] = key;
	b->expanded[at] = false;
}

/* Marks the nearest unexpanded vertex as expanded.  Returns its id, or GRN_INVALID_ID. */
static inline uint32_t
grn_beam_next(GrnBeam *b)
{
	for (uint32_t i = 0; i < b->count; i++)
		if (!b->expanded[i])
		{
			b->expanded[i] = true;
			return (uint32_t) b->keys[i];
		}
	return GRN_INVALID_ID;
}

/* Returns the nearest vertex.  The beam must not be empty. */
static inline uint32_t
grn_beam_nearest(const GrnBeam *b)
{
	return (uint32_t) b->keys[0];
}

/*
 * A table of seen vertices.  A vertex with the same slot replaces an earlier vertex, whose
 * distance is then computed again.
 */
#define GRN_SEEN_BITS 12

typedef struct GrnSeenIds
{
	uint32_t	ids[1 << GRN_SEEN_BITS];
} GrnSeenIds;

static inline void
grn_seen_begin(GrnSeenIds *seen)
{
	memset(seen, 0xFF, sizeof(*seen));
}

/* Adds a vertex.  Returns false if the table has the vertex already. */
static inline bool
grn_seen_add(GrnSeenIds *seen, uint32_t id)
{
	uint32_t   *slot = &seen->ids[id * 0x9E3779B1u >> (32 - GRN_SEEN_BITS)];

	if (*slot == id)
		return false;
	*slot = id;
	return true;
}

#endif							/* GRN_BEAM_H */
