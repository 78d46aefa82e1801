/*
 * pipeline_impl.h - the state of a build, shared by the files of its steps: pipeline.c, which runs
 * the steps in order, pipeline_codes.c, pipeline_form.c, pipeline_entries.c, pipeline_result.c,
 * pipeline_records.c, pipeline_recall.c, pipeline_nearest.c and pipeline_place.c.
 */
#ifndef GRN_PIPELINE_IMPL_H
#define GRN_PIPELINE_IMPL_H

#include "builder/build_graph.h"
#include "builder/gpus.h"
#include "builder/host.h"
#include "builder/pipeline.h"
#include "builder/prepare.h"
#include "graph/graph.h"
#include "memory/memory.h"
#include "space/metric.h"
#include "space/rows.h"
#include "store/codec.h"
#include "store/record.h"
#include "store/search.h"

/* Where the rows of a build lie.  choose_regime() decides before the first pass over the rows. */
typedef enum GrnRegime
{
	GRN_IN_MEMORY = 0,			/* in VECTORS, and memory holds the rows */
	GRN_PLACED,					/* in WORK, where the first pass has moved all rows */
	GRN_ROUNDED					/* the same as own items (own.c) of GRN_FORM_ROUNDED, the form that
								 * records keep; own[] is these items, indexed by row */
} GrnRegime;

/* What pipeline.c decides before codes are fitted.  The judgment of codes may forget costs. */
typedef struct GrnPlan
{
	GrnDeviceChoice choice;		/* which devices may build, and their memory */
	GrnRegime	regime;
	GrnKeep		keep;			/* GrnBuildSpec.keep, or exactly because rounding would hide rows */
	GrnForm		exact;			/* smallest form that holds all rows exactly */
	GrnCodeCosts costs;			/* sizes and costs of possible codes */
	uint32_t	max_code_dims;	/* 0: no codes */
	bool		fit_later;		/* rows are too few for codes now (GrnBuildSpec.fit_rows), but may
								 * get codes later */
} GrnPlan;

/* The use of WORK. */
typedef struct GrnWorkUse
{
	const char *base;			/* never changes */
	float	   *codec_floats;
	char	   *scratch;
	uint64_t	kept_bytes;		/* bytes of all arrays except scratch */
	uint64_t	bytes;			/* bytes of all arrays; before the arrays are placed, of the rows
								 * that the first pass has moved */
} GrnWorkUse;

typedef struct GrnPipeline
{
	GrnBuild   *build;
	const GrnMetricInfo *metric;
	GrnProgress progress;		/* progress of the running phase */
	GrnProgress beside;			/* progress of codes while a GPU is at work; quiet until the GPU
								 * has ended */
	GrnParallel *parallel;		/* counts the loops for `progress` or for `beside` */
	GrnBuildResult *result;
	GrnPlan		plan;
	GrnLayout	layout;
	GrnRows		rows;			/* the distinct rows, a vertex each */
	GrnWorkUse	work;
	const uint32_t *order;		/* [n] row of each rank: GrnBuild.order, or the order of moved rows */
	/* Arrays in WORK, indexed by vertex, except the first; see grn_place_work_arrays(). */
	uint32_t   *vertex_of_rank; /* [n] */
	uint32_t   *distinct;		/* [m] row of each vertex */
	uint32_t   *position;		/* [m] node id of each vertex */
	GrnGraph	graph;
	uint8_t    *codes;			/* [m][code_bytes] */
	GrnFactor  *factors;		/* [m] */
	uint8_t    *own;			/* [m][own_bytes] the vectors that records keep, if memory cannot
								 * hold the rows; NULL: the rows serve */
	size_t		own_bytes;
	float	   *center;			/* [dim] center of own vectors, or NULL */
	GrnCodec	codec;
	GrnResultArrays out;		/* once written; rows NULL before */
	GrnFinish	finish;			/* its gpu keeps the graph from the graph's build on */
	double		since;			/* time until which seconds have counted for steps */
	double		processor_before;	/* processor seconds at the build's start */
} GrnPipeline;

static inline void *
grn_pipeline_need(GrnPipeline *p, GrnSegment segment, uint64_t bytes, GrnFailure *failure)
{
	return p->build->host->need(p->build->host->ctx, segment, bytes, failure);
}

/* ---- pipeline_codes.c ---- */

/* The settings of the codec's fit, without the memory of its sample. */
extern GrnCodecFit grn_pipeline_plan_fit(const GrnPipeline *p);
/*
 * Fits the codec, which decides the record's geometry, and encodes the vertices.  Makes own items
 * of moved rows.  Announces the memory that codes will need in RESULT.
 */
extern bool grn_pipeline_make_codes(GrnPipeline *p, GrnFailure *failure);
/*
 * Drops the codes if their estimates do not tell the neighbors in the graph apart.  The graph must
 * be built.
 */
extern bool grn_pipeline_judge_codes(GrnPipeline *p, GrnFailure *failure);
/*
 * If the result is centered, computes the center of own vectors: the mean of the rows, computed
 * again without rows far from the first mean, because a few outliers would move the mean away from
 * all rows.
 */
extern void grn_pipeline_choose_center(GrnPipeline *p);

/* ---- pipeline_form.c ---- */

/*
 * Checks on the finished graph whether rounded own vectors would put the nearest rows out of a
 * search's reach.  If so, chooses a form that rounds less, or the exact form.
 */
extern void grn_pipeline_judge_form(GrnPipeline *p);
/*
 * Whether rounding rows to bytes would hide the nearest rows, by a sample of all rows.  Used for
 * collected rows that memory cannot hold.  A cluster with only a few rows in the sample is not
 * seen.
 */
extern bool grn_pipeline_rounding_loses(GrnPipeline *p);

/* ---- pipeline_place.c ---- */

/*
 * Largest number of cells into which rows move.  300,000 image patches beyond memory, ef 40: .921
 * by 72 visits in 17.4 s of processor time, half .922, 73 and 17.7, twice .924, 72 and 18.8.
 */
#define GRN_MOST_CELLS 64
#define GRN_LEAST_CELL_ROWS 4096	/* smallest mean number of rows in a cell */
#define GRN_PLACE_STRETCHES 32	/* stretches of grn_pipeline_place_rows(), of two loops each */

/*
 * The first pass over rows that will move.  Checks the rows and moves them to the beginning of
 * WORK, cell by cell of the space.  Rounds the rows if the regime is GRN_ROUNDED.  Sets p->order to
 * the rows' new places.  hashes [n] is by place, of the rows before rounding.  For duplicates.c,
 * by_cell [n] lists the places cell by cell, and slots [2n] is a workspace.
 */
extern bool grn_pipeline_place_rows(GrnPipeline *p, GrnPrepared *prepared, uint64_t **hashes,
									uint32_t **by_cell, uint32_t **slots, GrnFailure *failure);
/*
 * If many of the moved rows are copies, moves the distinct rows next to each other and renumbers
 * the vertices.  Otherwise a build that reads rows at random would keep the copies in memory as
 * well.  Vertices must be numbered by row.  Returns false if no row has moved.
 */
extern bool grn_pipeline_place_together(GrnPipeline *p);
/* Bytes that records keep of a row, if the kept form differs from the row's form; otherwise 0. */
extern size_t grn_pipeline_own_bytes(const GrnPipeline *p);
/*
 * Whether a sample of rows that memory cannot hold has at least GRN_LEAST_CELL_ROWS distinct rows.
 * An index of fewer distinct rows keeps rows exactly, whatever its layout.
 */
extern bool grn_pipeline_has_many_rows(const GrnRows *rows);
/* Notes in the result that `rows` rows, or their own items, lie in WORK now. */
extern void grn_pipeline_enter_move(GrnPipeline *p, uint64_t rows);
/* Number of cells for n rows. */
extern uint32_t grn_pipeline_cells(uint64_t n);
/*
 * Begins or ends a series of reads of random rows.  If memory cannot hold the rows, the kernel then
 * reads no pages around the requested page.
 */
extern void grn_pipeline_sample_rows(const GrnPipeline *p, bool begin);
/* ---- pipeline_entries.c ---- */

/*
 * Chooses entry points: all vertices if there are at most GRN_MAX_ENTRIES.  Otherwise entries[0] is
 * the medoid, and each further entry is far from the entries so far (grn_far_entry()).
 */
extern void grn_pipeline_choose_entries(GrnPipeline *p);

/* ---- pipeline_result.c ---- */

/* The arrays of the result, by its numbers so far.  segment: RESULT or NULL. */
extern GrnResultArrays grn_pipeline_place_result(const GrnPipeline *p, void *segment);
/* Assigns node ids to all vertices, and writes all arrays for the leader, by node. */
extern bool grn_pipeline_write_result(GrnPipeline *p, GrnFailure *failure);
/* Writes only row_start and rows of the result. */
extern void grn_pipeline_write_rows(GrnPipeline *p);

/* ---- pipeline_records.c ---- */

/*
 * The graph as records in the form that the index will have, without filter columns.  Ids are
 * vertices until the result is written, and then nodes.
 */
typedef struct GrnRecords
{
	GrnPipeline *p;
	GrnLayout	layout;
	GrnCenter	center;			/* center of own vectors, if the result is centered */
	GrnResultArrays at;			/* ids, counts, codes and factors */
	uint8_t		entry_codes[GRN_MAX_ENTRIES * GRN_MAX_CODE_DIMS / 2];
	GrnFactor	entry_factors[GRN_MAX_ENTRIES];
	size_t		item_bytes;
	uint8_t    *items;			/* [n][item_bytes] own items, each made at its first visit; NULL if
								 * rows are in the records' form, or without memory */
	uint8_t    *item_states;	/* [n] */
	GrnStore  **stores;			/* [threads] each a GrnRecordStore */
	GrnStoredGraph graph;		/* all this as searches take it */
} GrnRecords;

/* The records as a GrnStore, for one thread. */
typedef struct GrnRecordStore
{
	GrnStore	base;
	GrnRecords *records;
	char	   *record;			/* room for a record */
	float	   *scratch;		/* [dim] */
} GrnRecordStore;

/*
 * Codes and entries must be chosen.  Returns false if memory is short.  The caller must call
 * grn_records_end() in either case.
 */
extern bool grn_records_begin(GrnRecords *r, GrnPipeline *p);
extern void grn_records_end(GrnRecords *r);
/* The row of an id.  Only r->p must be set. */
extern const void *grn_records_row(const GrnRecords *r, uint32_t id);
/*
 * Adds edges to the graph of a build in parts where searches end too early
 * (store/navigable.c).  The graph must be connected.
 */
extern void grn_pipeline_make_navigable(GrnPipeline *p);
/* The same for a graph without codes whose searches start at f->entry. */
extern void grn_make_graph_navigable(const GrnFinish *f, uint64_t seed);

/* ---- pipeline_recall.c ---- */

/* Measures the recall curve of the written result. */
extern void grn_pipeline_measure_recall(GrnPipeline *p);

/* ---- pipeline_nearest.c ---- */

/* Finds the lists, by the finished graph or exactly, and writes the lists and the rows of nodes. */
extern bool grn_pipeline_write_nearest(GrnPipeline *p, GrnFailure *failure);

#endif							/* GRN_PIPELINE_IMPL_H */
