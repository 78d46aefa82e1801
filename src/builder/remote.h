/*
 * remote.h - a build that another host's PostgreSQL makes; see "Between hosts" in protocol.h.
 */
#ifndef GRN_REMOTE_H
#define GRN_REMOTE_H

#include "builder/pipeline.h"

#define GRN_MAX_OPTIONS 48

typedef struct GrnConnection GrnConnection;

/* What libpq is to connect by: names and values, then NULL. */
typedef struct GrnOptions
{
	int			n;
	char	   *names[GRN_MAX_OPTIONS + 4];
	char	   *values[GRN_MAX_OPTIONS + 4];
} GrnOptions;

/* Adds one, or goes on with the last one's value.  False: too many, or out of memory. */
extern bool grn_options_add(GrnOptions *options, const char *name, const char *value, bool more);
/*
 * Has the build made there, beginning with the rows that are complete (GrnHost.rows()), and its
 * results written here as grn_build() writes them.  Nothing of what comes back is trusted but that
 * it is what was sent: the leader checks it as any builder's.  build's n and order are known when
 * rows() has said that all are there.  *connection is what is left to be ended, where it is true.
 */
extern bool grn_remote_build(GrnBuild *build, const GrnOptions *options, GrnBuildResult *result,
							 GrnConnection **connection, GrnFailure *failure);
/*
 * Waits until the other side has given its memory back, so that its log has no lost connection,
 * and disconnects.  Says nothing to the leader.
 */
extern void grn_remote_end(GrnConnection *connection);

#endif							/* GRN_REMOTE_H */
