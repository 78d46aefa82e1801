/*
 * serve.c - the builder process of a leader: the socket, the segments, and the threads that keep
 * the leader informed while the main thread builds.
 *
 * The listening thread receives every message, so an end of file ends the process at once in any
 * phase of the build.  The listening thread also sends BEAT.  The listening thread must never wait
 * for the leader to read, because the leader may itself be waiting for room to send.  So no thread
 * sends while it holds the mutex, and a BEAT is skipped if the socket has no room.  A further
 * thread opens the device, because opening takes as long as much of the build.
 */
#include "builder/pipeline.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "builder/gpus.h"
#include "builder/prepare.h"
#include "builder/slots.h"
#include "builder/threads.h"
#include "space/metric.h"
#include "space/rows.h"

#define BEAT_EVERY_MS (GRN_BEAT_MS / 2)

typedef struct Segment
{
	char	   *base;			/* reserved address space */
	uint64_t	reserved;
	uint64_t	mapped;			/* bytes from the start that are mapped */
	uint64_t	requested;		/* bytes requested with NEED */
} Segment;

typedef struct Server
{
	int			fd;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	bool		started;		/* START has come */
	bool		build;			/* BUILD has come */
	GrnBuildSpec spec;
	uint64_t	rows;			/* complete rows */
	uint64_t	n;				/* arguments of BUILD: n, on_disk */
	uint64_t	on_disk;
	GrnBuild	job;
	GrnBuildResult result;		/* result of the last build, while its memory is mapped */
	bool		built;			/* `result` is valid */
	bool		form;			/* FORM has come, */
	GrnFormSpec to_form;		/* with this */
	bool		release;		/* RELEASE has come */
	const GrnElsewhere *elsewhere;	/* NULL: this process builds */
	char	   *connection;		/* connection string of the other host; NULL: empty so far */
	Segment		segments[GRN_NSEGMENTS];
	int			status;			/* exit status: 0 after DONE */
	bool		failed;			/* FAILED is sent: all further messages are discarded */
	pthread_t	listener;
	double		idle_since;		/* grn_seconds() at RELEASED; 0: not idle */
	/* The device: the settings of the first START, and the device opened. */
	GrnDeviceChoice choice;
	char		gpu_devices[64];
	int			threads;
	const GrnHost *host;
	GrnGpu	   *gpu;
	bool		opened;
} Server;

static void
send_message(Server *s, GrnMsg *msg)
{
	ssize_t		sent;

	do
		sent = send(s->fd, msg, sizeof(*msg), MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	if (sent != (ssize_t) sizeof(*msg))
		_exit(1);				/* the leader has gone */
}

/* Sends a BEAT, unless the socket has no room.  The leader then has enough messages to read. */
static void
send_beat(Server *s)
{
	GrnMsg		beat = {.type = GRN_MSG_BEAT};

	if (send(s->fd, &beat, sizeof(beat), MSG_NOSIGNAL | MSG_DONTWAIT) < 0 &&
		errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOBUFS && errno != EINTR)
		_exit(1);
}

static void
send_failure(Server *s, const GrnFailure *failure)
{
	GrnMsg		msg = {0};

	msg.type = GRN_MSG_FAILED;
	memcpy(msg.sqlstate, failure->sqlstate, sizeof(msg.sqlstate));
	snprintf(msg.u.say.text, sizeof(msg.u.say.text), "%s", failure->text);
	snprintf(msg.u.say.hint, sizeof(msg.u.say.hint), "%s", failure->hint);
	send_message(s, &msg);
}

static void receive(Server *s);

/*
 * Sends FAILED and waits until the leader closes the socket.  If this process closed a socket with
 * unread messages, the leader would see a broken connection before FAILED.
 */
static void
fail_build(Server *s, const GrnFailure *failure)
{
	if (__atomic_exchange_n(&s->failed, true, __ATOMIC_RELAXED))
		for (;;)
			pause();			/* another thread reports the failure */
	send_failure(s, failure);
	if (pthread_equal(pthread_self(), s->listener))
		for (;;)
			receive(s);
	pthread_join(s->listener, NULL);
	_exit(1);
}

static void
violation(Server *s, const char *what)
{
	GrnFailure	failure;

	grn_fail(&failure, "08P01", "Check that grnnd's library and grnnd_build have the same version.",
			 "the builder process received %s", what);
	fail_build(s, &failure);
}

/* ---- the listening thread ---- */

/* Maps an extent of a segment at its address. */
static void
take_extent(Server *s, const GrnMsg *msg, int file)
{
	Segment    *seg;
	uint64_t	at = msg->arg[1];
	uint64_t	bytes = msg->arg[3];
	GrnFailure	failure;

	if (msg->arg[0] >= GRN_NSEGMENTS || file < 0)
		violation(s, "a piece of an unknown segment");
	seg = &s->segments[msg->arg[0]];
	if (msg->arg[0] < GRN_SEG_TIDS)
	{
		if (at > seg->reserved || bytes > seg->reserved - at)
			violation(s, "more memory than it reserved address space for");
		if (mmap(seg->base + at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
				 file, (off_t) msg->arg[2]) == MAP_FAILED)
		{
			grn_fail(&failure, "53200", "", "the builder process could not map memory: %s",
					 strerror(errno));
			fail_build(s, &failure);
		}
		pthread_mutex_lock(&s->mutex);
		if (at <= seg->mapped && at + bytes > seg->mapped)
			seg->mapped = at + bytes;
		pthread_cond_broadcast(&s->changed);
		pthread_mutex_unlock(&s->mutex);
	}
	close(file);
}

/* Whether the builder can build by the settings of START. */
static bool
spec_makes_sense(const Server *s)
{
	const GrnBuildSpec *spec = &s->spec;
	const GrnMetricInfo *metric = grn_metric(spec->metric);
	const GrnFormInfo *form = grn_form(spec->form);

	return metric != NULL && spec->dim > 0 && spec->device <= GRN_DEVICE_CPU &&
		spec->threads > 0 && spec->threads <= 4096 && spec->remote <= GRN_REMOTE_ANY &&
		(spec->remote != GRN_REMOTE_NONE) == (s->elsewhere != NULL) &&
		spec->sig_bytes <= GRN_MAX_SIG_BYTES &&
		form != NULL && (form->numbers != GRN_NUMBERS_NONE || form->sparse) && spec->dim <= form->max_dim &&
		(!metric->normalized || form->normalize != NULL) &&
		spec->row_bytes >= grn_row_bytes((GrnForm) spec->form, metric->embedding, spec->dim) &&
		spec->row_bytes % GRN_ROW_ALIGN == 0 && spec->near.k <= GRN_MOST_NEAR &&
		(spec->near.k == 0 || (spec->near.ef >= spec->near.k && spec->near.ef <= GRN_MOST_NEAR_EF));
}

static void
drop_segments(Server *s)
{
	for (int i = 0; i < GRN_NSEGMENTS; i++)
		if (s->segments[i].base)
			munmap(s->segments[i].base, s->segments[i].reserved);
	memset(s->segments, 0, sizeof(s->segments));
}

static void
reserve_segments(Server *s, const GrnBuildSpec *spec)
{
	GrnFailure	failure;

	drop_segments(s);
	for (int i = 0; i < GRN_NSEGMENTS; i++)
	{
		uint64_t	bytes = spec->segment_max[i];
		void	   *base;

		if (i >= GRN_SEG_TIDS || bytes == 0)
			continue;
		base = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
					-1, 0);
		if (base == MAP_FAILED)
		{
			grn_fail(&failure, "53200", "", "the builder process could not reserve %llu bytes of address space: %s",
					 (unsigned long long) bytes, strerror(errno));
			fail_build(s, &failure);
		}
		s->segments[i].base = base;
		s->segments[i].reserved = bytes;
	}
}

static GrnSlots *
slots_of(const Server *s)
{
	return (GrnSlots *) s->segments[GRN_SEG_PAGES].base;
}

/* Whether the builder can form pages by a FORM: a slot lies in PAGES, and all values in VALUES. */
static bool
can_form(const Server *s, const GrnFormSpec *form)
{
	uint64_t	values = s->job.n * s->spec.sig_bytes * GRN_VALUE_BYTES;

	return grn_shape_sound(form->shape) && grn_form_for(form->form, (GrnForm) s->spec.form) != NULL &&
		(!form->coded || memcmp(&form->shape, &s->result.shape, sizeof(form->shape)) == 0) &&
		form->buckets <= (form->coded ? GRN_MOST_BUCKETS : 0) && form->least_records > 0 &&
		form->page_bytes <= 65536 && form->payload_at <= form->page_bytes &&
		s->spec.payload <= form->page_bytes - form->payload_at &&
		s->segments[GRN_SEG_VALUES].mapped >= values &&
		s->segments[GRN_SEG_PAGES].mapped >= sizeof(GrnSlots) && slots_of(s)->n <= GRN_MOST_SLOTS &&
		s->segments[GRN_SEG_PAGES].mapped >= grn_slot_at(slots_of(s)->n, form->page_bytes);
}

/* Appends a piece of the connection string.  Returns false if out of memory. */
static bool
add_connection(Server *s, const char *piece)
{
	size_t		length = s->connection ? strlen(s->connection) : 0;
	char	   *longer = realloc(s->connection, length + strlen(piece) + 1);

	if (!longer)
		return false;
	strcpy(longer + length, piece);
	s->connection = longer;
	return true;
}

/* Whether EXTENTs belong to a build, at work or built.  serve_build() changes both at once. */
static bool
has_segments(Server *s)
{
	bool		has;

	pthread_mutex_lock(&s->mutex);
	has = s->started || s->built;
	pthread_mutex_unlock(&s->mutex);
	return has;
}

static void
handle_message(Server *s, const GrnMsg *msg, int file)
{
	bool		fits = true;

	/*
	 * The leader may answer NEED after the build has ended: the build no longer needed the codes,
	 * or the EXTENTs were enough without GRANT.
	 */
	if (msg->type != GRN_MSG_START && msg->type != GRN_MSG_GRANT && msg->type != GRN_MSG_EXTENT &&
		(msg->type == GRN_MSG_RELEASE || msg->type == GRN_MSG_FORM) == s->started)
		violation(s, "a message before START");
	if (msg->type == GRN_MSG_FORM && (!s->built || s->form || !can_form(s, &msg->u.form)))
		violation(s, "a FORM that makes no sense");
	if (msg->type == GRN_MSG_START && (s->form || s->release))
		violation(s, "a message before RELEASED");
	if (msg->type == GRN_MSG_EXTENT)
	{
		if (has_segments(s))
			take_extent(s, msg, file);
		else if (file >= 0)
			close(file);
		return;
	}
	if (msg->type == GRN_MSG_START &&
		(msg->u.spec.version != GRN_PROTOCOL_VERSION || s->started))
		violation(s, "another version of the protocol");
	if (msg->type < GRN_MSG_START || msg->type > GRN_MSG_CONNECTION)
		violation(s, "an unknown message");
	/* The last build's memory is not used any more. */
	if (msg->type == GRN_MSG_START)
		reserve_segments(s, &msg->u.spec);
	pthread_mutex_lock(&s->mutex);
	switch (msg->type)
	{
		case GRN_MSG_START:
			s->status = 1;
			s->built = false;
			s->idle_since = 0;
			s->spec = msg->u.spec;
			s->spec.gpu_devices[sizeof(s->spec.gpu_devices) - 1] = '\0';
			s->started = true;
			break;
		case GRN_MSG_ROWS:
			s->rows = msg->arg[0];
			break;
		case GRN_MSG_CONNECTION:
			fits = add_connection(s, msg->u.say.text);
			break;
		case GRN_MSG_BUILD:
			s->n = msg->arg[0];
			s->on_disk = msg->arg[1];
			s->build = true;
			break;
		case GRN_MSG_GRANT:
			/* The EXTENTs before are mapped already, and need() waits for their bytes. */
			break;
		case GRN_MSG_FORM:
			s->to_form = msg->u.form;
			__atomic_store_n(&s->form, true, __ATOMIC_RELAXED);
			break;
		case GRN_MSG_RELEASE:
			s->built = false;
			s->release = true;
			if (s->form)
				grn_slots_stop(slots_of(s), s->spec.threads);
			break;
	}
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->mutex);
	if (!fits)
		violation(s, "a longer connection string than it has memory for");
}

/* Receives and handles a message.  Exits the process at end of file. */
static void
receive(Server *s)
{
	GrnMsg		msg;
	union
	{
		struct cmsghdr align;
		char		space[CMSG_SPACE(sizeof(int))];
	}			control;
	struct iovec iov = {&msg, sizeof(msg)};
	struct msghdr head = {0};
	struct cmsghdr *c;
	int			file = -1;
	ssize_t		got;

	head.msg_iov = &iov;
	head.msg_iovlen = 1;
	head.msg_control = &control;
	head.msg_controllen = sizeof(control);
	got = recvmsg(s->fd, &head, MSG_CMSG_CLOEXEC);
	if (got < 0 && errno == EINTR)
		return;
	if (got <= 0)
		_exit(__atomic_load_n(&s->status, __ATOMIC_RELAXED));	/* after DONE with status 0,
																 * otherwise 1 */
	for (c = CMSG_FIRSTHDR(&head); c; c = CMSG_NXTHDR(&head, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
			memcpy(&file, CMSG_DATA(c), sizeof(file));
	if (__atomic_load_n(&s->failed, __ATOMIC_RELAXED))
	{
		if (file >= 0)
			close(file);
		return;
	}
	if (got != (ssize_t) sizeof(msg))
		violation(s, "a message of another size");
	handle_message(s, &msg, file);
	/* take_extent() has closed the file of an EXTENT. */
	if (file >= 0 && msg.type != GRN_MSG_EXTENT)
		close(file);
}

static void *
listen_main(void *arg)
{
	Server	   *s = arg;
	double		last = grn_seconds();

	s->listener = pthread_self();
	for (;;)
	{
		struct pollfd p = {s->fd, POLLIN, 0};
		double		idle_since;

		if (poll(&p, 1, BEAT_EVERY_MS) > 0)
			receive(s);
		if (grn_seconds() - last >= BEAT_EVERY_MS / 1000.0)
		{
			if (__atomic_load_n(&s->started, __ATOMIC_RELAXED) || __atomic_load_n(&s->form, __ATOMIC_RELAXED))
				send_beat(s);
			last = grn_seconds();
		}
		__atomic_load(&s->idle_since, &idle_since, __ATOMIC_RELAXED);
		if (idle_since > 0 && last - idle_since > GRN_IDLE_SECONDS)
			_exit(0);
	}
	return NULL;
}

/* ---- GrnHost ---- */

/* Checks the arguments of BUILD and copies them to s->job. */
static void
take_build(Server *s)
{
	if (s->segments[GRN_SEG_VECTORS].mapped / s->spec.row_bytes < s->n ||
		s->segments[GRN_SEG_ORDER].mapped / 4 < s->n)
		violation(s, "fewer rows than BUILD says");
	s->job.n = s->n;
	s->job.on_disk = s->on_disk;
	s->job.order = (const uint32_t *) s->segments[GRN_SEG_ORDER].base;
	for (uint64_t i = 0; i < s->job.n; i++)
		if (s->job.order[i] >= s->job.n)
			violation(s, "an order that names rows that do not exist");
}

/*
 * Sends NEED for memory that was not requested before, even if the segment is long enough, because
 * the leader takes the length of a result from NEED.
 */
static void
request_memory(Server *s, GrnSegment segment, uint64_t bytes)
{
	Segment    *seg = &s->segments[segment];
	GrnMsg		msg = {0};
	bool		known;

	pthread_mutex_lock(&s->mutex);
	known = bytes > seg->reserved || bytes <= seg->requested;
	if (!known)
		seg->requested = bytes;
	pthread_mutex_unlock(&s->mutex);
	if (known)
		return;
	msg.type = GRN_MSG_NEED;
	msg.arg[0] = segment;
	msg.arg[1] = bytes;
	send_message(s, &msg);
}

static void *
host_need(void *ctx, GrnSegment segment, uint64_t bytes, GrnFailure *failure)
{
	Server	   *s = ctx;
	Segment    *seg = &s->segments[segment];

	if (bytes > seg->reserved)
	{
		grn_fail(failure, "54000", "", "the build needs %llu bytes, but %llu were reserved",
				 (unsigned long long) bytes, (unsigned long long) seg->reserved);
		return NULL;
	}
	request_memory(s, segment, bytes);
	pthread_mutex_lock(&s->mutex);
	while (seg->mapped < bytes)
		pthread_cond_wait(&s->changed, &s->mutex);
	pthread_mutex_unlock(&s->mutex);
	return seg->base;
}

static void
host_expect(void *ctx, GrnSegment segment, uint64_t bytes)
{
	request_memory(ctx, segment, bytes);
}

static bool
host_device(void *ctx, bool wait, GrnGpu **gpu)
{
	Server	   *s = ctx;
	bool		known;

	pthread_mutex_lock(&s->mutex);
	while (wait && !s->opened)
		pthread_cond_wait(&s->changed, &s->mutex);
	known = s->opened;
	*gpu = s->gpu;
	pthread_mutex_unlock(&s->mutex);
	return known;
}

static void
host_phase(void *ctx, GrnStep phase, uint64_t done, uint64_t total)
{
	GrnMsg		msg = {0};

	msg.type = GRN_MSG_PHASE;
	msg.arg[0] = phase;
	msg.arg[1] = done;
	msg.arg[2] = total;
	send_message(ctx, &msg);
}

static void
host_notice(void *ctx, const char *text, const char *hint)
{
	GrnMsg		msg = {0};

	msg.type = GRN_MSG_NOTICE;
	snprintf(msg.u.say.text, sizeof(msg.u.say.text), "%s", text);
	snprintf(msg.u.say.hint, sizeof(msg.u.say.hint), "%s", hint);
	send_message(ctx, &msg);
}

static void
host_written(void *ctx)
{
	GrnMsg		msg = {.type = GRN_MSG_WRITTEN};

	send_message(ctx, &msg);
}

/* Returns the number of complete rows, all of which must be mapped.  The caller holds the mutex. */
static uint64_t
complete_rows(Server *s)
{
	uint64_t	rows = s->build ? s->n : s->rows;

	if (s->segments[GRN_SEG_VECTORS].mapped / s->spec.row_bytes < rows)
	{
		pthread_mutex_unlock(&s->mutex);
		violation(s, "fewer rows than it was told of");
	}
	return rows;
}

static uint64_t
host_rows(void *ctx, uint64_t have, int ms, bool *all)
{
	Server	   *s = ctx;
	struct timespec end;
	uint64_t	rows;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += ms / 1000;
	pthread_mutex_lock(&s->mutex);
	while (!s->build && s->rows <= have &&
		   pthread_cond_timedwait(&s->changed, &s->mutex, &end) != ETIMEDOUT)
		;
	rows = complete_rows(s);
	*all = s->build;
	pthread_mutex_unlock(&s->mutex);
	if (*all)
		take_build(s);
	return rows;
}

/* ---- the device's thread ---- */

static void *
open_main(void *arg)
{
	Server	   *s = arg;
	GrnGpu	   *gpu;
	GrnMsg		msg = {0};
	GrnFailure	failure;

	if (!grn_device_open(&s->choice, s->threads, s->host, &gpu, msg.u.say.text,
						 sizeof(msg.u.say.text), &failure))
		fail_build(s, &failure);
	msg.type = GRN_MSG_DEVICE;
	msg.arg[0] = gpu != NULL;
	send_message(s, &msg);
	pthread_mutex_lock(&s->mutex);
	s->gpu = gpu;
	s->opened = true;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->mutex);
	return NULL;
}

static void
open_device(Server *s)
{
	pthread_t	thread;

	s->choice.device = s->spec.device;
	memcpy(s->gpu_devices, s->spec.gpu_devices, sizeof(s->gpu_devices));
	s->choice.gpu_devices = s->gpu_devices;
	s->choice.options.memory_limit = s->spec.gpu_memory_limit;
	s->threads = (int) s->spec.threads;
	if (s->choice.device != GRN_DEVICE_CPU && pthread_create(&thread, NULL, open_main, s) == 0)
		pthread_detach(thread);
	else
		open_main(s);
}

/* ---- */

/* Serves FORM until RELEASE. */
static void
serve_pages(Server *s, GrnPool *pool)
{
	GrnForming	f = {.spec = &s->spec, .result = &s->result, .form = s->to_form, .rows = s->job.n, .host = s->host,
		.parallel = grn_pool_parallel(pool)};
	GrnMsg		msg = {.type = GRN_MSG_LISTED};
	GrnFailure	failure;

	for (int i = 0; i < GRN_NSEGMENTS; i++)
	{
		f.base[i] = s->segments[i].base;
		f.bytes[i] = s->segments[i].mapped;
	}
	if (!grn_forming_begin(&f, &failure))
		fail_build(s, &failure);
	msg.arg[0] = f.sizes.records;
	msg.arg[1] = f.sizes.groups;
	msg.arg[2] = f.sizes.guides;
	send_message(s, &msg);
	if (!grn_slots_serve(slots_of(s), &f, &failure))
		fail_build(s, &failure);
}

/* Drops the mappings, which no thread uses any more. */
static void
release(Server *s)
{
	GrnMsg		msg = {.type = GRN_MSG_RELEASED};
	double		now = grn_seconds();

	pthread_mutex_lock(&s->mutex);
	drop_segments(s);
	s->release = false;
	__atomic_store(&s->idle_since, &now, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&s->mutex);
	send_message(s, &msg);
}

/* Waits for START, and meanwhile serves the leader of the last build. */
static void
await_start(Server *s, GrnPool *pool)
{
	pthread_mutex_lock(&s->mutex);
	while (!s->started)
	{
		bool		form = s->form;
		bool		end = s->release && !form;

		if (!form && !end)
		{
			pthread_cond_wait(&s->changed, &s->mutex);
			continue;
		}
		pthread_mutex_unlock(&s->mutex);
		if (form)
			serve_pages(s, pool);
		else
			release(s);
		pthread_mutex_lock(&s->mutex);
		if (form)
			__atomic_store_n(&s->form, false, __ATOMIC_RELAXED);
	}
	pthread_mutex_unlock(&s->mutex);
}

/* Waits for BUILD, or for the first rows. */
static void
await_rows(Server *s, bool all)
{
	pthread_mutex_lock(&s->mutex);
	while (!s->build && (all || s->rows == 0))
		pthread_cond_wait(&s->changed, &s->mutex);
	pthread_mutex_unlock(&s->mutex);
}

/* Has another host build.  If the other host cannot, the leader decides how the build goes on. */
static void
build_elsewhere(Server *s, GrnBuildResult *result)
{
	GrnFailure	failure;

	/* An empty table needs no other host. */
	await_rows(s, false);
	if (!s->elsewhere->build(&s->job, s->connection ? s->connection : "", result, &failure))
		fail_build(s, &failure);
}

/* Makes the result read-only here, because the leader checks it only once, after DONE. */
static void
keep_result(Server *s)
{
	for (int i = 0; i < GRN_NSEGMENTS; i++)
		if (s->segments[i].mapped > 0)
			(void) mprotect(s->segments[i].base, s->segments[i].mapped, PROT_READ);
}

/* The thread that waits for the end of a build on another host. */
static void *
end_main(void *server)
{
	((Server *) server)->elsewhere->end();
	return NULL;
}

/* Serves a build from START to DONE. */
static void
serve_build(Server *s, GrnPool **pool)
{
	GrnMsg		msg = {0};
	pthread_t	ending;
	GrnFailure	failure;

	await_start(s, *pool);
	if (!spec_makes_sense(s))
		violation(s, "a START that makes no sense");
	msg.type = GRN_MSG_HELLO;
	msg.arg[0] = GRN_PROTOCOL_VERSION;
	send_message(s, &msg);
	if (!*pool)
	{
		if (!s->elsewhere)
			open_device(s);
		*pool = grn_pool_start((int) s->spec.threads);
	}
	else if (s->spec.device != s->choice.device || (int) s->spec.threads != s->threads ||
			 strcmp(s->spec.gpu_devices, s->gpu_devices) != 0)
		violation(s, "a START for another device or number of threads");
	if (!*pool)
	{
		grn_fail(&failure, "53200", "", "the builder process is out of memory");
		fail_build(s, &failure);
	}
	s->job = (GrnBuild) {.spec = &s->spec, .host = s->host, .threads = grn_pool_parallel(*pool),
						 .vectors = s->segments[GRN_SEG_VECTORS].base};
	memset(&msg, 0, sizeof(msg));
	if (s->elsewhere)
		build_elsewhere(s, &msg.u.result);
	else
	{
		await_rows(s, true);
		take_build(s);
		if (!grn_build(&s->job, &msg.u.result, &failure))
			fail_build(s, &failure);
	}
	pthread_mutex_lock(&s->mutex);
	__atomic_store_n(&s->started, false, __ATOMIC_RELAXED);
	if (!s->elsewhere)
		keep_result(s);
	s->build = false;
	s->rows = 0;
	s->result = msg.u.result;
	s->built = true;
	__atomic_store_n(&s->status, 0, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&s->mutex);
	msg.type = GRN_MSG_DONE;
	send_message(s, &msg);
	/* The other host frees memory meanwhile; the leader wants pages before that ends. */
	if (s->elsewhere && pthread_create(&ending, NULL, end_main, s) != 0)
		s->elsewhere->end();
}

int
grn_serve(int fd, const GrnElsewhere *elsewhere)
{
	static Server s;
	GrnHost		host = {&s, host_need, host_expect, host_device, host_phase, host_notice, host_rows,
		host_written};
	GrnPool    *pool = NULL;
	GrnFailure	failure;

	s.fd = fd;
	s.status = 1;
	s.host = &host;
	s.elsewhere = elsewhere;
	pthread_mutex_init(&s.mutex, NULL);
	pthread_cond_init(&s.changed, NULL);
	if (pthread_create(&s.listener, NULL, listen_main, &s) != 0)
	{
		grn_fail(&failure, "53000", "", "the builder process could not start a thread");
		s.listener = pthread_self();
		fail_build(&s, &failure);
	}
	/* The loop ends when the leader closes the socket: the listening thread exits the process. */
	for (;;)
		serve_build(&s, &pool);
}
