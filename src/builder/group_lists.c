/*
 * group_lists.c - puts the rows of lists of filter columns into groups.
 *
 * The leader knows the values of rows, and has written the lists' nodes to LISTS.  A single thread
 * makes the groups of a list, because hundreds of lists keep all threads at work.  The longest
 * lists come first, so that threads end at about the same time.
 */
#include "builder/group_lists.h"

#include <string.h>

#include "graph/memory.h"
#include "graph/metric.h"
#include "graph/stored/codec.h"
#include "graph/stored/group.h"

typedef struct Grouping
{
	GrnGrouping g;
	GrnCodec	codec;
	const GrnListToGroup *lists;
	const uint32_t *nodes;
	GrnGroups	groups;			/* of all lists */
	bool		no_memory;
} Grouping;

static GrnCodec
codec_of(const GrnGroupRequest *r)
{
	const GrnBuildResult *result = r->result;
	const float *floats = (const float *) (r->codes + result->off_codec);
	GrnCodec	codec = {.dim = r->spec->dim, .shape = result->shape, .norm_unit = result->norm_unit, .power = result->power,
		.mean = floats, .basis = floats + r->spec->dim};

	memcpy(codec.steps, result->steps, sizeof(codec.steps));
	grn_codec_set_metric(&codec, grn_metric(r->spec->metric), result->norm_unit);
	return codec;
}

/* Whether LISTS has room for the arrays that its head describes. */
static bool
has_room(const GrnGroupRequest *r)
{
	GrnLists	l;

	if (r->list_bytes < sizeof(l))
		return false;
	memcpy(&l, r->lists, sizeof(l));
	/* sizes below these bounds overflow no offset */
	if (l.lists > r->list_bytes || l.rows > r->list_bytes || l.entries > r->list_bytes ||
		l.groups > r->list_bytes || l.room < 2 || l.room > UINT32_MAX)
		return false;
	return grn_place_lists(&l, grn_code_bytes(r->result->shape)) <= r->list_bytes &&
		memcmp(&l, r->lists, sizeof(l)) == 0;
}

bool
grn_group_request_sound(const GrnGroupRequest *r)
{
	const GrnLists *all = (const GrnLists *) r->lists;
	const GrnListToGroup *lists;
	const uint32_t *nodes;
	GrnCodec	codec;

	if (grn_code_bytes(r->result->shape) == 0 || !has_room(r))
		return false;
	lists = (const GrnListToGroup *) (r->lists + all->off_lists);
	nodes = (const uint32_t *) (r->lists + all->off_nodes);
	codec = codec_of(r);
	for (uint64_t i = 0; i < all->lists; i++)
	{
		const GrnListToGroup *list = &lists[i];
		uint32_t	room = (uint32_t) all->room;

		if (list->n < 1 || list->row > all->rows || list->n > all->rows - list->row ||
			list->groups != grn_groups(&codec, list->n, room) || list->group > all->groups ||
			list->groups > all->groups - list->group || list->entry > all->entries ||
			grn_group_entries(&codec, list->n, room) > all->entries - list->entry)
			return false;
		for (uint32_t row = 0; row < list->n; row++)
			if (nodes[list->row + row] >= r->result->nodes)
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
		const GrnListToGroup *list = &a->lists[i];
		GrnGroups	groups = {a->groups.order + list->entry, a->groups.ends + list->group,
			a->groups.middles + (size_t) list->group * code_bytes, a->groups.factors + list->group};
		GrnGrouping g = a->g;
		void	   *workspace = grn_alloc(grn_group_bytes(&a->codec, list->n, g.room));

		g.seed = list->seed;
		if (workspace != NULL)
			grn_group_rows(&g, a->nodes + list->row, list->n, &groups, workspace);
		else
			__atomic_store_n(&a->no_memory, true, __ATOMIC_RELAXED);
		grn_free(workspace);
	}
}

bool
grn_group_lists(const GrnGroupRequest *r, GrnParallel *parallel)
{
	const GrnLists *all = (const GrnLists *) r->lists;
	Grouping	a = {.codec = codec_of(r)};

	a.lists = (const GrnListToGroup *) (r->lists + all->off_lists);
	a.nodes = (const uint32_t *) (r->lists + all->off_nodes);
	a.groups = (GrnGroups) {(uint32_t *) (r->lists + all->off_order), (uint32_t *) (r->lists + all->off_ends),
							(uint8_t *) r->lists + all->off_middles, (GrnFactor *) (r->lists + all->off_factors)};
	a.g = (GrnGrouping) {.codec = &a.codec, .codes = (const uint8_t *) r->codes + r->result->off_codes,
						 .factors = (const GrnFactor *) (r->codes + r->result->off_factors),
						 .room = (uint32_t) all->room};
	parallel->run(parallel, all->lists, 1, group_range, &a);
	return !a.no_memory;
}
