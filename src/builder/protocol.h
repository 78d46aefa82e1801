/*
 * protocol.h - the protocol between the leader of an index build and the builder process: messages
 * of a fixed size over a SOCK_SEQPACKET socket pair, and memory that both processes map.  The
 * leader starts "grnnd_build --serve" with the builder's end of the socket at GRN_BUILDER_FD.
 *
 * Large data never crosses the socket.  Large data lies in segments.  A segment is a range of
 * address space that each side reserves once.  The leader fills the range with extents.  An extent
 * is a piece of a memfd or, past maintenance_work_mem, of a preallocated temporary file.  The
 * leader announces each extent with its descriptor, and both sides map the extent at the same
 * offset.  Files only ever grow, so a mapped byte stays readable even if the process on the far
 * side dies.
 *
 *   leader                              builder
 *   START (spec) ------------------->
 *   CONNECTION ... ----------------->   if spec.remote: how to connect; before any ROWS
 *   <------------------------- HELLO    (version); opens the device meanwhile
 *   EXTENT(VECTORS) ... ROWS(n) ---->
 *   <------------------------ DEVICE    (once the device is open, maybe long after BUILD)
 *   BUILD(n) ----------------------->
 *   <---------------- PHASE, BEAT ...
 *   <------ NEED(segment, bytes) ----   workspace, results, codes; the builder may send NEED
 *   EXTENT ... GRANT --------------->   long before it waits for GRANT
 *   <----------------------- WRITTEN    RESULT is final; of an index alone
 *   <------------------------- DONE     (GrnBuildResult)
 *   EXTENT(VALUES, PAGES) ... FORM ->   the geometry of the records
 *   <-- NEED(LISTS), BEAT, LISTED ---   sizes of the lists of values
 *   both: pages by way of PAGES         (slots.h)
 *   RELEASE ------------------------>   drops all mappings
 *   <--------------------- RELEASED
 *   START ... ---------------------->   the next build, with the device still open
 *   close -------------------------->   exits
 *
 * At any time the builder may send NOTICE, or send FAILED and exit.  A side that reads an end of
 * file treats the build as ended.
 *
 * EXTENTs after the next START belong to a new mapping.  The device and gpu_devices of later builds
 * must equal the first build's.  From DONE to START the builder sends only what answers FORM and
 * RELEASE, and DEVICE if the search for a GPU has taken longer than a build that needs none.  The
 * builder exits GRN_IDLE_SECONDS after RELEASED.
 */
#ifndef GRN_PROTOCOL_H
#define GRN_PROTOCOL_H

#include "graph/graph.h"
#include "memory/memory.h"
#include "space/grn.h"
#include "store/group.h"
#include "store/record.h"

#define GRN_PROTOCOL_VERSION 28
#define GRN_SQLSTATE 8			/* bytes of a SQLSTATE, filled up with zeroes */
#define GRN_BUILDER_FD 3		/* the builder's end of the socket */
#define GRN_BEAT_MS 500			/* largest time between two BEATs, in milliseconds */
#define GRN_IDLE_SECONDS 10		/* time that an idle builder waits for the next build */

typedef enum GrnSegment
{
	/*
	 * Rows as collected: [n] of GrnBuildSpec.row_bytes.  The leader writes each row as a stored
	 * vector of GrnBuildSpec.form, in the form that the metric compares (cosine: of length 1), and
	 * fills the rest of row_bytes with zeroes.  For scaled rows the builder writes the scale there
	 * (space/rows.h).
	 */
	GRN_SEG_VECTORS = 0,
	GRN_SEG_ORDER,				/* uint32 [n]: for each rank by heap TID, the row's number in
								 * VECTORS */
	GRN_SEG_RESULT,				/* see GrnResultArrays */
	GRN_SEG_WORK,				/* the builder's own workspace */
	GRN_SEG_VALUES,				/* GRN_VALUE_BYTES for each filter column of each row, which the
								 * leader fills: see grn_value() */
	GRN_SEG_LISTS,				/* see GrnNewLists (forming.h) */
	GRN_SEG_PAGES,				/* see GrnSlots (slots.h) */
	/* The segments from here on belong to the leader alone; the builder never maps them. */
	GRN_SEG_TIDS,				/* 8 bytes a row */
	GRN_SEG_ATTRS,				/* GrnBuildSpec.attr_bytes a row */
	GRN_NSEGMENTS
} GrnSegment;

typedef enum GrnDevice
{
	GRN_DEVICE_AUTO = 0,
	GRN_DEVICE_GPU,
	GRN_DEVICE_CPU
} GrnDevice;

/* Longest list of nearest rows, and largest number of candidates of a search for such a list. */
#define GRN_MOST_NEAR 1000
#define GRN_MOST_NEAR_EF 10000

/* Settings of a build that makes lists of each row's nearest rows instead of an index. */
typedef struct GrnNearSpec
{
	uint32_t	k;				/* rows in the list of a vertex, at most GRN_MOST_NEAR; 0: an index
								 * is built */
	uint32_t	ef;				/* candidates that a search keeps, from k to GRN_MOST_NEAR_EF */
	uint32_t	exact;			/* compares all rows with all rows, without a graph or a device */
	double		farthest;		/* largest distance by the operator; infinite: no limit */
} GrnNearSpec;

/* A build on another host, by the program grnnd_build_remote (src/build_server). */
typedef enum GrnRemote
{
	GRN_REMOTE_NONE = 0,
	GRN_REMOTE_PASSWORD,		/* the connection must have used the password given */
	GRN_REMOTE_ANY				/* any kind of authentication will do */
} GrnRemote;

typedef struct GrnBuildSpec
{
	uint32_t	version;		/* GRN_PROTOCOL_VERSION */
	uint32_t	metric;			/* GrnMetric */
	uint32_t	dim;			/* dimensions of the column */
	uint32_t	form;			/* GrnForm of rows in VECTORS */
	uint32_t	row_bytes;		/* bytes of a row in VECTORS, grn_row_bytes() */
	uint32_t	payload;		/* usable bytes of an index page */
	uint32_t	attr_bytes;		/* bytes that records keep beside each heap TID */
	uint32_t	sig_bytes;		/* bytes that records keep beside each code (store/record.h) */
	uint32_t	use_codes;
	uint32_t	keep;			/* GrnKeep: the form in which records keep own vectors */
	/*
	 * With fewer distinct rows the builder fits no codec, and measures no recall if a later fit
	 * will make both codes and curve.
	 */
	uint32_t	fit_rows;
	uint32_t	skip_recall;	/* the builder measures no recall curve */
	GrnNearSpec near;
	GrnGraphParams params;		/* 0: the builder's default for dim and n */
	uint32_t	bare_degree;	/* degree of records if the build drops codes */
	uint32_t	device;			/* GrnDevice */
	uint32_t	threads;		/* >= 1 */
	uint64_t	gpu_memory_limit;	/* bytes; 0: the device's free memory */
	uint64_t	work_limit;		/* bytes that cores may use; 0: free memory */
	uint32_t	may_move;		/* rows may change their places: see GrnBuildResult.moved */
	char		gpu_devices[64];	/* such as "0,1"; empty: the first */
	uint32_t	remote;			/* GrnRemote: whether another host builds */
	uint32_t	patience;		/* milliseconds for which the other host may be silent */
	uint64_t	expected;		/* estimated rows, if another host builds */
	uint64_t	segment_max[GRN_NSEGMENTS]; /* bytes of address space to reserve */
} GrnBuildSpec;

/*
 * Seconds of the steps of a build on another host.  The steps follow each other.  connect begins
 * with the first rows, rows with BUILD.
 */
typedef struct GrnRemoteTimes
{
	float		connect,		/* until the other host had begun a build */
				rows,			/* until all rows and their order had arrived */
				graph,			/* until the other host had written results */
				result,			/* until the results had arrived here */
				end;			/* until recall was measured */
} GrnRemoteTimes;

/*
 * The numbers of a build's result.  GrnResultArrays has the arrays.  If rows have moved, their
 * vectors are in WORK at off_vectors: rows in the form of VECTORS, whose own copy is gone, or, if
 * own_items, the vectors that records keep (store/own.c).
 */
typedef struct GrnBuildResult
{
	uint32_t	nodes;
	uint32_t	degree;
	uint32_t	form;			/* GrnForm of own vectors */
	GrnCodeShape shape;			/* shape of the codes */
	float		norm_unit;		/* GrnCodec.norm_unit; scaled rows have a norm unit even without
								 * codes */
	float		power;			/* power of the places of scaled rows; otherwise 0 */
	float		steps[GRN_CODE_BLOCKS]; /* GrnCodec.steps */
	float		held;			/* share of the variance that codes hold */
	uint32_t	nentries;		/* entries[0] reaches every node */
	uint32_t	entries[GRN_MAX_ENTRIES];
	uint32_t	on_gpu;
	uint32_t	connected;		/* vertices that the builder connected at the end, because no
								 * search reached them */
	uint32_t	centered;		/* own vectors have a center (store/own.c) */
	/*
	 * Number of vectors at off_vectors of WORK, which lie in an order of their own: rows, or the
	 * vectors that records keep.  0: rows have not moved.
	 */
	uint32_t	moved;
	uint32_t	own_items;
	GrnGraphParams params;		/* the parameters used */
	uint64_t	off_vectors;
	uint64_t	near_items;		/* items at GrnResultArrays.near */
	uint32_t	gpus;			/* GPUs that were open for the build */
	uint32_t	parts;			/* parts in which the graph was built; 0: the graph was built as a
								 * whole */
	GrnRecallCurve curve;
	GrnContrast contrast;		/* of the queries that measured the curve */
	float		seconds[GRN_STEPS]; /* of each step from BUILD to DONE */
	GrnRemoteTimes remote;
} GrnBuildResult;

/* The geometry of records by the result, of which degree, shape and form must be set. */
static inline GrnLayoutSpec
grn_result_layout_spec(const GrnBuildSpec *spec, const GrnBuildResult *result)
{
	return (GrnLayoutSpec) {.dim = spec->dim, .degree = result->degree, .shape = result->shape,
							.form = (GrnForm) result->form, .attr_bytes = spec->attr_bytes,
							.sig_bytes = spec->sig_bytes, .payload = spec->payload};
}
static inline bool
grn_result_layout(GrnLayout *layout, const GrnBuildSpec *spec, const GrnBuildResult *result)
{
	GrnLayoutSpec of = grn_result_layout_spec(spec, result);

	return grn_layout_of(layout, &of);
}

/*
 * The arrays of RESULT after a build of n rows, with m = nodes.  Node ids follow the
 * order of pages, the order of records on disk.  An index has no near arrays.  A build of lists of
 * nearest rows has only the near arrays, row_start and rows.  Arrays that a result lacks are NULL.
 */
typedef struct GrnResultArrays
{
	uint32_t   *ids;			/* [m][degree] neighbors, nearest first */
	uint8_t    *counts;			/* [m] number of neighbors */
	uint32_t   *row_start;		/* [m + 1] */
	uint32_t   *rows;			/* [n] rows of node i (into VECTORS), by heap TID: [row_start[i],
								 * row_start[i + 1]) */
	uint32_t   *moved;			/* [m] if moved: number of node i's vector in WORK.  TIDS and ATTRS
								 * do not move: rows[] indexes them. */
	float	   *center;			/* [dim] if centered: the approximate mean of the rows */
	uint64_t   *near_start;		/* [m] first item of node i's list in near[] */
	uint32_t   *near_count;		/* [m] number of items in the list */
	GrnNear    *near;			/* [near_items] with the ids of nodes, nearest first.  Some items
								 * belong to no list.  A node with several rows is in its own list. */
	uint8_t    *codes;			/* [m][code_bytes] */
	GrnFactor  *factors;		/* [m] */
	float	   *codec;			/* mean, then basis: grn_codec_floats() */
	uint64_t	bytes;			/* bytes of RESULT */
} GrnResultArrays;

/*
 * Places the arrays of a build of `rows` rows by the numbers of its result.  near: the build makes
 * lists of nearest rows.  segment: RESULT, or NULL, for the bytes alone, which are GRN_NO_SIZE if
 * the numbers are too large.
 */
static inline GrnResultArrays
grn_result_arrays(const GrnBuildResult *r, uint64_t rows, uint32_t dim, bool near, void *segment)
{
	GrnResultArrays at = {0};
	GrnArena	a = {segment, 0};

	if (near)
	{
		at.near_start = grn_take(&a, r->nodes, sizeof(uint64_t));
		at.near_count = grn_take(&a, r->nodes, sizeof(uint32_t));
	}
	else
	{
		at.ids = grn_take(&a, r->nodes, (size_t) r->degree * sizeof(uint32_t));
		at.counts = grn_take(&a, r->nodes, 1);
	}
	at.row_start = grn_take(&a, (size_t) r->nodes + 1, sizeof(uint32_t));
	at.rows = grn_take(&a, rows, sizeof(uint32_t));
	if (r->moved)
		at.moved = grn_take(&a, r->nodes, sizeof(uint32_t));
	if (r->centered)
		at.center = grn_take(&a, dim, sizeof(float));
	if (near)
		at.near = grn_take(&a, r->near_items, sizeof(GrnNear));
	if (grn_code_bytes(r->shape) > 0)
	{
		at.codes = grn_take(&a, r->nodes, grn_code_bytes(r->shape));
		at.factors = grn_take(&a, r->nodes, sizeof(GrnFactor));
		at.codec = grn_take(&a, grn_codec_floats(dim, grn_code_dims(r->shape)), sizeof(float));
	}
	at.bytes = a.used;
	return at;
}

/*
 * Whether `gpus` GPUs build the graph of `rows` rows faster in parts than a single GPU builds the
 * whole.  A build in parts costs about 1.7 times the work of the whole, so two or three GPUs gain
 * nothing.  With 4,000,000 rows four GPUs gain 0.1 s once their handles are open, and opening the
 * handles takes 0.1 s (test/bench/graph/limits.md).
 */
static inline bool
grn_parts_are_faster(int gpus, uint64_t rows)
{
	return gpus >= 4 && rows >= 8000000;
}

/* A node's record without heap TIDs and own vector.  Before the page order nodes are vertices. */
static inline GrnRecordSource
grn_result_record(const GrnResultArrays *at, const GrnLayout *l, uint32_t node)
{
	GrnRecordSource src = {.next = GRN_INVALID_ID, .ids = at->ids + (uint64_t) node * l->degree,
		.count = at->counts[node], .all_codes = at->codes, .all_factors = at->factors};

	if (at->codes != NULL)
	{
		src.code = at->codes + (uint64_t) node * l->code_bytes;
		src.factor = at->factors[node];
	}
	return src;
}

/* The codec of the result's codes.  floats: GrnResultArrays.codec, which the codec points into. */
static inline GrnCodec
grn_result_codec(const GrnBuildResult *r, GrnMetric metric, uint32_t dim, const float *floats)
{
	GrnCodec	codec = {.dim = dim, .shape = r->shape, .norm_unit = r->norm_unit, .power = r->power,
		.mean = floats, .basis = floats + dim};

	memcpy(codec.steps, r->steps, sizeof(codec.steps));
	grn_codec_set_metric(&codec, grn_metric(metric), r->norm_unit);
	return codec;
}

/* ---- records ---- */

#define GRN_MOST_BUCKETS 65536	/* of a column; a build with more rows has longer lists */

/* What the leader has decided of an index's records and pages. */
typedef struct GrnFormSpec
{
	GrnCodeShape shape;			/* of the records' codes, */
	uint32_t	form;			/* and GrnForm of own vectors: others than the result's if the
								 * index has too few rows */
	uint32_t	coded;			/* records have the result's codes; otherwise zeroes */
	uint32_t	buckets;		/* buckets of the lists of a column's values, at most
								 * GRN_MOST_BUCKETS; 0: no lists */
	uint32_t	listed;			/* a bit for each filter column whose values have lists */
	uint32_t	least_records;	/* records of a list with groups, at least */
	uint64_t	first_list;		/* id of the first record of lists */
	uint32_t	page_bytes;
	uint32_t	payload_at;		/* offset of a page's payload */
} GrnFormSpec;

/* A value of a filter column, as the builder knows it: rank and signature. */
#define GRN_VALUE_BYTES (sizeof(uint32_t) + 1)

static inline uint8_t *
grn_value(void *values, uint32_t columns, uint64_t row, uint32_t column)
{
	return (uint8_t *) values + (row * columns + column) * GRN_VALUE_BYTES;
}

/* The sizes of an index's lists of values, without the lists' heads. */
typedef struct GrnListSizes
{
	uint64_t	rows;			/* rows of all lists */
	uint64_t	lists;			/* lists with groups */
	uint64_t	records;		/* records of chains */
	uint64_t	groups;
	uint64_t	guides;			/* records of guides */
} GrnListSizes;

typedef enum GrnMsgType
{
	/* leader to builder */
	GRN_MSG_START = 1,
	GRN_MSG_EXTENT,				/* carries a descriptor; arg0: segment, arg1: offset in the
								 * segment, arg2: offset in the file, arg3: bytes */
	GRN_MSG_ROWS,				/* arg0: rows [0, arg0) are complete */
	GRN_MSG_BUILD,				/* arg0: n, ORDER is filled; arg1: bytes in the temporary file so
								 * far */
	GRN_MSG_GRANT,				/* arg0: segment, arg1: bytes now mapped */
	GRN_MSG_RELEASE,			/* after DONE: another build may follow */
	GRN_MSG_FORM,				/* form, after DONE: pages will be wanted */
	GRN_MSG_CONNECTION,			/* text: the next piece of the connection string */
	/* builder to leader */
	GRN_MSG_HELLO = 64,			/* arg0: version */
	GRN_MSG_BEAT,
	GRN_MSG_PHASE,				/* arg0: GrnStep, arg1 done, arg2 total */
	GRN_MSG_NEED,				/* arg0: segment, arg1: total bytes needed */
	GRN_MSG_NOTICE,				/* text, hint */
	GRN_MSG_FAILED,				/* sqlstate, text, hint */
	GRN_MSG_DONE,				/* result */
	GRN_MSG_DEVICE,				/* arg0: 1 for a GPU; text: its name */
	GRN_MSG_RELEASED,			/* the builder has unmapped the last build's memory */
	GRN_MSG_WRITTEN,			/* RESULT is final; the builder now measures recall */
	GRN_MSG_LISTED				/* arg: records of chains, groups, records of guides; LISTS has
								 * signatures and buckets */
} GrnMsgType;

typedef struct GrnMsg
{
	uint32_t	type;
	char		sqlstate[GRN_SQLSTATE];
	uint64_t	arg[4];
	union
	{
		GrnBuildSpec spec;
		GrnBuildResult result;
		GrnFormSpec form;
		struct
		{
			char		text[512];
			char		hint[256];
		}			say;
	}			u;
} GrnMsg;

#endif							/* GRN_PROTOCOL_H */
