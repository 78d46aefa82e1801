/*
 * launch.h - the leader's side of the builder process.
 */
#ifndef GRNND_LAUNCH_H
#define GRNND_LAUNCH_H

#include "postgres.h"

#include "mapping.h"
#include "utils/timestamp.h"

typedef struct GrnndBuilder
{
	pid_t		pid;			/* 0: not running */
	int			sock;			/* -1: none */
	GrnndMapping *map;
	TimestampTz last_heard;
	bool		hello;			/* has said HELLO */
	bool		done;			/* has said DONE; result is filled */
	bool		broken;			/* the socket's other end is closed */
	bool		killed;			/* by us; still to be reaped */
	uint64		rows_told;		/* of the last ROWS */
	GrnBuildResult result;
} GrnndBuilder;

/*
 * Starts grnnd_build and tells it of the mapping, now and as it grows.  Until
 * grnnd_builder_end() every exit path must call that: it kills and reaps.
 */
extern void grnnd_builder_start(GrnndBuilder *builder, GrnndMapping *map,
								const GrnBuildSpec *spec);
/* Path of the builder program; an error where it cannot be run. */
extern char *grnnd_builder_program(void);
/* Handles what the builder has said so far; call this now and then. */
extern void grnnd_builder_poll(GrnndBuilder *builder);
/* Says that rows [0, rows) are complete, if there is room to say it. */
extern void grnnd_builder_rows(GrnndBuilder *builder, uint64 rows);
/* Says BUILD and waits for the result. */
extern void grnnd_builder_run(GrnndBuilder *builder, uint64 rows);
/*
 * Kills, without waiting for the end, which may take a while where a device has
 * to be given back.  The builder executes nothing any more.
 */
extern void grnnd_builder_kill(GrnndBuilder *builder);
/* Kills and reaps.  Never errors; may be called at any time. */
extern void grnnd_builder_end(GrnndBuilder *builder);

#endif							/* GRNND_LAUNCH_H */
