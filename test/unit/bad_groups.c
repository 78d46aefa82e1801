/*
 * bad_groups.c - groups of lists with faults on demand, for a builder linked with
 * --wrap=grn_group_rows.  GRNND_GROUPS says which fault.
 */
#include "store/group.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern void __real_grn_group_rows(const GrnGrouping *g, const uint32_t *nodes, uint32_t n, const GrnGroups *groups,
								  void *workspace);
extern void __wrap_grn_group_rows(const GrnGrouping *g, const uint32_t *nodes, uint32_t n, const GrnGroups *groups,
								  void *workspace);

void
__wrap_grn_group_rows(const GrnGrouping *g, const uint32_t *nodes, uint32_t n, const GrnGroups *groups,
					  void *workspace)
{
	const char *fault = getenv("GRNND_GROUPS");
	uint32_t	last = grn_groups(n, g->room) - 1;

	if (fault && strcmp(fault, "exit") == 0)
		_exit(1);
	if (fault && strcmp(fault, "stuck") == 0)
		sleep(60);
	__real_grn_group_rows(g, nodes, n, groups, workspace);
	if (fault && strcmp(fault, "unknown") == 0)
		groups->order[1] = n;
	if (fault && strcmp(fault, "missing") == 0)
		memset(groups->order, 0, groups->ends[0] * sizeof(uint32_t));
	if (fault && strcmp(fault, "full") == 0)
		groups->ends[0] = groups->ends[1];
	if (fault && strcmp(fault, "empty") == 0)
		groups->ends[1] = groups->ends[0];
	if (fault && strcmp(fault, "beyond") == 0)
		groups->ends[last] = n + 1;
}
