/*
 * build_bad.c - a builder that speaks the protocol and, instead of building, hands over a ring as
 * its graph, with one fault named by its first argument ("random17": any).  Without a fault
 * ("none") CREATE INDEX must accept it.  Linked with the builder's own forming of pages, which has
 * faults of its own.  Compiled by build_faults.pl.
 */
#include "builder/slots.h"
#include "space/form.h"
#include "store/codec.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static GrnBuildSpec spec;
static char *base[GRN_NSEGMENTS];
static uint64_t size[GRN_NSEGMENTS];
static const char *fault;
static int	memory_file = -1;
static GrnResultArrays at;		/* of the result */

static int
is(const char *name)
{
	return strcmp(fault, name) == 0;
}

static void
say(GrnMsg *msg)
{
	if (send(GRN_BUILDER_FD, msg, sizeof(*msg), MSG_NOSIGNAL) < 0)
		exit(3);
}

/* Receives one message and maps what it brings; exits at end of file. */
static uint32_t
hear(GrnMsg *msg)
{
	char		space[CMSG_SPACE(sizeof(int))];
	struct iovec iov = {msg, sizeof(*msg)};
	struct msghdr head = {0};
	struct cmsghdr *c;
	int			file = -1;

	head.msg_iov = &iov;
	head.msg_iovlen = 1;
	head.msg_control = space;
	head.msg_controllen = sizeof(space);
	if (recvmsg(GRN_BUILDER_FD, &head, 0) <= 0)
		exit(0);
	c = CMSG_FIRSTHDR(&head);
	if (c)
		memcpy(&file, CMSG_DATA(c), sizeof(file));
	if (msg->type == GRN_MSG_START)
	{
		spec = msg->u.spec;
		memset(size, 0, sizeof(size));
		for (int i = 0; i < GRN_NSEGMENTS; i++)
			base[i] = mmap(NULL, spec.segment_max[i], PROT_NONE,
						   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	}
	if (msg->type == GRN_MSG_EXTENT)
	{
		if (mmap(base[msg->arg[0]] + msg->arg[1], msg->arg[3], PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_FIXED, file, (off_t) msg->arg[2]) == MAP_FAILED)
			exit(4);
		size[msg->arg[0]] = msg->arg[1] + msg->arg[3];
		memory_file = file;
	}
	return msg->type;
}

static void
need(GrnSegment segment, uint64_t bytes)
{
	GrnMsg		msg = {.type = GRN_MSG_NEED};

	msg.arg[0] = segment;
	msg.arg[1] = bytes;
	say(&msg);
	while (hear(&msg) != GRN_MSG_GRANT)
		;
}

static void
failed(const char *sqlstate, const char *text, const char *hint)
{
	GrnMsg		msg = {.type = GRN_MSG_FAILED};

	snprintf(msg.sqlstate, sizeof(msg.sqlstate), "%s", sqlstate);
	snprintf(msg.u.say.text, sizeof(msg.u.say.text), "%s", text);
	snprintf(msg.u.say.hint, sizeof(msg.u.say.hint), "%s", hint);
	say(&msg);
	exit(1);
}

/* Of "random17": the numbers that follow from 17. */
static uint64_t
any(uint64_t below)
{
	static uint64_t counter;

	return grn_random(strtoull(fault + strlen("random"), NULL, 10), 0, counter++) % below;
}

/* A message that a builder may send, or not, with numbers that may be sound, or not. */
static void
say_anything(void)
{
	GrnMsg		msg = {0};

	msg.type = (uint32_t) (any(8) == 0 ? any(1000) : GRN_MSG_HELLO + any(11));
	/* that it has ended is not random: nothing could follow */
	if (msg.type == GRN_MSG_DONE || (msg.type == GRN_MSG_FAILED && any(4) > 0))
		msg.type = GRN_MSG_BEAT;
	for (int i = 0; i < 4; i++)
		msg.arg[i] = any(4) > 0 ? any(8) : any(2) == 0 ? any(1 << 20) : UINT64_MAX - any(9);
	for (size_t i = 0; i < sizeof(msg.u); i++)
		((char *) &msg.u)[i] = (char) any(256);
	memcpy(msg.sqlstate, &msg.u, sizeof(msg.sqlstate));
	if (any(20) == 0)
		send(GRN_BUILDER_FD, &msg, any(sizeof(msg)), MSG_NOSIGNAL);
	else
		say(&msg);
}

/* Numbers of the result, and of what it points to, become others. */
static void
spoil(GrnBuildResult *r)
{
	uint64_t	words = at.bytes / 4;

	for (uint64_t i = any(3); i > 0; i--)
	{
		uint32_t	word = (uint32_t) (any(3) > 0 ? any(2000) : UINT32_MAX - any(4));
		size_t		last = offsetof(GrnBuildResult, gpus) / 4;

		if (any(2) == 0)
			memcpy((char *) r + 4 * any(last), &word, 4);
		else
			memcpy(base[GRN_SEG_RESULT] + 4 * any(words), &word, 4);
	}
}

/* Is at work until the leader closes the socket. */
static void
wait_long(void)
{
	GrnMsg		msg = {.type = GRN_MSG_BEAT};

	for (;;)
	{
		say(&msg);
		usleep(100000);
	}
}

/* Faults that show before there is a result. */
static void
misbehave(void)
{
	GrnMsg		msg = {0};

	if (strncmp(fault, "random", 6) == 0 && any(2) == 0)
		for (uint64_t i = any(5); i > 0; i--)
			say_anything();
	if (is("exit"))
		exit(7);
	if (is("segv"))
	{
		signal(SIGSEGV, SIG_DFL);
		raise(SIGSEGV);
	}
	if (is("close"))
	{
		close(GRN_BUILDER_FD);
		sleep(60);
	}
	if (is("silent"))
		sleep(60);
	if (strncmp(fault, "phase", 5) == 0)	/* reaches a phase, and goes on in it */
	{
		msg.type = GRN_MSG_PHASE;
		msg.arg[0] = strtoull(fault + strlen("phase"), NULL, 10);
		msg.arg[2] = 1;
		say(&msg);
	}
	if (is("waits") || strncmp(fault, "phase", 5) == 0) /* as for a device that does not open */
		wait_long();
	if (is("pauses"))			/* works for two seconds */
	{
		msg.type = GRN_MSG_BEAT;
		for (int i = 0; i < 20; i++)
		{
			say(&msg);
			usleep(100000);
		}
	}
	if (is("short_message"))
		send(GRN_BUILDER_FD, &msg, 12, 0);
	if (is("unknown_type"))
	{
		msg.type = 999;
		say(&msg);
	}
	if (is("unknown_phase"))
	{
		msg.type = GRN_MSG_PHASE;
		msg.arg[0] = 77;
		say(&msg);
	}
	if (is("need_vectors"))
		need(GRN_SEG_VECTORS, size[GRN_SEG_VECTORS] + 1);
	if (is("need_unknown"))
		need((GrnSegment) 12345, 1);
	if (is("need_too_much"))
		need(GRN_SEG_WORK, UINT64_MAX / 2);
	if (is("failed"))
		failed("53200", "no memory for the test", "Buy some.");
	if (is("failed_success"))
		failed("00000", "success is no error", "");
	if (is("failed_nonsense"))
		failed("%s%n", "100%s of nonsense", "%d");
	if (is("truncate") && ftruncate(memory_file, 0) == 0)
		exit(9);
	if (is("park_device"))
	{
		msg.type = GRN_MSG_NOTICE;
		strcpy(msg.u.say.text, spec.device == GRN_DEVICE_CPU ? "cpu" : "gpu");
		say(&msg);
	}
	if (is("notice"))
	{
		msg.type = GRN_MSG_NOTICE;
		strcpy(msg.u.say.text, "a notice of 100%s");
		say(&msg);
	}
}

/* Of a row graph: the nearest of node i is i + 1. */
static void
build_near(uint64_t n, GrnBuildResult *r)
{
	uint64_t   *start = at.near_start;
	uint32_t   *count = at.near_count;
	GrnNear    *near = at.near;

	for (uint32_t i = 0; i < n; i++)
	{
		start[i] = i;
		count[i] = 1;
		near[i] = (GrnNear) {(uint32_t) ((i + 1) % n), 1};
	}
	if (is("near_id"))
		near[n - 1].id = (uint32_t) n;
	if (is("near_start"))
		start[5] = UINT64_MAX;
	if (is("near_count"))
		count[5] = spec.near.k + 1;
	if (is("near_end"))
		start[n - 1] = n;
	if (is("near_items"))
		r->near_items = UINT64_MAX / 2;
}

/* Numbers of a result that decide about its arrays. */
static void
choose_arrays(uint64_t n, GrnBuildResult *r)
{
	r->nodes = (uint32_t) n;
	r->degree = spec.params.degree;
	r->form = GRN_FORM_F32;
	r->near_items = spec.near.k > 0 ? n : 0;
	if (is("moved") || is("moved_row"))
		r->moved = 1;
	if (is("own_items") || is("own_error"))
	{
		r->moved = (uint32_t) n;
		r->own_items = 1;
	}
	if (is("centered"))
		r->centered = 1;
	if (is("center"))
	{
		r->form = GRN_FORM_ROTATED4;
		r->centered = 1;
	}
	if (is("codec") || is("step"))
	{
		r->shape.dims[0] = 32;
		r->steps[0] = is("step") ? NAN : 1;
	}
}

/* A ring: node i has i + 1, i + 2, ... as neighbors, and row i. */
static void
build(uint64_t n, GrnBuildResult *r)
{
	uint32_t	degree = spec.params.degree;
	uint32_t	count = n > degree ? degree : (uint32_t) n - 1;
	bool		near = spec.near.k > 0;
	uint32_t   *ids;
	uint8_t    *counts;
	uint32_t   *row_start;
	uint32_t   *rows;

	choose_arrays(n, r);
	r->nentries = 1;
	r->on_gpu = spec.device != GRN_DEVICE_CPU && (is("gpu") || strncmp(fault, "park", 4) == 0);
	r->norm_unit = 1;
	r->params = spec.params;
	at = grn_result_arrays(r, n, spec.dim, near, NULL);
	if (!is("no_result"))
		need(GRN_SEG_RESULT, at.bytes);
	at = grn_result_arrays(r, n, spec.dim, near, is("no_result") ? malloc(at.bytes) : base[GRN_SEG_RESULT]);
	ids = at.ids;
	counts = at.counts;
	row_start = at.row_start;
	rows = at.rows;
	for (uint32_t i = 0; i < n; i++)
	{
		for (uint32_t j = 0; !near && j < count; j++)
			ids[(uint64_t) i * degree + j] = (uint32_t) ((i + j + 1) % n);
		if (!near)
			counts[i] = (uint8_t) count;
		row_start[i] = rows[i] = i;
		if (r->moved)
			at.moved[i] = i + is("moved_row");
	}
	row_start[n] = (uint32_t) n;

	if (is("id"))
		ids[(n - 1) * degree] = (uint32_t) n;
	if (is("self"))
		ids[5 * degree + 1] = 5;
	if (is("count"))
		counts[3] = (uint8_t) (degree + 1);
	if (is("row_missing"))
		row_start[n] = (uint32_t) n - 1;
	if (is("row_twice"))
		rows[7] = rows[8];
	if (is("row_beyond"))
		rows[7] = (uint32_t) n;
	if (is("row_order"))
		row_start[4] = 900;
	if (is("entry"))
		r->entries[0] = (uint32_t) n;
	if (is("no_entry"))
		r->nentries = 0;
	if (is("entries"))
		r->nentries = GRN_MAX_ENTRIES + 1;
	if (is("no_nodes"))
		r->nodes = 0;
	if (is("nodes"))
		r->nodes = (uint32_t) n + 1;
	if (is("degree"))
		r->degree = degree / 2;
	if (is("format"))
		r->form = 9;
	if (is("code_dims"))
		r->shape.dims[0] = 33;
	if (is("moved") || is("moved_row"))
	{
		need(GRN_SEG_WORK, n * spec.row_bytes);
		r->off_vectors = is("moved") ? size[GRN_SEG_WORK] : 0;
	}
	if (is("own_items"))
	{
		/* shorter ones would be there */
		need(GRN_SEG_WORK, n * spec.dim * sizeof(float));
		r->off_vectors = size[GRN_SEG_WORK] - n * spec.dim * sizeof(float);
	}
	if (is("own_error"))
	{
		size_t		item = (spec.dim + 1) * sizeof(float);

		need(GRN_SEG_WORK, n * item);
		memset(base[GRN_SEG_WORK], 0, n * item);
		*(float *) (base[GRN_SEG_WORK] + n * item - sizeof(float)) = NAN;
	}
	if (is("center"))
	{
		memset(at.center, 0x7F, spec.dim * sizeof(float));
		at.center[0] = NAN;
	}
	if (is("norm"))
		r->norm_unit = NAN;
	if (at.codec != NULL)
		at.codec[spec.dim] = INFINITY;
	if (spec.near.k > 0)
		build_near(n, r);
	if (strncmp(fault, "random", 6) == 0)
		spoil(r);
}

/* ---- pages ---- */

static GrnBuildResult built;
static GrnForming forming;
static pthread_t server;
static int	serving;

extern void __real_grn_form_pages(const GrnForming *f, GrnFormRoom *room, uint64_t first, uint32_t n, char *pages);
extern void __wrap_grn_form_pages(const GrnForming *f, GrnFormRoom *room, uint64_t first, uint32_t n, char *pages);

void
__wrap_grn_form_pages(const GrnForming *f, GrnFormRoom *room, uint64_t first, uint32_t n, char *pages)
{
	GrnRecord  *rec = (GrnRecord *) (pages + f->form.payload_at);
	const GrnSlots *slots = (const GrnSlots *) base[GRN_SEG_PAGES];

	if (is("no_pages"))
		exit(8);
	/* nor in the slots of a worker, once the leader has all its pages */
	if (is("worker_pages") && pages >= base[GRN_SEG_PAGES] + grn_slot_at(slots->n / 2, f->form.page_bytes))
	{
		sleep(1);
		exit(8);
	}
	__real_grn_form_pages(f, room, first, n, pages);
	if (is("record_state"))
		rec->state = GRN_TIDS;
	if (is("record_count"))
		rec->count = (uint8_t) (f->layout.degree + 1);
	if (is("record_id"))
		grn_rec_ids(&f->layout, rec)[1] = (uint32_t) forming.rows;
	if (is("record_error"))
		rec->error = NAN;
}

static void
run_alone(GrnParallel *self, size_t n, size_t grain, GrnRangeFn fn, void *arg)
{
	fn(arg, 0, 0, n);
}

/* Of "worker_pages": enough threads for all slots of two processes. */
#define THREADS 16

typedef struct Range
{
	GrnRangeFn	fn;
	void	   *arg;
} Range;

static void *
range_main(void *range)
{
	((Range *) range)->fn(((Range *) range)->arg, 0, 0, 1);
	return NULL;
}

static void
run_threads(GrnParallel *self, size_t n, size_t grain, GrnRangeFn fn, void *arg)
{
	Range		range = {fn, arg};
	pthread_t	threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, range_main, &range);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

static void *
serve_main(void *slots)
{
	GrnFailure	failure;

	grn_slots_serve(slots, &forming, &failure);
	return NULL;
}

/* What the leader wants after DONE. */
static void
form(uint64_t rows, const GrnFormSpec *spec_of_records)
{
	static GrnParallel alone = {1, run_alone};
	static GrnParallel threads = {THREADS, run_threads};
	GrnMsg		msg = {.type = is("not_listed") ? GRN_MSG_DONE : GRN_MSG_LISTED};
	GrnFailure	failure;

	forming = (GrnForming) {.spec = &spec, .result = &built, .form = *spec_of_records, .rows = rows,
							.parallel = is("worker_pages") ? &threads : &alone};
	for (int i = 0; i < GRN_NSEGMENTS; i++)
	{
		forming.base[i] = base[i];
		forming.bytes[i] = size[i];
	}
	if (!grn_forming_begin(&forming, &failure))
		failed(failure.sqlstate, failure.text, failure.hint);
	if (is("need_work"))
		need(GRN_SEG_WORK, size[GRN_SEG_WORK] + 1);
	if (is("late_device"))		/* a build that was faster than the search for a GPU */
		say(&(GrnMsg) {.type = GRN_MSG_DEVICE});
	if (is("listed_much"))
		msg.arg[0] = UINT64_MAX;
	say(&msg);
	if (is("listed_twice"))
		say(&msg);
	serving = pthread_create(&server, NULL, serve_main, base[GRN_SEG_PAGES]) == 0;
}

/*
 * Has a child trace this process: once it is killed, its parent cannot reap it before the
 * child ends, as if a driver took long to free a device's memory.
 */
static void
be_traced(void)
{
	int			ready[2];
	char		ok = 0;

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); /* fails where there is no need to ask */
	if (pipe(ready) != 0)
		failed("0A000", "cannot be traced", "");
	if (fork() == 0)
	{
		close(GRN_BUILDER_FD);
		ok = ptrace(PTRACE_SEIZE, getppid(), NULL, NULL) == 0;
		if (write(ready[1], &ok, 1) == 1 && ok)
			sleep(60);
		_exit(0);
	}
	if (read(ready[0], &ok, 1) != 1 || !ok)
		failed("0A000", "cannot be traced", "");
}

/* What a builder does that may build again. */
static void
release(void)
{
	GrnMsg		msg = {.type = GRN_MSG_RELEASED};

	if (is("park_exit"))
		exit(7);
	if (is("park_silent"))
		sleep(60);
	if (serving)
	{
		grn_slots_stop((GrnSlots *) base[GRN_SEG_PAGES], 1);
		pthread_join(server, NULL);
	}
	serving = 0;
	for (int i = 0; i < GRN_NSEGMENTS; i++)
		munmap(base[i], spec.segment_max[i]);
	say(&msg);
}

int
main(int argc, char **argv)
{
	GrnMsg		msg;

	fault = argc > 1 ? argv[1] : "none";
	if (is("before_hello"))
		exit(5);
	if (is("park_traced"))
		be_traced();
	while (hear(&msg) != GRN_MSG_START)
		;
	for (;;)
	{
		uint64_t	rows;

		memset(&built, 0, sizeof(built));
		memset(&msg, 0, sizeof(msg));
		msg.type = GRN_MSG_HELLO;
		msg.arg[0] = is("version") ? GRN_PROTOCOL_VERSION + 1 : GRN_PROTOCOL_VERSION;
		if (!is("no_hello"))
			say(&msg);
		while (hear(&msg) != GRN_MSG_BUILD)
			;
		rows = msg.arg[0];
		misbehave();
		build(rows, &built);
		memset(&msg, 0, sizeof(msg));
		if (is("recall"))		/* is measured, and takes long */
		{
			msg.type = GRN_MSG_WRITTEN;
			say(&msg);
			wait_long();
		}
		msg.type = GRN_MSG_DONE;
		msg.u.result = built;
		say(&msg);
		while (hear(&msg) != GRN_MSG_START)
			if (msg.type == GRN_MSG_FORM)
				form(rows, &msg.u.form);
			else if (msg.type == GRN_MSG_RELEASE)
				release();
	}
}
