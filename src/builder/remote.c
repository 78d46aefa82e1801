/*
 * remote.c - a build that another host's PostgreSQL makes, from the builder's side: connects,
 * sends rows and their order, has them built, and reads the results back.
 *
 * Questions are sent ahead of answers (libpq's pipeline), so that the wire does not wait for the
 * other side's processor.  Nothing waits longer than spec.patience without a byte from there.
 * Rows go while the leader still collects them.  All threads make frames of them, and look at
 * those that come back; the main thread alone talks to libpq.
 */
#include "builder/remote.h"

#include <errno.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "builder/libpq.h"
#include "graph/checksum.h"
#include "graph/packed_rows.h"

#define AHEAD 16				/* questions without an answer yet, at most */
#define TOGETHER 8				/* answers that threads look at side by side */
#define SIGN_OF_LIFE_MS 10000	/* without new rows: well within the timeout of SETTINGS */
#define BYTEA_OID 17
#define CONNECT_SECONDS "10"	/* where the mapping has no connect_timeout */
#define SCHEMA_BYTES 256		/* of a quoted name of at most 63 bytes */
#define KEPT_BYTES (64 * 1024 * 1024)	/* of memory that is free between answers, at most */

/* Notices while it builds say that it lives; a lost client ends the build there. */
#define SETTINGS \
	"SELECT pg_catalog.set_config('client_min_messages', 'notice', true), " \
	"pg_catalog.set_config('client_connection_check_interval', '200ms', true), " \
	"pg_catalog.set_config('idle_in_transaction_session_timeout', '60s', true)"
#define FIND_SCHEMA \
	"SELECT pg_catalog.quote_ident(n.nspname) FROM pg_catalog.pg_extension e " \
	"JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) e.extnamespace " \
	"WHERE e.extname OPERATOR(pg_catalog.=) 'grnnd'"

struct GrnConnection
{
	const GrnLibpq *pq;
	GrnPqConnection *connection;
	GrnBuild   *build;
	GrnFailure *failure;
	char		schema[SCHEMA_BYTES];	/* quoted, of the extension there */
	char	   *frames[AHEAD];	/* each a GrnWireHead and a payload */
	uint32_t	waiting;		/* questions without an answer */
	double		collected;		/* grn_seconds() when all rows were there */
	bool		over;			/* all is here */
};

typedef GrnConnection Remote;

bool
grn_options_add(GrnOptions *options, const char *name, const char *value, bool more)
{
	if (more && options->n > 0)
	{
		char	  **last = &options->values[options->n - 1];
		size_t		length = strlen(*last);
		char	   *longer = realloc(*last, length + strlen(value) + 1);

		if (!longer)
			return false;
		strcpy(longer + length, value);
		*last = longer;
		return true;
	}
	if (options->n >= GRN_MAX_OPTIONS)
		return false;
	options->names[options->n] = strdup(name);
	options->values[options->n] = strdup(value);
	if (!options->names[options->n] || !options->values[options->n])
		return false;
	options->n++;
	return true;
}

/* ---- the connection ---- */

/* Without the newline at its end, and in one line. */
static void
one_line(char *text)
{
	size_t		length = strlen(text);

	while (length > 0 && text[length - 1] == '\n')
		text[--length] = '\0';
	for (; *text; text++)
		if (*text == '\n' || *text == '\t')
			*text = ' ';
}

static bool
lost(Remote *r)
{
	char		text[384];

	snprintf(text, sizeof(text), "%s", r->pq->PQerrorMessage(r->connection));
	one_line(text);
	return grn_fail(r->failure, "08006", "The log of the build server may say more.",
					"the connection to the build server was lost: %s", text);
}

static bool
damaged(Remote *r, const char *what)
{
	return grn_fail(r->failure, "08P01", "Use sslmode verify-full, and check the network.",
					"the build server's answer is not sound: %s", what);
}

/* A PQnoticeReceiver. */
static void
hear(void *arg, const GrnPqResult *notice)
{
	Remote	   *r = arg;
	const GrnHost *host = r->build->host;
	const char *text = r->pq->PQresultErrorField(notice, GRN_PQ_MESSAGE);
	const char *hint = r->pq->PQresultErrorField(notice, GRN_PQ_HINT);
	unsigned	phase;
	unsigned long long done;
	unsigned long long total;

	if (!text || r->over)
		return;
	if (sscanf(text, GRN_WIRE_PHASE, &phase, &done, &total) == 3)
	{
		if (phase > GRN_PHASE_COLLECT && phase < GRN_PHASE_WRITE)
			host->phase(host->ctx, (GrnPhase) phase, done, total);
	}
	else if (sscanf(text, GRN_WIRE_NEED, &phase, &done) == 2)
	{
		if (phase == GRN_SEG_RESULT || phase == GRN_SEG_CODES)
			host->expect(host->ctx, (GrnSegment) phase, done);
	}
	else
		host->notice(host->ctx, text, hint ? hint : "");
}

static bool
open_connection(Remote *r, const GrnOptions *options)
{
	GrnOptions	all = *options;
	bool		has_timeout = false;
	char		text[384];

	for (int i = 0; i < all.n; i++)
		has_timeout |= strcmp(all.names[i], "connect_timeout") == 0;
	if (!has_timeout)
	{
		all.names[all.n] = "connect_timeout";
		all.values[all.n++] = CONNECT_SECONDS;
	}
	all.names[all.n] = "fallback_application_name";
	all.values[all.n++] = "grnnd_build";
	all.names[all.n] = "client_encoding";
	all.values[all.n++] = "UTF8";
	all.names[all.n] = all.values[all.n] = NULL;
	r->connection = r->pq->PQconnectdbParams((const char *const *) all.names,
											 (const char *const *) all.values, 0);
	if (!r->connection)
		return grn_fail(r->failure, "53200", "", "the builder process is out of memory");
	if (r->pq->PQstatus(r->connection) != GRN_PQ_CONNECTION_OK)
	{
		snprintf(text, sizeof(text), "%s", r->pq->PQerrorMessage(r->connection));
		one_line(text);
		return grn_fail(r->failure, "08001", "Check the options of the server that grnnd.build_server names, and its user mapping.",
						"could not connect to the build server: %s", text);
	}
	if (r->build->spec->remote == GRN_REMOTE_PASSWORD &&
		!r->pq->PQconnectionUsedPassword(r->connection))
		return grn_fail(r->failure, "2F003", "The build server's pg_hba.conf has to ask for a password, or a superuser sets password_required to false in the mapping.",
						"a user mapping of a user without superuser rights must connect by password");
	r->pq->PQsetNoticeReceiver(r->connection, hear, r);
	if (r->pq->PQsetnonblocking(r->connection, 1) != 0 ||
		!r->pq->PQenterPipelineMode(r->connection))
		return lost(r);
	return true;
}

/* Sends what is still to be sent and reads what has come, waiting for either. */
static bool
exchange(Remote *r)
{
	struct pollfd p = {r->pq->PQsocket(r->connection), POLLIN, 0};
	int			unsent = r->pq->PQflush(r->connection);
	int			ready;

	if (unsent < 0)
		return lost(r);
	if (unsent > 0)
		p.events |= POLLOUT;
	do
		ready = poll(&p, 1, (int) r->build->spec->patience);
	while (ready < 0 && errno == EINTR);
	if (ready == 0)
		return grn_fail(r->failure, "08006", "grnnd.build_timeout sets how long to wait.",
						"the build server has been silent for %u ms", r->build->spec->patience);
	if ((p.revents & ~POLLOUT) && !r->pq->PQconsumeInput(r->connection))
		return lost(r);
	return true;
}

/* The next result, or NULL between those of two questions. */
static bool
next_result(Remote *r, GrnPqResult **result)
{
	while (r->pq->PQflush(r->connection) > 0 || r->pq->PQisBusy(r->connection))
		if (!exchange(r))
			return false;
	*result = r->pq->PQgetResult(r->connection);
	return true;
}

/* What the other side says has gone wrong there. */
static bool
refused(Remote *r, const GrnPqResult *result)
{
	const char *sqlstate = r->pq->PQresultErrorField(result, GRN_PQ_SQLSTATE);
	const char *text = r->pq->PQresultErrorField(result, GRN_PQ_MESSAGE);
	const char *hint = r->pq->PQresultErrorField(result, GRN_PQ_HINT);

	if (!sqlstate || strlen(sqlstate) != 5 || !text)
		return lost(r);
	hint = hint ? hint : "";
	return grn_fail(r->failure, sqlstate, hint, "build server: %s", text);
}

/* The result of one question, to be cleared by the caller. */
static bool
take_answer(Remote *r, GrnPqResult **answer)
{
	GrnPqResult *end;
	int			status;

	if (!next_result(r, answer))
		return false;
	if (!*answer)
		return lost(r);
	status = r->pq->PQresultStatus(*answer);
	if (status != GRN_PQ_COMMAND_OK && status != GRN_PQ_TUPLES_OK)
	{
		refused(r, *answer);
		r->pq->PQclear(*answer);
		return false;
	}
	if (!next_result(r, &end) || end)
	{
		if (end)
			damaged(r, "an answer to no question");
		r->pq->PQclear(*answer);
		return false;
	}
	r->waiting--;
	return true;
}

/*
 * A question has been handed to libpq (sent is false where it did not take it).  It goes out
 * before the next one comes: each time that libpq sends a part, it moves all of the rest.
 */
static bool
asked(Remote *r, int sent)
{
	if (!sent || !r->pq->PQsendFlushRequest(r->connection))
		return lost(r);
	r->waiting++;
	while (r->pq->PQflush(r->connection) > 0)
		if (!exchange(r))
			return false;
	return true;
}

static bool
ask(Remote *r, const char *query)
{
	return asked(r, r->pq->PQsendQueryParams(r->connection, query, 0, NULL, NULL, NULL, NULL, 1));
}

/* Has the call of grnnd_serve_build() parsed and planned once for all frames. */
static bool
ask_to_prepare(Remote *r)
{
	const unsigned int type = BYTEA_OID;
	char		call[SCHEMA_BYTES + 64];

	snprintf(call, sizeof(call), "SELECT %s.grnnd_serve_build($1)", r->schema);
	return asked(r, r->pq->PQsendPrepare(r->connection, "", call, 1, &type));
}

/* A question without rows to be returned, or whose rows say nothing. */
static bool
take_done(Remote *r)
{
	GrnPqResult *answer;

	if (!take_answer(r, &answer))
		return false;
	r->pq->PQclear(answer);
	return true;
}

/* ---- frames ---- */

/* Completes a frame, behind whose head the payload of head.bytes lies. */
static void
seal(char *frame, GrnWireHead head)
{
	head.magic = GRN_WIRE_MAGIC;
	head.version = GRN_PROTOCOL_VERSION;
	memcpy(frame, &head, sizeof(head));
	head.checksum = grn_checksum(frame + sizeof(uint64_t),
								 sizeof(head) - sizeof(uint64_t) + head.bytes);
	memcpy(frame, &head, sizeof(head));
}

static bool
ask_sealed(Remote *r, const char *frame)
{
	GrnWireHead head;
	const int	binary = 1;
	int			length;

	memcpy(&head, frame, sizeof(head));
	length = (int) (sizeof(head) + head.bytes);
	return asked(r, r->pq->PQsendQueryPrepared(r->connection, "", 1, &frame, &length, &binary, 1));
}

/* Sends the payload of head.bytes that lies behind the head's place in the first frame. */
static bool
ask_frame(Remote *r, GrnWireHead head)
{
	seal(r->frames[0], head);
	return ask_sealed(r, r->frames[0]);
}

/* The payload of the answer to a question, whose type and so on wanted has; NULL: it is none. */
static const char *
payload_of(const GrnLibpq *pq, const GrnPqResult *answer, const GrnWireHead *wanted)
{
	GrnWireHead head;
	const char *value;

	if (pq->PQntuples(answer) != 1 || pq->PQnfields(answer) != 1 || pq->PQgetisnull(answer, 0, 0) ||
		(uint64_t) pq->PQgetlength(answer, 0, 0) != sizeof(head) + wanted->bytes)
		return NULL;
	value = pq->PQgetvalue(answer, 0, 0);
	memcpy(&head, value, sizeof(head));
	return head.magic == GRN_WIRE_MAGIC && head.type == wanted->type &&
		head.segment == wanted->segment && head.offset == wanted->offset &&
		head.bytes == wanted->bytes &&
		head.checksum == grn_checksum(value + sizeof(uint64_t),
									  sizeof(head) - sizeof(uint64_t) + head.bytes) ?
		value + sizeof(head) : NULL;
}

static bool
unsound(Remote *r)
{
	return damaged(r, "a frame that was not asked for, or was changed on its way");
}

/* The answer to such a question is copied to out. */
static bool
take_frame(Remote *r, GrnWireHead wanted, void *out)
{
	GrnPqResult *answer;
	const char *payload;

	if (!take_answer(r, &answer))
		return false;
	payload = payload_of(r->pq, answer, &wanted);
	if (payload && wanted.bytes > 0)
		memcpy(out, payload, wanted.bytes);
	r->pq->PQclear(answer);
	return payload || unsound(r);
}

/* ---- the steps of a build ---- */

static bool
begin(Remote *r)
{
	const GrnLibpq *pq = r->pq;
	const GrnBuildSpec *spec = r->build->spec;
	GrnWireBegin wire = {*spec, spec->segment_max[GRN_SEG_VECTORS] / spec->row_bytes};
	GrnPqResult *answer;
	bool		found;

	if (!ask(r, "BEGIN") || !ask(r, SETTINGS) || !ask(r, FIND_SCHEMA) ||
		!take_done(r) || !take_done(r) || !take_answer(r, &answer))
		return false;
	found = pq->PQntuples(answer) == 1 && pq->PQnfields(answer) == 1 &&
		pq->PQgetlength(answer, 0, 0) < SCHEMA_BYTES;
	if (found)
		snprintf(r->schema, sizeof(r->schema), "%s", pq->PQgetvalue(answer, 0, 0));
	pq->PQclear(answer);
	if (!found)
		return grn_fail(r->failure, "55000", "Run CREATE EXTENSION grnnd in that database, or check the option dbname.",
						"the build server's database has no extension grnnd");
	memcpy(r->frames[0] + sizeof(GrnWireHead), &wire, sizeof(wire));
	return ask_to_prepare(r) &&
		ask_frame(r, (GrnWireHead) {.type = GRN_WIRE_BEGIN, .bytes = sizeof(wire)}) &&
		take_done(r) && take_frame(r, (GrnWireHead) {.type = GRN_WIRE_BEGIN}, NULL);
}

/* Rows that threads make frames of: [first, end), so many a frame. */
typedef struct Batch
{
	Remote	   *r;
	const GrnRows *rows;
	uint64_t	first;
	uint64_t	end;
	uint64_t	piece;
} Batch;

static void
pack_range(void *arg, int worker, size_t begin, size_t end)
{
	const Batch *b = arg;

	(void) worker;
	for (size_t i = begin; i < end; i++)
	{
		char	   *frame = b->r->frames[i];
		uint64_t	first = b->first + i * b->piece;
		uint64_t	count = b->end - first < b->piece ? b->end - first : b->piece;
		GrnForm		form = grn_pack_form(b->rows, first, count);

		grn_pack(b->rows, form, first, count, frame + sizeof(GrnWireHead));
		seal(frame, (GrnWireHead) {.type = GRN_WIRE_PUT, .segment = GRN_SEG_VECTORS, .offset = first,
								   .bytes = count * grn_form_bytes(form, b->rows->dim), .form = form});
	}
}

/* Takes one answer to a PUT: offset, where it begins. */
static bool
put_taken(Remote *r, GrnSegment segment, uint64_t offset)
{
	return take_frame(r, (GrnWireHead) {.type = GRN_WIRE_PUT, .segment = segment, .offset = offset}, NULL);
}

/*
 * Sends rows as they become complete, in frames of the smallest form that holds all rows of the
 * frame.  Where none come for a while it sends a frame without rows, which keeps the other side
 * waiting and shows whether it is there.
 */
static bool
put_rows(Remote *r, const GrnRows *rows)
{
	const GrnHost *host = r->build->host;
	GrnParallel *parallel = r->build->threads;
	uint64_t	piece = GRN_WIRE_PIECE / grn_form_bytes(rows->form, rows->dim);
	uint64_t	offsets[AHEAD]; /* of frames without an answer, by their number */
	uint64_t	asked = 0;
	uint64_t	answered = 0;
	uint64_t	ready = 0;
	uint64_t	made = 0;		/* frames of this batch, */
	uint64_t	sent = 0;		/* and how many of them have gone */
	Batch		batch = {r, rows, 0, 0, piece > 0 ? piece : 1};
	bool		all = false;

	while (!all || sent < made || batch.end < ready || answered < asked)
	{
		bool		full = asked - answered == AHEAD;

		if (sent == made && batch.end == ready && !all && !full)
		{
			ready = host->rows(host->ctx, ready, asked > answered ? 0 : SIGN_OF_LIFE_MS, &all);
			if (all)
				r->collected = grn_seconds();
			if (all && batch.end == ready)
				continue;
		}
		if (sent == made && (batch.end < ready || asked == answered))
		{
			batch.first = batch.end;
			batch.end = ready - batch.first < AHEAD * batch.piece ? ready : batch.first + AHEAD * batch.piece;
			made = batch.end == batch.first ? 1 : (batch.end - batch.first - 1) / batch.piece + 1;
			sent = 0;
			parallel->run(parallel, made, 1, pack_range, &batch);
			if (all)
				host->phase(host->ctx, GRN_PHASE_PREPARE, batch.end, ready);
		}
		if (sent < made && !full)
		{
			if (!ask_sealed(r, r->frames[sent]))
				return false;
			offsets[asked++ % AHEAD] = batch.first + sent++ * batch.piece;
		}
		else if (!put_taken(r, GRN_SEG_VECTORS, offsets[answered++ % AHEAD]))
			return false;
	}
	return true;
}

static bool
put_order(Remote *r)
{
	uint64_t	total = r->build->n * sizeof(uint32_t);
	uint64_t	answered = 0;

	for (uint64_t at = 0; answered < total;)
	{
		uint64_t	bytes = total - at < GRN_WIRE_PIECE ? total - at : GRN_WIRE_PIECE;

		if (at < total && r->waiting < AHEAD)
		{
			memcpy(r->frames[0] + sizeof(GrnWireHead), (const char *) r->build->order + at, bytes);
			if (!ask_frame(r, (GrnWireHead) {.type = GRN_WIRE_PUT, .segment = GRN_SEG_ORDER,
											 .offset = at, .bytes = bytes}))
				return false;
			at += bytes;
			continue;
		}
		if (!put_taken(r, GRN_SEG_ORDER, answered))
			return false;
		answered += total - answered < GRN_WIRE_PIECE ? total - answered : GRN_WIRE_PIECE;
	}
	return true;
}

/* Answers to GET that threads look at and copy. */
typedef struct Answers
{
	const GrnLibpq *pq;
	int			n;
	GrnPqResult *results[TOGETHER];
	GrnWireHead wanted[TOGETHER];
	char	   *to;				/* the segment */
	bool		unsound;
} Answers;

static void
copy_range(void *arg, int worker, size_t begin, size_t end)
{
	Answers    *a = arg;

	(void) worker;
	for (size_t i = begin; i < end; i++)
	{
		const char *payload = payload_of(a->pq, a->results[i], &a->wanted[i]);

		if (payload)
			memcpy(a->to + a->wanted[i].offset, payload, a->wanted[i].bytes);
		else
			__atomic_store_n(&a->unsound, true, __ATOMIC_RELAXED);
	}
}

/* Copies them to their places, if they are sound, and forgets them. */
static bool
copy_answers(Remote *r, Answers *a)
{
	GrnParallel *parallel = r->build->threads;

	parallel->run(parallel, (size_t) a->n, 1, copy_range, a);
	while (a->n > 0)
		r->pq->PQclear(a->results[--a->n]);
	return !a->unsound || unsound(r);
}

static bool
get(Remote *r, GrnSegment segment, uint64_t total)
{
	const GrnHost *host = r->build->host;
	Answers		a = {.pq = r->pq};
	uint64_t	answered = 0;
	bool		fine = true;

	if (total == 0)
		return true;
	a.to = host->need(host->ctx, segment, total, r->failure);
	if (!a.to)
		return false;
	for (uint64_t at = 0; fine && answered < total;)
	{
		uint64_t	from = r->waiting < AHEAD && at < total ? at : answered;
		uint64_t	bytes = total - from < GRN_WIRE_PIECE ? total - from : GRN_WIRE_PIECE;
		GrnWireHead head = {.type = GRN_WIRE_GET, .segment = segment, .offset = from, .bytes = bytes};

		if (r->waiting < AHEAD && at < total)
		{
			memcpy(r->frames[0] + sizeof(head), &bytes, sizeof(bytes));
			head.bytes = sizeof(bytes);
			fine = ask_frame(r, head);
			at += bytes;
			continue;
		}
		fine = take_answer(r, &a.results[a.n]);
		if (fine)
			a.wanted[a.n++] = head;
		answered += bytes;
		if (fine && (a.n == TOGETHER || answered >= total))
			fine = copy_answers(r, &a);
	}
	while (a.n > 0)
		r->pq->PQclear(a.results[--a.n]);
	return fine;
}

static bool
run(Remote *r, const GrnRows *rows, GrnBuildResult *result)
{
	GrnWireBuilt built;
	GrnBuildResult there;
	GrnRemoteTimes times = {0};
	double		since = grn_seconds();

	if (!begin(r))
		return false;
	times.connect = (float) grn_lap(&since);
	if (!put_rows(r, rows))
		return false;
	since = r->collected;
	if (!put_order(r))
		return false;
	times.rows = (float) grn_lap(&since);
	if (!ask_frame(r, (GrnWireHead) {.type = GRN_WIRE_BUILD}) ||
		!take_frame(r, (GrnWireHead) {.type = GRN_WIRE_BUILD, .bytes = sizeof(built)}, &built))
		return false;
	times.graph = (float) grn_lap(&since);
	if (!get(r, GRN_SEG_RESULT, built.bytes[0]) || !get(r, GRN_SEG_CODES, built.bytes[1]))
		return false;
	times.result = (float) grn_lap(&since);
	if (!ask_frame(r, (GrnWireHead) {.type = GRN_WIRE_END}) ||
		!take_frame(r, (GrnWireHead) {.type = GRN_WIRE_END, .bytes = sizeof(there)}, &there))
		return false;
	times.end = (float) grn_lap(&since);
	times.there_rows = there.remote.there_rows;
	times.there_result = there.remote.there_result;
	*result = there;
	result->remote = times;
	/* all is here; grn_remote_end() waits for the answer */
	r->over = true;
	return true;
}

static void
disconnect(Remote *r)
{
	if (r->connection)
		r->pq->PQfinish(r->connection);
	for (int i = 0; i < AHEAD; i++)
		free(r->frames[i]);
	free(r);
}

bool
grn_remote_build(GrnBuild *build, const GrnOptions *options, GrnBuildResult *result,
				 GrnConnection **connection, GrnFailure *failure)
{
	const GrnBuildSpec *spec = build->spec;
	GrnRows		rows = {.base = build->vectors, .row_bytes = spec->row_bytes, .dim = spec->dim,
		.embedding = grn_metric(spec->metric)->embedding, .form = (GrnForm) spec->form};
	const GrnLibpq *pq = grn_libpq(failure);
	size_t		frame_bytes = sizeof(GrnWireHead) + GRN_WIRE_PIECE + spec->row_bytes + sizeof(GrnWireBegin);
	bool		room = true;
	Remote	   *r;

	if (!pq)
		return false;
#ifdef __GLIBC__
	/* the pages of an answer are kept for the next one: new ones cost as much as all else */
	mallopt(M_MMAP_THRESHOLD, KEPT_BYTES / 2);
	mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
#endif
	r = calloc(1, sizeof(*r));
	if (!r)
		return grn_fail(failure, "53200", "", "the builder process is out of memory");
	r->pq = pq;
	r->build = build;
	r->failure = failure;
	for (int i = 0; i < AHEAD; i++)
		room &= (r->frames[i] = malloc(frame_bytes)) != NULL;
	if (!room)
		grn_fail(failure, "53200", "", "the builder process is out of memory");
	if (!room || !open_connection(r, options) || !run(r, &rows, result))
	{
		disconnect(r);
		return false;
	}
	*connection = r;
	return true;
}

void
grn_remote_end(GrnConnection *connection)
{
	Remote	   *r = connection;
	GrnFailure	failure;

	r->failure = &failure;
	if (ask(r, "COMMIT"))
		take_done(r);
	disconnect(r);
}
