/*
 * group_lists.c - puts the rows of lists of filter columns into groups.
 *
 * The leader knows the values of rows, and has written the lists' nodes to LISTS.  A single thread
 * makes the groups of a list, because hundreds of lists keep all threads at work.  The longest
 * lists come first, so that threads end at about the same time.
 */
#include "builder/pipeline.h"

#include <string.h>

#include "memory/memory.h"
#include "space/metric.h"
#include "store/codec.h"
#include "store/group.h"

typedef struct Grouping
{
	GrnGrouping g;
	GrnCodec	codec;
	GrnListArraysToGroup all;
	bool		no_memory;
} Grouping;

static GrnResultArrays
arrays_of(const GrnGroupRequest *r)
{
	return grn_result_arrays(r->result, r->rows, r->spec->dim, false, r->built);
}

static GrnCodec
codec_of(const GrnGroupRequest *r)
{
	return grn_result_codec(r->result, (GrnMetric) r->spec->metric, r->spec->dim, arrays_of(r).codec);
}

/* Whether LISTS has room for the arrays that its head describes. */
static bool
has_room(const GrnGroupRequest *r)
{
	GrnLists	l;

	if (r->list_bytes < sizeof(l))
		return false;
	memcpy(&l, r->lists, sizeof(l));
	return l.room >= 2 && l.room <= UINT32_MAX &&
		grn_place_lists(&l, grn_code_bytes(r->result->shape), NULL).bytes <= r->list_bytes;
}

bool
grn_group_request_sound(const GrnGroupRequest *r)
{
	const GrnLists *all = (const GrnLists *) r->lists;
	GrnListArraysToGroup at;

	if (grn_code_bytes(r->result->shape) == 0 || !has_room(r))
		return false;
	at = grn_place_lists(all, grn_code_bytes(r->result->shape), r->lists);
	for (uint64_t i = 0; i < all->lists; i++)
	{
		const GrnListToGroup *list = &at.lists[i];

		if (list->n < 1 || list->row > all->rows || list->n > all->rows - list->row ||
			list->groups != grn_groups(list->n, (uint32_t) all->room) || list->group > all->groups ||
			list->groups > all->groups - list->group)
			return false;
		for (uint32_t row = 0; row < list->n; row++)
			if (at.nodes[list->row + row] >= r->result->nodes)
				return false;
	}
	return true;
}

static void
group_range(void *arg, int worker, size_t begin, size_t end)
{
	Grouping   *a = arg;
	uint32_t	code_bytes = grn_code_bytes(a->codec.shape);

	(void) worker;
	for (size_t i = begin; i < end; i++)
	{
		const GrnListToGroup *list = &a->all.lists[i];
		const GrnGroups *all = &a->all.groups;
		GrnGroups	groups = {all->order + list->row, all->ends + list->group,
			all->middles + (size_t) list->group * code_bytes, all->factors + list->group};
		GrnGrouping g = a->g;
		void	   *workspace = grn_alloc(grn_group_bytes(&a->codec, list->n, g.room));

		g.seed = list->seed;
		if (workspace != NULL)
			grn_group_rows(&g, a->all.nodes + list->row, list->n, &groups, workspace);
		else
			__atomic_store_n(&a->no_memory, true, __ATOMIC_RELAXED);
		grn_free(workspace);
	}
}

bool
grn_group_lists(const GrnGroupRequest *r, GrnParallel *parallel)
{
	const GrnLists *all = (const GrnLists *) r->lists;
	GrnResultArrays built = arrays_of(r);
	Grouping	a = {.codec = codec_of(r)};

	a.all = grn_place_lists(all, grn_code_bytes(r->result->shape), r->lists);
	a.g = (GrnGrouping) {.codec = &a.codec, .codes = built.codes, .factors = built.factors,
						 .room = (uint32_t) all->room};
	parallel->run(parallel, all->lists, 1, group_range, &a);
	return !a.no_memory;
}
