/*
 * serve_build.c - grnnd_serve_build(): builds for another host's CREATE INDEX.  The builder
 * there is the client; "Between hosts" in builder/protocol.h has what they say.
 *
 * A session serves one build at a time, within one transaction, whose end gives everything back.
 * Of settings only those count that the client cannot set: grnnd.serve_memory, grnnd.serve_threads,
 * temp_file_limit and those of GPUs.  What comes is not trusted: the backend looks at lengths,
 * forms, numbers and limits, and all else is for the builder process, which can harm nothing but
 * itself.
 */
#include "am/grnnd.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "access/xact.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

#include "am/create/build_state.h"
#include "am/create/device_choice.h"
#include "am/create/mapping.h"
#include "am/create/progress.h"
#include "graph/checksum.h"
#include "graph/packed_rows.h"

/* Of memory that is free between frames, at most. */
#define KEPT_BYTES (32 * 1024 * 1024)

typedef struct Served
{
	GrnndBuild	build;			/* heap, index and options are not here */
	uint64		most_rows;
	uint64		have_rows;
	uint64		have_order;		/* bytes */
	bool		ready;			/* all of BEGIN has been done */
	bool		begun;			/* BUILD has come, */
	bool		built;			/* and RESULT and CODES are written */
	GrnRows		rows;			/* where they lie in the builder, but for the base */
	double		rows_seconds;	/* of work for rows, and for what goes back */
	double		result_seconds;
} Served;

/* This session's build; in the transaction's memory. */
static Served *served = NULL;

/* An XactCallback. */
static void
end_served(XactEvent event, void *arg)
{
	Served	   *s = served;

	if (s == NULL || event == XACT_EVENT_PRE_COMMIT || event == XACT_EVENT_PARALLEL_PRE_COMMIT ||
		event == XACT_EVENT_PRE_PREPARE)
		return;
	served = NULL;
	/* a temporary file that is still open at a commit would be reported as a leak */
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
			 errmsg("a request of another host's index build is not sound: %s", what),
			 errhint("grnnd_serve_build() is for grnnd's own builder, which is not to be of another version; else check the network.")));
}

/*
 * Keeps rows out of this server's log until the transaction ends.  Rows are parameters, which
 * log_statement, log_min_duration_statement, errors and auto_explain would write there in full.
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

/* Tells the other host that the build goes on, and how far it is. */
static void
tell_phase(GrnndBuilder *builder)
{
	ereport(NOTICE,
			(errmsg_internal(GRN_WIRE_PHASE, (unsigned) builder->phase[0],
							 (unsigned long long) builder->phase[1],
							 (unsigned long long) builder->phase[2])));
}

/* Tells it what will go back, so that it allocates memory meanwhile. */
static void
tell_need(GrnSegment segment, uint64 bytes)
{
	ereport(NOTICE,
			(errmsg_internal(GRN_WIRE_NEED, (unsigned) segment, (unsigned long long) bytes)));
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
		spec.use_codes > 1 || spec.keep > GRN_KEEP_SKETCH || spec.skip_recall > 1 ||
		spec.near.k > 0 || wire->most_rows < 1 || !grnnd_params_are_valid(&spec.params))
		unsound("numbers of its beginning are out of range");

#ifdef __GLIBC__
	/* frames go through several allocations each, whose pages are kept for the next frame */
	mallopt(M_MMAP_THRESHOLD, KEPT_BYTES);
	mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
#endif
	if (!registered)
		RegisterXactCallback(end_served, NULL);
	registered = true;
	s = palloc0(sizeof(Served));
	build = &s->build;
	build->builder.sock = -1;
	build->dim = spec.dim;
	build->row_bytes = spec.row_bytes;
	build->words = 1;			/* (no TIDs come) */
	spec.version = GRN_PROTOCOL_VERSION;
	spec.remote = GRN_REMOTE_NONE;
	spec.may_move = 0;			/* the other host's rows would stay where they are */
	spec.patience = 0;
	grnnd_set_devices(&spec);
	spec.threads = grnnd_serve_threads > 0 ? grnnd_serve_threads : Max(max_worker_processes, 1);
	spec.work_limit = 0;
	memset(spec.segment_max, 0, sizeof(spec.segment_max));
	s->most_rows = Min(wire->most_rows, GRN_MAX_NODES - 1);
	spec.expected = Min(spec.expected, s->most_rows);
	build->spec = spec;
	s->rows = (GrnRows) {NULL, NULL, 0, spec.row_bytes, spec.dim, metric->embedding, (GrnForm) spec.form};
	served = s;
	grnnd_build_map_within(build, s->most_rows, (uint64) grnnd_serve_memory * 1024 * 1024,
						   "grnnd.serve_memory");
	s->most_rows = Min(s->most_rows, build->max_rows);
	grnnd_choose_device(build, (double) spec.expected);
	/* now, so that a device opens while rows come */
	grnnd_builder_start(&build->builder, build->map, &build->spec);
	build->builder.heard = tell_phase;
	build->builder.wanted = tell_need;
	s->ready = true;
}

/* Rows stay packed: the builder's threads unpack them, and this backend is one thread. */
static void
put_rows(Served *s, uint32 form, uint64 first, const char *bytes, uint64 length)
{
	GrnndMapping *map = s->build.map;
	uint64		row_bytes;
	uint64		n;

	if (!grn_may_pack(&s->rows, form))
		unsound("rows of an unknown form");
	row_bytes = grn_form_bytes((GrnForm) form, s->build.dim);
	n = length / row_bytes;
	if (first != s->have_rows || length % row_bytes != 0 || s->have_order > 0)
		unsound("rows out of turn");
	if (n > s->most_rows - first)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("%llu rows are more than a build can have", (unsigned long long) (first + n)),
				 errhint("Partition the table.")));
	if (n == 0)
		return;					/* a sign of life */
	grnnd_mapping_grow(map, GRN_SEG_VECTORS, (first + n) * s->rows.row_bytes);
	grnnd_mapping_write(map, GRN_SEG_VECTORS, grn_packed_offset(&s->rows, (GrnForm) form, first, n),
						bytes, length);
	s->have_rows += n;
	if (row_bytes < s->rows.row_bytes)
		grnnd_builder_packed(&s->build.builder, first, n, (GrnForm) form);
}

static void
put_order(Served *s, uint64 offset, const char *bytes, uint64 length)
{
	GrnndMapping *map = s->build.map;

	if (offset != s->have_order || length > s->have_rows * sizeof(uint32) - offset)
		unsound("an order out of turn");
	grnnd_mapping_grow(map, GRN_SEG_ORDER, offset + length);
	grnnd_mapping_write(map, GRN_SEG_ORDER, offset, bytes, length);
	s->have_order += length;
}

/* Has the graph built; says what there is to be had. */
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
	wire.bytes[0] = Min(builder->needed[GRN_SEG_RESULT], s->build.map->size[GRN_SEG_RESULT]);
	wire.bytes[1] = Min(builder->needed[GRN_SEG_CODES], s->build.map->size[GRN_SEG_CODES]);
	return wire;
}

static void
end_build(Served *s)
{
	GrnndBuilder *builder = &s->build.builder;

	grnnd_builder_await_end(builder);
	grnnd_builder_kill(builder);
	builder->result.remote.there_rows = (float) s->rows_seconds;
	builder->result.remote.there_result = (float) s->result_seconds;
}

/* An answer in context, of a head that is still to be written and a payload. */
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

	/* the client may have set the settings again */
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
	/* (a caller may have gone on after an error) */
	if (s == NULL || !s->ready)
		unsound("no build has begun");
	grnnd_builder_poll(&s->build.builder);
	switch ((GrnWireType) head->type)
	{
		case GRN_WIRE_PUT:
			if (s->begun)
				unsound("rows behind the build");
			if (head->segment == GRN_SEG_VECTORS)
				put_rows(s, head->form, head->offset, payload, head->bytes);
			else if (head->segment == GRN_SEG_ORDER)
				put_order(s, head->offset, payload, head->bytes);
			else
				unsound("an unknown segment");
			return answer_to(context, head, NULL, 0);
		case GRN_WIRE_BUILD:
			built = run(s);
			return answer_to(context, head, &built, sizeof(built));
		case GRN_WIRE_GET:
			if (head->bytes != sizeof(wanted) || !s->built ||
				(head->segment != GRN_SEG_RESULT && head->segment != GRN_SEG_CODES))
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
	instr_time	start;

	INSTR_TIME_SET_CURRENT(start);
	if (length < sizeof(head))
		unsound("it is too short");
	memcpy(&head, bytes, sizeof(head));
	if (head.magic != GRN_WIRE_MAGIC || head.bytes != length - sizeof(head))
		unsound("it is no frame");
	if (head.checksum != grn_checksum(bytes + sizeof(uint64), length - sizeof(uint64)))
		unsound("it was changed on its way");
	if (head.version != GRN_PROTOCOL_VERSION)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the other host's grnnd speaks version %u of the builder's protocol, and this one version %d",
						head.version, GRN_PROTOCOL_VERSION),
				 errhint("Install the same version of grnnd on both.")));

	/* the temporary file and the builder are the transaction's, not this statement's */
	CurrentResourceOwner = TopTransactionResourceOwner;
	answer = serve(context, &head, bytes + sizeof(head));
	CurrentResourceOwner = owner;

	head.checksum = 0;
	memcpy(VARDATA(answer), &head, sizeof(head));
	head.checksum = grn_checksum(VARDATA(answer) + sizeof(uint64),
								 VARSIZE(answer) - VARHDRSZ - sizeof(uint64));
	memcpy(VARDATA(answer), &head, sizeof(head));
	if (head.type == GRN_WIRE_PUT)
		served->rows_seconds += grnnd_seconds_since(start);
	else if (head.type == GRN_WIRE_GET)
		served->result_seconds += grnnd_seconds_since(start);
	MemoryContextSwitchTo(context);
	PG_FREE_IF_COPY(frame, 0);
	PG_RETURN_BYTEA_P(answer);
}
