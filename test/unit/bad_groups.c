/*
 * bad_groups.c - a builder that fails while it makes groups of lists, for a builder linked with
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

	if (fault && strcmp(fault, "exit") == 0)
		_exit(1);
	if (fault && strcmp(fault, "stuck") == 0)
		sleep(60);
	__real_grn_group_rows(g, nodes, n, groups, workspace);
}
