/*
 * remote.c - a build that another host's PostgreSQL makes, from the builder's side: connects,
 * sends rows and their order, has them built, and reads the results back.
 *
 * Questions are sent ahead of answers (libpq's pipeline), so that the wire does not wait for the
 * other side's processor.  Nothing waits longer than spec.patience without a byte from there.
 * Rows go while the leader still collects them.
 */
#include "builder/remote.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "builder/libpq.h"
#include "builder/prepare.h"
#include "graph/checksum.h"

#define AHEAD 8					/* questions without an answer yet, at most */
#define SIGN_OF_LIFE_MS 10000	/* without new rows: well within the timeout of SETTINGS */
#define BYTEA_OID 17
#define CONNECT_SECONDS "10"	/* where the mapping has no connect_timeout */
#define SCHEMA_BYTES 256		/* of a quoted name of at most 63 bytes */

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
	char		call[SCHEMA_BYTES + 64];
	char	   *frame;			/* GrnWireHead and a payload */
	uint32_t	waiting;		/* questions without an answer */
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

/* frame NULL: no argument. */
static bool
ask(Remote *r, const char *query, const char *frame, size_t bytes)
{
	const unsigned int type = BYTEA_OID;
	const int	length = (int) bytes;
	const int	binary = 1;

	if (!r->pq->PQsendQueryParams(r->connection, query, frame != NULL, &type, &frame, &length,
								  &binary, 1) ||
		!r->pq->PQsendFlushRequest(r->connection))
		return lost(r);
	r->waiting++;
	return true;
}

/* ---- frames ---- */

/* Sends the payload of head.bytes that lies behind the head's place in r->frame. */
static bool
ask_frame(Remote *r, GrnWireHead head)
{
	head.magic = GRN_WIRE_MAGIC;
	head.version = GRN_PROTOCOL_VERSION;
	memcpy(r->frame, &head, sizeof(head));
	head.checksum = grn_checksum(r->frame + sizeof(uint64_t),
								 sizeof(head) - sizeof(uint64_t) + head.bytes);
	memcpy(r->frame, &head, sizeof(head));
	return ask(r, r->call, r->frame, sizeof(head) + head.bytes);
}

/* The answer to such a question, with a payload of so many bytes, is copied to out. */
static bool
take_frame(Remote *r, GrnWireType type, uint32_t segment, uint64_t offset, uint64_t bytes, void *out)
{
	const GrnLibpq *pq = r->pq;
	GrnWireHead head;
	GrnPqResult *answer;
	const char *value;
	bool		sound;

	if (!take_answer(r, &answer))
		return false;
	sound = pq->PQntuples(answer) == 1 && pq->PQnfields(answer) == 1 &&
		!pq->PQgetisnull(answer, 0, 0) &&
		(uint64_t) pq->PQgetlength(answer, 0, 0) == sizeof(head) + bytes;
	if (sound)
	{
		value = pq->PQgetvalue(answer, 0, 0);
		memcpy(&head, value, sizeof(head));
		sound = head.magic == GRN_WIRE_MAGIC && head.type == (uint32_t) type &&
			head.segment == segment && head.offset == offset && head.bytes == bytes &&
			head.checksum == grn_checksum(value + sizeof(uint64_t),
										  sizeof(head) - sizeof(uint64_t) + bytes);
		if (sound && bytes > 0)
			memcpy(out, value + sizeof(head), bytes);
	}
	pq->PQclear(answer);
	return sound || damaged(r, "a frame that was not asked for, or was changed on its way");
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

	if (!ask(r, "BEGIN", NULL, 0) || !ask(r, SETTINGS, NULL, 0) || !ask(r, FIND_SCHEMA, NULL, 0))
		return false;
	for (int i = 0; i < 2; i++)
	{
		if (!take_answer(r, &answer))
			return false;
		pq->PQclear(answer);
	}
	if (!take_answer(r, &answer))
		return false;
	found = pq->PQntuples(answer) == 1 && pq->PQnfields(answer) == 1 &&
		pq->PQgetlength(answer, 0, 0) < SCHEMA_BYTES;
	if (found)
		snprintf(r->call, sizeof(r->call), "SELECT %s.grnnd_serve_build($1)",
				 pq->PQgetvalue(answer, 0, 0));
	pq->PQclear(answer);
	if (!found)
		return grn_fail(r->failure, "55000", "Run CREATE EXTENSION grnnd in that database, or check the option dbname.",
						"the build server's database has no extension grnnd");
	memcpy(r->frame + sizeof(GrnWireHead), &wire, sizeof(wire));
	return ask_frame(r, (GrnWireHead) {.type = GRN_WIRE_BEGIN, .bytes = sizeof(wire)}) &&
		take_frame(r, GRN_WIRE_BEGIN, 0, 0, 0, NULL);
}

typedef struct Pack
{
	const GrnRows *rows;
	GrnForm		form;
	size_t		row_bytes;
	size_t		first;
	char	   *out;
} Pack;

static void
pack_range(void *arg, int worker, size_t begin, size_t end)
{
	Pack	   *p = arg;
	float		scratch[GRN_MOST_DIMS];

	(void) worker;
	for (size_t i = begin; i < end; i++)
	{
		const void *row = grn_row(p->rows, p->first + i);
		char	   *to = p->out + i * p->row_bytes;

		if (p->form == p->rows->form)
			memcpy(to, row, p->row_bytes);
		else
			grn_form_store(p->form, grn_row_values(p->rows, row, scratch), p->rows->dim, to);
	}
}

/* Takes one answer to a PUT: offset, where it begins. */
static bool
put_taken(Remote *r, GrnSegment segment, uint64_t offset)
{
	return take_frame(r, GRN_WIRE_PUT, segment, offset, 0, NULL);
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
	GrnParallel *parallel = grn_pool_parallel(r->build->pool);
	uint64_t	piece = GRN_WIRE_PIECE / grn_form_bytes(rows->form, rows->dim);
	uint64_t	offsets[AHEAD]; /* of frames without an answer, by their number */
	uint64_t	asked = 0;
	uint64_t	answered = 0;
	uint64_t	ready = 0;
	bool		all = false;

	if (piece == 0)
		piece = 1;
	for (uint64_t at = 0; !all || at < ready || answered < asked;)
	{
		bool		full = asked - answered == AHEAD;

		if (at == ready && !all && !full)
		{
			ready = host->rows(host->ctx, at, asked > answered ? 0 : SIGN_OF_LIFE_MS, &all);
			if (all && at == ready)
				continue;
		}
		if (!full && (at < ready || asked == answered))
		{
			uint64_t	count = ready - at < piece ? ready - at : piece;
			GrnForm		form = count > 0 ? grn_prepare_form(rows, at, count, r->build->pool) : rows->form;
			Pack		pack = {rows, form, grn_form_bytes(form, rows->dim), at, r->frame + sizeof(GrnWireHead)};

			parallel->run(parallel, count, 64, pack_range, &pack);
			if (!ask_frame(r, (GrnWireHead) {.type = GRN_WIRE_PUT, .segment = GRN_SEG_VECTORS,
											 .offset = at, .bytes = count * pack.row_bytes, .form = form}))
				return false;
			offsets[asked++ % AHEAD] = at;
			at += count;
			if (all)
				host->phase(host->ctx, GRN_PHASE_PREPARE, at, ready);
			continue;
		}
		if (!put_taken(r, GRN_SEG_VECTORS, offsets[answered++ % AHEAD]))
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
			memcpy(r->frame + sizeof(GrnWireHead), (const char *) r->build->order + at, bytes);
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

static bool
get(Remote *r, GrnSegment segment, uint64_t total)
{
	const GrnHost *host = r->build->host;
	char	   *to;
	uint64_t	answered = 0;

	if (total == 0)
		return true;
	to = host->need(host->ctx, segment, total, r->failure);
	if (!to)
		return false;
	for (uint64_t at = 0; answered < total;)
	{
		uint64_t	left = total - at;
		uint64_t	bytes = left < GRN_WIRE_PIECE ? left : GRN_WIRE_PIECE;

		if (at < total && r->waiting < AHEAD)
		{
			memcpy(r->frame + sizeof(GrnWireHead), &bytes, sizeof(bytes));
			if (!ask_frame(r, (GrnWireHead) {.type = GRN_WIRE_GET, .segment = segment,
											 .offset = at, .bytes = sizeof(bytes)}))
				return false;
			at += bytes;
			continue;
		}
		bytes = total - answered < GRN_WIRE_PIECE ? total - answered : GRN_WIRE_PIECE;
		if (!take_frame(r, GRN_WIRE_GET, segment, answered, bytes, to + answered))
			return false;
		answered += bytes;
	}
	return true;
}

static bool
run(Remote *r, const GrnRows *rows, GrnBuildResult *result)
{
	GrnWireResult wire;

	if (!begin(r) || !put_rows(r, rows) || !put_order(r) ||
		!ask_frame(r, (GrnWireHead) {.type = GRN_WIRE_BUILD}) ||
		!take_frame(r, GRN_WIRE_BUILD, 0, 0, sizeof(wire), &wire) ||
		!get(r, GRN_SEG_RESULT, wire.bytes[0]) ||
		!get(r, GRN_SEG_CODES, wire.bytes[1]))
		return false;
	*result = wire.result;
	/* all is here; grn_remote_end() waits for the answer */
	r->over = true;
	return true;
}

static void
disconnect(Remote *r)
{
	if (r->connection)
		r->pq->PQfinish(r->connection);
	free(r->frame);
	free(r);
}

bool
grn_remote_build(GrnBuild *build, const GrnOptions *options, GrnBuildResult *result,
				 GrnConnection **connection, GrnFailure *failure)
{
	const GrnBuildSpec *spec = build->spec;
	GrnRows		rows = {build->vectors, NULL, 0, spec->row_bytes, spec->dim,
		grn_metric(spec->metric)->embedding, (GrnForm) spec->form};
	const GrnLibpq *pq = grn_libpq(failure);
	Remote	   *r;

	if (!pq)
		return false;
	r = calloc(1, sizeof(*r));
	if (!r)
		return grn_fail(failure, "53200", "", "the builder process is out of memory");
	r->pq = pq;
	r->build = build;
	r->failure = failure;
	r->frame = malloc(sizeof(GrnWireHead) + GRN_WIRE_PIECE + grn_form_bytes(rows.form, rows.dim) +
					  sizeof(GrnWireBegin));
	if (!r->frame)
		grn_fail(failure, "53200", "", "the builder process is out of memory");
	if (!r->frame || !open_connection(r, options) || !run(r, &rows, result))
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
	GrnPqResult *answer;

	r->failure = &failure;
	if (ask(r, "COMMIT", NULL, 0) && take_answer(r, &answer))
		r->pq->PQclear(answer);
	disconnect(r);
}
