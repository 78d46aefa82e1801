/*
 * grnnd.h - declarations shared by the files of src/am: the pages of an index, a backend's
 * description of an index, and settings.
 */
#ifndef GRNND_H
#define GRNND_H

#include "postgres.h"

#include "access/genam.h"
#include "port/pg_crc32c.h"
#include "storage/buf.h"
#include "storage/bufpage.h"
#include "utils/guc.h"
#include "utils/relcache.h"

#include "am/compat.h"
#include "am/filter/attribute.h"
#include "am/index/opclass.h"
#include "builder/protocol.h"
#include "store/record.h"

/* ---- pages ---- */

#define GRNND_MAGIC 0x444E5247	/* "GRND" */
#define GRNND_FORMAT 14			/* format of all bytes on disk; an index of another format is
								 * refused */
#define GRNND_FEATURES 0		/* the bits of GrnndMeta.must_understand that this version knows */
#define GRNND_PAGE_ID 0xFFB7	/* last two bytes of every page; every access method has its own
								 * number */

typedef enum GrnndPageKind		/* on disk: never renumber */
{
	GRNND_META = 1,
	GRNND_ENTRIES = 2,
	GRNND_CODEC = 3,
	GRNND_NODES = 4,			/* records, or the first page of a spanning record */
	GRNND_TAIL = 5,				/* a later page of a spanning record */
	GRNND_BOOKS = 6,			/* books of signatures (signature.c) */
	GRNND_SAMPLE = 7,			/* rows drawn at random (sample.c) */
	GRNND_LISTS = 8				/* directory of lists (lists.c) */
} GrnndPageKind;

/* The last bytes of every page. */
typedef struct GrnndSpecial
{
	uint16		kind;			/* 0: GrnndPageKind */
	uint16		unused;			/* 2: 0 */
	uint16		unused2;		/* 4: 0 */
	uint16		page_id;		/* 6: GRNND_PAGE_ID */
} GrnndSpecial;

StaticAssertDecl(sizeof(GrnndSpecial) == 8, "GrnndSpecial is on disk");

#define GRNND_PAYLOAD \
	(BLCKSZ - MAXALIGN(SizeOfPageHeaderData) - MAXALIGN(sizeof(GrnndSpecial)))
#define GrnndPageSpecial(page) ((GrnndSpecial *) PageGetSpecialPointer(page))
#define GrnndPagePayload(page) ((char *) (page) + MAXALIGN(SizeOfPageHeaderData))

/* State of the codes of an index that was built without codes (fit_codes.c). */
typedef enum GrnndFitState		/* on disk: never renumber */
{
	GRNND_FITTED = 0,			/* records have codes, or have no room for codes */
	GRNND_UNFITTED = 1,			/* records have room for codes, but hold none yet */
	GRNND_FILLING = 2			/* the codec is on its pages: every new or changed neighbor list
								 * gets codes; older lists may lack codes */
} GrnndFitState;

/* State of the lists of values (fit_lists.c). */
typedef enum GrnndListState		/* on disk: never renumber */
{
	GRNND_LISTS_WHOLE = 0,		/* complete: scans may use the lists, if the index has lists */
	GRNND_LISTS_FILLING = 1		/* inserts write to the lists; older rows may be missing */
} GrnndListState;

/*
 * The start of the metapage's payload.  Numbers in comments are byte offsets.  The build writes
 * the struct.  Afterwards only a fit (fit_codes.c) changes it: when an unfitted index gets codes,
 * when codes are judged again after growth, and when the index gets lists.  Backends cache a copy.
 * A copy of an unfitted index is valid for one statement.  Any other outdated copy is still
 * correct, except for lists (grnnd_lists_current()).
 */
typedef struct GrnndMeta
{
	uint32		magic;			/* 0: GRNND_MAGIC */
	uint32		format;			/* 4: GRNND_FORMAT */
	uint64		build_id;		/* 8: random number of this build, for backends' caches */
	uint32		metric;			/* 16: GrnMetric */
	uint32		dim;			/* 20: dimensions of own vectors in the graph */
	/* the next six fields and dim determine the records' layout (grn_layout_of()) */
	uint32		degree;			/* 24: maximum number of neighbors of a record */
	GrnCodeShape shape;			/* 28: shape of codes that records have room for */
	uint32		ncolumns;		/* 36: filter columns */
	uint32		form;			/* 40: GrnForm of own vectors */
	uint16		attr_bytes;		/* 44: bytes of filter columns' values beside each heap TID */
	uint16		sig_bytes;		/* 46: bytes of their signatures beside each code */
	uint32		payload;		/* 48: GRNND_PAYLOAD of the server that built the index */
	uint32		record_bytes;	/* 52: GrnLayout.record_bytes, as a check */
	float		norm_unit;		/* 56: GrnCodec's; for scaled rows the unit of norms
								 * (grn_norm_unit()) */
	float		steps[GRN_CODE_BLOCKS]; /* 60: GrnCodec's */
	float		held;			/* 72: share of the rows' variance that codes describe */
	BlockNumber entry_block;	/* 76: block of the entry page */
	BlockNumber codec_block;	/* 80: first of codec_pages consecutive blocks */
	uint32		codec_pages;	/* 84 */
	BlockNumber first_node_block;	/* 88: the node area extends from here to the file's end */
	uint32		column_dim;		/* 92: dimensions of the column; dim are the words of sparse rows */
	GrnGraphParams params;		/* 96: parameters of the build */
	uint16		on_gpu;			/* 128: 1 if a GPU built the graph */
	uint16		list_generation;	/* 130: generation of the lists' records; 0: the build's */
	uint32		build_nodes;	/* 132: number of nodes written by the build */
	uint32		fit_state;		/* 136: GrnndFitState */
	uint32		judged;			/* 140: number of ids when codes were last judged, or 0 */
	uint32		codes_ignored;	/* 144: 1 if codes cannot tell neighbors apart: records keep codes,
								 * and searches ignore them */
	BlockNumber book_block;		/* 148: first of book_pages consecutive blocks with a GrnSigBook
								 * for each column, as many as fit a page */
	uint32		book_pages;		/* 152: 0 without signatures */
	BlockNumber sample_block;	/* 156: first of sample_pages consecutive blocks */
	uint32		sample_pages;	/* 160: 0 without signatures */
	BlockNumber list_block;		/* 164: first of list_pages consecutive blocks */
	uint16		list_pages;		/* 168: 0 if the index cannot have lists */
	uint8		list_state;		/* 170: GrnndListState */
	uint8		list_scale;		/* 171: log2 of the number of nodes, rounded down, when a fit began
								 * the lists; 0: the build's lists */
	uint32		list_buckets;	/* 172: buckets of each column; 0 without lists */
	uint32		center_pages;	/* 176: pages of the center, behind the codec's pages; 0: no center */
	GrnndColumn columns[GRNND_MAX_ATTRS];	/* 180: 16 bytes each */
	uint32		must_understand;	/* 676: features without which nobody may use the index; a bit
									 * outside GRNND_FEATURES: the index is refused */
	uint32		may_ignore;		/* 680: features that readers and writers may ignore */
	float		power;			/* 684: power of the places of scaled rows (space.h); 0: the
								 * metric's */
	uint32		reserved[13];	/* 688: for features: 0, not checked, kept by every writer */
	pg_crc32c	crc;			/* 740: checksum of all bytes before */
} GrnndMeta;

StaticAssertDecl(offsetof(GrnndMeta, columns) == 180 && offsetof(GrnndMeta, center_pages) == 176 &&
				 offsetof(GrnndMeta, must_understand) == 180 + GRNND_MAX_ATTRS * sizeof(GrnndColumn) &&
				 offsetof(GrnndMeta, power) == 684 && offsetof(GrnndMeta, crc) == offsetof(GrnndMeta, must_understand) + 64 &&
				 offsetof(GrnndMeta, entry_block) == 76 && offsetof(GrnndMeta, params) == 96 &&
				 offsetof(GrnndMeta, list_generation) == 130 &&
				 offsetof(GrnndMeta, list_state) == 170 && offsetof(GrnndMeta, list_buckets) == 172 &&
				 sizeof(GrnGraphParams) == 32 && offsetof(GrnGraphParams, seed) == 24,
				 "GrnndMeta is on disk");

/* Attempts to fit or judge codes, and a count by vacuum, behind GrnndMeta and its checksum. */
typedef struct GrnndAttempt
{
	int64		last;			/* 0: TimestampTz of the last attempt */
	uint32		tries;			/* 8: attempts since the last success */
	uint32		gone;			/* 12: nodes of the build that were dead or about to die when the
								 * last vacuum with dead rows began */
} GrnndAttempt;
#define GRNND_META_OFF_ATTEMPT 1024
StaticAssertDecl(sizeof(GrnndAttempt) == 16, "GrnndAttempt is on disk");

/* The names of a step of CREATE INDEX. */
typedef struct GrnndStepNames
{
	const char *name;			/* in logs and in grnnd_stats() */
	const char *phase;			/* in pg_stat_progress_create_index; NULL: no phase of its own */
} GrnndStepNames;
extern const GrnndStepNames grnnd_steps[GRN_STEPS]; /* create/progress.c */

/*
 * The build's report, on the metapage behind GrnndAttempt; never changed later.  An index built by
 * an earlier version has zeroes here, whose checksum is wrong; they count as no report.
 */
typedef struct GrnndReport
{
	pg_crc32c	crc;			/* 0: checksum of the bytes behind it */
	uint32		threads;		/* 4: threads of the builder */
	int64		built;			/* 8: TimestampTz */
	uint64		rows;			/* 16: number of heap TIDs */
	float		seconds[GRN_STEPS]; /* 24: by GrnStep */
	uint32		ids;			/* 56: records of all kinds written by the build */
	GrnRecallCurve curve;		/* 60: recall of the build's nodes */
} GrnndReport;
#define GRNND_META_OFF_REPORT (GRNND_META_OFF_ATTEMPT + (uint32) sizeof(GrnndAttempt))
StaticAssertDecl(offsetof(GrnndReport, seconds) == 24 && offsetof(GrnndReport, ids) == 56 &&
				 offsetof(GrnndReport, curve) == 60 && sizeof(GrnRecallCurve) == 76 &&
				 sizeof(GrnndReport) == 136, "GrnndReport is on disk");
StaticAssertDecl(GRNND_META_OFF_REPORT == 1040, "the metapage's parts overlap");

/*
 * The last measured curve of recall, on the metapage behind GrnndReport (fit_recall.c).  Zeroes,
 * whose checksum is wrong, mean that the build's curve is valid.
 */
typedef struct GrnndMeasured
{
	pg_crc32c	crc;			/* 0: checksum of the bytes behind it */
	uint32		ids;			/* 4: number of records of all kinds */
	float		inserted;		/* 8: share of records inserted one by one */
	float		stretch;		/* 12: grnnd_stretch() right after the measurement, for free slots */
	GrnRecallCurve curve;		/* 16 */
} GrnndMeasured;
#define GRNND_META_OFF_MEASURED (GRNND_META_OFF_REPORT + (uint32) sizeof(GrnndReport))
StaticAssertDecl(offsetof(GrnndMeasured, curve) == 16 && sizeof(GrnndMeasured) == 92,
				 "GrnndMeasured is on disk");
StaticAssertDecl(GRNND_META_OFF_MEASURED == 1176, "the metapage's parts overlap");

/*
 * The queries of both curves, on the metapage behind GrnndMeasured and 20 bytes of no meaning.
 * Zeroes, whose checksum is wrong, in an index built by an earlier version.
 */
typedef struct GrnndQueried
{
	pg_crc32c	crc;			/* 0: checksum of the bytes behind it */
	uint32		sampled;		/* 4: queries of scans that measured the last curve; 0: its queries
								 * were rows */
	GrnContrast built;			/* 8: contrast of the queries of the report's curve */
	GrnContrast measured;		/* 32: of the last measured curve */
} GrnndQueried;
#define GRNND_META_OFF_QUERIED (GRNND_META_OFF_MEASURED + (uint32) sizeof(GrnndMeasured) + 20)
StaticAssertDecl(offsetof(GrnndQueried, measured) == 32 && sizeof(GrnndQueried) == 56,
				 "GrnndQueried is on disk");
StaticAssertDecl(GRNND_META_OFF_QUERIED == 1288 &&
				 GRNND_META_OFF_QUERIED + sizeof(GrnndQueried) <= GRNND_PAYLOAD,
				 "the metapage's parts overlap");

/*
 * The start of the entry page's payload; entries.c reads and changes the page.  The page holds
 * entry points with their codes, so a search starts from one page.  Every node must be reachable
 * from entries[0].  count is 0 only while the index has no node.
 */
typedef struct GrnndEntryHeader
{
	uint32		count;			/* 0: entry points, <= GRN_MAX_ENTRIES */
	uint32		unused;			/* 4: 0 */
} GrnndEntryHeader;

StaticAssertDecl(sizeof(GrnndEntryHeader) == 8, "GrnndEntryHeader is on disk");

/*
 * Arrays behind the header: uint32 ids[32] at 8, GrnFactor factors[32] at 136,
 * codes[32][code_bytes] at 264.
 */
#define GRNND_ENTRY_OFF_IDS ((uint32) sizeof(GrnndEntryHeader))
#define GRNND_ENTRY_OFF_FACTORS \
	(GRNND_ENTRY_OFF_IDS + GRN_MAX_ENTRIES * (uint32) sizeof(uint32))
#define GRNND_ENTRY_OFF_CODES \
	(GRNND_ENTRY_OFF_FACTORS + GRN_MAX_ENTRIES * (uint32) sizeof(GrnFactor))
StaticAssertDecl(GRNND_ENTRY_OFF_FACTORS == 136 && GRNND_ENTRY_OFF_CODES == 264,
				 "the entry page's arrays are on disk");

#define GRNND_BOOKS_PER_PAGE ((uint32) (GRNND_PAYLOAD / sizeof(GrnSigBook)))

/* ---- a backend's description of an index ---- */

/*
 * Where blocks of an index were last found in shared buffers, see hints.c.  A hint is a buffer's
 * number minus its block's number.  A hint serves a run of 2^shift blocks: a single block, unless
 * the index has more blocks than hints.
 */
typedef struct GrnndHints
{
	int32	   *at;				/* [mask + 1]; indexes without hints share a single hint */
	uint32		mask;
	uint32		shift;
} GrnndHints;
#define GRNND_NO_HINT ((int32) 0x80808080)	/* (its bytes are the same) */

/* A copy of the metapage's content behind GrnndMeta.  Zeroes mean that a part is missing. */
typedef struct GrnndNotes
{
	GrnndReport report;
	GrnndMeasured measured;
	GrnndQueried queried;
	uint32		gone;			/* GrnndAttempt.gone */
} GrnndNotes;

typedef struct GrnndIndex
{
	GrnndMeta	meta;			/* byte for byte as in the index; the cache compares the two */
	GrnndNotes	notes;
	GrnLayout	layout;
	GrnCenter	center;			/* center of own vectors; see layout.center */
	GrnCodec	codec;			/* codec for estimates; without codes while unfitted or filling,
								 * and if codes are ignored */
	GrnCodec	encoder;		/* codec for codes to be written; without codes while unfitted */
	GrnndKey	key;
	const GrnndAttrs *attrs;	/* filter columns */
	const GrnSigBook *books;	/* [attrs->n] books of signatures; NULL without signatures */
	GrnndHints	hints;			/* hints for the index's pages */
} GrnndIndex;

/*
 * The rounding error of a stored vector for codes and estimates made from the vector.  Returns 0
 * for forms whose error is negligible.
 */
static inline float
grnnd_rounding_error(const GrnndIndex *ix, const GrnRecord *rec)
{
	return grn_form(ix->layout.form)->rotated ? rec->error : 0;
}

/* Does every record have its code and the codes of its neighbors? */
static inline bool
grnnd_has_codes(const GrnndIndex *ix)
{
	return ix->meta.fit_state == GRNND_FITTED && grn_has_codes(&ix->encoder);
}

/* Must inserts write to lists of values? */
static inline bool
grnnd_keeps_lists(const GrnndMeta *meta)
{
	return meta->list_buckets > 0;
}

/* May scans use lists of values? */
static inline bool
grnnd_has_lists(const GrnndMeta *meta)
{
	return meta->list_buckets > 0 && meta->list_state == GRNND_LISTS_WHOLE;
}

/* May a fit create or replace lists as the index grows? */
static inline bool
grnnd_renews_lists(const GrnndMeta *meta)
{
	return meta->list_pages > 0;
}

/* Number of candidates that a scan keeps for each unit of ef_search. */
static inline uint32
grnnd_beam(const GrnndIndex *ix)
{
	return grn_metric_beam(ix->key.metric);
}

/* ---- settings.c ---- */

typedef enum GrnndIterative
{
	GRNND_ITERATIVE_OFF,
	GRNND_ITERATIVE_STRICT,
	GRNND_ITERATIVE_RELAXED
} GrnndIterative;

/*
 * LIMIT widens a search up to this width too.  20,000 rows of three sets, LIMIT 700, 1,500 and
 * 4,000: 1.3 to 2 times as many queries as with 1,000, and up to 1.4 times as with 4,000.
 */
#define GRNND_MAX_EF 10000
/*
 * The default width is hnsw's.  With up to GRNND_DEFAULT_ROWS rows, real data reach
 * GRNND_DEFAULT_RECALL at this width.  With more rows the default width is the width at which the
 * build's curve reaches this recall, within limits (default_width()).  With a million rows recall
 * is .974 on SIFT and .957 on GIST, and .904 and .887 with a fixed width of 40
 * (test/bench/decisions.md).
 */
#define GRNND_DEFAULT_EF 40
#define GRNND_DEFAULT_RECALL 0.95
#define GRNND_DEFAULT_ROWS 50000
#define GRNND_MAX_TARGET 0.999	/* the curve of recall ends here */

/* Scans and the planner use grnnd_session_ef_search(), because hnsw's setting may apply instead. */
extern int	grnnd_ef_search;
extern bool grnnd_enable_bitmap;
extern double grnnd_target_recall;
extern int	grnnd_iterative_scan;	/* GrnndIterative */
extern int	grnnd_max_scan_tuples;
extern bool grnnd_sample_queries;
extern int	grnnd_build_device; /* GrnDevice */
extern int	grnnd_build_threads;
extern int	grnnd_build_memory_limit;	/* MB; 0: the free memory */
extern char *grnnd_gpu_devices;
extern int	grnnd_gpu_memory_limit; /* MB; 0: the free memory */
extern int	grnnd_build_timeout;	/* ms */
extern char *grnnd_builder_path;	/* empty: pkglibdir/grnnd_build_cuda if present, else
									 * grnnd_build */
extern char *grnnd_build_server;
extern bool grnnd_small_in_backend; /* build small indexes inside the backend; for tests */
extern bool grnnd_background_fit;

/* Defines all settings when the library is loaded. */
extern void grnnd_define_settings(void);
/* For settings of superusers: grnnd_check_settings() knows if a connection's option took one. */
extern PGDLLEXPORT void grnnd_define_superuser_settings(void (*define) (void), const char *const *names, int n);
/* Raises 42501 if the connection's options have replaced a superuser's settings by defaults. */
extern void grnnd_check_settings(void);

/* The session's ef_search: grnnd's setting, or else hnsw's; 0: neither is set. */
extern int	grnnd_session_ef_search(void);

#endif							/* GRNND_H */
