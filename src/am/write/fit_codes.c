/*
 * fit_codes.c - fits codes for an index that began with too few rows for a codec, and judges
 * whether codes still serve an index that has grown.
 *
 * An index of few rows is "unfitted". Its records have empty room for codes, and searches compute
 * exact distances of all neighbors, at little cost while rows are few. At grnnd_fit_rows() a fit
 * is due; fit_schedule.c decides when, and in which process. GRNND_UPKEEP_LOCK keeps vacuum out.
 * Searches and inserts go on meanwhile (fit_fill.c has steps 3 and 4, fit_judge.c the judgment):
 * 1. A codec is fitted to a sample and written to its pages.
 * 2. The metapage says "filling". Backends that read this state write codes with all their records,
 *    and use no codes.
 * 3. The fit waits for inserts that began with an older metapage.
 * 4. All older records and entry points get their codes, page by page.
 * 5. The metapage says that the index has codes.
 *
 * A backend with a metapage from before step 5 uses no code. A failed attempt leaves the index
 * unfitted or filling, and the next attempt goes on from that state. If codes would not tell
 * neighbors apart (estimate.c), the index stays unfitted until the number of rows has doubled.
 *
 * Whenever an index with codes has grown by a quarter, its codes are judged again. New rows may lie
 * far from the rows of the fit, or clusters may have become dense, and estimates then no longer
 * tell neighbors apart. The metapage then says that codes are ignored: records keep codes and get
 * new codes, but searches make no estimates.
 *
 * Each fit and judgment ends with a new measurement of recall (fit_recall.c). Where many rows were
 * replaced and no codes are due, measuring is the only step. An index with codes and filter columns
 * then gets its lists of values (fit_lists.c).
 */
#include "am/write/fit_impl.h"

#include <math.h>

#include "access/generic_xlog.h"
#include "storage/lmgr.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "am/index/index.h"
#include "am/test_point.h"
#include "am/write/write.h"
#include "space/space.h"
#include "store/codec.h"

uint32
grnnd_fit_rows(uint32 dim)
{
	return grn_least_fitted_rows(dim);
}

static bool
codes_due(const GrnndMeta *meta, uint32 id)
{
	uint64		judged = meta->judged;

	if (grn_code_dims(meta->shape) == 0)
		return false;
	switch ((GrnndFitState) meta->fit_state)
	{
		case GRNND_UNFITTED:
			return id >= Max((uint64) grnnd_fit_rows(meta->dim), 2 * judged);
		case GRNND_FILLING:
			return true;
		case GRNND_FITTED:
			break;
	}
	return id >= judged + judged / 4;
}

bool
grnnd_fit_due(const GrnndMeta *meta, uint32 id)
{
	return codes_due(meta, id) || grnnd_lists_due(meta, id);
}

/* Ends the fit with an error that a later attempt makes good. */
static GRNND_NORETURN void
postpone(Relation index, const char *why)
{
	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("postponing the fit of codes of index \"%s\", because another session %s",
					RelationGetRelationName(index), why),
			 errhint("A later insert, VACUUM or grnnd_fit() continues the fit.")));
}

void
grnnd_fit_check_interrupts(const Fit *f)
{
	grnnd_delay_point();
	if (f->heap == NULL)
		return;
	if (grnnd_database_is_wanted())
		postpone(f->index, "waits for a lock on the database");
	if (LockHasWaitersRelation(f->heap, ShareUpdateExclusiveLock) ||
		LockHasWaitersRelation(f->index, ShareUpdateExclusiveLock))
		postpone(f->index, "waits for a lock on its table");
	if (grnnd_lock_is_wanted(f->index, GRNND_UPKEEP_LOCK, ExclusiveLock))
		postpone(f->index, "waits to check or fit the index");
}

/* ---- the codec ---- */

void
grnnd_fit_take_row(void *arg, const GrnRecord *rec, const void *vec)
{
	Fit		   *f = arg;

	grn_own_load(&f->ix.layout, vec, f->x);
	f->error = grnnd_rounding_error(&f->ix, rec);
	f->state = (GrnState) rec->state;
}

bool
grnnd_fit_visit(Fit *f, uint32 id, bool dead_too)
{
	if (id % 64 == 0)
		grnnd_fit_check_interrupts(f);
	return f->store.base.visit(&f->store.base, id, grnnd_fit_take_row, f) &&
		(f->state == GRN_NODE || (dead_too && f->state == GRN_DEAD));
}

/*
 * Allocates rows and fills them with a reservoir sample. Returns false if too few rows are alive. A
 * few may be missing: an insert that finds a fit due requests the fit while concurrent inserts have
 * yet to write records of smaller ids.
 */
static bool
sample_rows(Fit *f)
{
	uint32		dim = f->ix.meta.dim;
	uint32		least = grnnd_fit_rows(dim);

	f->stride = (uint32) grn_row_floats(f->ix.key.metric, dim);
	/* the codec's fit has a copy of the rows */
	f->row_room = (uint32) Max(least, Min(grn_fitted_rows(dim, f->limit),
										  grnnd_maintenance_memory() / (2 * f->stride * sizeof(float))));
	f->rows = palloc_extended((Size) f->row_room * f->stride * sizeof(float),
							  MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);

	for (uint32 id = 0; id < f->limit; id++)
	{
		uint64		at;

		if (!grnnd_fit_visit(f, id, false))
			continue;
		at = f->seen++;
		if (at >= f->row_room)
			at = grn_random(f->ix.meta.params.seed, id, 0) % f->seen;
		if (at < f->row_room)
			memcpy(f->rows + at * f->stride, f->x, dim * sizeof(float));
	}
	f->nrows = (uint32) Min(f->seen, f->row_room);
	return f->nrows >= least - least / 8;
}

/* GrnParallel.run() of Fit.alone */
static void
run_alone(GrnParallel *self, size_t n, size_t grain, GrnRangeFn fn, void *arg)
{
	for (size_t begin = 0; begin < n; begin += grain)
	{
		grnnd_fit_check_interrupts((Fit *) self);
		fn(arg, 0, begin, Min(begin + grain, n));
	}
}

/* The unit of norms: from the sample if the metric has none. */
static float
norm_unit(const Fit *f)
{
	uint32		counts[GRN_OCTAVES] = {0};

	for (uint32 i = 0; i < f->nrows; i++)
	{
		int			octave = grn_octave(grn_norm2(f->rows + (Size) i * f->stride,
												  f->ix.meta.dim));

		if (octave != GRN_NO_OCTAVE)
			counts[octave]++;
	}
	return (float) grn_metric_norm_unit(f->ix.key.metric, counts);
}

/* The power of places, by the sample. */
static float
choose_power(Fit *f)
{
	uint32		n = Min(f->nrows, GRN_POWER_ROWS);
	float	   *work;
	float		power = f->ix.key.metric->power;

	if (f->ix.key.metric->unit_of_rows)
	{
		work = palloc((Size) n * n * sizeof(float));
		power = grn_choose_power(f->rows, f->nrows / n * f->stride, n, f->ix.meta.dim,
								 f->ix.meta.norm_unit, power, work, &f->alone);
		pfree(work);
	}
	return power;
}

/*
 * Fits f->ix.codec to the sample.  The shape is the best one with the bytes and directions of the
 * index's shape, for which records and codec pages have room.
 */
static void
fit_codec(Fit *f)
{
	GrnndMeta  *meta = &f->ix.meta;
	uint32		dim = f->ix.meta.dim;
	GrnCodeCosts costs;
	GrnCodecFit fit = {
		.stride = f->stride,
		.dim = dim,
		.least_code_dims = grn_code_dims(meta->shape),
		.max_code_dims = grn_code_dims(meta->shape),
		.costs = &costs,
		.seed = meta->params.seed
	};
	float	   *model = palloc_extended(grn_codec_floats(dim, grn_code_dims(meta->shape)) * sizeof(float),
										MCXT_ALLOC_HUGE);

	if (grn_is_scaled(f->ix.key.metric->embedding))
	{
		meta->norm_unit = norm_unit(f);
		meta->power = choose_power(f);
		for (uint32 i = 0; i < f->nrows; i++)
			grn_append_scale(f->rows + (Size) i * f->stride, dim, meta->norm_unit, meta->power);
	}
	for (uint32 i = 0; i < lengthof(costs.visit); i++)
		costs.visit[i] = i == grn_code_bytes(meta->shape) / GRN_CODE_STEP ? 1 : INFINITY;
	fit.embedding = f->ix.key.metric->embedding;
	fit.kind = f->ix.key.metric->codes;
	fit.rows = f->rows;
	fit.nrows = f->nrows;
	f->ix.codec = grn_codec_fit(&fit, &f->alone, model,
								palloc_extended(grn_codec_fit_bytes(&fit), MCXT_ALLOC_HUGE),
								&meta->held);
	f->ix.codec.power = meta->power;
	grn_codec_set_metric(&f->ix.codec, f->ix.key.metric, meta->norm_unit);
	meta->shape = f->ix.codec.shape;
	meta->norm_unit = f->ix.codec.norm_unit;
	memcpy(meta->steps, f->ix.codec.steps, sizeof(meta->steps));
	f->ix.encoder = f->ix.codec;
}

/* ---- pages before the nodes ---- */

static void
write_codec(const Fit *f)
{
	Size		bytes = grn_codec_floats(f->ix.meta.dim, grn_code_dims(f->ix.codec.shape)) * sizeof(float);
	const char *model = (const char *) f->ix.codec.mean;

	for (uint32 i = 0; i < f->ix.meta.codec_pages; i++)
	{
		Buffer		buffer = ReadBuffer(f->index, f->ix.meta.codec_block + i);
		GenericXLogState *xlog;
		Page		page;

		/* the page holds the build's zeroes (write_index.c), or an earlier attempt's bytes */
		LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
		xlog = GenericXLogStart(f->index);
		page = GenericXLogRegisterBuffer(xlog, buffer, GENERIC_XLOG_FULL_IMAGE);
		grnnd_page_init(page, GRNND_CODEC);
		memcpy(GrnndPagePayload(page), model + (Size) i * GRNND_PAYLOAD,
			   Min(bytes - (Size) i * GRNND_PAYLOAD, GRNND_PAYLOAD));
		GenericXLogFinish(xlog);
		UnlockReleaseBuffer(buffer);
	}
}

void
grnnd_fit_write_meta(Fit *f, bool done)
{
	Buffer		buffer = grnnd_read(f->index, 0, BUFFER_LOCK_EXCLUSIVE, GRNND_META, NULL);
	GenericXLogState *xlog = GenericXLogStart(f->index);
	Page		page = GenericXLogRegisterBuffer(xlog, buffer, 0);

	f->ix.meta.crc = grnnd_meta_crc(&f->ix.meta);
	memcpy(GrnndPagePayload(page), &f->ix.meta, sizeof(f->ix.meta));
	if (done)
	{
		grnnd_note_success(page);
		memcpy(GrnndPagePayload(page) + GRNND_META_OFF_MEASURED, &f->ix.notes.measured,
			   sizeof(GrnndMeasured));
		memcpy(GrnndPagePayload(page) + GRNND_META_OFF_QUERIED, &f->ix.notes.queried, sizeof(GrnndQueried));
	}
	GenericXLogFinish(xlog);
	UnlockReleaseBuffer(buffer);
}

/* ---- the whole ---- */

/* Steps 1 and 2. Returns false if the codes would not tell neighbors apart. */
static bool
begin_filling(Fit *f)
{
	GrnndMeta	before = f->ix.meta;

	fit_codec(f);
	if (!grnnd_fit_judge_codes(f))
	{
		/* an index without codes has places too */
		before.power = f->ix.meta.power;
		f->ix.meta = before;
		return false;
	}
	write_codec(f);
	f->ix.meta.fit_state = GRNND_FILLING;
	grnnd_fit_write_meta(f, false);
	grnnd_test_point("fit-published");
	return true;
}

/* Returns false if the index has too few rows for a codec. */
static bool
fit_or_judge(Fit *f)
{
	GrnndMeta  *meta = &f->ix.meta;

	/* the index's codes are judged, whatever the state of the index */
	f->ix.codec = f->ix.encoder;
	if (meta->fit_state == GRNND_FITTED)
		meta->codes_ignored = !grnnd_fit_judge_codes(f);
	else if (meta->fit_state == GRNND_UNFITTED && !sample_rows(f))
		return false;
	else if (meta->fit_state == GRNND_FILLING || begin_filling(f))
	{
		grnnd_fit_fill(f);
		grnnd_test_point("fit-coded");
		meta->fit_state = GRNND_FITTED;
		meta->codes_ignored = !grnnd_fit_judge_codes(f);
	}
	meta->judged = f->limit;
	/* measure with the codes that searches will use */
	if (meta->codes_ignored || meta->fit_state != GRNND_FITTED)
		f->ix.codec.shape = GRN_NO_CODES;
	return true;
}

static void
fit(Fit *f)
{
	const GrnndMeta *meta = &f->ix.meta;
	bool		codes;
	bool		recall;

	f->limit = f->store.id_limit;
	if (f->limit == 0)
		return;
	codes = codes_due(meta, f->limit - 1);
	recall = codes || grnnd_recall_due(f->index, meta, &f->ix.notes, f->limit);
	/* another process may have done this already */
	if (!recall && !grnnd_lists_due(meta, f->limit - 1))
		return;
	f->x = palloc(meta->dim * sizeof(float));
	grnnd_test_point("fit-begun");
	if (codes && !fit_or_judge(f))
		return;
	recall = recall && grnnd_fit_measure(f);
	if (codes || recall)
		grnnd_fit_write_meta(f, true);
	if (grnnd_lists_due(meta, f->limit - 1))
		grnnd_fit_lists(f);
	/* without the message (this transaction aborts) backends only have worse recall */
	if (!f->in_vacuum)
		CacheInvalidateRelcache(f->index);
}

void
grnnd_fit_codes(Relation index, Relation heap, bool in_vacuum)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "grnnd fit",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	Fit		   *f = palloc0(sizeof(Fit));

	f->alone = (GrnParallel) {1, run_alone};
	f->index = index;
	f->heap = heap;
	f->in_vacuum = in_vacuum;
	if (heap == NULL)
		grnnd_lock(index, GRNND_UPKEEP_LOCK, ExclusiveLock);
	else if (!grnnd_try_lock(index, GRNND_UPKEEP_LOCK, ExclusiveLock))
		postpone(index, "checks or fits the index");
	grnnd_copy_index(index, &f->ix);
	grnnd_store_init(&f->store, index, &f->ix, CurrentMemoryContext);
	fit(f);
	grnnd_unlock(index, GRNND_UPKEEP_LOCK, ExclusiveLock);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}
