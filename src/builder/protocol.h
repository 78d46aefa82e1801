/*
 * protocol.h - what the leader of an index build and the builder process say to each
 * other: messages of one size over a SOCK_SEQPACKET socket pair, and memory that both
 * map.  The leader starts "grnnd_build --serve" with the builder's end of the socket at
 * GRN_BUILDER_FD.
 *
 * Large data never crosses the socket.  It lies in segments, ranges of address
 * space that each side reserves once; the leader fills a segment's range with
 * extents (pieces of a memfd or, past maintenance_work_mem, of a preallocated
 * temporary file), announces each with its descriptor, and both map it at
 * the same offset.  Files only ever grow, so a mapped byte stays readable
 * even when the other side dies.
 *
 *   leader                              builder
 *   START (spec) ------------------->
 *   OPTION ... --------------------->   of spec.remote alone: how to connect; before any ROWS
 *   <------------------------- HELLO    (version); opens the device meanwhile
 *   EXTENT(VECTORS) ... ROWS(n) ---->   or PACKED(rows, form), where another host sent them
 *   <------------------------ DEVICE    (once it is open, which may be long after BUILD)
 *   BUILD(n) ----------------------->
 *   <---------------- PHASE, BEAT ...
 *   <------ NEED(segment, bytes) ----   workspace, results, codes; may be asked for
 *   EXTENT ... GRANT --------------->   long before they are waited for
 *   <----------------------- WRITTEN    RESULT and CODES are as they will be; of an index alone
 *   <------------------------- DONE     (GrnBuildResult)
 *   GROUP -------------------------->   lists to put into groups, where a GPU has built the graph
 *   <----------------- BEAT, GROUPED
 *   RELEASE ------------------------>   drops what it had mapped
 *   <--------------------- RELEASED
 *   START ... ---------------------->   the next build, with the device still open
 *   close -------------------------->   exits
 *
 * At any time the builder may say NOTICE, or FAILED and exit.  A side that reads an end
 * of file takes the build as ended.
 *
 * The EXTENTs after the next START are those of a new mapping.  Device and gpu_devices
 * must be those of the first.  From DONE to START the builder says nothing but GROUPED and
 * RELEASED, BEAT alone between GROUP and GROUPED, and exits GRN_IDLE_SECONDS after RELEASED.
 */
#ifndef GRN_PROTOCOL_H
#define GRN_PROTOCOL_H

#include "graph/arena.h"
#include "graph/construct/nearest.h"
#include "graph/grn.h"
#include "graph/stored/record.h"

#define GRN_PROTOCOL_VERSION 18
#define GRN_SQLSTATE 8			/* bytes of one, and zeroes */
#define GRN_BUILDER_FD 3		/* the builder's end of the socket */
#define GRN_BEAT_MS 500			/* a BEAT at least this often */
#define GRN_IDLE_SECONDS 10		/* a builder that may build again waits this long */

typedef enum GrnSegment
{
	/*
	 * Rows as collected: [n] of GrnBuildSpec.row_bytes.  The leader writes them as stored
	 * vectors of GrnBuildSpec.form, as the metric compares them (cosine: of length 1), and
	 * zeroes the rest.  Of scaled rows the builder writes the scale there (graph/rows.h).
	 */
	GRN_SEG_VECTORS = 0,
	GRN_SEG_ORDER,				/* uint32 [n]: row (in VECTORS) of rank i by heap TID */
	GRN_SEG_RESULT,				/* see GrnBuildResult */
	GRN_SEG_CODES,				/* see GrnBuildResult */
	GRN_SEG_WORK,				/* the builder's own workspace */
	/* from here on they are the leader's; the builder never maps them */
	GRN_SEG_TIDS,				/* 8 bytes a row */
	GRN_SEG_ATTRS,				/* GrnBuildSpec.attr_bytes a row, then what write_filters.c makes */
	GRN_NSEGMENTS
} GrnSegment;

typedef enum GrnDevice
{
	GRN_DEVICE_AUTO = 0,
	GRN_DEVICE_GPU,
	GRN_DEVICE_CPU
} GrnDevice;

/* Longest list of nearest rows, and the most candidates that a search for one keeps. */
#define GRN_MOST_NEAR 1000
#define GRN_MOST_NEAR_EF 10000

/* Lists of each row's nearest, where those are wanted instead of an index. */
typedef struct GrnNearSpec
{
	uint32_t	k;				/* at most GRN_MOST_NEAR of a vertex; 0: an index is built */
	uint32_t	ef;				/* candidates that a search keeps, from k to GRN_MOST_NEAR_EF */
	uint32_t	exact;			/* all are compared with all: there is no graph and no device */
	double		farthest;		/* by the operator's value; infinite: any */
} GrnNearSpec;

/* A build on another host; see GrnWireHead. */
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
	uint32_t	dim;			/* of the column */
	uint32_t	form;			/* GrnForm of rows in VECTORS */
	uint32_t	row_bytes;		/* from row to row, grn_row_bytes() */
	uint32_t	payload;		/* usable bytes of an index page */
	uint32_t	attr_bytes;		/* that records keep beside each heap TID, */
	uint32_t	sig_bytes;		/* and beside each code (graph/stored/record.h) */
	uint32_t	use_codes;
	uint32_t	keep;			/* GrnKeep of own vectors */
	uint32_t	fit_rows;		/* fewer different rows get no codes that have to be fitted, and no
								 * curve of recall where a later fit is to make both */
	uint32_t	skip_recall;	/* no curve of recall is wanted of the builder */
	GrnNearSpec near;
	GrnGraphParams params;		/* 0: the builder's default for dim and n */
	uint32_t	device;			/* GrnDevice */
	uint32_t	threads;		/* >= 1 */
	uint64_t	gpu_memory_limit;	/* bytes; 0: what is free */
	uint64_t	work_limit;		/* bytes that cores take as free memory; 0: what is free */
	uint32_t	may_move;		/* rows may change their places: GrnBuildResult.moved */
	char		gpu_devices[64];	/* "0,1"; empty: the first */
	uint32_t	remote;			/* GrnRemote: whether another host builds */
	uint32_t	patience;		/* ms that it may be silent */
	uint64_t	expected;		/* rows, about, where another host builds */
	uint64_t	segment_max[GRN_NSEGMENTS]; /* address space to reserve, bytes */
} GrnBuildSpec;

/*
 * Where the time of a build on another host went: seconds one after the other, the first two since
 * there were rows and since BUILD; then those in which the backend there was at work.
 */
typedef struct GrnRemoteTimes
{
	float		connect,		/* until a build had begun there */
				rows,			/* until all rows and their order were there */
				graph,			/* until results were written */
				result,			/* until they were here */
				end;			/* until recall was measured */
	float		there_rows,
				there_result;
} GrnRemoteTimes;

/*
 * What a finished build left in the segments, m = nodes:
 *  RESULT at off_ids: uint32 [m][degree]  neighbours, by node id, nearest first
 *         at off_counts: uint8 [m]
 *         at off_row_start: uint32 [m + 1]
 *         at off_rows: uint32 [n]   rows of node i (into VECTORS), by heap TID:
 *                                   [row_start[i], row_start[i + 1])
 *         at off_centre: float [dim] where centred: the mean of the rows, about
 *  CODES  at off_codes: uint8 [m][code_bytes], at off_factors: GrnFactor [m],
 *         at off_codec: float, mean then basis (grn_codec_floats())
 *         at off_moved: uint32 [m]  where moved: vector of those below that is node i's.  TIDS
 *                                   and ATTRS are by rows, as off_rows has them, and stay.
 *  WORK   at off_vectors: [moved]   rows as VECTORS had them, which has them no more; where
 *                                   own_items, what records keep of them (graph/stored/own.h)
 * Node ids are in the order of pages, that of records on disk.
 * Lists of nearest rows have row_start and rows alone of these, and in RESULT
 *         at off_near_start: uint64 [m] first item of node i's list in
 *         at off_near_count: uint32 [m] with so many items
 *         at off_near:       GrnNear [near_items], of which some belong to no list; ids are of
 *                            nodes, nearest first.  A node is in its own list if it has
 *                            several rows.
 */
typedef struct GrnBuildResult
{
	uint32_t	nodes;
	uint32_t	degree;
	uint32_t	form;			/* GrnForm of own vectors */
	GrnCodeShape shape;			/* of codes */
	float		norm_unit;		/* GrnCodec's; that of scaled rows also without codes */
	float		steps[GRN_CODE_BLOCKS]; /* GrnCodec's */
	float		held;			/* share of the variance that codes hold */
	uint32_t	nentries;		/* entries[0] reaches every node */
	uint32_t	entries[GRN_MAX_ENTRIES];
	uint32_t	on_gpu;
	uint32_t	connected;		/* vertices that had to be connected at the end */
	uint32_t	centred;		/* own vectors have a centre (stored/own.h) */
	uint32_t	moved;			/* rows, or what records keep of them, lie in another order, so
								 * many at off_vectors of WORK; 0: they do not */
	uint32_t	stayed;			/* of these, rows themselves have not moved */
	uint32_t	own_items;
	GrnGraphParams params;		/* as used */
	uint64_t	off_ids,
				off_counts,
				off_row_start,
				off_rows,
				off_centre,
				off_moved,
				off_vectors;
	uint64_t	off_codes,
				off_factors,
				off_codec;
	uint64_t	off_near_start,
				off_near_count,
				off_near,
				near_items;
	uint32_t	gpus;			/* that were open for it */
	uint32_t	parts;			/* in which the graph was built; 0: as a whole */
	GrnRecallCurve curve;
	GrnMisses	misses;			/* of its queries */
	/*
	 * Seconds from BUILD to DONE, for the log and the benchmarks; what goes on beside
	 * another phase is counted as that one's.  Device: waiting for it to open.
	 */
	float		sec_device,
				sec_prepare,
				sec_descent,
				sec_connect,
				sec_codes,
				sec_recall,
				sec_near;
	GrnRemoteTimes remote;
} GrnBuildResult;

/* What fixes the geometry of records by the result, also while it is being made. */
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

/* Where RESULT has lists and rows: nodes and degree must be known. */
static inline void
grn_place_result(GrnBuildResult *r)
{
	r->off_ids = 0;
	r->off_counts = grn_aligned((uint64_t) r->nodes * r->degree * sizeof(uint32_t));
	r->off_row_start = r->off_counts + grn_aligned(r->nodes);
	r->off_rows = r->off_row_start + grn_aligned(((uint64_t) r->nodes + 1) * sizeof(uint32_t));
}

/* The same of what follows the rows, so many; returns the bytes of all. */
static inline uint64_t
grn_place_result_end(GrnBuildResult *r, uint64_t rows, uint32_t dim)
{
	r->off_moved = r->off_rows + grn_aligned(rows * sizeof(uint32_t));
	r->off_centre = r->off_moved + (r->moved ? grn_aligned(r->nodes * sizeof(uint32_t)) : 0);
	return r->off_centre + (r->centred ? grn_aligned(dim * sizeof(float)) : 0);
}

/* Where CODES has its arrays: nodes and shape must be known.  Returns the bytes of all. */
static inline uint64_t
grn_place_codes(GrnBuildResult *r, uint32_t dim)
{
	r->off_codes = 0;
	r->off_factors = grn_aligned((uint64_t) r->nodes * grn_code_bytes(r->shape));
	r->off_codec = r->off_factors + grn_aligned(r->nodes * sizeof(GrnFactor));
	return r->off_codec + grn_codec_floats(dim, grn_code_dims(r->shape)) * sizeof(float);
}

/*
 * Whether so many GPUs share a build of so many rows that one of them could do.  Parts cost about
 * 1.7 times what the whole does, so that fewer gain nothing; of half as many rows four gain
 * 0.1 s once their handles are open, which takes as long (test/bench/graph/limits.md).
 */
static inline bool
grn_parts_are_faster(int gpus, uint64_t rows)
{
	return gpus >= 4 && rows >= 8000000;
}

typedef enum GrnMsgType
{
	/* leader to builder */
	GRN_MSG_START = 1,
	GRN_MSG_EXTENT,				/* with a descriptor: arg0 segment, arg1 offset in the segment,
								 * arg2 offset in the file, arg3 bytes */
	GRN_MSG_ROWS,				/* arg0: rows [0, arg0) are complete */
	GRN_MSG_BUILD,				/* arg0: n; ORDER is filled; arg1: bytes so far in the temporary
								 * file */
	GRN_MSG_GRANT,				/* arg0: segment, arg1: bytes now mapped */
	GRN_MSG_RELEASE,			/* after DONE: another build may follow */
	GRN_MSG_PACKED,				/* arg0: rows [arg0, arg0 + arg1) lie packed in VECTORS, in the
								 * GrnForm arg2 (graph/packed_rows.h) */
	GRN_MSG_GROUP,				/* after DONE: arg0 lists, of arg1 rows in all and arg2 rows a
								 * group at most, lie in WORK as grn_group_places() says */
	GRN_MSG_OPTION,				/* of libpq, hint: its name, text: a piece of its value, which goes
								 * behind the one before if arg0 is 1 */
	/* builder to leader */
	GRN_MSG_HELLO = 64,			/* arg0: version */
	GRN_MSG_BEAT,
	GRN_MSG_PHASE,				/* arg0: GrnPhase, arg1 done, arg2 total */
	GRN_MSG_NEED,				/* arg0: segment, arg1: bytes in all */
	GRN_MSG_NOTICE,				/* text, hint */
	GRN_MSG_FAILED,				/* sqlstate, text, hint */
	GRN_MSG_DONE,				/* result */
	GRN_MSG_DEVICE,				/* arg0: 1 for a GPU; text: its name */
	GRN_MSG_RELEASED,			/* nothing of the last build is mapped any more */
	GRN_MSG_WRITTEN,			/* RESULT and CODES: recall is measured yet */
	GRN_MSG_GROUPED				/* arg0: 1 if rows have their groups, 0 if the GPU could not (text:
								 * why); arg1: microseconds that it took */
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
		struct
		{
			char		text[512];
			char		hint[256];
		}			say;
	}			u;
} GrnMsg;

/*
 * Where in WORK lists for groups are: GrnListToGroup [lists], and uint32 [rows] each of the rows'
 * nodes, in ascending order in each list, and of what comes back, as GrnGpuGrouping's.  Nothing of
 * a result may lie there (off_vectors).
 */
typedef struct GrnGroupPlaces
{
	uint64_t	members,
				chosen,
				copied,
				bytes;			/* of all */
} GrnGroupPlaces;

static inline GrnGroupPlaces
grn_group_places(uint64_t lists, uint64_t rows)
{
	GrnGroupPlaces p;

	p.members = lists * sizeof(GrnListToGroup);
	p.chosen = p.members + rows * sizeof(uint32_t);
	p.copied = p.chosen + rows * sizeof(uint32_t);
	p.bytes = p.copied + rows * sizeof(uint32_t);
	return p;
}

/*
 * Between hosts.  A builder whose spec says so (remote) builds nothing.  It connects to a
 * PostgreSQL by libpq and calls grnnd_serve_build(bytea) there, in one transaction.  Each
 * argument and each answer is a frame: a GrnWireHead and a payload.  The backend there is the
 * leader of a builder of its own, and the first builder answers its leader as if it were that
 * one.  TLS, authentication and rights are PostgreSQL's.
 *
 *   builder                             grnnd_serve_build()
 *   BEGIN (GrnWireBegin) ----------->   starts a builder by that session's settings
 *   PUT rows ..., PUT order ... ---->   in turn, without gaps; rows while the leader collects them
 *   BUILD -------------------------->   NOTICEs meanwhile: GRN_WIRE_PHASE, GRN_WIRE_NEED
 *   <--------------- (GrnWireBuilt)     RESULT and CODES are written
 *   GET(segment, offset, bytes) ---->   recall is measured meanwhile
 *   <------------------------- bytes
 *   END ---------------------------->
 *   <-------------- (GrnBuildResult)    of remote, what the backend there knows
 *
 * Hosts must have one byte order and one version of this protocol.
 */
#define GRN_WIRE_MAGIC UINT32_C(0x67726e57)
#define GRN_WIRE_PIECE (UINT64_C(1) << 20)	/* bytes of a payload, at most (one row may be more) */
#define GRN_WIRE_PHASE "grnnd build phase %u, %llu of %llu" /* GrnPhase, done, total */
#define GRN_WIRE_NEED "grnnd build needs %u, %llu"	/* GrnSegment, bytes that will be sent back of
													 * it */

typedef enum GrnWireType
{
	GRN_WIRE_BEGIN = 1,
	GRN_WIRE_PUT,				/* offset: rows of VECTORS, or bytes of ORDER */
	GRN_WIRE_BUILD,
	GRN_WIRE_GET,				/* payload: uint64_t bytes wanted */
	GRN_WIRE_END
} GrnWireType;

typedef struct GrnWireHead
{
	uint64_t	checksum;		/* grn_checksum() of all that follows */
	uint32_t	magic;
	uint32_t	version;		/* GRN_PROTOCOL_VERSION */
	uint32_t	type;			/* GrnWireType; an answer has that of its question */
	uint32_t	segment;		/* GrnSegment */
	uint64_t	offset;
	uint64_t	bytes;			/* of the payload */
	uint32_t	form;			/* GrnForm of a PUT's rows: that of spec, or a shorter exact one */
	uint32_t	unused;
} GrnWireHead;

typedef struct GrnWireBegin
{
	GrnBuildSpec spec;			/* device, threads and limits are the other host's own */
	uint64_t	most_rows;
} GrnWireBegin;

typedef struct GrnWireBuilt
{
	uint64_t	bytes[2];		/* of RESULT and CODES */
} GrnWireBuilt;

#endif							/* GRN_PROTOCOL_H */
