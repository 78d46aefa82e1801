/*
 * serve_build.c - grnnd_serve_build(): builds for the CREATE INDEX of another host (wire.h).
 *
 * A session serves one build at a time, within one transaction.  The end of the transaction frees
 * all memory.  Only settings of superusers count: grnnd_build_server.memory,
 * grnnd_build_server.threads, temp_file_limit and the settings of GPUs.  The client is not trusted:
 * the backend checks lengths, forms, numbers and limits.  All further work is done by the builder
 * process, whose faults harm no other process.
 */
#include "am/grnnd.h"

#include "access/xact.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

#include "am/create/create.h"
#include "am/create/mapping.h"
#include "am/export.h"
#include "build_server/wire.h"
#include "space/rows.h"

#ifdef PG_MODULE_MAGIC_EXT
PG_MODULE_MAGIC_EXT(.name = "grnnd_build_server", .version = "0.1.0");
#else
PG_MODULE_MAGIC;
#endif

typedef struct Served
{
	GrnndBuild	build;			/* without heap, index and options */
	uint64		most_rows;
	uint64		have_rows;
	uint64		have_order;		/* bytes */
	bool		ready;			/* BEGIN is complete */
	bool		begun;			/* BUILD has come */
	bool		built;			/* RESULT is written */
} Served;

/* The build of the session, in the memory of the transaction. */
static Served *served = NULL;

static int	serve_memory;		/* MB */
static int	serve_threads;		/* 0: max_worker_processes */

static void
define_settings(void)
{
	DefineCustomIntVariable("grnnd_build_server.memory",
							"Shared memory of a build for another host.",
							"Further memory of the build comes from a temporary file.",
							&serve_memory, 1024, 1, INT_MAX,
							PGC_SUSET, GUC_UNIT_MB, NULL, NULL, NULL);
	DefineCustomIntVariable("grnnd_build_server.threads",
							"Threads of the builder process of a build for another host.",
							"0: max_worker_processes.",
							&serve_threads, 0, 0, 1024,
							PGC_SUSET, 0, NULL, NULL, NULL);
	MarkGUCPrefixReserved("grnnd_build_server");
}

extern PGDLLEXPORT void _PG_init(void);

void
_PG_init(void)
{
	static const char *const names[] = {"grnnd_build_server.memory", "grnnd_build_server.threads"};

	grnnd_load_library();
	grnnd_define_superuser_settings(define_settings, names, lengthof(names));
}

/* An XactCallback. */
static void
end_served(XactEvent event, void *arg)
{
	Served	   *s = served;

	if (s == NULL || event == XACT_EVENT_PRE_COMMIT || event == XACT_EVENT_PARALLEL_PRE_COMMIT ||
		event == XACT_EVENT_PRE_PREPARE)
		return;
	served = NULL;
	/* at a commit PostgreSQL would report an open temporary file as a leak */
	if (event == XACT_EVENT_COMMIT)
		grnnd_build_finish(&s->build);
	else
		grnnd_build_abandon(0, PointerGetDatum(&s->build));
}

static GRNND_NORETURN void
unsound(const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_PROTOCOL_VIOLATION),
			 errmsg("invalid request of another host's index build: %s", what),
			 errhint("Only grnnd's builder of the same version can call grnnd_serve_build(). If another host's builder made the request, check the network.")));
}

/*
 * Keeps rows out of the log of this server until the transaction ends.  Rows are parameters, which
 * log_statement, log_min_duration_statement, errors and auto_explain would log in full.
 */
static void
log_no_rows(void)
{
	static const char *const settings[] = {
		"log_parameter_max_length", "log_parameter_max_length_on_error", "auto_explain.log_parameter_max_length"
	};

	for (int i = 0; i < lengthof(settings); i++)
	{
		const char *value = GetConfigOption(settings[i], true, false);

		if (value != NULL && strcmp(value, "0") != 0)
			(void) set_config_option(settings[i], "0", PGC_SUSET, PGC_S_SESSION, GUC_ACTION_LOCAL,
									 true, 0, false);
	}
}

/* Sends the progress of the build to the other host, as a sign of life. */
static void
send_phase(GrnndBuilder *builder)
{
	ereport(NOTICE,
			(errmsg_internal(GRN_WIRE_PHASE, (unsigned) builder->phase[0],
							 (unsigned long long) builder->phase[1],
							 (unsigned long long) builder->phase[2])));
}

static void
begin(const GrnWireBegin *wire)
{
	static bool registered = false;
	GrnBuildSpec spec = wire->spec;
	const GrnMetricInfo *metric = grn_metric(spec.metric);
	const GrnFormInfo *form = grn_form(spec.form);
	Served	   *s;
	GrnndBuild *build;

	if (served != NULL)
		unsound("another build has begun");
	if (spec.payload != GRNND_PAYLOAD)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the two servers' pages are of different sizes"),
				 errhint("Build on a server that was configured with the same block size.")));
	if (metric == NULL || form == NULL || form->numbers == GRN_NUMBERS_NONE ||
		spec.dim < 1 || spec.dim > form->max_dim ||
		spec.row_bytes != grn_row_bytes((GrnForm) spec.form, metric->embedding, spec.dim) ||
		spec.attr_bytes > GRN_MAX_ATTR_BYTES || spec.sig_bytes > GRN_MAX_SIG_BYTES ||
		spec.use_codes > 1 || spec.bare_degree > GRN_MAX_DEGREE || spec.keep > GRN_KEEP_BYTES || spec.skip_recall > 1 ||
		spec.near.k > 0 || wire->most_rows < 1 || !grnnd_params_are_valid(&spec.params))
		unsound("numbers of its beginning are out of range");

	if (!registered)
		RegisterXactCallback(end_served, NULL);
	registered = true;
	s = palloc0(sizeof(Served));
	build = &s->build;
	build->builder.sock = -1;
	build->dim = spec.dim;
	build->row_bytes = spec.row_bytes;
	spec.version = GRN_PROTOCOL_VERSION;
	spec.remote = GRN_REMOTE_NONE;
	spec.may_move = 0;			/* rows of the other host do not move */
	spec.patience = 0;
	grnnd_set_devices(&spec);
	spec.threads = serve_threads > 0 ? serve_threads : Max(max_worker_processes, 1);
	spec.work_limit = 0;
	memset(spec.segment_max, 0, sizeof(spec.segment_max));
	s->most_rows = Min(wire->most_rows, GRN_MAX_NODES - 1);
	spec.expected = Min(spec.expected, s->most_rows);
	build->spec = spec;
	served = s;
	grnnd_build_map_within(build, s->most_rows, (uint64) serve_memory * 1024 * 1024,
						   "grnnd_build_server.memory");
	s->most_rows = Min(s->most_rows, build->max_rows);
	grnnd_choose_device(build, (double) spec.expected);
	/* the device opens while rows come */
	grnnd_builder_start(&build->builder, build->map, &build->spec);
	build->builder.on_beat = send_phase;
	s->ready = true;
}

/* Writes rows or their order, of which the first bytes are there. */
static void
put(Served *s, const GrnWireHead *head, const char *bytes)
{
	GrnndMapping *map = s->build.map;
	uint64		end = head->offset + head->bytes;
	uint64		row_bytes = s->build.row_bytes;

	if (head->segment == GRN_SEG_VECTORS)
	{
		if (head->offset != s->have_rows * row_bytes || head->bytes % row_bytes != 0 || s->have_order > 0)
			unsound("rows out of turn");
		s->have_rows += head->bytes / row_bytes;
		if (s->have_rows > s->most_rows)
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("a build cannot have %llu rows", (unsigned long long) s->have_rows),
					 errhint("Partition the table.")));
	}
	else if (head->segment == GRN_SEG_ORDER)
	{
		if (head->offset != s->have_order || head->bytes > s->have_rows * sizeof(uint32) - head->offset)
			unsound("an order out of turn");
		s->have_order += head->bytes;
	}
	else
		unsound("an unknown segment");
	grnnd_mapping_grow(map, (GrnSegment) head->segment, end);
	grnnd_mapping_populate(map, (GrnSegment) head->segment, head->offset, end);
	memcpy(map->base[head->segment] + head->offset, bytes, head->bytes);
}

/* Has the graph built.  Returns the sizes of the result. */
static GrnWireBuilt
run(Served *s)
{
	GrnndBuilder *builder = &s->build.builder;
	GrnWireBuilt wire;

	if (s->have_rows == 0 || s->have_order != s->have_rows * sizeof(uint32) || s->begun)
		unsound("a build without all of its rows");
	s->begun = true;
	grnnd_builder_begin(builder, s->have_rows);
	grnnd_builder_await_written(builder);
	s->built = true;
	wire.bytes = Min(builder->result_needed, s->build.map->size[GRN_SEG_RESULT]);
	return wire;
}

static void
end_build(Served *s)
{
	grnnd_builder_await_end(&s->build.builder);
	grnnd_builder_kill(&s->build.builder);
}

/* Makes an answer in `context`: room for the head, and a payload. */
static bytea *
answer_to(MemoryContext context, GrnWireHead *head, const void *payload, uint64 bytes)
{
	bytea	   *answer = MemoryContextAlloc(context, VARHDRSZ + sizeof(GrnWireHead) + bytes);

	SET_VARSIZE(answer, VARHDRSZ + sizeof(GrnWireHead) + bytes);
	head->bytes = bytes;
	if (bytes > 0)
		memcpy(VARDATA(answer) + sizeof(GrnWireHead), payload, bytes);
	return answer;
}

static bytea *
serve(MemoryContext context, GrnWireHead *head, const char *payload)
{
	Served	   *s = served;
	GrnWireBuilt built;
	uint64		wanted;

	/* the client may have changed the settings since the last frame */
	log_no_rows();
	if (head->type == GRN_WIRE_BEGIN)
	{
		GrnWireBegin wire;

		if (head->bytes != sizeof(wire))
			unsound("a beginning of another size");
		memcpy(&wire, payload, sizeof(wire));
		begin(&wire);
		return answer_to(context, head, NULL, 0);
	}
	/* (a caller may continue after an error) */
	if (s == NULL || !s->ready)
		unsound("no build has begun");
	grnnd_builder_poll(&s->build.builder);
	switch ((GrnWireType) head->type)
	{
		case GRN_WIRE_PUT:
			if (s->begun)
				unsound("rows behind the build");
			put(s, head, payload);
			return answer_to(context, head, NULL, 0);
		case GRN_WIRE_BUILD:
			built = run(s);
			return answer_to(context, head, &built, sizeof(built));
		case GRN_WIRE_GET:
			if (head->bytes != sizeof(wanted) || !s->built ||
				head->segment != GRN_SEG_RESULT)
				unsound("nothing that can be had");
			memcpy(&wanted, payload, sizeof(wanted));
			if (wanted > GRN_WIRE_PIECE || head->offset > s->build.map->size[head->segment] ||
				wanted > s->build.map->size[head->segment] - head->offset)
				unsound("more than there is");
			return answer_to(context, head, s->build.map->base[head->segment] + head->offset, wanted);
		case GRN_WIRE_END:
			if (!s->built)
				unsound("an end without a build");
			end_build(s);
			return answer_to(context, head, &s->build.builder.result, sizeof(GrnBuildResult));
		case GRN_WIRE_BEGIN:
			break;
	}
	unsound("an unknown request");
}

PG_FUNCTION_INFO_V1(grnnd_serve_build);
Datum
grnnd_serve_build(PG_FUNCTION_ARGS)
{
	bytea	   *frame = PG_GETARG_BYTEA_PP(0);
	const char *bytes = VARDATA_ANY(frame);
	Size		length = VARSIZE_ANY_EXHDR(frame);
	MemoryContext context = MemoryContextSwitchTo(TopTransactionContext);
	ResourceOwner owner = CurrentResourceOwner;
	GrnWireHead head;
	bytea	   *answer;

	if (length < sizeof(head))
		unsound("it is too short");
	memcpy(&head, bytes, sizeof(head));
	if (head.magic != GRN_WIRE_MAGIC || head.bytes != length - sizeof(head))
		unsound("it is not a frame");
	if (head.checksum != grn_checksum(bytes + sizeof(uint64), length - sizeof(uint64)))
		unsound("it was changed on its way");
	if (head.version != GRN_PROTOCOL_VERSION)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the other host's grnnd uses version %u of the builder's protocol, but this server uses version %d",
						head.version, GRN_PROTOCOL_VERSION),
				 errhint("Install the same version of grnnd on both hosts.")));

	/* the temporary file and the builder outlive this statement */
	CurrentResourceOwner = TopTransactionResourceOwner;
	answer = serve(context, &head, bytes + sizeof(head));
	CurrentResourceOwner = owner;

	head.checksum = 0;
	memcpy(VARDATA(answer), &head, sizeof(head));
	head.checksum = grn_checksum(VARDATA(answer) + sizeof(uint64),
								 VARSIZE(answer) - VARHDRSZ - sizeof(uint64));
	memcpy(VARDATA(answer), &head, sizeof(head));
	MemoryContextSwitchTo(context);
	PG_FREE_IF_COPY(frame, 0);
	PG_RETURN_BYTEA_P(answer);
}
