/*
 * fit.c - codes for an index that began with too few rows to fit a codec to, and
 * whether codes still serve an index that has grown.
 *
 * An index of few rows is "unfitted": its records have room for codes, which is empty, and
 * searches compute exact distances of all neighbours, which costs little while
 * there are few.  The insert that takes the index past grnnd_fit_rows() fits a
 * codec to the rows there are:
 *   1. it keeps out vacuums (GRNND_CODEC_LOCK) and other inserts (GRNND_WRITERS_LOCK);
 *   2. all records and entry points get their codes, and the codec its pages;
 *   3. the metapage says so.
 * Who knows the metapage from before step 3 looks at no code, so searches go on
 * meanwhile, and a crash leaves an unfitted index.  Where such codes would not tell
 * neighbours apart (codec.h), it stays unfitted until there are twice as many rows.
 *
 * Whenever an index with codes has grown by a quarter, its codes are judged again: rows far
 * from those that the codec was fitted to, or clusters that have become dense, may be told
 * apart no more.  Then the metapage says "exact": records keep codes and get new ones, but
 * nobody estimates by them.
 */
#include "write.h"

#include <math.h>

#include "miscadmin.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"

/*
 * Four rows a dimension, up to 2,048, give directions that hold nearly as much of
 * other rows' variance as those of 20,000 rows do: 512 SIFT descriptors 0.906 in 64
 * directions instead of 0.920, 1,536 sentence embeddings 0.76 in 128 of 384 instead
 * of 0.79.  Fewer where they would take more memory than this.
 */
#define FIT_ROWS_PER_DIM 4
#define MIN_FIT_ROWS 64
#define MAX_FIT_ROWS 2048
#define FIT_BYTES ((Size) 16 << 20)

/* Nodes by which codes are judged; each costs a visit and one for each neighbour. */
#define PROBES (GRN_ORDER_PROBES / 4)

typedef struct Fit
{
	Relation	index;
	GrnndIndex	ix;				/* as it is to be */
	GrnndStore	store;
	uint32		limit;			/* node ids below it are given codes */
	float	   *rows;			/* [nrows][stride] sample */
	uint32		stride;			/* grn_row_floats() */
	uint32		nrows;
	uint32		row_room;
	uint64		seen;			/* nodes met while sampling */
	double		max_norm2;
	float	   *x;				/* [dim] the row being visited */
	uint8_t    *codes;			/* [limit][code_bytes] */
	GrnFactor  *factors;		/* [limit] */
} Fit;

uint32
grnnd_fit_rows(uint32 dim)
{
	Size		room = FIT_BYTES / (dim * sizeof(float));
	uint32		rows = Min(FIT_ROWS_PER_DIM * dim, MAX_FIT_ROWS);

	return Max((uint32) Min(rows, room), MIN_FIT_ROWS);
}

bool
grnnd_fit_due(const GrnndIndex *ix, uint32 id)
{
	const GrnndMeta *meta = &ix->meta;
	uint64		judged = meta->judged;

	if (meta->code_dims == 0)
		return false;
	if (meta->unfitted)
		return id >= Max((uint64) grnnd_fit_rows(meta->dim), 2 * judged);
	return id >= judged + judged / 4;
}

/* ---- the codec ---- */

static void
take_row(void *arg, const GrnRecord *rec, const void *vec)
{
	Fit		   *f = arg;

	grn_vec_load(f->ix.layout.vec_format, vec, f->ix.meta.dim, f->x);
}

/* Fills rows with a reservoir sample, and max_norm2. */
static void
sample_rows(Fit *f)
{
	uint32		dim = f->ix.meta.dim;

	for (uint32 id = 0; id < f->limit; id++)
	{
		uint64		place;

		CHECK_FOR_INTERRUPTS();
		if (!f->store.base.visit(&f->store.base, id, take_row, f))
			continue;
		f->max_norm2 = Max(f->max_norm2, grn_norm2(f->x, dim));
		place = f->seen++;
		if (place >= f->row_room)
			place = grn_random(f->ix.meta.params.seed, id, 0) % f->seen;
		if (place < f->row_room)
			memcpy(f->rows + place * f->stride, f->x, dim * sizeof(float));
	}
	f->nrows = (uint32) Min(f->seen, f->row_room);
}

static void
run_alone(GrnParallel *self, size_t n, size_t grain, GrnRangeFn fn, void *arg)
{
	for (size_t begin = 0; begin < n; begin += grain)
	{
		CHECK_FOR_INTERRUPTS();
		fn(arg, 0, begin, Min(begin + grain, n));
	}
}

static int
compare_floats(const void *a, const void *b)
{
	float		x = *(const float *) a;
	float		y = *(const float *) b;

	return x < y ? -1 : x > y;
}

/* The median of the sample's norms but for zeroes; 1 where there is none. */
static float
typical_norm(const Fit *f)
{
	float	   *norms = palloc(f->nrows * sizeof(float));
	uint32		n = 0;
	float		median;

	for (uint32 i = 0; i < f->nrows; i++)
	{
		double		norm = sqrt(grn_norm2(f->rows + (Size) i * f->stride, f->ix.meta.dim));

		if (norm > GRN_LEAST_NORM)
			norms[n++] = (float) norm;
	}
	qsort(norms, n, sizeof(float), compare_floats);
	median = n > 0 ? norms[n / 2] : 1;
	pfree(norms);
	return median;
}

/* Fits f->ix.codec to the sample; false where there is nothing to fit to. */
static bool
fit_codec(Fit *f)
{
	GrnndMeta  *meta = &f->ix.meta;
	uint32		dim = f->ix.meta.dim;
	GrnParallel alone = {1, run_alone};
	GrnCodecFit fit = {
		.stride = f->stride,
		.dim = dim,
		.max_code_dims = meta->code_dims,
		.energy = INFINITY,		/* all of the room */
		.seed = meta->params.seed
	};
	float	   *model = palloc_extended(grn_codec_floats(dim, meta->code_dims) * sizeof(float),
										MCXT_ALLOC_HUGE);

	sample_rows(f);
	if (f->nrows == 0)
		return false;
	if (f->ix.key.metric->embedding == GRN_EMBED_SCALED)
	{
		/* rounded up, so that no row is longer */
		meta->max_norm = nextafterf((float) sqrt(f->max_norm2), INFINITY);
		meta->norm_unit = typical_norm(f);
		for (uint32 i = 0; i < f->nrows; i++)
		{
			float	   *row = f->rows + (Size) i * f->stride;
			GrnScale	scale = grn_scale(grn_norm2(row, dim), meta->norm_unit);

			memcpy(row + dim, &scale, sizeof(scale));
		}
	}
	fit.embedding = f->ix.key.metric->embedding;
	fit.kind = f->ix.key.metric->codes;
	fit.rows = f->rows;
	fit.nrows = f->nrows;
	f->ix.codec = grn_codec_fit(&fit, &alone, model,
								palloc_extended(grn_codec_fit_bytes(&fit), MCXT_ALLOC_HUGE),
								&meta->held);
	grn_codec_set_kind(&f->ix.codec, f->ix.key.metric->codes, meta->norm_unit);
	meta->norm_unit = f->ix.codec.norm_unit;
	meta->unfitted = 0;
	return true;
}

/* ---- codes ---- */

static void
encode_all(Fit *f)
{
	uint32		bytes = f->ix.layout.code_bytes;
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "grnnd code",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);

	for (uint32 id = 0; id < f->limit; id++)
	{
		GrnndPoint	p;

		CHECK_FOR_INTERRUPTS();
		if (!f->store.base.visit(&f->store.base, id, take_row, f))
			continue;
		grnnd_make_point(&f->ix, f->x, &p);
		memcpy(f->codes + (Size) id * bytes, p.code, bytes);
		f->factors[id] = p.factor;
		MemoryContextReset(context);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

typedef struct Probe
{
	Fit		   *f;
	uint32		count;
	uint32		ids[GRN_MAX_DEGREE];
} Probe;

static void
take_node(void *arg, const GrnRecord *rec, const void *vec)
{
	Probe	   *probe = arg;

	take_row(probe->f, rec, vec);
	probe->count = rec->count;
	memcpy(probe->ids, grn_rec_ids(&probe->f->ix.layout, rec), rec->count * sizeof(uint32));
}

/* The row that was visited last, in the graph's space. */
static float *
place_row(const Fit *f)
{
	uint32		dim = f->ix.meta.dim;
	float	   *place = palloc(dim * sizeof(float));

	memcpy(place, f->x, dim * sizeof(float));
	grnnd_place(&f->ix, place);
	return place;
}

/* Counts the pairs of one node's neighbours; of a node that is gone, none. */
static void
probe_node(Fit *f, uint32 id, GrnOrder *order)
{
	uint32		dim = f->ix.meta.dim;
	Probe		probe = {.f = f};
	GrnndPoint	p;
	GrnndPoint	other;
	float	   *place;
	float		distances[GRN_MAX_DEGREE];
	float		estimates[GRN_MAX_DEGREE];
	uint32		n = 0;

	if (!f->store.base.visit(&f->store.base, id, take_node, &probe))
		return;
	place = place_row(f);
	grnnd_make_point(&f->ix, f->x, &p);
	for (uint32 i = 0; i < probe.count; i++)
	{
		if (!f->store.base.visit(&f->store.base, probe.ids[i], take_row, f))
			continue;
		distances[n] = grn_dist->l2_f32(place, place_row(f), dim);
		grnnd_make_point(&f->ix, f->x, &other);
		grn_estimate(p.query, other.code, &other.factor, 1, &estimates[n++]);
	}
	grn_count_order(distances, estimates, n, order);
}

/* Whether the codec that was fitted tells neighbours apart, as in builds. */
static bool
codes_tell(Fit *f)
{
	uint32		probes = Min(f->limit, PROBES);
	GrnOrder	order = {0};
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "grnnd probe",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);

	for (uint32 i = 0; i < probes; i++)
	{
		CHECK_FOR_INTERRUPTS();
		probe_node(f, (uint32) ((uint64) f->limit * i / probes), &order);
		MemoryContextReset(context);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return grn_codes_tell(&order);
}

static void
put_codes(const Fit *f, GrnRecord *rec, uint32 id)
{
	const GrnLayout *l = &f->ix.layout;
	const uint32 *ids = grn_rec_ids(l, rec);

	rec->factor = f->factors[id];
	memcpy(GRN_REC_PTR(rec, l->off_code), f->codes + (Size) id * l->code_bytes, l->code_bytes);
	for (uint32 i = 0; i < rec->count; i++)
		grnnd_set_edge(l, rec, i, ids[i], f->codes + (Size) ids[i] * l->code_bytes,
					   f->factors[ids[i]]);
}

static void
write_records(Fit *f)
{
	const GrnLayout *l = &f->ix.layout;
	uint32		limit = f->limit;

	for (uint32 first = 0; first < f->limit; first += l->per_page)
	{
		Buffer		buffer = grnnd_read(f->index, grnnd_node_block(&f->ix, first),
										BUFFER_LOCK_EXCLUSIVE, GRNND_NODES, NULL);

		if (!PageIsNew(BufferGetPage(buffer)))
		{
			GenericXLogState *xlog = GenericXLogStart(f->index);
			Page		page = GenericXLogRegisterBuffer(xlog, buffer, 0);

			for (uint32 i = 0; i < l->per_page; i++)
			{
				GrnRecord  *rec = grnnd_page_record(page, &f->ix, i);

				grnnd_check_record(f->index, &f->ix, first + i, rec, &limit);
				if (grn_record_leads_on(rec))
					put_codes(f, rec, first + i);
			}
			GenericXLogFinish(xlog);
		}
		UnlockReleaseBuffer(buffer);
		CHECK_FOR_INTERRUPTS();
	}
}

static bool
set_entry_codes(GrnndEntries *entries, void *arg)
{
	const Fit  *f = arg;

	for (uint32 i = 0; i < entries->count; i++)
	{
		uint32		id = entries->ids[i];

		if (id >= f->limit)
			grnnd_corrupt(f->index, f->ix.meta.entry_block, "an entry point does not exist");
		grnnd_set_entry(&f->ix, entries, i, id,
						f->codes + (Size) id * f->ix.layout.code_bytes, f->factors[id]);
	}
	for (uint32 id = 0; id < f->limit; id++)
		grnnd_enter_long(&f->ix, entries, id,
						 f->codes + (Size) id * f->ix.layout.code_bytes, f->factors[id]);
	return true;
}

/* Replaces the payload of a page that is no node's. */
static void
write_page(const Fit *f, BlockNumber block, GrnndPageKind kind, const void *bytes, Size n)
{
	Buffer		buffer = grnnd_read(f->index, block, BUFFER_LOCK_EXCLUSIVE, kind, NULL);
	GenericXLogState *xlog = GenericXLogStart(f->index);
	Page		page = GenericXLogRegisterBuffer(xlog, buffer, 0);

	memcpy(GrnndPagePayload(page), bytes, n);
	GenericXLogFinish(xlog);
	UnlockReleaseBuffer(buffer);
}

static void
write_codec(const Fit *f)
{
	Size		bytes = grn_codec_floats(f->ix.meta.dim, f->ix.codec.code_dims) * sizeof(float);
	const char *model = (const char *) f->ix.codec.mean;

	for (uint32 i = 0; i < f->ix.meta.codec_pages; i++)
		write_page(f, f->ix.meta.codec_block + i, GRNND_CODEC,
				   model + (Size) i * GRNND_PAYLOAD,
				   Min(bytes - (Size) i * GRNND_PAYLOAD, GRNND_PAYLOAD));
}

/* ---- the whole ---- */

/*
 * Gives the records of an unfitted index codes, if these tell neighbours apart; else its
 * metapage stays as it was.  False where there is no row to fit to.
 */
static bool
fit_first(Fit *f)
{
	GrnndMeta	before = f->ix.meta;

	f->row_room = grnnd_fit_rows(f->ix.meta.dim);
	f->stride = (uint32) grn_row_floats(f->ix.key.metric, f->ix.meta.dim);
	f->rows = palloc_extended((Size) f->row_room * f->stride * sizeof(float),
							  MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	if (!fit_codec(f))
		return false;
	f->ix.encoder = f->ix.codec;
	if (!codes_tell(f))
	{
		f->ix.meta = before;
		return true;
	}
	f->codes = palloc_extended((Size) f->limit * f->ix.layout.code_bytes,
							   MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	f->factors = palloc_extended((Size) f->limit * sizeof(GrnFactor),
								 MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	encode_all(f);
	write_records(f);
	grnnd_change_entries(f->index, &f->ix, set_entry_codes, f);
	write_codec(f);
	grnnd_test_point("fit-coded");
	return true;
}

static void
fit(Relation index)
{
	Fit		   *f = palloc0(sizeof(Fit));

	f->index = index;
	f->ix = *grnnd_index_anew(index);
	grnnd_store_init(&f->store, index, &f->ix, CurrentMemoryContext);
	f->limit = f->store.id_limit;
	/* somebody else may have been first */
	if (f->limit == 0 || !grnnd_fit_due(&f->ix, f->limit - 1))
		return;
	f->x = palloc(f->ix.meta.dim * sizeof(float));
	grnnd_test_point("fit-begun");
	if (f->ix.meta.unfitted)
	{
		if (!fit_first(f))
			return;
	}
	else
	{
		f->ix.codec = f->ix.encoder;
		f->ix.meta.exact = !codes_tell(f);
	}
	f->ix.meta.judged = f->limit;
	f->ix.meta.crc = grnnd_meta_crc(&f->ix.meta);
	write_page(f, 0, GRNND_META, &f->ix.meta, sizeof(f->ix.meta));
	/* who does not hear of it, since this transaction aborts, has worse recall */
	CacheInvalidateRelcache(index);
}

void
grnnd_fit(Relation index)
{
	MemoryContext context;
	MemoryContext old;

	if (!grnnd_try_lock(index, GRNND_CODEC_LOCK, ExclusiveLock))
		return;
	grnnd_lock(index, GRNND_WRITERS_LOCK, ExclusiveLock);
	context = AllocSetContextCreate(CurrentMemoryContext, "grnnd fit",
									ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(context);
	fit(index);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	grnnd_unlock(index, GRNND_WRITERS_LOCK, ExclusiveLock);
	grnnd_unlock(index, GRNND_CODEC_LOCK, ExclusiveLock);
}
