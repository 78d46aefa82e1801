/*
 * leader.h - a stand-in for the leader of a build: starts a builder, feeds it rows through the
 * protocol, grants memory in odd pieces, and checks what comes back.
 */
#ifndef LEADER_H
#define LEADER_H

#ifndef _GNU_SOURCE
#error "define _GNU_SOURCE before the first include"
#endif

#include "build_server/wire.h"
#include "builder/protocol.h"
#include "graph/descent.h"
#include "graph/graph.h"
#include "space/metric.h"
#include "store/codec.h"
#include "store/record.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#define ADDRESS_SPACE (UINT64_C(1) << 34)
#define PAYLOAD 8160
#define LIMIT_MS 300000			/* for a build under sanitizers on a busy machine */

extern char **environ;
static const char *program;

typedef struct Leader
{
	pid_t		pid;
	int			fd;
	char	   *base[GRN_NSEGMENTS];
	uint64_t	mapped[GRN_NSEGMENTS];
	GrnBuildSpec spec;
	uint32_t	n;				/* rows sent */
	/* what the builder said */
	int			beats;
	int			notices;
	int			phases;
	GrnStep		phase;			/* the last, */
	uint64_t	done;			/* and how far it was */
	int			states[GRN_STEP_WRITE + 1]; /* of each phase that were said */
	int			hellos;
	int			devices;
	int			on_gpu;
	int			written;		/* WRITTEN, */
	int			phases_before;	/* PHASEs before it, */
	uint64_t	result_then;	/* and the checksum of RESULT then */
	char		notice[512];
	GrnMsg		last;			/* DONE, LISTED or FAILED; type 0: end of file */
	int			status;			/* of the process */
	bool		by_digests;		/* lists are in the order of digests' distances, or in none */
	bool		rounded;		/* graph and codes are of rows rounded to bytes */
	uint64_t	on_disk;		/* bytes of rows that memory does not hold, as the builder is told */
	uint64_t	withhold_ms;	/* before the first GRANT */
	bool		withhold_codes; /* no memory in RESULT for codes, */
	uint64_t	codes_needed;	/* of which so many bytes were asked for */
	bool		no_memory;		/* behind what is granted for the workspace */
} Leader;

/* Sets program; false, with a test that is not ok, where there is none. */
static inline bool
find_builder(const char *test)
{
	program = getenv("GRNND_BUILD");
	if (!program)
		program = access("./grnnd_build", X_OK) == 0 ? "./grnnd_build" : "../../grnnd_build";
	if (access(program, X_OK) == 0)
		return true;
	printf("# %s is not there: build it, or set GRNND_BUILD\nnot ok %s\n", program, test);
	return false;
}

static inline uint64_t
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t) t.tv_sec * 1000 + (uint64_t) t.tv_nsec / 1000000;
}

static inline void
reserve_segments(Leader *l)
{
	for (int i = 0; i < GRN_NSEGMENTS; i++)
	{
		l->base[i] = mmap(NULL, ADDRESS_SPACE, PROT_NONE,
						  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		l->mapped[i] = 0;
	}
}

static inline void
drop_segments(Leader *l)
{
	for (int i = 0; i < GRN_NSEGMENTS; i++)
		munmap(l->base[i], ADDRESS_SPACE);
}

/* send_buffer: the builder's, bytes; 0: the default. */
static inline void
start_builder_with(Leader *l, int send_buffer)
{
	int			pair[2];
	posix_spawn_file_actions_t files;
	char	   *argv[] = {"grnnd_build", "--serve", NULL};
	int			rc;

	memset(l, 0, sizeof(*l));
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
		abort();
	if (send_buffer > 0 &&
		setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof(send_buffer)) != 0)
		abort();
	/* dup2 onto itself would keep close-on-exec */
	if (pair[1] == GRN_BUILDER_FD)
		pair[1] = fcntl(pair[1], F_DUPFD_CLOEXEC, 10);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, pair[1], GRN_BUILDER_FD);
	rc = posix_spawn(&l->pid, program, &files, NULL, argv, environ);
	if (rc != 0)
	{
		printf("# cannot start %s: %s\n", program, strerror(rc));
		exit(2);
	}
	posix_spawn_file_actions_destroy(&files);
	close(pair[1]);
	l->fd = pair[0];
	l->spec.version = GRN_PROTOCOL_VERSION;
	l->spec.metric = GRN_L2;
	l->spec.form = GRN_FORM_F32;
	l->spec.payload = PAYLOAD;
	l->spec.use_codes = 1;
	l->spec.keep = GRN_KEEP_EXACT;
	l->spec.device = GRN_DEVICE_CPU;
	l->spec.threads = 3;
	l->spec.params.degree = 16;
	for (int i = 0; i < GRN_NSEGMENTS; i++)
		l->spec.segment_max[i] = ADDRESS_SPACE;
	reserve_segments(l);
}

static inline void
start_builder(Leader *l)
{
	start_builder_with(l, 0);
}

static inline void
say_with(Leader *l, GrnMsg *msg, int file)
{
	union
	{
		struct cmsghdr align;
		char		space[CMSG_SPACE(sizeof(int))];
	}			control = {0};
	struct iovec iov = {msg, sizeof(*msg)};
	struct msghdr head = {.msg_iov = &iov, .msg_iovlen = 1};

	if (file >= 0)
	{
		struct cmsghdr *c;

		head.msg_control = &control;
		head.msg_controllen = sizeof(control);
		c = CMSG_FIRSTHDR(&head);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &file, sizeof(file));
	}
	(void) !sendmsg(l->fd, &head, MSG_NOSIGNAL);
}

static inline void
say(Leader *l, uint32_t type, uint64_t arg0, uint64_t arg1)
{
	GrnMsg		msg = {.type = type, .arg = {arg0, arg1}};

	if (type == GRN_MSG_START)
	{
		msg.u.spec = l->spec;
		l->written = 0;
	}
	say_with(l, &msg, -1);
}

/*
 * Grows a segment to at least bytes, in pieces of 64 kB, then 128 kB and so on, each
 * at some place in a file of its own.
 */
static inline void
grow(Leader *l, GrnSegment segment, uint64_t bytes)
{
	while (l->mapped[segment] < bytes)
	{
		uint64_t	piece = l->mapped[segment] ? l->mapped[segment] : 65536;
		uint64_t	skip = 8192;
		int			file = memfd_create("test", MFD_CLOEXEC);
		GrnMsg		msg = {.type = GRN_MSG_EXTENT,
			.arg = {segment, l->mapped[segment], skip, piece}};

		if (file < 0 ||
			ftruncate(file, (off_t) (skip + (l->no_memory && segment == GRN_SEG_WORK ? 0 : piece))) != 0 ||
			mmap(l->base[segment] + l->mapped[segment], piece, PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_FIXED, file, (off_t) skip) == MAP_FAILED)
			abort();
		say_with(l, &msg, file);
		close(file);
		l->mapped[segment] += piece;
	}
}

/* How many bytes of grow()'s files a process maps, of all or of those that it may write. */
static inline uint64_t
bytes_mapped(pid_t pid, bool writable)
{
	char		path[64];
	char		line[512];
	uint64_t	bytes = 0;
	FILE	   *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int) pid);
	maps = fopen(path, "r");
	CHECK(maps, "%s", path);
	while (maps && fgets(line, sizeof(line), maps))
	{
		unsigned long from;
		unsigned long to;
		char		rights[8];

		if (strstr(line, "memfd:test") && sscanf(line, "%lx-%lx %7s", &from, &to, rights) == 3 &&
			(!writable || rights[1] == 'w'))
			bytes += to - from;
	}
	if (maps)
		fclose(maps);
	return bytes;
}

/* Takes messages until DONE, LISTED, FAILED or end of file, at most limit_ms. */
static inline bool
converse(Leader *l, uint64_t limit_ms)
{
	uint64_t	end = now_ms() + limit_ms;

	for (;;)
	{
		struct pollfd p = {l->fd, POLLIN, 0};
		GrnMsg		msg;
		ssize_t		got;

		if (now_ms() >= end)
			return false;
		if (poll(&p, 1, (int) (end - now_ms())) <= 0)
			return false;
		got = recv(l->fd, &msg, sizeof(msg), 0);
		if (got <= 0)
			return true;
		CHECK(got == sizeof(msg), "%zd", got);
		switch ((GrnMsgType) msg.type)
		{
			case GRN_MSG_HELLO:
				CHECK(msg.arg[0] == GRN_PROTOCOL_VERSION, "hello");
				l->hellos++;
				break;
			case GRN_MSG_DEVICE:
				CHECK(msg.u.say.text[0], "device");
				l->devices++;
				l->on_gpu = (int) msg.arg[0];
				break;
			case GRN_MSG_BEAT:
				l->beats++;
				break;
			case GRN_MSG_PHASE:
				CHECK(msg.arg[0] >= GRN_STEP_PREPARE && msg.arg[0] <= GRN_STEP_CODES &&
					  msg.arg[1] <= msg.arg[2], "phase %d: %d of %d", (int) msg.arg[0],
					  (int) msg.arg[1], (int) msg.arg[2]);
				CHECK(msg.arg[0] != l->phase || msg.arg[1] >= l->done || msg.arg[1] == 0, "back from %d to %d",
					  (int) l->done, (int) msg.arg[1]);
				l->states[msg.arg[0]] += msg.arg[0] != l->phase || msg.arg[1] != l->done;
				l->phase = (GrnStep) msg.arg[0];
				l->done = msg.arg[1];
				l->phases++;
				break;
			case GRN_MSG_NOTICE:
				l->notices++;
				strcpy(l->notice, msg.u.say.text);
				break;
			case GRN_MSG_NEED:
				CHECK(msg.arg[0] == GRN_SEG_WORK || msg.arg[0] == GRN_SEG_RESULT || msg.arg[0] == GRN_SEG_LISTS, "%d", (int) msg.arg[0]);
				while (l->withhold_ms > 0)
				{
					usleep(10000);
					l->withhold_ms -= l->withhold_ms < 10 ? l->withhold_ms : 10;
				}
				if (l->withhold_codes && msg.arg[0] == GRN_SEG_RESULT && l->mapped[GRN_SEG_RESULT] > 0)
				{
					l->codes_needed = msg.arg[1];
					break;
				}
				grow(l, (GrnSegment) msg.arg[0], msg.arg[1]);
				say(l, GRN_MSG_GRANT, msg.arg[0], l->mapped[msg.arg[0]]);
				break;
			case GRN_MSG_WRITTEN:
				l->written++;
				l->phases_before = l->phases;
				l->result_then = grn_checksum(l->base[GRN_SEG_RESULT], l->mapped[GRN_SEG_RESULT]);
				break;
			case GRN_MSG_DONE:
			case GRN_MSG_LISTED:
			case GRN_MSG_FAILED:
				l->last = msg;
				return true;
			case GRN_MSG_RELEASED:
				CHECK(bytes_mapped(l->pid, false) == 0, "released and still mapped");
				return true;
			case GRN_MSG_START:
			case GRN_MSG_EXTENT:
			case GRN_MSG_ROWS:
			case GRN_MSG_BUILD:
			case GRN_MSG_GRANT:
			case GRN_MSG_FORM:
			case GRN_MSG_RELEASE:
			case GRN_MSG_CONNECTION:
				CHECK(false, "message %u", msg.type);
		}
	}
}

/* Closes the socket; the process must end within a second. */
static inline void
end_builder(Leader *l)
{
	uint64_t	start = now_ms();
	pid_t		got = 0;

	close(l->fd);
	while (got == 0 && now_ms() - start < 1000)
	{
		got = waitpid(l->pid, &l->status, WNOHANG);
		usleep(1000);
	}
	CHECK(got == l->pid, "the builder did not end");
	if (got == 0)
	{
		kill(l->pid, SIGKILL);
		waitpid(l->pid, &l->status, 0);
	}
	drop_segments(l);
}

/* ---- rows ---- */

typedef void (*FillFn) (float *x, uint32_t rank, uint32_t dim);

static inline void
fill_normal(float *x, uint32_t rank, uint32_t dim)
{
	for (uint32_t j = 0; j < dim; j++)
		x[j] = (float) (grn_random(1, rank, 2 * j) >> 40) / 16777216.0f +
			(float) (grn_random(1, rank, 2 * j + 1) >> 40) / 16777216.0f + 1e-5f;
}

static inline void
fill_bytes(float *x, uint32_t rank, uint32_t dim)
{
	for (uint32_t j = 0; j < dim; j++)
		x[j] = (float) (grn_random(1, rank, j) >> 56);
}

static inline void
fill_halves(float *x, uint32_t rank, uint32_t dim)
{
	for (uint32_t j = 0; j < dim; j++)
		x[j] = (float) (grn_random(1, rank, j) >> 56) / 4;
}

static inline void
fill_same(float *x, uint32_t rank, uint32_t dim)
{
	for (uint32_t j = 0; j < dim; j++)
		x[j] = 3;
}

/* Every third row is the row before. */
static inline void
fill_repeated(float *x, uint32_t rank, uint32_t dim)
{
	fill_normal(x, rank - (rank % 3 == 2), dim);
}

/* Every twentieth is. */
static inline void
fill_seldom_repeated(float *x, uint32_t rank, uint32_t dim)
{
	fill_normal(x, rank - (rank % 20 == 19), dim);
}

/* A thousand different rows. */
static inline void
fill_few(float *x, uint32_t rank, uint32_t dim)
{
	fill_normal(x, rank % 1000, dim);
}

static inline void
fill_clusters(float *x, uint32_t rank, uint32_t dim)
{
	fill_normal(x, rank, dim);
	for (uint32_t j = 0; j < dim; j++)
		x[j] = x[j] * 0.001f + (float) (grn_random(2, rank % 10, j) >> 54);
}

static inline void
fill_signs(float *x, uint32_t rank, uint32_t dim)
{
	fill_normal(x, rank, dim);
	for (uint32_t j = 0; j < dim; j++)
		x[j] = x[j] > 0;
}

/*
 * Sends n rows: rank i is row (i * step) mod n, so that ranks and rows differ.  step
 * shares no factor with n.  START has been said.
 */
static inline void
send_content(Leader *l, uint32_t n, uint32_t dim, FillFn fill, uint32_t step)
{
	GrnForm		form = (GrnForm) l->spec.form;
	uint32_t   *order;
	float		x[GRN_MOST_DIMS];

	l->n = n;
	grow(l, GRN_SEG_VECTORS, (uint64_t) n * l->spec.row_bytes);
	grow(l, GRN_SEG_ORDER, (uint64_t) n * 4);
	order = (uint32_t *) l->base[GRN_SEG_ORDER];
	for (uint32_t i = 0; i < n; i++)
	{
		order[i] = (uint32_t) ((uint64_t) i * step % n);
		fill(x, i, dim);
		grn_form_store(form, x, dim, l->base[GRN_SEG_VECTORS] + (uint64_t) order[i] * l->spec.row_bytes);
		if (i % 1000 == 0)
			say(l, GRN_MSG_ROWS, 0, 0);
	}
	say(l, GRN_MSG_ROWS, n, 0);
	say_with(l, &(GrnMsg) {.type = GRN_MSG_BUILD, .arg = {n, l->on_disk}}, -1);
}

/* Says START, and sends them. */
static inline void
send_rows(Leader *l, uint32_t n, uint32_t dim, FillFn fill, uint32_t step)
{
	const GrnMetricInfo *metric = grn_metric(l->spec.metric);

	l->spec.dim = dim;
	l->spec.row_bytes = (uint32_t) grn_row_bytes((GrnForm) l->spec.form, metric->embedding, dim);
	say(l, GRN_MSG_START, 0, 0);
	send_content(l, n, dim, fill, step);
}

/* ---- results ---- */

/* The arrays of an index's result. */
static inline GrnResultArrays
built_by(const Leader *l)
{
	return grn_result_arrays(&l->last.u.result, l->n, l->spec.dim, false, l->base[GRN_SEG_RESULT]);
}

static inline const void *
row_of(const Leader *l, uint32_t row)
{
	return l->base[GRN_SEG_VECTORS] + (uint64_t) row * l->spec.row_bytes;
}

static inline GrnRows
rows_of(const Leader *l)
{
	GrnRows		rows = {.base = row_of(l, 0), .row_bytes = l->spec.row_bytes, .dim = l->spec.dim,
		.embedding = grn_metric(l->spec.metric)->embedding, .form = (GrnForm) l->spec.form};

	return rows;
}

/* Whether a node's list is in order of distance, but for rounding. */
static inline bool
nearest_first(const Leader *l, const GrnResultArrays *at, uint32_t node)
{
	const uint32_t *row_start = at->row_start;
	const uint32_t *rows = at->rows;
	const uint32_t *ids = at->ids + (uint64_t) node * l->last.u.result.degree;
	GrnRows		all = rows_of(l);
	const void *x = row_of(l, rows[row_start[node]]);
	float		before = 0;

	for (uint32_t i = 0; i < at->counts[node]; i++)
	{
		float		d = grn_row_distance(&all, x, row_of(l, rows[row_start[ids[i]]]));

		if (i > 0 && before > d * 1.0001f + 1e-5f * (all.embedding == GRN_EMBED_SCALED))
			return false;
		before = d;
	}
	return true;
}

/* The curve of recall is measured, and possible. */
static inline void
check_curve(const GrnBuildSpec *spec, const GrnBuildResult *r)
{
	/* entry points are no queries */
	CHECK(r->curve.queries > 0 || r->nodes < 200 || r->nodes < spec->fit_rows, "no recall of %u nodes", r->nodes);
	/* so many at least after a GPU's build, and of rows that have moved (pipeline_recall.c) */
	CHECK(r->curve.queries == 0 || r->curve.queries >= 128 || !(r->on_gpu || r->moved) || r->nodes < 1000,
		  "%u queries of %u nodes", r->curve.queries, r->nodes);
	for (int i = 0; i < GRN_CURVE_POINTS && r->curve.queries > 0; i++)
	{
		for (int k = 0; k < GRN_CURVE_KS; k++)
			CHECK(r->curve.recall[k][i] >= (i > 0 ? r->curve.recall[k][i - 1] - 0.1 : 0) &&
				  r->curve.recall[k][i] <= 1, "recall %g at point %d", r->curve.recall[k][i], i);
		/* without codes a search may visit a node twice */
		CHECK(r->curve.visits[i] > 0 && r->curve.visits[i] <= 2 * r->nodes, "%g visits", r->curve.visits[i]);
	}
}

static inline void
check_result(const Leader *l, uint32_t n)
{
	const GrnBuildResult *r = &l->last.u.result;
	GrnResultArrays at = built_by(l);
	const uint32_t *row_start = at.row_start;
	const uint32_t *rows = at.rows;
	const uint32_t *order = (const uint32_t *) l->base[GRN_SEG_ORDER];
	uint32_t	dim = l->spec.dim;
	uint32_t   *rank = malloc(n * 4);
	uint8_t    *taken = calloc(n, 1);
	GrnGraph	g = {at.ids, at.counts, r->nodes, r->degree};
	void	   *work = malloc(grn_reach_bytes(r->nodes));
	uint32_t	bad;
	const char *what;

	CHECK(l->last.type == GRN_MSG_DONE, "message %u: %s", l->last.type, l->last.u.say.text);
	if (l->last.type != GRN_MSG_DONE)
		return;
	CHECK(l->hellos == 1 && l->phases > 0, "%d %d", l->hellos, l->phases);
	/* results are there, for good, before recall is measured */
	CHECK(l->written == 1 && l->result_then == grn_checksum(l->base[GRN_SEG_RESULT], l->mapped[GRN_SEG_RESULT]),
		  "WRITTEN %d times, or too early", l->written);
	CHECK(r->curve.queries == 0 || n < 1000 || l->phases > l->phases_before, "WRITTEN after recall");
	CHECK(r->nodes >= 1 && r->nodes <= n && r->degree == l->spec.params.degree, "%u", r->nodes);
	what = grn_graph_check(&g, &(GrnParallel) {1, unit_run}, &bad);
	CHECK(!what, "node %u has %s", bad, what);
	CHECK(r->nentries >= 1 && r->nentries <= GRN_MAX_ENTRIES && r->nentries <= r->nodes, "%u",
		  r->nentries);
	for (uint32_t i = 0; i < r->nentries; i++)
	{
		CHECK(r->entries[i] < r->nodes, "entry %u", r->entries[i]);
		for (uint32_t j = 0; j < i; j++)
			CHECK(r->entries[i] != r->entries[j], "entry %u twice", r->entries[i]);
	}
	CHECK(grn_reachable(&g, r->entries[0], work) == r->nodes, "of %u", r->nodes);

	for (uint32_t i = 0; i < n; i++)
		rank[order[i]] = i;
	CHECK(row_start[0] == 0 && row_start[r->nodes] == n, "%u", row_start[r->nodes]);
	for (uint32_t v = 0; v < r->nodes; v++)
	{
		CHECK(row_start[v] < row_start[v + 1], "node %u has no row", v);
		for (uint32_t i = row_start[v]; i < row_start[v + 1]; i++)
		{
			CHECK(rows[i] < n && !taken[rows[i]], "row %u", rows[i]);
			taken[rows[i]] = 1;
			CHECK(memcmp(row_of(l, rows[i]), row_of(l, rows[row_start[v]]),
						 grn_form_bytes((GrnForm) l->spec.form, dim)) == 0,
				  "node %u holds different rows", v);
			if (i > row_start[v])
				CHECK(rank[rows[i - 1]] < rank[rows[i]], "node %u: rows not by TID", v);
		}
		CHECK(l->by_digests || nearest_first(l, &at, v),
			  "node %u: neighbors not by distance", v);
	}
	/* different nodes hold different rows: as many nodes as distinct rows */
	{
		GrnRows		all = {.base = row_of(l, 0), .order = order, .n = n,
			.row_bytes = l->spec.row_bytes, .dim = dim, .embedding = GRN_EMBED_ROW,
			.form = (GrnForm) l->spec.form};
		GrnParallel one = {1, unit_run};
		uint32_t   *first = malloc(n * 4);
		uint64_t   *hashes = malloc(n * sizeof(uint64_t));
		void	   *table = malloc(8 * (uint64_t) n);

		for (uint32_t i = 0; i < n; i++)
			hashes[i] = grn_hash_row(row_of(l, i), grn_form_bytes(all.form, dim));
		CHECK(grn_find_duplicates(&all, hashes, NULL, &one, first, table) == r->nodes, "%u nodes", r->nodes);
		free(hashes);
		free(first);
		free(table);
	}
	free(rank);
	free(taken);
	free(work);
}

/* Each node's code is what the codec says of its vector. */
static inline void
check_codes(const Leader *l)
{
	const GrnBuildResult *r = &l->last.u.result;
	GrnResultArrays at = built_by(l);
	GrnCodec	codec = grn_result_codec(r, (GrnMetric) l->spec.metric, l->spec.dim, at.codec);
	size_t		bytes = grn_code_bytes(r->shape);
	uint8_t		code[GRN_MAX_CODE_BYTES];
	float		scratch[GRN_MAX_CODE_DIMS];
	GrnFactor	factor;
	uint32_t	dim = l->spec.dim;
	float		x[GRN_MOST_DIMS];
	GrnLayout	rounding = grn_own_layout(GRN_FORM_ROUNDED, dim);
	char	   *item = calloc(1, grn_own_item_bytes(rounding.form, dim));

	CHECK(bytes > 0 && grn_shape_sound(r->shape), "%zu", bytes);
	CHECK(r->held > 0 && r->held <= 1.0001f, "%g", r->held);
	for (uint32_t v = 0; v < r->nodes; v++)
	{
		grn_form_load((GrnForm) l->spec.form, row_of(l, at.rows[at.row_start[v]]), dim, x);
		if (l->rounded)
		{
			grn_own_item_make(&rounding, x, item);
			grn_form_load(rounding.form, item, dim, x);
		}
		grn_encode(&codec, x, code, &factor, scratch);
		CHECK(memcmp(code, at.codes + v * bytes, bytes) == 0, "node %u", v);
		CHECK(memcmp(&factor, &at.factors[v], sizeof(factor)) == 0,
			  "node %u", v);
	}
	free(item);
}

static inline void
build(Leader *l, uint32_t n, uint32_t dim, FillFn fill)
{
	send_rows(l, n, dim, fill, n > 7 ? 7 : 1);
	CHECK(converse(l, LIMIT_MS), "no answer");
	check_result(l, n);
	check_curve(&l->spec, &l->last.u.result);
}

#endif							/* LEADER_H */
