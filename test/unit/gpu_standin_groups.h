/*
 * gpu_standin_groups.h - the stand-in's groups of lists: as many rows in each as they come, and
 * each row's copy in the next group as long as that has room.
 */
#ifndef GPU_STANDIN_GROUPS_H
#define GPU_STANDIN_GROUPS_H

#include <stdlib.h>
#include <unistd.h>

#include "gpu_standin.h"

static void
deal_into_groups(const GrnListToGroup *list, uint32_t room, uint32_t *chosen, uint32_t *copied)
{
	uint32_t   *count = calloc(list->groups, sizeof(*count));

	for (uint32_t i = 0; i < list->n; i++)
		count[chosen[i] = (uint32_t) ((uint64_t) i * list->groups / list->n)]++;
	for (uint32_t i = 0; i < list->n; i++)
	{
		uint32_t	next = (chosen[i] + 1) % list->groups;

		copied[i] = GRN_INVALID_ID;
		if (next != chosen[i] && count[next] < room)
		{
			copied[i] = next;
			count[next]++;
		}
	}
	free(count);
}

/* The groups of all lists, or what is wrong instead. */
static void
deal_all_into_groups(const GrnGpuGrouping *g, StandInGroups how)
{
	if (how == STANDIN_GROUPS_EXIT)
		_exit(3);
	if (how == STANDIN_GROUPS_STUCK)
		sleep(60);
	for (uint32_t i = 0; i < g->nlists; i++)
		deal_into_groups(&g->lists[i], g->room, g->chosen + g->lists[i].first, g->copied + g->lists[i].first);
	if (how == STANDIN_GROUPS_UNKNOWN)
		g->chosen[0] = g->lists[0].groups;
	for (uint32_t i = 0; how == STANDIN_GROUPS_FULL && i <= g->room; i++)
		g->chosen[i] = 0;
}

#endif							/* GPU_STANDIN_GROUPS_H */
