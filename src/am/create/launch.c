/*
 * launch.c - starts the builder process, exchanges messages with the builder, and ends the builder.
 *
 * A builder that crashes, hangs or sends invalid messages causes an ERROR of a single statement.
 * Every wait for the builder has a limit.  While the builder should be at work, the limit is
 * grnnd.build_timeout.
 */
#include "postgres.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "access/xact.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "utils/wait_event.h"

#include "am/create/create.h"
#include "am/create/launch.h"
#include "am/grnnd.h"

/* largest time from SIGKILL to the end of a builder, whose driver frees GPU memory */
#define REAP_LIMIT_MS 10000

/* largest time from the end of a builder's socket to its exit */
#define EXIT_LIMIT_MS 1000

/* Bytes allocated between two checks of the builder's messages. */
#define ALLOCATE_PIECE (UINT64CONST(256) << 20)

/*
 * A builder that waits between two builds of a transaction, for example on a table of many
 * partitions.  The builder holds a device's context, so the builder never outlives the transaction.
 */
static GrnndBuilder parked = {.sock = -1};

/*
 * A parked builder that the end of its transaction has killed.  The driver may take seconds to free
 * GPU memory.  The start of the next builder waits for this builder; the end of the transaction
 * does not wait.
 */
static GrnndBuilder leaving = {.sock = -1};

/* ---- silence ---- */

static void
begin_silence(GrnndSilence *s)
{
	INSTR_TIME_SET_CURRENT(s->checked);
	s->ms = 0;
}

/*
 * Adds the time since the last check to the silence.  Returns whether the silence has reached
 * grnnd.build_timeout.  A single check adds at most two beats and at most half of the timeout: if
 * the whole machine was paused, the builder could send nothing meanwhile, and still gets the rest
 * of the timeout.
 */
static bool
silence_lasts(GrnndSilence *s)
{
	double		most = Min(2 * GRN_BEAT_MS, grnnd_build_timeout / 2);
	double		ms = grnnd_seconds_since(s->checked) * 1000;

	INSTR_TIME_SET_CURRENT(s->checked);
	s->ms += Min(ms, most);
	return s->ms >= grnnd_build_timeout;
}

/* ---- end ---- */

/* Waits at most limit_ms for the builder's exit.  Returns true with the exit status in *status. */
static bool
reap(GrnndBuilder *b, int limit_ms, int *status)
{
	long		slept_us = 0;
	long		pause_us = 100;

	*status = -1;
	for (;;)
	{
		pid_t		got = waitpid(b->pid, status, WNOHANG);

		if (got == b->pid || (got < 0 && errno == ECHILD))
		{
			b->pid = 0;
			return true;
		}
		if (slept_us >= (long) limit_ms * 1000)
			return false;
		pg_usleep(pause_us);
		slept_us += pause_us;
		if (pause_us < 5000)
			pause_us *= 2;
	}
}

void
grnnd_builder_kill(GrnndBuilder *b)
{
	if (b->map)
		grnnd_mapping_listen(b->map, NULL, NULL);
	if (b->sock >= 0)
		close(b->sock);
	b->sock = -1;
	if (b->pid != 0)
		kill(b->pid, SIGKILL);
	b->killed = true;
}

void
grnnd_builder_end(GrnndBuilder *b)
{
	pid_t		pid = b->pid;
	int			status;

	grnnd_builder_kill(b);
	if (pid != 0 && !reap(b, REAP_LIMIT_MS, &status))
		ereport(LOG,
				(errmsg("index builder process %d does not exit after SIGKILL",
						(int) pid)));
	b->pid = 0;
}

/* Waits for the builder that an earlier transaction has killed. */
static void
reap_leaving(void)
{
	int			status;

	for (int waited = 0; leaving.pid != 0 && !reap(&leaving, GRN_BEAT_MS, &status);
		 waited += GRN_BEAT_MS)
	{
		CHECK_FOR_INTERRUPTS();
		if (waited >= REAP_LIMIT_MS)
		{
			ereport(LOG,
					(errmsg("index builder process %d does not exit after SIGKILL",
							(int) leaving.pid)));
			leaving.pid = 0;
		}
	}
}

/* Raises an ERROR for a builder that has ended or closed its socket, with all known details. */
static GRNND_NORETURN void
builder_lost(GrnndBuilder *b)
{
	pid_t		pid = b->pid;
	int			status;
	bool		exited;

	/* The session that canceled this statement may have signalled the builder too. */
	CHECK_FOR_INTERRUPTS();
	exited = reap(b, EXIT_LIMIT_MS, &status);
	CHECK_FOR_INTERRUPTS();

	if (exited && status != -1 && WIFSIGNALED(status))
		ereport(ERROR,
				(errcode(ERRCODE_SYSTEM_ERROR),
				 errmsg("the index builder process ended unexpectedly"),
				 errdetail("Process %d was terminated by signal %d: %s.", (int) pid,
						   WTERMSIG(status), strsignal(WTERMSIG(status))),
				 WTERMSIG(status) == SIGKILL ?
				 errhint("If the kernel's log shows that memory ran out, lower maintenance_work_mem or grnnd.build_threads.") :
				 errhint("The server log may hold the program's output. The table is unchanged.")));
	ereport(ERROR,
			(errcode(ERRCODE_SYSTEM_ERROR),
			 errmsg("the index builder process ended unexpectedly"),
			 exited && status != -1 && WIFEXITED(status) ?
			 errdetail("Process %d exited with status %d.", (int) pid, WEXITSTATUS(status)) :
			 errdetail("Process %d closed its connection.", (int) pid),
			 errhint("The server log may hold the program's output. The table is unchanged.")));
}

static GRNND_NORETURN void
invalid_message(GrnndBuilder *b, const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_INTERNAL_ERROR),
			 errmsg("the index builder process sent an invalid message: %s", what),
			 errhint("Check that builder and extension have the same version.")));
}

/* ---- sending ---- */

/*
 * Sends a message, with a descriptor if fd >= 0.  If the socket is full, the function waits for
 * room, or returns false if `optional`.  If the builder has ended, the function only sets
 * b->broken, because messages of the builder may still be unread.
 */
static bool
send_message(GrnndBuilder *b, const GrnMsg *msg, int fd, bool optional)
{
	struct iovec iov = {.iov_base = (void *) msg, .iov_len = sizeof(*msg)};
	union
	{
		char		space[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	}			control;
	struct msghdr hdr = {.msg_iov = &iov, .msg_iovlen = 1};
	GrnndSilence silence;

	begin_silence(&silence);
	if (fd >= 0)
	{
		struct cmsghdr *c;

		memset(&control, 0, sizeof(control));
		hdr.msg_control = control.space;
		hdr.msg_controllen = sizeof(control.space);
		c = CMSG_FIRSTHDR(&hdr);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(int));
	}

	while (!b->broken)
	{
		int			events;

		if (sendmsg(b->sock, &hdr, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
			return true;
		if (errno == EINTR)
			continue;
		if (errno == EPIPE || errno == ECONNRESET)
		{
			b->broken = true;
			break;
		}
		if (errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOBUFS)
			ereport(ERROR,
					(errcode(ERRCODE_SYSTEM_ERROR),
					 errmsg("could not communicate with the index builder process: %m")));
		if (optional)
			return false;
		events = WaitLatchOrSocket(MyLatch,
								   WL_LATCH_SET | WL_SOCKET_WRITEABLE |
								   WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
								   b->sock, GRN_BEAT_MS, PG_WAIT_EXTENSION);
		if (events & WL_LATCH_SET)
			ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (silence_lasts(&silence) && !(events & WL_SOCKET_WRITEABLE))
			ereport(ERROR,
					(errcode(ERRCODE_SYSTEM_ERROR),
					 errmsg("the index builder process does not respond"),
					 errdetail("The process has not read a message for %d ms.", grnnd_build_timeout)));
	}
	return false;
}

/* Sends a message of two numbers, and waits for room. */
static void
send_numbers(GrnndBuilder *b, GrnMsgType type, uint64 arg0, uint64 arg1)
{
	GrnMsg		msg = {.type = type, .arg = {arg0, arg1}};

	send_message(b, &msg, -1, false);
}

/* A GrnndAnnounceFn: sends EXTENT to the builder. */
static void
announce_extent(void *arg, const GrnndExtent *extent, int fd)
{
	GrnMsg		msg = {.type = GRN_MSG_EXTENT};

	if (extent->segment >= GRN_SEG_TIDS)
		return;					/* only the leader uses these segments */
	msg.arg[0] = extent->segment;
	msg.arg[1] = extent->offset;
	msg.arg[2] = extent->file_offset;
	msg.arg[3] = extent->bytes;
	send_message(arg, &msg, fd, false);
}

void
grnnd_builder_rows(GrnndBuilder *b, uint64 rows)
{
	GrnMsg		msg = {.type = GRN_MSG_ROWS};

	if (b->pid == 0 || rows <= b->rows_announced)
		return;
	msg.arg[0] = rows;
	if (send_message(b, &msg, -1, true))
		b->rows_announced = rows;
}

/* ---- receiving ---- */

/*
 * Makes text of the builder valid in the server's encoding.  The text may come from another host,
 * in any encoding, and may be cut at any byte.  If the text is invalid, each byte outside ASCII
 * becomes '?'.  Invalid text would make the NOTICE itself an error.
 */
static void
make_valid_text(char *text, Size size)
{
	text[size - 1] = '\0';
	if (!pg_verifymbstr(text, (int) strlen(text), true))
		for (; *text; text++)
			if (IS_HIGHBIT_SET(*text))
				*text = '?';
}

void
grnnd_builder_failed(const char *sqlstate, const char *text, const char *hint)
{
	int			code = ERRCODE_INTERNAL_ERROR;

	if (strnlen(sqlstate, GRN_SQLSTATE) == 5 &&
		strspn(sqlstate, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 5 &&
		strncmp(sqlstate, "00", 2) != 0)
		code = MAKE_SQLSTATE(sqlstate[0], sqlstate[1], sqlstate[2], sqlstate[3], sqlstate[4]);
	CHECK_FOR_INTERRUPTS();
	ereport(ERROR,
			(errcode(code),
			 errmsg("%s", text[0] ? text : "the index build failed"),
			 hint[0] ? errhint("%s", hint) : 0));
}

/* Grows a segment to the size that the builder needs. */
static void
grant(GrnndBuilder *b, uint64 segment, uint64 bytes)
{
	if (b->forming ? segment != GRN_SEG_LISTS : segment != GRN_SEG_RESULT && segment != GRN_SEG_WORK)
		invalid_message(b, "memory wanted for an unknown purpose");
	if (segment == GRN_SEG_RESULT)
		b->result_needed = Max(b->result_needed, bytes);
	grnnd_mapping_grow(b->map, (GrnSegment) segment, bytes);
	send_numbers(b, GRN_MSG_GRANT, segment, b->map->size[segment]);
}

/*
 * Allocates a piece of RESULT, which the leader will read, so that messages are handled between
 * pieces.  The workspace is allocated by the threads that touch it.  Returns false if all is
 * allocated.
 */
static bool
allocate_piece(GrnndBuilder *b)
{
	uint64		from = b->result_allocated;

	if (from >= b->result_needed)
		return false;
	b->result_allocated = Min(b->result_needed, from + ALLOCATE_PIECE);
	grnnd_mapping_populate(b->map, GRN_SEG_RESULT, from, b->result_allocated);
	return true;
}

/*
 * The other host cannot build.  Starts a builder of this host in place of the client, with the same
 * mapping and rows.
 */
static void
build_here(GrnndBuilder *b, const char *why, const char *hint)
{
	GrnBuildSpec spec = b->spec;
	uint64		rows = b->rows_announced;
	uint64		begun = b->rows_begun;

	ereport(NOTICE,
			(errmsg("building on this host: %s", why),
			 hint[0] ? errhint("%s", hint) : 0));
	grnnd_builder_end(b);
	spec.remote = GRN_REMOTE_NONE;
	grnnd_builder_start(b, b->map, &spec);
	if (begun > 0)
		grnnd_builder_begin(b, begun);
	else
		grnnd_builder_rows(b, rows);
}

static void
handle_message(GrnndBuilder *b, GrnMsg *msg)
{
	/* DEVICE comes late if the search for a GPU takes longer than a build that needs none */
	bool		any_time = msg->type == GRN_MSG_FAILED || msg->type == GRN_MSG_NOTICE ||
		msg->type == GRN_MSG_BEAT || msg->type == GRN_MSG_DEVICE;

	if (!b->hello && !any_time && msg->type != GRN_MSG_HELLO)
		invalid_message(b, "no greeting");
	if (b->forming && !any_time && msg->type != GRN_MSG_LISTED && msg->type != GRN_MSG_NEED)
		invalid_message(b, "out of turn");

	switch ((GrnMsgType) msg->type)
	{
		case GRN_MSG_HELLO:
			if (msg->arg[0] != GRN_PROTOCOL_VERSION)
				ereport(ERROR,
						(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						 errmsg("the index builder uses version %llu of the protocol, but the extension uses version %d",
								(unsigned long long) msg->arg[0], GRN_PROTOCOL_VERSION),
						 errhint("Install both from the same build, and check grnnd.builder_path.")));
			b->hello = true;
			return;
		case GRN_MSG_DEVICE:
			b->no_gpu = msg->arg[0] == 0;
			make_valid_text(msg->u.say.text, sizeof(msg->u.say.text));
			ereport(DEBUG1,
					(errmsg_internal("index builder process %d works on %s",
									 (int) b->pid, msg->u.say.text)));
			return;
		case GRN_MSG_BEAT:
			if (b->on_beat)
				b->on_beat(b);
			return;
		case GRN_MSG_PHASE:
			if (msg->arg[0] > GRN_STEP_WRITE)
				invalid_message(b, "unknown phase");
			memcpy(b->phase, msg->arg, sizeof(b->phase));
			grnnd_report_phase((GrnStep) msg->arg[0], msg->arg[1], msg->arg[2]);
			return;
		case GRN_MSG_NEED:
			grant(b, msg->arg[0], msg->arg[1]);
			return;
		case GRN_MSG_NOTICE:
		case GRN_MSG_FAILED:
			make_valid_text(msg->u.say.text, sizeof(msg->u.say.text));
			make_valid_text(msg->u.say.hint, sizeof(msg->u.say.hint));
			if (msg->type == GRN_MSG_NOTICE)
				ereport(NOTICE,
						(errmsg("%s", msg->u.say.text),
						 msg->u.say.hint[0] ? errhint("%s", msg->u.say.hint) : 0));
			else if (!b->forming && b->spec.remote != GRN_REMOTE_NONE && b->spec.device != GRN_DEVICE_GPU)
				build_here(b, msg->u.say.text, msg->u.say.hint);
			else
				grnnd_builder_failed(msg->sqlstate, msg->u.say.text, msg->u.say.hint);
			return;
		case GRN_MSG_WRITTEN:
			b->written = true;
			return;
		case GRN_MSG_DONE:
			b->result = msg->u.result;
			b->done = true;
			b->waiting = false;
			return;
		case GRN_MSG_LISTED:
			if (!b->forming || b->listed)
				invalid_message(b, "out of turn");
			b->sizes = (GrnListSizes) {.records = msg->arg[0], .groups = msg->arg[1], .guides = msg->arg[2]};
			b->listed = true;
			return;
		case GRN_MSG_RELEASED:
			b->waiting = false;
			return;
		case GRN_MSG_START:
		case GRN_MSG_EXTENT:
		case GRN_MSG_ROWS:
		case GRN_MSG_BUILD:
		case GRN_MSG_GRANT:
		case GRN_MSG_FORM:
		case GRN_MSG_RELEASE:
		case GRN_MSG_CONNECTION:
			break;
	}
	invalid_message(b, "unknown type");
}

/* Handles all messages that have arrived.  Errors: the builder ended, is silent, or failed. */
void
grnnd_builder_poll(GrnndBuilder *b)
{
	if (b->pid == 0 || !b->waiting || b->killed)
		return;
	for (;;)
	{
		GrnMsg		msg;
		ssize_t		got = recv(b->sock, &msg, sizeof(msg), MSG_DONTWAIT | MSG_TRUNC);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			break;
		if (got <= 0)
		{
			builder_lost(b);
			return;
		}
		if (got != sizeof(msg))
			invalid_message(b, "wrong size");
		begin_silence(&b->silence);
		handle_message(b, &msg);
		if (!b->waiting)
			return;
	}
	if (b->broken)
		builder_lost(b);
	else if (!silence_lasts(&b->silence))
		return;
	else
		ereport(ERROR,
				(errcode(ERRCODE_SYSTEM_ERROR),
				 errmsg("the index builder process does not respond"),
				 errdetail("Process %d has sent nothing for %d ms.", (int) b->pid,
						   grnnd_build_timeout),
				 errhint("grnnd.build_timeout sets how long to wait.")));
}

/* Handles messages until the awaited DONE or RELEASED, or until *flag is set. */
static void
wait_for_builder(GrnndBuilder *b, const bool *flag)
{
	for (;;)
	{
		int			events;

		grnnd_builder_poll(b);
		if (!b->waiting || (flag && *flag))
			break;
		CHECK_FOR_INTERRUPTS();
		if (allocate_piece(b))
			continue;
		events = WaitLatchOrSocket(MyLatch,
								   WL_LATCH_SET | WL_SOCKET_READABLE |
								   WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
								   b->sock, GRN_BEAT_MS, PG_WAIT_EXTENSION);
		if (events & WL_LATCH_SET)
			ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	/* The builder may have been faster.  All pages that the leader will read must be allocated. */
	while (allocate_piece(b))
		CHECK_FOR_INTERRUPTS();
}

/* ---- between builds ---- */

/* An XactCallback: kills the parked builder at the end of the transaction. */
static void
end_parked(XactEvent event, void *arg)
{
	int			status;

	if (event == XACT_EVENT_PRE_COMMIT || event == XACT_EVENT_PARALLEL_PRE_COMMIT ||
		event == XACT_EVENT_PRE_PREPARE)
		return;
	if (leaving.pid != 0)
		(void) reap(&leaving, 0, &status);
	if (parked.pid != 0)
	{
		/* `leaving` is free: the parked builder was started only after the one before had ended. */
		grnnd_builder_kill(&parked);
		leaving.pid = parked.pid;
		parked.pid = 0;
	}
}

void
grnnd_builder_form(GrnndBuilder *b, const GrnFormSpec *form)
{
	GrnMsg		msg = {.type = GRN_MSG_FORM, .u.form = *form};

	b->waiting = b->forming = true;
	begin_silence(&b->silence);
	send_message(b, &msg, -1, false);
	wait_for_builder(b, &b->listed);
}

void
grnnd_builder_release(GrnndBuilder *b)
{
	grnnd_mapping_listen(b->map, NULL, NULL);
	b->waiting = true;
	b->forming = false;
	begin_silence(&b->silence);
	send_numbers(b, GRN_MSG_RELEASE, 0, 0);
	wait_for_builder(b, NULL);
}

void
grnnd_builder_park(GrnndBuilder *b)
{
	static bool registered = false;

	if (!registered)
		RegisterXactCallback(end_parked, NULL);
	registered = true;
	grnnd_builder_release(b);
	grnnd_builder_end(&parked);
	parked = *b;
	parked.map = NULL;
	b->pid = 0;
	b->sock = -1;
}

bool
grnnd_builder_parked(const GrnBuildSpec *spec)
{
	char		byte;

	return parked.pid != 0 && spec->remote == GRN_REMOTE_NONE && parked.spec.device == spec->device &&
		parked.spec.threads == spec->threads &&
		strcmp(parked.spec.gpu_devices, spec->gpu_devices) == 0 &&
		strcmp(parked.path, grnnd_builder_path ? grnnd_builder_path : "") == 0 &&
	/* An end of file or a late DEVICE would be readable.  In both cases another builder starts. */
		recv(parked.sock, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
		(errno == EAGAIN || errno == EWOULDBLOCK);
}

/* ---- a build ---- */

/* Starts a builder process, without any message. */
static void
start_process(GrnndBuilder *b)
{
	char	   *path = grnnd_builder_program(b->spec.remote != GRN_REMOTE_NONE);
	int			pair[2];
	int			rc;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		ereport(ERROR,
				(errcode(ERRCODE_SYSTEM_ERROR),
				 errmsg("could not create a socket for the index builder: %m")));
	b->sock = pair[0];
	rc = grnnd_spawn_builder(path, pair[1], &b->pid);
	close(pair[1]);
	if (rc != 0)
	{
		b->pid = 0;
		errno = rc;
		ereport(ERROR,
				(errcode(rc == EACCES ? ERRCODE_INSUFFICIENT_PRIVILEGE : ERRCODE_SYSTEM_ERROR),
				 errmsg("could not start the index builder \"%s\": %m", path),
				 errhint("Check grnnd.builder_path.")));
	}
	strlcpy(b->path, grnnd_builder_path ? grnnd_builder_path : "", sizeof(b->path));
}

void
grnnd_builder_start(GrnndBuilder *b, GrnndMapping *map, const GrnBuildSpec *spec)
{
	GrnMsg		msg = {.type = GRN_MSG_START};

	memset(b, 0, sizeof(*b));
	b->sock = -1;
	b->spec = *spec;
	if (grnnd_builder_parked(spec))
	{
		b->pid = parked.pid;
		b->sock = parked.sock;
		memcpy(b->path, parked.path, sizeof(b->path));
		parked.pid = 0;
		parked.sock = -1;
	}
	else
	{
		grnnd_builder_end(&parked);
		reap_leaving();
		start_process(b);
	}
	b->map = map;
	b->waiting = true;
	begin_silence(&b->silence);
	msg.u.spec = *spec;
	send_message(b, &msg, -1, false);
	grnnd_mapping_listen(map, announce_extent, b);
}

void
grnnd_builder_connect(GrnndBuilder *b, char *connection)
{
	GrnMsg		msg = {.type = GRN_MSG_CONNECTION};

	for (const char *at = connection; *at; at += strlen(msg.u.say.text))
	{
		strlcpy(msg.u.say.text, at, sizeof(msg.u.say.text));
		send_message(b, &msg, -1, false);
	}
	/* The connection string may hold a password. */
	explicit_bzero(&msg, sizeof(msg));
	explicit_bzero(connection, strlen(connection));
}

void
grnnd_builder_begin(GrnndBuilder *b, uint64 rows)
{
	b->rows_begun = rows;
	send_numbers(b, GRN_MSG_BUILD, rows, b->map->file_size[GRNND_FILE_DISK]);
}

void
grnnd_builder_await_written(GrnndBuilder *b)
{
	wait_for_builder(b, &b->written);
}

void
grnnd_builder_await_end(GrnndBuilder *b)
{
	wait_for_builder(b, NULL);
}
