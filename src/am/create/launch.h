/*
 * launch.h - the leader's side of the connection to the builder process.
 */
#ifndef GRNND_LAUNCH_H
#define GRNND_LAUNCH_H

#include "postgres.h"

#include "portability/instr_time.h"

#include "am/compat.h"
#include "am/create/mapping.h"

/* spawn.c: finds and starts the builder's program. */

/*
 * Returns the path of the builder's program; elsewhere: of the client for another host.  Errors:
 * 58P01 if no such file exists, 42501 if the file is not executable.
 */
extern char *grnnd_builder_program(bool elsewhere);
/*
 * Sets close-on-exec for all descriptors above stderr, so that no started program inherits them.
 * Errors: file system errors if /proc is missing.
 */
extern void grnnd_guard_descriptors(void);
/*
 * Starts the program `path`.  The program gets an end of a socket as GRN_BUILDER_FD, default
 * signals, and no other descriptor except stderr, the server log.  Returns 0 or an errno.
 */
extern int	grnnd_spawn_builder(const char *path, int sock, pid_t *pid);

/* The time for which the builder has sent or read nothing, as silence_lasts() counts it. */
typedef struct GrnndSilence
{
	instr_time	checked;		/* the last check */
	double		ms;
} GrnndSilence;

typedef struct GrnndBuilder
{
	pid_t		pid;			/* 0: no process */
	int			sock;			/* -1: none */
	GrnndMapping *map;
	GrnndSilence silence;		/* silence since the builder's last message */
	GrnBuildSpec spec;			/* spec of the last START */
	char		path[MAXPGPATH];	/* path of the builder's program */
	bool		hello;			/* HELLO has come */
	bool		no_gpu;			/* the builder has reported that no GPU is usable */
	bool		done;			/* DONE has come; result is filled */
	bool		written;		/* RESULT is written; the builder may still measure recall */
	bool		waiting;		/* a message is due: from START to DONE, or until RELEASED */
	bool		forming;		/* has been told FORM, and forms pages until RELEASE; */
	bool		listed;			/* LISTED has come */
	GrnListSizes sizes;			/* of LISTED, or of lists that the leader has made */
	bool		broken;			/* the builder has closed its end of the socket */
	bool		killed;			/* killed by the leader, but not reaped yet */
	uint64		rows_announced; /* rows of the last ROWS */
	uint64		rows_begun;		/* rows of BUILD; 0: not begun */
	uint64		result_needed;	/* bytes of RESULT that the builder has requested, */
	uint64		result_allocated;	/* and that the leader has allocated */
	uint64		phase[3];		/* the last PHASE: GrnStep, done, total */
	/* Called at every BEAT; may be NULL. */
	void		(*on_beat) (struct GrnndBuilder *builder);
	GrnBuildResult result;
} GrnndBuilder;

/*
 * Starts grnnd_build, or takes the parked builder.  Announces the mapping's extents, now and as the
 * mapping grows.  Every exit path must call grnnd_builder_end(), which kills and reaps the builder.
 */
extern PGDLLEXPORT void grnnd_builder_start(GrnndBuilder *builder, GrnndMapping *map,
											const GrnBuildSpec *spec);
/* Handles the messages that have arrived.  The leader must call this function from time to time. */
extern PGDLLEXPORT void grnnd_builder_poll(GrnndBuilder *builder);
/* Announces that rows [0, rows) are complete, unless the socket is full. */
extern PGDLLEXPORT void grnnd_builder_rows(GrnndBuilder *builder, uint64 rows);
/* Sends the connection string for the host that builds (GrnBuildSpec.remote), and clears it. */
extern void grnnd_builder_connect(GrnndBuilder *builder, char *connection);
/* Sends BUILD. */
extern PGDLLEXPORT void grnnd_builder_begin(GrnndBuilder *builder, uint64 rows);
/* Waits until RESULT is written. */
extern PGDLLEXPORT void grnnd_builder_await_written(GrnndBuilder *builder);
/* Waits for the result. */
extern PGDLLEXPORT void grnnd_builder_await_end(GrnndBuilder *builder);
/*
 * After the result: has the builder form pages, in slots of segment PAGES, and waits for the sizes
 * of lists.  From then on grnnd_builder_poll() raises the builder's errors.
 */
extern void grnnd_builder_form(GrnndBuilder *builder, const GrnFormSpec *form);
/* After the last page: waits until the builder has unmapped the mapping. */
extern void grnnd_builder_release(GrnndBuilder *builder);
/*
 * The same, and parks the builder for a later build of this transaction, which then need not open
 * the device again.
 */
extern PGDLLEXPORT void grnnd_builder_park(GrnndBuilder *builder);
/* Whether a parked builder fits these settings. */
extern bool grnnd_builder_parked(const GrnBuildSpec *spec);
/*
 * Kills the builder without waiting for its end, which may take long if a device must be freed.
 * The builder executes nothing any more.
 */
extern PGDLLEXPORT void grnnd_builder_kill(GrnndBuilder *builder);
/* Raises the error of a failed build, by the fields of a FAILED message. */
extern GRNND_NORETURN void grnnd_builder_failed(const char *sqlstate, const char *text, const char *hint);
/* Kills and reaps the builder.  Raises no error and may be called at any time. */
extern void grnnd_builder_end(GrnndBuilder *builder);

#endif							/* GRNND_LAUNCH_H */
