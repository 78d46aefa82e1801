/*
 * client.c - the program grnnd_build_remote, the builder process of a leader if another host
 * builds: connects to the PostgreSQL of that host, sends the rows and their order, has them built
 * and reads the results back (wire.h).
 *
 * Several frames are sent before the first answer is read (pipeline mode of libpq), so the network
 * does not wait for the other host's processor.  No wait for a byte of the other host lasts
 * longer than spec.patience.  Rows are sent while the leader still collects rows.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libpq-fe.h>

#include "build_server/wire.h"
#include "builder/pipeline.h"
#include "space/kernels/dist.h"

/*
 * Most frames without an answer.  Sixteen megabytes fill a line of 10 Gbit/s up to a round trip of
 * 13 ms.  Within a host 100,000 rows of 256 dimensions take as long with 2, 8 and 32: .1 s after
 * the last row is collected, and .1 s for the result.
 */
#define AHEAD 16
#define KEEP_ALIVE_MS 10000		/* without new rows; far below the timeout of SETTINGS */
#define BYTEA_OID 17
#define CONNECT_SECONDS "10"	/* if the mapping has no connect_timeout */
#define SCHEMA_BYTES 256		/* for a quoted name of at most 63 bytes */

/* The other host sends notices while it builds.  A lost client ends the build of that host. */
#define SETTINGS \
	"SELECT pg_catalog.set_config('client_min_messages', 'notice', true), " \
	"pg_catalog.set_config('client_connection_check_interval', '200ms', true), " \
	"pg_catalog.set_config('idle_in_transaction_session_timeout', '60s', true)"
#define FIND_SCHEMA \
	"SELECT pg_catalog.quote_ident(n.nspname) FROM pg_catalog.pg_extension e " \
	"JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) e.extnamespace " \
	"WHERE e.extname OPERATOR(pg_catalog.=) 'grnnd_build_server'"

typedef struct Remote
{
	PGconn	   *connection;
	GrnBuild   *build;
	GrnFailure *failure;
	char		schema[SCHEMA_BYTES];	/* quoted; schema of the extension */
	char	   *frame;			/* a GrnWireHead and a payload */
	uint32_t	waiting;		/* queries without an answer */
	double		collected;		/* grn_seconds() when all rows were collected */
	bool		over;			/* all results have been received */
} Remote;

/* The connection.  The process makes a single build. */
static Remote remote;

/* ---- the connection ---- */

/* Makes one line of a message, without a newline at the end. */
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

	snprintf(text, sizeof(text), "%s", PQerrorMessage(r->connection));
	one_line(text);
	return grn_fail(r->failure, "08006", "See the log of the build server.",
					"the connection to the build server was lost: %s", text);
}

static bool
damaged(Remote *r, const char *what)
{
	return grn_fail(r->failure, "08P01", "Use sslmode verify-full, and check the network.",
					"invalid answer of the build server: %s", what);
}

/* A PQnoticeReceiver. */
static void
receive_notice(void *arg, const PGresult * notice)
{
	Remote	   *r = arg;
	const GrnHost *host = r->build->host;
	const char *text = PQresultErrorField(notice, PG_DIAG_MESSAGE_PRIMARY);
	const char *hint = PQresultErrorField(notice, PG_DIAG_MESSAGE_HINT);
	unsigned	phase;
	unsigned long long done;
	unsigned long long total;

	if (!text || r->over)
		return;
	if (sscanf(text, GRN_WIRE_PHASE, &phase, &done, &total) == 3)
	{
		if (phase > GRN_STEP_COLLECT && phase < GRN_STEP_WRITE)
			host->phase(host->ctx, (GrnStep) phase, done, total);
	}
	else
		host->notice(host->ctx, text, hint ? hint : "");
}

static bool
open_connection(Remote *r, const char *connection)
{
	/* libpq expands the connection string where dbname stands; later entries win */
	static const char *const names[] = {"connect_timeout", "dbname", "fallback_application_name", "client_encoding", NULL};
	const char *const values[] = {CONNECT_SECONDS, connection, "grnnd_build", "UTF8", NULL};
	char		text[384];

	r->connection = PQconnectdbParams(names, values, 1);
	if (!r->connection)
		return grn_fail(r->failure, "53200", "", "the builder process is out of memory");
	if (PQstatus(r->connection) != CONNECTION_OK)
	{
		snprintf(text, sizeof(text), "%s", PQerrorMessage(r->connection));
		one_line(text);
		return grn_fail(r->failure, "08001", "Check the options of the server that grnnd.build_server names, and its user mapping.",
						"could not connect to the build server: %s", text);
	}
	if (r->build->spec->remote == GRN_REMOTE_PASSWORD &&
		!PQconnectionUsedPassword(r->connection))
		return grn_fail(r->failure, "2F003", "The build server's pg_hba.conf must require a password, or a superuser must set password_required to false in the user mapping.",
						"users without superuser rights must connect to the build server by password");
	PQsetNoticeReceiver(r->connection, receive_notice, r);
	if (PQsetnonblocking(r->connection, 1) != 0 ||
		!PQenterPipelineMode(r->connection))
		return lost(r);
	return true;
}

/* Waits until the socket can be read, or written if data is left to send; sends and reads. */
static bool
exchange(Remote *r)
{
	struct pollfd p = {PQsocket(r->connection), POLLIN, 0};
	int			unsent = PQflush(r->connection);
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
						"the build server has sent nothing for %u ms", r->build->spec->patience);
	if ((p.revents & ~POLLOUT) && !PQconsumeInput(r->connection))
		return lost(r);
	return true;
}

/* Sets *result to the next result, or to NULL between the results of two queries. */
static bool
next_result(Remote *r, PGresult * *result)
{
	while (PQflush(r->connection) > 0 || PQisBusy(r->connection))
		if (!exchange(r))
			return false;
	*result = PQgetResult(r->connection);
	return true;
}

/* Reports an error of the other host. */
static bool
refused(Remote *r, const PGresult * result)
{
	const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	const char *hint = PQresultErrorField(result, PG_DIAG_MESSAGE_HINT);

	if (!sqlstate || strlen(sqlstate) != 5 || !text)
		return lost(r);
	hint = hint ? hint : "";
	return grn_fail(r->failure, sqlstate, hint, "build server: %s", text);
}

/* Receives the result of one query.  The caller clears the result. */
static bool
take_answer(Remote *r, PGresult * *answer)
{
	PGresult   *end;
	int			status;

	if (!next_result(r, answer))
		return false;
	if (!*answer)
		return lost(r);
	status = PQresultStatus(*answer);
	if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
	{
		refused(r, *answer);
		PQclear(*answer);
		return false;
	}
	if (!next_result(r, &end) || end)
	{
		if (end)
			damaged(r, "an answer to no query");
		PQclear(*answer);
		return false;
	}
	r->waiting--;
	return true;
}

/*
 * Notes a query that libpq has taken over (sent: the return value of libpq), and sends all of the
 * query before the caller makes the next one: libpq moves all unsent bytes at each partial write.
 */
static bool
sent_query(Remote *r, int sent)
{
	if (!sent || !PQsendFlushRequest(r->connection))
		return lost(r);
	r->waiting++;
	while (PQflush(r->connection) > 0)
		if (!exchange(r))
			return false;
	return true;
}

static bool
send_query(Remote *r, const char *query)
{
	return sent_query(r, PQsendQueryParams(r->connection, query, 0, NULL, NULL, NULL, NULL, 1));
}

/* Has grnnd_serve_build($1) parsed and planned once for all frames. */
static bool
send_prepare(Remote *r)
{
	const unsigned int type = BYTEA_OID;
	char		call[SCHEMA_BYTES + 64];

	snprintf(call, sizeof(call), "SELECT %s.grnnd_serve_build($1)", r->schema);
	return sent_query(r, PQsendPrepare(r->connection, "", call, 1, &type));
}

/* Receives the answer to a query whose rows are not needed. */
static bool
take_done(Remote *r)
{
	PGresult   *answer;

	if (!take_answer(r, &answer))
		return false;
	PQclear(answer);
	return true;
}

/* ---- frames ---- */

/* Sends a head, with the checksum, and a payload of head.bytes. */
static bool
send_frame(Remote *r, GrnWireHead head, const void *payload)
{
	const int	binary = 1;
	const int	length = (int) (sizeof(head) + head.bytes);
	const char *frame = r->frame;

	head.magic = GRN_WIRE_MAGIC;
	head.version = GRN_PROTOCOL_VERSION;
	memcpy(r->frame, &head, sizeof(head));
	if (head.bytes > 0)
		memcpy(r->frame + sizeof(head), payload, head.bytes);
	head.checksum = grn_checksum(r->frame + sizeof(uint64_t), (size_t) length - sizeof(uint64_t));
	memcpy(r->frame, &head, sizeof(head));
	return sent_query(r, PQsendQueryPrepared(r->connection, "", 1, &frame, &length, &binary, 1));
}

/* Returns the payload of an answer, or NULL if the answer is damaged or not the wanted one. */
static const char *
payload_of(const PGresult * answer, const GrnWireHead *wanted)
{
	GrnWireHead head;
	const char *value;

	if (PQntuples(answer) != 1 || PQnfields(answer) != 1 || PQgetisnull(answer, 0, 0) ||
		(uint64_t) PQgetlength(answer, 0, 0) != sizeof(head) + wanted->bytes)
		return NULL;
	value = PQgetvalue(answer, 0, 0);
	memcpy(&head, value, sizeof(head));
	return head.magic == GRN_WIRE_MAGIC && head.type == wanted->type &&
		head.segment == wanted->segment && head.offset == wanted->offset &&
		head.bytes == wanted->bytes &&
		head.checksum == grn_checksum(value + sizeof(uint64_t),
									  sizeof(head) - sizeof(uint64_t) + head.bytes) ?
		value + sizeof(head) : NULL;
}

/* Receives one answer and copies its payload to out. */
static bool
take_frame(Remote *r, GrnWireHead wanted, void *out)
{
	PGresult   *answer;
	const char *payload;

	if (!take_answer(r, &answer))
		return false;
	payload = payload_of(answer, &wanted);
	if (payload && wanted.bytes > 0)
		memcpy(out, payload, wanted.bytes);
	PQclear(answer);
	return payload || damaged(r, "a frame that was not requested, or was changed on its way");
}

/* ---- the steps of a build ---- */

static bool
begin(Remote *r)
{
	const GrnBuildSpec *spec = r->build->spec;
	GrnWireBegin wire = {*spec, spec->segment_max[GRN_SEG_VECTORS] / spec->row_bytes};
	PGresult   *answer;
	bool		found;

	if (!send_query(r, "BEGIN") || !send_query(r, SETTINGS) || !send_query(r, FIND_SCHEMA) ||
		!take_done(r) || !take_done(r) || !take_answer(r, &answer))
		return false;
	found = PQntuples(answer) == 1 && PQnfields(answer) == 1 &&
		PQgetlength(answer, 0, 0) < SCHEMA_BYTES;
	if (found)
		snprintf(r->schema, sizeof(r->schema), "%s", PQgetvalue(answer, 0, 0));
	PQclear(answer);
	if (!found)
		return grn_fail(r->failure, "55000", "Run CREATE EXTENSION grnnd_build_server in that database, or check the option dbname.",
						"the build server's database has no extension grnnd_build_server");
	return send_prepare(r) &&
		send_frame(r, (GrnWireHead) {.type = GRN_WIRE_BEGIN, .bytes = sizeof(wire)}, &wire) &&
		take_done(r) && take_frame(r, (GrnWireHead) {.type = GRN_WIRE_BEGIN}, NULL);
}

/*
 * Sends the items of a segment, of item_bytes each, as items become complete: `ready` items are.
 * all: no more items will come.  If no items come for a while, sends a frame without items: the
 * frame keeps the other host waiting, and an answer shows that the other host is alive.
 */
static bool
put(Remote *r, GrnSegment segment, const void *items, uint64_t item_bytes, uint64_t ready, bool all)
{
	const GrnHost *host = r->build->host;
	uint64_t	piece = item_bytes < GRN_WIRE_PIECE ? GRN_WIRE_PIECE / item_bytes : 1;
	uint64_t	sent = 0;		/* items */
	uint64_t	offsets[AHEAD]; /* of frames without an answer, by frame number */
	uint64_t	asked = 0;		/* frames sent, */
	uint64_t	answered = 0;	/* and answered */

	for (;;)
	{
		bool		full = asked - answered == AHEAD;

		if (sent == ready && !all && !full)
		{
			ready = host->rows(host->ctx, ready, asked > answered ? 0 : KEEP_ALIVE_MS, &all);
			if (all)
				r->collected = grn_seconds();
		}
		if (!full && (sent < ready || (asked == answered && !all)))
		{
			uint64_t	count = ready - sent < piece ? ready - sent : piece;

			offsets[asked++ % AHEAD] = sent * item_bytes;
			if (!send_frame(r, (GrnWireHead) {.type = GRN_WIRE_PUT, .segment = segment,
											  .offset = sent * item_bytes, .bytes = count * item_bytes},
							(const char *) items + sent * item_bytes))
				return false;
			sent += count;
			if (all)
				host->phase(host->ctx, GRN_STEP_PREPARE, sent, ready);
		}
		else if (asked == answered)
			return true;
		else if (!take_frame(r, (GrnWireHead) {.type = GRN_WIRE_PUT, .segment = segment,
											   .offset = offsets[answered++ % AHEAD]}, NULL))
			return false;
	}
}

static bool
get(Remote *r, uint64_t total)
{
	const GrnHost *host = r->build->host;
	uint64_t	asked = 0;		/* bytes */
	uint64_t	answered = 0;
	char	   *to;

	if (total == 0)
		return true;
	to = host->need(host->ctx, GRN_SEG_RESULT, total, r->failure);
	if (!to)
		return false;
	while (answered < total)
	{
		bool		more = r->waiting < AHEAD && asked < total;
		uint64_t   *at = more ? &asked : &answered;
		uint64_t	bytes = total - *at < GRN_WIRE_PIECE ? total - *at : GRN_WIRE_PIECE;
		GrnWireHead head = {.type = GRN_WIRE_GET, .segment = GRN_SEG_RESULT, .offset = *at, .bytes = bytes};

		if (!more && !take_frame(r, head, to + *at))
			return false;
		head.bytes = sizeof(bytes);
		if (more && !send_frame(r, head, &bytes))
			return false;
		*at += bytes;
	}
	return true;
}

static bool
run(Remote *r, GrnBuildResult *result)
{
	GrnWireBuilt built;
	GrnRemoteTimes times = {0};
	double		since = grn_seconds();

	if (!begin(r))
		return false;
	times.connect = (float) grn_lap(&since);
	if (!put(r, GRN_SEG_VECTORS, r->build->vectors, r->build->spec->row_bytes, 0, false))
		return false;
	since = r->collected;
	if (!put(r, GRN_SEG_ORDER, r->build->order, sizeof(uint32_t), r->build->n, true))
		return false;
	times.rows = (float) grn_lap(&since);
	if (!send_frame(r, (GrnWireHead) {.type = GRN_WIRE_BUILD}, NULL) ||
		!take_frame(r, (GrnWireHead) {.type = GRN_WIRE_BUILD, .bytes = sizeof(built)}, &built))
		return false;
	times.graph = (float) grn_lap(&since);
	if (!get(r, built.bytes))
		return false;
	times.result = (float) grn_lap(&since);
	if (!send_frame(r, (GrnWireHead) {.type = GRN_WIRE_END}, NULL) ||
		!take_frame(r, (GrnWireHead) {.type = GRN_WIRE_END, .bytes = sizeof(*result)}, result))
		return false;
	times.end = (float) grn_lap(&since);
	result->remote = times;
	r->over = true;
	return true;
}

/* GrnElsewhere.build */
static bool
build_there(GrnBuild *build, const char *connection, GrnBuildResult *result, GrnFailure *failure)
{
	Remote	   *r = &remote;

	r->build = build;
	r->failure = failure;
	r->frame = malloc(sizeof(GrnWireHead) + GRN_WIRE_PIECE + build->spec->row_bytes + sizeof(GrnWireBegin));
	if (!r->frame)
		return grn_fail(failure, "53200", "", "the builder process is out of memory");
	if (open_connection(r, connection) && run(r, result))
		return true;
	if (r->connection)
		PQfinish(r->connection);
	return false;
}

/*
 * GrnElsewhere.end: waits until the other host has freed the memory of the build, so that its log
 * has no lost connection.  The leader is not told of errors.
 */
static void
end_connection(void)
{
	GrnFailure	failure;

	remote.failure = &failure;
	if (send_query(&remote, "COMMIT"))
		take_done(&remote);
	PQfinish(remote.connection);
}

int
main(void)
{
	static const GrnElsewhere elsewhere = {build_there, end_connection};

	grn_dist_init();
	return grn_builder_process("grnnd_build_remote", &elsewhere);
}
