/*
 * grnnd.h - what the files of src/am share: pages, the cached description of an
 * index, settings, and prototypes grouped by file.
 */
#ifndef GRNND_H
#define GRNND_H

#include "postgres.h"

#include "access/amapi.h"
#include "access/generic_xlog.h"
#include "access/genam.h"
#include "nodes/execnodes.h"
#include "storage/bufmgr.h"
#include "port/pg_crc32c.h"
#include "storage/bufpage.h"
#include "utils/relcache.h"

#include "builder/protocol.h"
#include "graph/space.h"
#include "graph/stored/codec_fit.h"
#include "graph/stored/search.h"
#include "am/compat.h"

/* ---- pages ---- */

#define GRNND_MAGIC 0x444E5247	/* "GRND" */
#define GRNND_FORMAT 4			/* 4: scales of own vectors, fits in steps */
#define GRNND_PAGE_ID 0xFFB7	/* last two bytes of every page, as other access methods do */

typedef enum GrnndPageKind		/* on disk: never renumber */
{
	GRNND_META = 1,
	GRNND_ENTRIES = 2,
	GRNND_CODEC = 3,
	GRNND_NODES = 4,			/* records, or the first page of a spanning record */
	GRNND_TAIL = 5				/* a following page of a spanning record */
} GrnndPageKind;

typedef struct GrnndSpecial
{
	uint16		kind;			/* GrnndPageKind */
	uint16		unused;
	uint16		unused2;
	uint16		page_id;		/* GRNND_PAGE_ID */
} GrnndSpecial;

#define GRNND_PAYLOAD \
	(BLCKSZ - MAXALIGN(SizeOfPageHeaderData) - MAXALIGN(sizeof(GrnndSpecial)))
#define GrnndPageSpecial(page) ((GrnndSpecial *) PageGetSpecialPointer(page))
#define GrnndPagePayload(page) ((char *) (page) + MAXALIGN(SizeOfPageHeaderData))

/*
 * The metapage's payload.  Written by the build, and changed by fit_codes.c alone: where the build
 * left the index unfitted, and when codes are judged as it grows.  Backends cache it, that
 * of an unfitted index for one statement; who goes by an older one is still right.
 */
typedef struct GrnndMeta
{
	uint32		magic;			/* GRNND_MAGIC */
	uint32		format;			/* GRNND_FORMAT */
	uint64		build_id;		/* random; names this build in backends' caches */
	uint32		metric;			/* GrnMetric */
	uint32		dim;			/* of the column */
	uint32		degree;			/* these four fix the records' geometry */
	uint32		code_dims;
	uint32		vec_format;		/* GrnVecFormat */
	uint32		payload;		/* GRNND_PAYLOAD of the building server */
	uint32		record_bytes;	/* GrnLayout's, as a check */
	float		norm_unit;		/* GrnCodec's */
	float		max_norm;		/* GRN_IP: of the rows of the build */
	float		held;			/* share of the variance that codes describe */
	BlockNumber entry_block;
	BlockNumber codec_block;	/* first of codec_pages consecutive ones */
	uint32		codec_pages;
	BlockNumber first_node_block;
	GrnGraphParams params;		/* as the build used them */
	uint32		on_gpu;			/* built on a GPU */
	uint32		build_nodes;	/* nodes that the build wrote */
	uint32		unfitted;		/* GrnndFitState */
	uint32		judged;			/* nodes there were when codes were last judged, or 0 */
	uint32		exact;			/* records have codes, which tell no neighbours apart: fit_codes.c */
	pg_crc32c	crc;			/* of all bytes before it */
} GrnndMeta;

/* How far codes are that an index got after its build (fit_codes.c). */
typedef enum GrnndFitState		/* on disk: never renumber */
{
	GRNND_FITTED = 0,			/* records have codes, or no room for any */
	GRNND_UNFITTED = 1,			/* records have room for codes, but hold none yet */
	GRNND_FILLING = 2			/* codec pages are written: each new or changed list gets
								 * codes, what was there before may lack them */
} GrnndFitState;

/*
 * On the metapage behind GrnndMeta, at GRNND_META_OFF_ATTEMPT: attempts to fit or judge codes.
 * It is neither cached nor in the checksum.
 */
typedef struct GrnndAttempt
{
	int64		last;			/* TimestampTz of the last one */
	uint32		tries;			/* since one was successful */
	uint32		unused;
} GrnndAttempt;
#define GRNND_META_OFF_ATTEMPT 256

/*
 * The entry page's payload: entry points, with their codes, so that a search
 * starts from one page.  entries[0] reaches every node; count is 0 only while the
 * index has no node.  Arrays at fixed offsets: see grnnd_entry_*().
 */
typedef struct GrnndEntryHeader
{
	uint32		count;			/* <= GRN_MAX_ENTRIES */
	uint32		unused;
} GrnndEntryHeader;

/* after the header: uint32 ids[32], GrnFactor factors[32], codes[32][code_bytes] */
#define GRNND_ENTRY_OFF_IDS ((uint32) sizeof(GrnndEntryHeader))
#define GRNND_ENTRY_OFF_FACTORS \
	(GRNND_ENTRY_OFF_IDS + GRN_MAX_ENTRIES * (uint32) sizeof(uint32))
#define GRNND_ENTRY_OFF_CODES \
	(GRNND_ENTRY_OFF_FACTORS + GRN_MAX_ENTRIES * (uint32) sizeof(GrnFactor))

/* ---- what a backend knows of an index ---- */

/*
 * What an operator class says of its column: the type, by support function 1, and the
 * metric, by support function 2.  Both are f(internal) returns internal (src/am/types).
 */
#define GRNND_SUPPORT_TYPE 1
#define GRNND_SUPPORT_METRIC 2
#define GRNND_NUM_SUPPORT 2
#define GRNND_DISTANCE_STRATEGY 1

typedef struct GrnndType
{
	const char *name;			/* "vector" */
	int			max_dim;
	/* dimensions of a detoasted value */
	int			(*dim) (Datum value);
	/* writes a detoasted value's [dim] floats */
	void		(*load) (Datum value, int dim, float *out);
} GrnndType;

typedef struct GrnndKey
{
	const GrnndType *type;
	const GrnMetricInfo *metric;
} GrnndKey;

/*
 * Where a block was last found, see page_store.c.  Direct-mapped: enough entries for the
 * pages that searches of a large index share.
 */
#define GRNND_MAX_HINTS 262144	/* power of two; 2 MB, for indexes of that many pages */
typedef struct GrnndHint
{
	BlockNumber block;
	Buffer		buffer;
} GrnndHint;

typedef struct GrnndIndex
{
	GrnndMeta	meta;
	GrnLayout	layout;
	GrnCodec	codec;			/* of estimates; code_dims 0 while unfitted, filling or exact,
								 * whatever the layout has room for */
	GrnCodec	encoder;		/* the same of the codes that are written; 0 while unfitted */
	GrnndKey	key;
	GrnndHint  *hints;			/* [hint_mask + 1]; one, shared, where there are none */
	uint32		hint_mask;
} GrnndIndex;

/* Has every record its code and those of its neighbours? */
static inline bool
grnnd_has_codes(const GrnndIndex *ix)
{
	return ix->meta.unfitted == GRNND_FITTED && ix->encoder.code_dims > 0;
}

typedef struct GrnndOptions
{
	int32		vl_len_;
	int			degree;			/* 0: by m or by dimension */
	int			r, s, t1, t2;	/* 0: the builder's default */
	double		rho;			/* 0: the builder's default */
	int			seed;
	bool		codes;
	int			m;				/* hnsw's; 0: not given */
	int			ef_construction;	/* hnsw's; not used */
} GrnndOptions;

/* ---- settings (handler.c) ---- */

typedef enum GrnndIterative
{
	GRNND_ITERATIVE_OFF,
	GRNND_ITERATIVE_STRICT,
	GRNND_ITERATIVE_RELAXED
} GrnndIterative;

#define GRNND_MAX_EF 10000
#define GRNND_MAX_MEM_MULTIPLIER 1000

/* Scans and the planner go by grnnd_effective_*() instead: these may be hnsw's to say. */
extern int	grnnd_ef_search;
extern int	grnnd_iterative_scan;
extern int	grnnd_max_scan_tuples;
extern double grnnd_scan_mem_multiplier;
extern bool grnnd_use_hnsw_settings;
extern int	grnnd_build_device;	/* GrnDevice */
extern int	grnnd_build_threads;
extern char *grnnd_gpu_devices;
extern int	grnnd_gpu_memory_limit; /* MB, 0: what is free */
extern int	grnnd_build_timeout;	/* ms */
extern char *grnnd_builder_path;	/* empty: pkglibdir/grnnd_build */
extern bool grnnd_background_fit;

/* ---- settings.c: which of grnnd's and hnsw's settings count now ---- */

extern int	grnnd_effective_ef_search(void);
extern int	grnnd_effective_iterative_scan(void);	/* GrnndIterative */
extern int	grnnd_effective_max_scan_tuples(void);
extern double grnnd_effective_scan_mem_multiplier(void);

/* ---- fit_codes.c: codes of an index that began with few rows ---- */

/* Rows from which on a codec fits others like them, by dimensions. */
extern uint32 grnnd_fit_rows(uint32 dim);
/* Are codes to be fitted or judged, now that there is a node of this id? */
extern bool grnnd_fit_due(const GrnndMeta *meta, uint32 id);
/*
 * Fits a codec to the rows that an unfitted index has and gives all records their
 * codes, or judges those that there are anew; nothing where that is not due.  The caller holds
 * the table and the index in ShareUpdateExclusiveLock or more, and no lock on a page.  heap:
 * to end with an error (55P03) as soon as another session waits for one of these locks; or NULL.
 */
extern void grnnd_fit_codes(Relation index, Relation heap);
/* The metapage's checksum, as it should be. */
extern uint32 grnnd_meta_crc(const GrnndMeta *meta);

/* ---- fit_schedule.c: who fits, and when ---- */

/*
 * Starts a background worker that fits or judges codes, if node id makes that due and
 * nobody has lately.
 */
extern void grnnd_ask_for_fit(Relation index, uint32 id);
/* The same by the caller's own hand, who holds the locks as for grnnd_fit_codes(). */
extern void grnnd_fit_in_vacuum(Relation index);
/* Sets down on the metapage, whose copy this is, that codes were fitted or judged. */
extern void grnnd_note_success(Page page);

/* ---- test_point.c: where tests stop a backend ---- */

#ifdef GRNND_TEST_POINTS
extern void grnnd_define_test_point(void);
/* Not under a content lock. */
extern void grnnd_test_point(const char *name);
#else
#define grnnd_define_test_point() ((void) 0)
#define grnnd_test_point(name) ((void) 0)
#endif

/* ---- page.c: pages and the cached index ---- */

/*
 * The index's description, checked (magic, format, geometry, crc) and cached for
 * the backend.  The description stays until the end of the transaction.  Its codecs' arrays
 * and its hints stay until the next call, for whatever index: then they may have to make
 * room.  So whoever encodes asks anew first, unless nothing else was asked for meanwhile.
 */
extern const GrnndIndex *grnnd_index(Relation index);
/* The same without arrays and hints, for those who use neither: a planner meets many indexes. */
extern const GrnndIndex *grnnd_index_shape(Relation index);
/* The same by the metapage as it is now: what fit_codes.c writes there reaches others late. */
extern const GrnndIndex *grnnd_index_anew(Relation index);
/* What its operator class says; an error where that is not sound (not for hot paths). */
extern GrnndKey grnnd_key(Relation index);
extern void grnnd_page_init(Page page, GrnndPageKind kind);
/*
 * Reads and locks a block and checks that it is a page of this kind; a new page is
 * allowed for GRNND_NODES (check PageIsNew()).
 */
extern Buffer grnnd_read(Relation index, BlockNumber block, int lockmode,
						 GrnndPageKind kind, BufferAccessStrategy strategy);
extern void grnnd_check_page(Relation index, Buffer buffer, GrnndPageKind kind);
extern GRNND_NORETURN void grnnd_corrupt(Relation index, BlockNumber block,
										 const char *what);
extern BlockNumber grnnd_node_block(const GrnndIndex *ix, uint32 id);
extern GrnRecord *grnnd_page_record(Page page, const GrnndIndex *ix, uint32 slot);
/* Node ids below this may exist: from the relation's size. */
extern uint32 grnnd_id_limit(Relation index, const GrnndIndex *ix);

/* Takes a row x [dim] to its place in the graph's space (graph/space.h). */
extern void grnnd_place(const GrnndIndex *ix, float *x);
/*
 * A column value in the metric's form: writes [dim] floats.  Errors: 22000 for
 * other dimensions, NaN and infinity; 22003 for vectors so long that distances
 * would overflow.  False: not indexed (zero under cosine).
 */
extern bool grnnd_form_vector(const GrnndKey *key, int dim, Datum value, float *out);

/* Copies the entry page's contents (arrays of GRN_MAX_ENTRIES); returns the count. */
extern uint32 grnnd_read_entries(Relation index, const GrnndIndex *ix, uint32 *ids,
								 GrnFactor *factors, uint8_t *codes);

/* ---- page_store.c: src/graph's view of the pages ---- */

typedef struct GrnndStore
{
	GrnStore	base;
	Relation	index;
	const GrnndIndex *ix;
	MemoryContext context;
	BufferAccessStrategy strategy;
	Snapshot	snapshot;		/* a scan's, else NULL: whether a page has lost rows of it */
	uint32		id_limit;
	char	   *vector;			/* gathers a spanning vector */
	int			prefetch_width; /* effective_io_concurrency; -1: not yet known */
	int			prefetch_left;	/* further calls, unless another page is missing */
	uint32		pins;			/* of blocks found by their hint */
} GrnndStore;

extern void grnnd_store_init(GrnndStore *store, Relation index, const GrnndIndex *ix,
							 MemoryContext context);

/*
 * A node's vector, [dim], with its state and version.  False: there is nothing to
 * visit.
 */
extern bool grnnd_store_fetch(GrnndStore *store, uint32 id, float *x, GrnState *state,
							  uint16 *version);

/* ---- build.c, launch.c, write_index.c ---- */

extern IndexBuildResult *grnnd_build(Relation heap, Relation index, IndexInfo *info);
extern void grnnd_buildempty(Relation index);
extern char *grnnd_buildphasename(int64 phase);

/* ---- insert.c ---- */

extern bool grnnd_insert(Relation index, Datum *values, bool *isnull, ItemPointer tid,
						 Relation heap, IndexUniqueCheck unique, bool unchanged,
						 IndexInfo *info);

/* ---- scan.c ---- */

extern IndexScanDesc grnnd_beginscan(Relation index, int nkeys, int norderbys);
extern void grnnd_rescan(IndexScanDesc scan, ScanKey keys, int nkeys,
						 ScanKey orderbys, int norderbys);
extern bool grnnd_gettuple(IndexScanDesc scan, ScanDirection dir);
extern void grnnd_endscan(IndexScanDesc scan);

/* ---- vacuum.c ---- */

extern IndexBulkDeleteResult *grnnd_bulkdelete(IndexVacuumInfo *info,
											   IndexBulkDeleteResult *stats,
											   IndexBulkDeleteCallback callback,
											   void *callback_state);
extern IndexBulkDeleteResult *grnnd_vacuumcleanup(IndexVacuumInfo *info,
												  IndexBulkDeleteResult *stats);

/* ---- cost.c, options.c, validate.c ---- */

struct PlannerInfo;
struct IndexPath;
extern void grnnd_costestimate(struct PlannerInfo *root, struct IndexPath *path,
							   double loop_count, Cost *startup, Cost *total,
							   Selectivity *selectivity, double *correlation,
							   double *pages);
extern bytea *grnnd_options(Datum reloptions, bool validate);
extern uint32 grnnd_option_degree(const GrnndOptions *opts, uint32 dim);
extern void grnnd_init_options(void);
extern bool grnnd_validate(Oid opclass);
/*
 * What is wrong with the support function of that number of an operator class for a type,
 * or NULL; then *key has what it returned.
 */
extern const char *grnnd_support_problem(Oid function, int number, Oid type, GrnndKey *key);
extern void grnnd_adjustmembers(Oid opfamily, Oid opclass, List *operators,
								List *functions);

#endif							/* GRNND_H */
