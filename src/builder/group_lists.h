/*
 * group_lists.h - puts the rows of lists of filter columns into groups.
 */
#ifndef GRN_GROUP_LISTS_H
#define GRN_GROUP_LISTS_H

#include "builder/protocol.h"

/* Lists to group, and the segments of the build. */
typedef struct GrnGroupRequest
{
	const GrnBuildSpec *spec;
	const GrnBuildResult *result;
	uint64_t	rows;			/* rows of the build */
	char	   *built;			/* segment RESULT */
	char	   *lists;			/* segment LISTS, */
	uint64_t	list_bytes;		/* mapped bytes of LISTS */
} GrnGroupRequest;

/* Whether all arrays lie in LISTS, and lists name nodes and groups that exist. */
extern bool grn_group_request_sound(const GrnGroupRequest *request);

/*
 * Makes the groups of a sound request, by all threads, each list by a single thread.  Returns false
 * without memory for the work.
 */
extern bool grn_group_lists(const GrnGroupRequest *request, GrnParallel *parallel);

#endif							/* GRN_GROUP_LISTS_H */
