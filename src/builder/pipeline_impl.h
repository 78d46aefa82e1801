/*
 * pipeline_impl.h - what the steps of a build share: pipeline.c, which takes them in turn,
 * pipeline_codes.c, pipeline_form.c, pipeline_entries.c, pipeline_result.c,
 * pipeline_recall.c, pipeline_nearest.c, pipeline_place.c and pipeline_move.c.
 */
#ifndef GRN_PIPELINE_IMPL_H
#define GRN_PIPELINE_IMPL_H

#include "builder/finish.h"
#include "builder/gpus.h"
#include "builder/progress.h"
#include "builder/pipeline.h"
#include "builder/prepare.h"
#include "graph/construct/graph.h"
#include "graph/memory.h"
#include "graph/metric.h"
#include "graph/rows.h"
#include "graph/stored/codec_fit.h"
#include "graph/stored/cut_order.h"
#include "graph/stored/estimate.h"
#include "graph/stored/record.h"

#define GRN_PIPELINE_GRAIN 512	/* vertices that a thread takes at a time */
#define GRN_ORDER_LOOPS 30		/* of the order of pages on cores, about: of levels, and a few more */

typedef struct GrnPipeline
{
	GrnBuild   *build;
	const GrnMetricInfo *metric;
	GrnProgress progress;		/* of the phase */
	GrnProgress beside;			/* of codes, while a GPU is at work: quiet until that is over */
	GrnParallel *parallel;		/* that of one of the two */
	GrnBuildResult *result;
	GrnLayout	layout;
	GrnCodeCosts costs;			/* of what codes could be */
	uint32_t	max_code_dims;	/* 0: no codes */
	bool		fit_later;		/* rows are too few for codes (GrnBuildSpec.fit_rows), but may get
								 * some */
	GrnForm		exact;			/* the smallest that holds all rows exactly */
	bool		keeps_exact;	/* records do in any case, as rounding would hide rows */
	GrnRows		rows;			/* the distinct ones: the vertices */
	const char *work;			/* WORK, which never moves */
	uint64_t	placed_bytes;	/* of rows that have moved at the first look, which WORK begins
								 * with; 0: they have not */
	bool		rounded;		/* these have become what records keep: own items (own.h) of
								 * GRN_FORM_ROUNDED.  They are own[], too, which then is by row */
	const uint32_t *order;		/* [n] row of a rank: GrnBuild's, or as those have moved */
	/* in WORK, by vertex but for the first; see grn_lay_out_work() */
	uint32_t   *vertex_of_rank; /* [n] */
	uint32_t   *distinct;		/* [m] row of vertex */
	uint32_t   *position;		/* [m] node id of vertex */
	GrnGraph	graph;
	uint8_t    *codes;			/* [m][code_bytes] */
	GrnFactor  *factors;		/* [m] */
	uint8_t    *own;			/* [m][own_bytes] of rows beyond memory, what records keep; NULL:
								 * rows themselves */
	size_t		own_bytes;
	bool		own_made;
	float	   *codec_floats;
	float	   *centre;			/* [dim] of own vectors where the result is centred */
	char	   *scratch;
	uint64_t	kept_bytes;		/* of all but scratch */
	uint64_t	work_bytes;		/* of all these */
	GrnCodec	codec;
	uint64_t	probes;			/* vertices by which codes are judged: */
	GrnJudgement judgement;		/* how well codes order neighbours */
	struct GrnTruth *truth;		/* rows that recall is measured by, or NULL: not chosen yet */
	char	   *out;			/* RESULT */
	char	   *out_codes;		/* CODES */
	GrnGpu	   *holder;			/* a GPU that has the graph, or NULL */
	GrnFinish	finish;
	uint32_t	bad_vertex;
	const char *bad;
} GrnPipeline;

static inline void *
grn_pipeline_need(GrnPipeline *p, GrnSegment segment, uint64_t bytes, GrnFailure *failure)
{
	return p->build->host->need(p->build->host->ctx, segment, bytes, failure);
}

/* ---- pipeline_codes.c ---- */

/* The codec's fit, but for where its sample lies. */
extern GrnCodecFit grn_pipeline_plan_fit(const GrnPipeline *p);
/*
 * Fits the codec, which decides the record's geometry, and encodes the vertices; makes own items of
 * moved rows.  Asks for the memory that CODES will take.
 */
extern bool grn_pipeline_make_codes(GrnPipeline *p, GrnFailure *failure);
/* Leaves codes out where, by the graph that is there now, they do not tell neighbours apart. */
extern bool grn_pipeline_judge_codes(GrnPipeline *p, GrnFailure *failure);
/*
 * Codes of the vertices, to order by; without a codec if they have none for that.  The seed is the
 * request's, as a GPU's thread may be writing the result's parameters.
 */
extern GrnGrouping grn_pipeline_codes_to_order_by(const GrnPipeline *p);

/* ---- pipeline_form.c ---- */

/*
 * Where own vectors were to be rounded and that, by the graph that is there now, takes the nearest
 * rows out of a search's reach: rounds them less, or keeps them exactly.
 */
extern void grn_pipeline_judge_form(GrnPipeline *p);
/*
 * The same of rows as they were collected, which memory is not going to hold: whether bytes hide
 * the nearest rows, by a sample of all.  Clusters of which it has but a few rows it cannot see.
 */
extern bool grn_pipeline_rounding_hides(GrnPipeline *p);

/* ---- pipeline_place.c, pipeline_move.c ---- */

#define GRN_MOST_CELLS 64
#define GRN_LEAST_CELL_ROWS 4096
#define GRN_MOVE_LOOPS 40		/* of grn_pipeline_move_rows(), about: most are over at once */
#define GRN_PLACE_STRETCHES 32	/* of grn_pipeline_place_rows(), of two loops each */

/*
 * Whether rows, graph and the host's workspace of its build are more than memory holds, and
 * rows may move.  work_limit: bytes; 0: what is free.
 */
extern bool grn_pipeline_should_move(const GrnPipeline *p, uint64_t workspace, uint64_t work_limit);
/* Whether they will, by what is known before the first look at them. */
extern bool grn_pipeline_may_move(const GrnPipeline *p, uint64_t work_limit);
/*
 * The first look at rows that will move, which moves them: to the beginning of WORK, by cells
 * of the space, rounded if p->rounded says so.  p->order then has their places, by which hashes [n]
 * are, of rows as they were.  For duplicates.h, by_cell [n] has them cell by cell, and slots [2n]
 * is a workspace.
 */
extern bool grn_pipeline_place_rows(GrnPipeline *p, GrnPrepared *prepared, uint64_t **hashes,
									uint32_t **by_cell, uint32_t **slots, GrnFailure *failure);
/*
 * Moves the distinct ones of rows that have moved at the first look next to each other, and numbers
 * them so, if others are many: a build that reads them here and there would have copies in memory
 * with them.  Vertices must be numbered by row.  False if rows stay where they are.
 */
extern bool grn_pipeline_place_together(GrnPipeline *p);
/* Bytes of what records keep of a row, where that is another form than the row's; else 0. */
extern size_t grn_pipeline_own_bytes(const GrnPipeline *p);
/*
 * Do rows, of which memory is not going to hold all, show more distinct ones than an index keeps as
 * they are whatever its layout (GRN_LEAST_CELL_ROWS)?
 */
extern bool grn_pipeline_shows_many(const GrnRows *rows);
/* Enters into the result that rows, so many, have moved: they or own items lie in WORK now. */
extern void grn_pipeline_enter_move(GrnPipeline *p, uint64_t rows);
/* How many cells so many rows have. */
extern uint32_t grn_pipeline_cells(uint64_t n);
/* Begins and ends looks at rows here and there, which beyond memory are to bring no others. */
extern void grn_pipeline_sample_rows(const GrnPipeline *p, bool begin);
/*
 * Moves the distinct rows to WORK, by cells of the space, and numbers vertices as
 * their rows then lie.  Vertices must be numbered, and rows.order say which row is whose.  This is
 * for rows that turned out to be too many only after the first look.
 */
extern bool grn_pipeline_move_rows(GrnPipeline *p, GrnFailure *failure);

/* ---- pipeline_entries.c ---- */

/*
 * entries[0] is the medoid.  Of the others each is, of a few random vertices, the
 * one farthest from the entries so far: spread, but where the data is dense.
 */
extern void grn_pipeline_choose_entries(GrnPipeline *p);

/*
 * Where the result is centred: makes the centre of own vectors the mean of rows, and then of those
 * that are not far from it, because a few very far ones would take it away from all others.
 */
extern void grn_pipeline_choose_centre(GrnPipeline *p);

/* ---- pipeline_result.c ---- */

/* Of RESULT, once it is laid out. */
extern uint64_t grn_pipeline_result_bytes(const GrnPipeline *p);
/* Gives every vertex its node id and writes all that the leader reads, by node. */
extern bool grn_pipeline_write_result(GrnPipeline *p, GrnFailure *failure);
/* row_start and rows of the result alone. */
extern void grn_pipeline_write_rows(GrnPipeline *p);

/* ---- pipeline_recall.c ---- */

/* Measures the curve of the result, which is written; before: processor seconds at its start. */
extern void grn_pipeline_measure_recall(GrnPipeline *p, double before);
/*
 * For rows that memory does not hold: chooses those to measure by (entries must be known), and
 * compares vertices [begin, end), which have just been read for something else.
 */
extern void grn_pipeline_choose_queries(GrnPipeline *p);
/* Takes the choice back, if there is one. */
extern void grn_pipeline_forget_queries(GrnPipeline *p);
extern void grn_pipeline_compare_range(GrnPipeline *p, int worker, size_t begin, size_t end);

/* ---- pipeline_nearest.c ---- */

/* Lays out RESULT for lists of nearest rows. */
extern void grn_pipeline_plan_nearest(GrnPipeline *p);
/* Finds the lists, by the finished graph or exactly, and writes them with the rows of nodes. */
extern bool grn_pipeline_write_nearest(GrnPipeline *p, GrnFailure *failure);

#endif							/* GRN_PIPELINE_IMPL_H */
