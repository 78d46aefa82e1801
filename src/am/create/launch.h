/*
 * launch.h - the leader's side of the builder process.
 */
#ifndef GRNND_LAUNCH_H
#define GRNND_LAUNCH_H

#include "postgres.h"

#include "am/create/mapping.h"
#include "am/compat.h"
#include "portability/instr_time.h"

/* How long the builder has said or read nothing; silence_lasts() says what counts. */
typedef struct GrnndSilence
{
	instr_time	looked;			/* the last look */
	double		ms;
} GrnndSilence;

typedef struct GrnndBuilder
{
	pid_t		pid;			/* 0: not running */
	int			sock;			/* -1: none */
	GrnndMapping *map;
	GrnndSilence silence;		/* since its last message */
	GrnBuildSpec spec;			/* of the last START */
	char		path[MAXPGPATH];	/* of its program */
	bool		hello;			/* has said HELLO */
	bool		no_gpu;			/* has said that there is no GPU it can use */
	bool		done;			/* has said DONE; result is filled */
	bool		written;		/* RESULT and CODES are: only recall is measured yet */
	bool		waiting;		/* something is to come: from START to DONE or RELEASED, or GROUPED */
	bool		grouping;		/* has been told GROUP */
	bool		grouped;		/* has said GROUPED: rows have their groups, */
	double		group_seconds;	/* which took so long */
	bool		group_failed;	/* it could not, or is gone or silent */
	bool		broken;			/* the socket's other end is closed */
	bool		killed;			/* by us; still to be reaped */
	uint64		rows_told;		/* of the last ROWS */
	uint64		needed[GRN_NSEGMENTS];	/* bytes that it has asked for, */
	uint64		allocated[GRN_NSEGMENTS];	/* and that we have allocated for ourselves to read */
	uint64		phase[3];		/* of its last PHASE: GrnPhase, done, total */
	/* at every BEAT, and at every NEED of RESULT and CODES; or NULL */
	void		(*heard) (struct GrnndBuilder *builder);
	void		(*wanted) (GrnSegment segment, uint64 bytes);
	GrnBuildResult result;
} GrnndBuilder;

/*
 * Starts grnnd_build, or takes the one parked, and tells it of the mapping, now and as
 * it grows.  Until grnnd_builder_end() every exit path must call that: it kills
 * and reaps.
 */
extern void grnnd_builder_start(GrnndBuilder *builder, GrnndMapping *map,
								const GrnBuildSpec *spec);
/* Handles what the builder has said so far; call this now and then. */
extern void grnnd_builder_poll(GrnndBuilder *builder);
/* Says that rows [0, rows) are complete, if there is room to say it. */
extern void grnnd_builder_rows(GrnndBuilder *builder, uint64 rows);
/* Says that rows [first, first + n) lie packed in VECTORS, in that form. */
extern void grnnd_builder_packed(GrnndBuilder *builder, uint64 first, uint64 n, GrnForm form);
/* Says an option of the connection to the host that is to build (GrnBuildSpec.remote). */
extern void grnnd_builder_option(GrnndBuilder *builder, const char *name, const char *value);
/* Says BUILD and waits for the result: begin, then await the end. */
extern void grnnd_builder_run(GrnndBuilder *builder, uint64 rows);
extern void grnnd_builder_begin(GrnndBuilder *builder, uint64 rows);
/* Waits until RESULT and CODES are written. */
extern void grnnd_builder_await_written(GrnndBuilder *builder);
extern void grnnd_builder_await_end(GrnndBuilder *builder);
/*
 * After the result: tells it of lists that lie in WORK (grn_group_places()), whose rows are to be
 * put into groups of so many rows at most.  Its answer comes to grnnd_builder_poll() or
 * grnnd_builder_await_end(): `waiting` is false then, and `grouped` says whether it has chosen
 * groups.  A builder that is gone or silent is no error here: they can be made without it.
 */
extern void grnnd_builder_group(GrnndBuilder *builder, uint64 lists, uint64 rows, uint64 room);
/*
 * After the result: parks the builder for a later build of this transaction, which then need
 * not start the device again.  The builder has let go of the mapping.
 */
extern void grnnd_builder_park(GrnndBuilder *builder);
/* Whether one is parked that these settings could use. */
extern bool grnnd_builder_parked(const GrnBuildSpec *spec);
/*
 * Kills, without waiting for the end, which may take a while where a device has
 * to be given back.  The builder executes nothing any more.
 */
extern void grnnd_builder_kill(GrnndBuilder *builder);
/* After DONE of a build on another host: what is left to say there it says by itself. */
extern void grnnd_builder_leave(GrnndBuilder *builder);
/* The error of a build that cannot go on, by the fields of a FAILED message. */
extern GRNND_NORETURN void grnnd_builder_failed(const char *sqlstate, const char *text, const char *hint);
/* Kills and reaps.  Never errors; may be called at any time. */
extern void grnnd_builder_end(GrnndBuilder *builder);

#endif							/* GRNND_LAUNCH_H */
