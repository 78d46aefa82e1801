/*
 * grnnd.h - what the files of src/am share: an index's pages and what is on them, the
 * description of an index that a backend keeps, and settings.
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

#include "am/attr/attribute.h"
#include "am/compat.h"
#include "am/opclass.h"
#include "builder/protocol.h"
#include "graph/stored/own.h"

/* ---- pages ---- */

#define GRNND_MAGIC 0x444E5247	/* "GRND" */
#define GRNND_FORMAT 10			/* of all bytes on disk; indexes of another one are refused */
#define GRNND_PAGE_ID 0xFFB7	/* last two bytes of every page, as other access methods do */

typedef enum GrnndPageKind		/* on disk: never renumber */
{
	GRNND_META = 1,
	GRNND_ENTRIES = 2,
	GRNND_CODEC = 3,
	GRNND_NODES = 4,			/* records, or the first page of a spanning record */
	GRNND_TAIL = 5,				/* a following page of a spanning record */
	GRNND_BOOKS = 6,			/* books of signatures */
	GRNND_SAMPLE = 7,			/* rows drawn at random (sample.h) */
	GRNND_LISTS = 8				/* where lists begin (lists.h) */
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

/* How far codes are that an index got after its build (fit_codes.c). */
typedef enum GrnndFitState		/* on disk: never renumber */
{
	GRNND_FITTED = 0,			/* records have codes, or no room for any */
	GRNND_UNFITTED = 1,			/* records have room for codes, but hold none yet */
	GRNND_FILLING = 2			/* codec pages are written: each new or changed list gets codes,
								 * what was there before may lack them */
} GrnndFitState;

/* How far lists of values are (fit_lists.c). */
typedef enum GrnndListState		/* on disk: never renumber */
{
	GRNND_LISTS_WHOLE = 0,		/* scans go by them, if there are any */
	GRNND_LISTS_FILLING = 1		/* inserts write to them, what was there before may be missing */
} GrnndListState;

/*
 * The metapage's payload begins with this.  Comments give the byte where a field begins.
 *
 * The build writes it, and a fit alone changes it (fit_codes.c): where the build left the
 * index unfitted, when codes are judged as it grows, and when it gets lists.  Backends keep a copy;
 * one of an unfitted index serves for one statement.  An older copy is still right but for lists
 * (grnnd_lists_current()).
 */
typedef struct GrnndMeta
{
	uint32		magic;			/* 0: GRNND_MAGIC */
	uint32		format;			/* 4: GRNND_FORMAT */
	uint64		build_id;		/* 8: random; names this build in backends' caches */
	uint32		metric;			/* 16: GrnMetric */
	uint32		dim;			/* 20: dimensions of the graph: of own vectors */
	/* the next six and dim fix the records' geometry (grn_layout()) */
	uint32		degree;			/* 24: most neighbours of a record */
	GrnCodeShape shape;			/* 28: of the codes that records have room for */
	uint32		ncolumns;		/* 36: filter columns */
	uint32		form;			/* 40: GrnForm of own vectors */
	uint16		attr_bytes;		/* 44: beside each heap TID: values of further columns */
	uint16		sig_bytes;		/* 46: beside each code: their signatures */
	uint32		payload;		/* 48: GRNND_PAYLOAD of the server that built it */
	uint32		record_bytes;	/* 52: GrnLayout's, as a check */
	float		norm_unit;		/* 56: GrnCodec's; of scaled rows the unit of norms
								 * (grn_norm_unit()) */
	float		steps[GRN_CODE_BLOCKS]; /* 60: GrnCodec's */
	float		held;			/* 72: share of the rows' variance that codes describe */
	BlockNumber entry_block;	/* 76: the entry page */
	BlockNumber codec_block;	/* 80: first of codec_pages consecutive ones */
	uint32		codec_pages;	/* 84 */
	BlockNumber first_node_block;	/* 88: the node area goes from here to the file's end */
	uint32		column_dim;		/* 92: of the column; more where rows have stand-ins */
	GrnGraphParams params;		/* 96: as the build used them */
	uint16		on_gpu;			/* 128: 1 where a GPU built the graph */
	uint16		list_generation;	/* 130: of the lists' records; 0: the build's */
	uint32		build_nodes;	/* 132: nodes that the build wrote */
	uint32		fit_state;		/* 136: GrnndFitState */
	uint32		judged;			/* 140: ids there were when codes were last judged, or 0 */
	uint32		codes_ignored;	/* 144: 1 where codes tell no neighbours apart: records have them,
								 * and no search estimates by them */
	BlockNumber book_block;		/* 148: first of book_pages consecutive ones, which hold a
								 * GrnSigBook for each column, as many as fit a page */
	uint32		book_pages;		/* 152: 0 where there are no signatures */
	BlockNumber sample_block;	/* 156: first of sample_pages consecutive ones */
	uint32		sample_pages;	/* 160: 0 where there are no signatures */
	BlockNumber list_block;		/* 164: first of list_pages consecutive ones */
	uint16		list_pages;		/* 168: 0 where there will be no lists */
	uint8		list_state;		/* 170: GrnndListState */
	uint8		list_scale;		/* 171: binary logarithm of the nodes that there were when a fit
								 * began them, rounded down; 0: the build's */
	uint32		list_buckets;	/* 172: of each column; 0 where there are no lists */
	uint32		centre_pages;	/* 176: those behind the codec's; 0: own vectors have no centre */
	GrnndColumn columns[GRNND_MAX_ATTRS];	/* 180: 16 each */
	pg_crc32c	crc;			/* of all bytes before it */
} GrnndMeta;

StaticAssertDecl(offsetof(GrnndMeta, columns) == 180 && offsetof(GrnndMeta, centre_pages) == 176 &&
				 offsetof(GrnndMeta, crc) == 180 + GRNND_MAX_ATTRS * sizeof(GrnndColumn) &&
				 offsetof(GrnndMeta, entry_block) == 76 && offsetof(GrnndMeta, params) == 96 &&
				 offsetof(GrnndMeta, list_generation) == 130 &&
				 offsetof(GrnndMeta, list_state) == 170 && offsetof(GrnndMeta, list_buckets) == 172 &&
				 sizeof(GrnGraphParams) == 32 && offsetof(GrnGraphParams, seed) == 24,
				 "GrnndMeta is on disk");

/*
 * Attempts to fit or judge codes, and what vacuum has counted, on the metapage behind GrnndMeta.
 * The checksum does not cover it.
 */
typedef struct GrnndAttempt
{
	int64		last;			/* 0: TimestampTz of the last one */
	uint32		tries;			/* 8: how many since one was successful */
	uint32		gone;			/* 12: nodes of the build that had died when the last vacuum with
								 * dead rows began, or were to die by it */
} GrnndAttempt;
#define GRNND_META_OFF_ATTEMPT 1024
StaticAssertDecl(sizeof(GrnndAttempt) == 16, "GrnndAttempt is on disk");

/*
 * What the build has to tell of itself, on the metapage behind GrnndAttempt; nobody changes it.  An
 * index that an earlier version has built has zeroes there, which are no report: their checksum is
 * wrong.
 */
typedef enum GrnndStep			/* on disk: never renumber */
{
	GRNND_STEP_COLLECT = 0,
	GRNND_STEP_DEVICE,			/* waiting for it to open */
	GRNND_STEP_PREPARE,
	GRNND_STEP_DESCENT,
	GRNND_STEP_CONNECT,
	GRNND_STEP_CODES,
	GRNND_STEP_RECALL,
	GRNND_STEP_WRITE,			/* without the end of it */
	GRNND_STEPS
} GrnndStep;

typedef struct GrnndReport
{
	pg_crc32c	crc;			/* 0: of all bytes behind it */
	uint32		threads;		/* 4: of the builder */
	int64		built;			/* 8: TimestampTz */
	uint64		rows;			/* 16: heap TIDs */
	float		seconds[GRNND_STEPS];	/* 24: by GrnndStep */
	uint32		ids;			/* 56: records that the build wrote, of all kinds */
	GrnRecallCurve curve;		/* 60: of nodes of the build */
} GrnndReport;
#define GRNND_META_OFF_REPORT (GRNND_META_OFF_ATTEMPT + (uint32) sizeof(GrnndAttempt))
StaticAssertDecl(offsetof(GrnndReport, seconds) == 24 && offsetof(GrnndReport, ids) == 56 &&
				 offsetof(GrnndReport, curve) == 60 && sizeof(GrnRecallCurve) == 76 &&
				 sizeof(GrnndReport) == 136, "GrnndReport is on disk");
StaticAssertDecl(GRNND_META_OFF_REPORT == 1040, "the metapage's parts overlap");

/*
 * The curve of recall as it was measured last, on the metapage behind GrnndReport (fit_recall.c).
 * Zeroes, whose checksum is wrong, where the build's still counts.
 */
typedef struct GrnndMeasured
{
	pg_crc32c	crc;			/* 0: of all bytes behind it */
	uint32		ids;			/* 4: records there were, of all kinds */
	float		inserted;		/* 8: share of them that had been inserted one by one */
	float		stretch;		/* 12: grnnd_stretch() right after it, for slots that were free */
	GrnRecallCurve curve;		/* 16 */
} GrnndMeasured;
#define GRNND_META_OFF_MEASURED (GRNND_META_OFF_REPORT + (uint32) sizeof(GrnndReport))
StaticAssertDecl(offsetof(GrnndMeasured, curve) == 16 && sizeof(GrnndMeasured) == 92,
				 "GrnndMeasured is on disk");
StaticAssertDecl(GRNND_META_OFF_MEASURED == 1176, "the metapage's parts overlap");

/*
 * What the queries of both curves have missed, on the metapage behind GrnndMeasured.  Zeroes, whose
 * checksum is wrong, in an index of an earlier version.
 */
typedef struct GrnndMissed
{
	pg_crc32c	crc;			/* 0: of all bytes behind it */
	GrnMisses	built;			/* 4: those of the report's curve */
	GrnMisses	measured;		/* 12: those of the curve that was measured last */
} GrnndMissed;
#define GRNND_META_OFF_MISSED (GRNND_META_OFF_MEASURED + (uint32) sizeof(GrnndMeasured))
StaticAssertDecl(offsetof(GrnndMissed, measured) == 12 && sizeof(GrnndMissed) == 20,
				 "GrnndMissed is on disk");
StaticAssertDecl(GRNND_META_OFF_MISSED == 1268 &&
				 GRNND_META_OFF_MISSED + sizeof(GrnndMissed) <= GRNND_PAYLOAD,
				 "the metapage's parts overlap");

/*
 * The entry page's payload begins with this; entries.h reads and changes the page.  It holds
 * the entry points with their codes, so that a search starts from one page.  entries[0]
 * reaches every node; count is 0 only while the index has no node.
 */
typedef struct GrnndEntryHeader
{
	uint32		count;			/* 0: entry points, <= GRN_MAX_ENTRIES */
	uint32		unused;			/* 4: 0 */
} GrnndEntryHeader;

StaticAssertDecl(sizeof(GrnndEntryHeader) == 8, "GrnndEntryHeader is on disk");

/* Behind it: uint32 ids[32] at 8, GrnFactor factors[32] at 136, codes[32][code_bytes] at 264. */
#define GRNND_ENTRY_OFF_IDS ((uint32) sizeof(GrnndEntryHeader))
#define GRNND_ENTRY_OFF_FACTORS \
	(GRNND_ENTRY_OFF_IDS + GRN_MAX_ENTRIES * (uint32) sizeof(uint32))
#define GRNND_ENTRY_OFF_CODES \
	(GRNND_ENTRY_OFF_FACTORS + GRN_MAX_ENTRIES * (uint32) sizeof(GrnFactor))
StaticAssertDecl(GRNND_ENTRY_OFF_FACTORS == 136 && GRNND_ENTRY_OFF_CODES == 264,
				 "the entry page's arrays are on disk");

#define GRNND_BOOKS_PER_PAGE ((uint32) (GRNND_PAYLOAD / sizeof(GrnSigBook)))

/* ---- what a backend knows of an index ---- */

/*
 * Where blocks of an index were last found, see hints.h.  A hint is the number of a buffer less
 * that of the block which was found there.  It serves a run of 2^shift blocks: one block, unless
 * the index has more blocks than there are hints.
 */
typedef struct GrnndHints
{
	int32	   *at;				/* [mask + 1]; one that all share, where there are none */
	uint32		mask;
	uint32		shift;
} GrnndHints;
#define GRNND_NO_HINT ((int32) 0x80808080)	/* (its bytes are the same) */

/* What the metapage holds behind GrnndMeta, as it was when it was read; zeroes: there is none. */
typedef struct GrnndNotes
{
	GrnndReport report;
	GrnndMeasured measured;
	GrnndMissed missed;
	uint32		gone;			/* GrnndAttempt's */
} GrnndNotes;

typedef struct GrnndIndex
{
	GrnndMeta	meta;
	GrnndNotes	notes;
	GrnLayout	layout;
	GrnCentre	centre;			/* of own vectors, if they have one */
	GrnCodec	codec;			/* of estimates; no codes while unfitted or filling, and where
								 * codes are ignored, whatever the layout has room for */
	GrnCodec	encoder;		/* the same of the codes that are written; 0 while unfitted */
	GrnndKey	key;
	const GrnndAttrs *attrs;	/* filter columns */
	const GrnSigBook *books;	/* [attrs->n] of their signatures; NULL where there are none */
	GrnndHints	hints;			/* of the index's pages */
} GrnndIndex;

/*
 * The error of a stored vector if it is so large that codes and estimates made of the vector have
 * to allow for it, else 0.
 */
static inline float
grnnd_noise(const GrnndIndex *ix, const GrnRecord *rec)
{
	return grn_form(ix->layout.form)->rotated ? rec->error : 0;
}

/* Has every record its code and those of its neighbours? */
static inline bool
grnnd_has_codes(const GrnndIndex *ix)
{
	return ix->meta.fit_state == GRNND_FITTED && grn_has_codes(&ix->encoder);
}

/* Do inserts write to lists of values? */
static inline bool
grnnd_keeps_lists(const GrnndMeta *meta)
{
	return meta->list_buckets > 0;
}

/* May scans go by them? */
static inline bool
grnnd_has_lists(const GrnndMeta *meta)
{
	return meta->list_buckets > 0 && meta->list_state == GRNND_LISTS_WHOLE;
}

/* May a fit begin lists, or others instead, as the index grows? */
static inline bool
grnnd_renews_lists(const GrnndMeta *meta)
{
	return meta->list_pages > 0;
}

/*
 * Candidates that a scan keeps for each of ef_search.  No surrogate is used without codes, or
 * where they are the rows.
 */
static inline uint32
grnnd_beam(const GrnndIndex *ix)
{
	return grn_has_codes(&ix->codec) && !grn_codes_exact(&ix->codec)
		? Max(ix->key.metric->surrogate_beam, 1) : 1;
}

/* ---- settings.c ---- */

typedef enum GrnndIterative
{
	GRNND_ITERATIVE_OFF,
	GRNND_ITERATIVE_STRICT,
	GRNND_ITERATIVE_RELAXED
} GrnndIterative;

/* Whether searches take pages that were not in shared buffers as wholes (search_mates.c). */
typedef enum GrnndWholePages
{
	GRNND_WHOLE_PAGES_AUTO,
	GRNND_WHOLE_PAGES_ON,
	GRNND_WHOLE_PAGES_OFF
} GrnndWholePages;

#define GRNND_MAX_EF 10000
/*
 * The width where nobody says one is that of hnsw.  Real data of fewer rows than these have the
 * recall with it; of more, searches are as wide as the build's curve wants for that, within limits
 * (default_width(); test/bench/decisions.md).
 */
#define GRNND_DEFAULT_EF 40
#define GRNND_DEFAULT_RECALL 0.95
#define GRNND_DEFAULT_ROWS 50000
#define GRNND_MAX_TARGET 0.999	/* the curve says nothing of more */
/*
 * The widest search that LIMIT makes of a narrower one; the beams of wider ones cost more than the
 * batches that they save.
 */
#define GRNND_WIDEST 1000
#define GRNND_MAX_MEM_MULTIPLIER 1000

/* Scans and the planner go by grnnd_effective_*() instead: these may be hnsw's to say. */
extern int	grnnd_ef_search;
extern double grnnd_target_recall;
extern int	grnnd_iterative_scan;
extern int	grnnd_max_scan_tuples;
extern int	grnnd_whole_pages;
extern bool grnnd_use_hnsw_settings;
extern int	grnnd_build_device; /* GrnDevice */
extern int	grnnd_build_threads;
extern int	grnnd_build_memory_limit;	/* MB, 0: what is free */
extern char *grnnd_gpu_devices;
extern int	grnnd_gpu_memory_limit; /* MB, 0: what is free */
extern int	grnnd_build_timeout;	/* ms */
extern char *grnnd_builder_path;	/* empty: pkglibdir/grnnd_build_cuda, or else grnnd_build */
extern char *grnnd_build_server;
extern bool grnnd_small_in_backend; /* a backend builds small indexes itself; for tests */
extern bool grnnd_background_fit;
extern int	grnnd_serve_memory; /* MB */
extern int	grnnd_serve_threads;	/* 0: max_worker_processes */

/* Defines them all, when the library is loaded. */
extern void grnnd_define_settings(void);
/* 42501 where the connection's options have put defaults in place of a superuser's settings. */
extern void grnnd_check_settings(void);

/* What the session has set: grnnd's setting, or hnsw's where grnnd's is not set; 0: neither. */
extern int	grnnd_session_ef_search(void);
extern int	grnnd_effective_iterative_scan(void);	/* GrnndIterative */
extern int	grnnd_effective_max_scan_tuples(void);
extern double grnnd_effective_scan_mem_multiplier(void);	/* of work_mem; hnsw's setting, or 1 */

#endif							/* GRNND_H */
