/*
 * group_lists.h - rows of lists go into groups on the GPU that has built the graph.
 */
#ifndef GRN_GROUP_LISTS_H
#define GRN_GROUP_LISTS_H

#include "builder/host.h"

/* What GROUP says, and where the build's segments are. */
typedef struct GrnGroupRequest
{
	const GrnBuildSpec *spec;
	const GrnBuildResult *result;
	const char *codes;			/* segment CODES */
	char	   *work;			/* segment WORK, */
	uint64_t	work_bytes;		/* of which so many are mapped */
	uint64_t	lists;
	uint64_t	rows;			/* of all lists */
	uint64_t	room;
} GrnGroupRequest;

/* Whether such lists can be: all of them lie in WORK, and name nodes and groups that there are. */
extern bool grn_group_request_sound(const GrnGroupRequest *request);

/* Chooses the groups of a sound request, into WORK.  False: *err says why the GPU could not. */
extern bool grn_group_lists(const GrnGroupRequest *request, GrnGpu *gpu, GrnGpuError *err);

#endif							/* GRN_GROUP_LISTS_H */
