/*
 * cache.c - a backend's cache of index descriptions, and checks of the metapage.
 */
#include "am/index/index.h"

#include <math.h>

#include "access/xact.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "am/filter/filter.h"
#include "am/index/page_store.h"

/*
 * Limits of the cache.  A description used by the current transaction stays, because callers hold
 * pointers to it.  A description takes a few kB, or 64 kB with a center.  Beyond the limit the
 * least recently used descriptions are freed.  The first scan adds the codec's arrays and the
 * hints, which have a budget of their own: a codec can take 24 MB and the hints of an index 4 MB,
 * and a query can scan a thousand partitions.
 */
#ifdef GRNND_TEST_POINTS
#define MAX_BYTES ((Size) 1 << 20)	/* small enough that a few hundred indexes exceed it */
#else
#define MAX_BYTES ((Size) 16 << 20)
#endif
#define MAX_ARRAYS_BYTES ((Size) 32 << 20)
#define ARRAYS_WORK_MEMS 8		/* limit in units of work_mem, if that is less */

/*
 * Number of pages at an index's front that one call prefetches; an index of 128 dimensions has 10
 * pages before its nodes.
 */
#define HEAD_BLOCKS 16

/* Key of a description; stored in rd_amcache. */
typedef struct CacheKey
{
	uint64		build_id;
	const GrnndType *type;
	pg_crc32c	crc;			/* checksum of the metapage */
	uint32		number;			/* distinguishes metapages with otherwise equal keys */
} CacheKey;

typedef struct CacheEntry
{
	CacheKey	key;
	dlist_node	node;			/* in `used` */
	MemoryContext context;		/* holds this entry */
	Size		bytes;			/* size of the context */
	uint64		transaction;	/* last transaction that used the entry */
	GrnndIndex	ix;
	MemoryContext arrays;		/* holds the codec's arrays and the hints; or NULL */
	Size		arrays_bytes;
	bool		filled;			/* the arrays are complete */
} CacheEntry;

typedef struct CacheSlot
{
	CacheKey	key;
	CacheEntry *entry;
} CacheSlot;

static HTAB * cache;			/* of CacheSlot */
static dlist_head used = DLIST_STATIC_INIT(used);	/* most recently used first */
static Size cache_bytes = 0;	/* size of all entries */
static Size cache_arrays_bytes = 0;
static int32 no_hint = GRNND_NO_HINT;	/* the hint of all indexes without hints: a wrong hint is
										 * harmless */
static const GrnndHints no_hints = {&no_hint, 0, 0};
static uint64 transaction = 0;	/* number of transactions that this backend has ended */

/* ---- the metapage ---- */

static uint32
crc_of(const void *bytes, Size n)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, bytes, n);
	FIN_CRC32C(crc);
	return crc;
}

uint32
grnnd_meta_crc(const GrnndMeta *meta)
{
	return crc_of(meta, offsetof(GrnndMeta, crc));
}

static bool
is_undamaged(const GrnndMeta *meta)
{
	return meta->magic == GRNND_MAGIC && EQ_CRC32C(grnnd_meta_crc(meta), meta->crc);
}

bool
grnnd_has_unknown_features(const GrnndMeta *meta)
{
	return (meta->must_understand & ~(uint32) GRNND_FEATURES) != 0 && is_undamaged(meta);
}

/* Are all numbers finite? */
static bool
are_finite(const float *x, uint32 n)
{
	while (n > 0 && isfinite(x[n - 1]))
		n--;
	return n == 0;
}

/* Are the areas of the file as a build places them, within `blocks` blocks? */
static bool
are_placed(const GrnndMeta *meta, const GrnLayout *l, BlockNumber blocks)
{
	GrnndMeta	built = *meta;

	return grnnd_place_areas(&built, l, meta->center_pages > 0) <= blocks &&
		memcmp(&built, meta, sizeof(built)) == 0;
}

/* Do the lists fit the columns? */
static bool
are_lists_sound(const GrnndMeta *meta)
{
	if (meta->list_state > GRNND_LISTS_FILLING || meta->list_scale > 32 ||
		(uint64) meta->list_buckets * meta->ncolumns > (uint64) meta->list_pages * GRNND_LISTS_PER_PAGE)
		return false;
	return meta->ncolumns > 0 || meta->list_buckets == 0;
}

const char *
grnnd_meta_fault(const GrnndMeta *meta, const GrnndKey *key, const GrnndAttrs *attrs,
				 BlockNumber blocks, GrnLayout *layout)
{
	GrnLayoutSpec spec = {.dim = meta->dim, .degree = meta->degree, .shape = meta->shape,
		.form = (GrnForm) meta->form, .attr_bytes = meta->attr_bytes,
		.sig_bytes = meta->sig_bytes, .payload = meta->payload};

	if (meta->magic != GRNND_MAGIC)
		return "not a metapage of grnnd";
	if (!EQ_CRC32C(grnnd_meta_crc(meta), meta->crc))
		return "checksum of the metapage is wrong";
	if (grnnd_has_unknown_features(meta))
		return "features of a later version of grnnd";
	if (meta->metric != key->metric->id)
		return "its distance is not that of its operator class";
	if (meta->ncolumns != attrs->n || meta->attr_bytes != attrs->bytes ||
		(meta->sig_bytes != 0 && meta->sig_bytes != attrs->n))
		return "its columns are not those of its operator classes";
	for (uint32 i = 0; i < attrs->n; i++)
	{
		GrnndColumn column;

		grnnd_describe_attr(&attrs->attr[i], meta->sig_bytes > 0, &column);
		column.former = meta->columns[i].former;
		if (memcmp(&column, &meta->columns[i], sizeof(column)) != 0)
			return "its columns are not those of its operator classes";
	}
	/* test bounds first, because grn_layout_of() and the codec's size rely on them */
	if (meta->payload != GRNND_PAYLOAD ||
		meta->column_dim < 1 || meta->column_dim > (uint32) key->type->max_dim ||
		(key->type->words == NULL ? meta->dim != meta->column_dim : !grnnd_words_sound(meta->dim)) ||
		meta->degree < GRN_MIN_DEGREE || meta->degree > GRN_MAX_DEGREE ||
		!grn_shape_sound(meta->shape) ||
		grn_form_for(meta->form, key->type->form) == NULL ||
		meta->attr_bytes > GRN_MAX_ATTR_BYTES || meta->sig_bytes > GRN_MAX_SIG_BYTES ||
		!grn_layout_of(layout, &spec) ||
		layout->record_bytes != meta->record_bytes)
		return "impossible record geometry";
	if (meta->center_pages > 0 && !grn_form(layout->form)->rotated)
		return "a center of vectors that have none";
	if (!are_placed(meta, layout, blocks))
		return "impossible places of its pages";
	if (!are_lists_sound(meta))
		return "impossible lists of values";
	if (meta->fit_state > GRNND_FILLING ||
		(meta->fit_state != GRNND_FITTED && layout->code_bytes == 0) ||
		meta->codes_ignored > 1 || meta->on_gpu > 1 ||
		meta->build_nodes > GRN_MAX_NODES || meta->judged > GRN_MAX_NODES)
		return "impossible state";
	if (!are_finite(&meta->norm_unit, 1) || meta->norm_unit < 0 ||
		!are_finite(meta->steps, GRN_CODE_BLOCKS) || !are_finite(&meta->held, 1) ||
		!are_finite(&meta->params.rho, 1) || (meta->power != 0 && !grn_is_power(meta->power)))
		return "impossible numbers";
	return NULL;
}

/* Raises an error unless this version can read an index with this metapage. */
static void
check_meta(Relation index, const GrnndMeta *meta, const GrnndKey *key, const GrnndAttrs *attrs,
		   GrnLayout *layout)
{
	const char *fault;

	if (meta->magic == GRNND_MAGIC && meta->format != GRNND_FORMAT)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("index \"%s\" has format %u, this version of grnnd reads format %u",
						RelationGetRelationName(index), meta->format, GRNND_FORMAT),
				 errhint("REINDEX the index.")));
	if (grnnd_has_unknown_features(meta))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("index \"%s\" has features that this version of grnnd does not know",
						RelationGetRelationName(index)),
				 errhint("REINDEX the index, or install the version of grnnd that built it.")));
	if (is_undamaged(meta) && meta->payload != GRNND_PAYLOAD)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("index \"%s\" was built by a server with another block size",
						RelationGetRelationName(index)),
				 errhint("REINDEX the index.")));
	fault = grnnd_meta_fault(meta, key, attrs, RelationGetNumberOfBlocks(index), layout);
	if (fault != NULL)
		grnnd_corrupt(index, 0, fault);
}

/* The checksum of a note on the metapage from a field of the note to its end. */
#define NOTE_CRC(note, from) \
	crc_of(&(note)->from, sizeof(*(note)) - ((const char *) &(note)->from - (const char *) (note)))

uint32
grnnd_report_crc(const GrnndReport *report)
{
	return NOTE_CRC(report, threads);
}

uint32
grnnd_measured_crc(const GrnndMeasured *measured)
{
	return NOTE_CRC(measured, ids);
}

uint32
grnnd_queried_crc(const GrnndQueried *queried)
{
	return NOTE_CRC(queried, sampled);
}

static bool
is_curve(const GrnRecallCurve *curve)
{
	return are_finite(&curve->recall[0][0], GRN_CURVE_KS * GRN_CURVE_POINTS) &&
		are_finite(curve->visits, GRN_CURVE_POINTS);
}

void
grnnd_read_notes(Page page, GrnndNotes *notes)
{
	const char *payload = GrnndPagePayload(page);

	memcpy(&notes->report, payload + GRNND_META_OFF_REPORT, sizeof(notes->report));
	memcpy(&notes->measured, payload + GRNND_META_OFF_MEASURED, sizeof(notes->measured));
	notes->gone = ((const GrnndAttempt *) (payload + GRNND_META_OFF_ATTEMPT))->gone;
	if (!EQ_CRC32C(grnnd_report_crc(&notes->report), notes->report.crc) ||
		!are_finite(notes->report.seconds, GRN_STEPS) || !is_curve(&notes->report.curve))
		memset(&notes->report, 0, sizeof(notes->report));
	if (!EQ_CRC32C(grnnd_measured_crc(&notes->measured), notes->measured.crc) ||
		!are_finite(&notes->measured.inserted, 1) || !are_finite(&notes->measured.stretch, 1) ||
		!is_curve(&notes->measured.curve))
		memset(&notes->measured, 0, sizeof(notes->measured));
	memcpy(&notes->queried, payload + GRNND_META_OFF_QUERIED, sizeof(notes->queried));
	if (!EQ_CRC32C(grnnd_queried_crc(&notes->queried), notes->queried.crc) ||
		!are_finite(notes->queried.built.at, 2 * GRN_CURVE_POINTS))
		memset(&notes->queried, 0, sizeof(notes->queried));
}

/*
 * Prefetches the first pages of the index.  If the metapage is not in shared buffers, the pages
 * behind it (entries, codec, books) are probably missing too and are needed next.
 */
static void
prefetch_head(Relation index)
{
	grnnd_prefetch_blocks(index, 0, Min(RelationGetNumberOfBlocks(index), HEAD_BLOCKS));
}

/* Reads the metapage.  notes may be NULL. */
static void
read_meta(Relation index, GrnndMeta *meta, GrnndNotes *notes)
{
	Buffer		buffer = grnnd_read(index, 0, BUFFER_LOCK_SHARE, GRNND_META, NULL);

	memcpy(meta, GrnndPagePayload(BufferGetPage(buffer)), sizeof(*meta));
	if (notes != NULL)
		grnnd_read_notes(BufferGetPage(buffer), notes);
	UnlockReleaseBuffer(buffer);
}

/* Reads floats from the pages of the codec or of the center. */
static void
read_floats(Relation index, BlockNumber block, uint32 pages, float *out, Size bytes)
{
	Size		done = 0;

	if ((Size) pages * GRNND_PAYLOAD < bytes)
		grnnd_corrupt(index, 0, "too few codec pages");
	grnnd_prefetch_blocks(index, block, Min(pages, (bytes + GRNND_PAYLOAD - 1) / GRNND_PAYLOAD));
	for (uint32 i = 0; i < pages && done < bytes; i++)
	{
		Size		piece = Min(bytes - done, GRNND_PAYLOAD);
		Buffer		buffer = grnnd_read(index, block + i,
										BUFFER_LOCK_SHARE, GRNND_CODEC, NULL);

		memcpy((char *) out + done, GrnndPagePayload(BufferGetPage(buffer)), piece);
		UnlockReleaseBuffer(buffer);
		done += piece;
	}
}

/* Reads the books of signatures, books: [ncolumns]. */
static void
read_books(Relation index, const GrnndMeta *meta, GrnSigBook *books)
{
	if (meta->book_pages < (meta->ncolumns + GRNND_BOOKS_PER_PAGE - 1) / GRNND_BOOKS_PER_PAGE)
		grnnd_corrupt(index, 0, "too few pages of signatures");
	for (uint32 i = 0; i < meta->ncolumns; i += GRNND_BOOKS_PER_PAGE)
	{
		BlockNumber block = meta->book_block + i / GRNND_BOOKS_PER_PAGE;
		uint32		n = Min(meta->ncolumns - i, GRNND_BOOKS_PER_PAGE);
		Buffer		buffer = grnnd_read(index, block, BUFFER_LOCK_SHARE, GRNND_BOOKS, NULL);

		memcpy(books + i, GrnndPagePayload(BufferGetPage(buffer)), n * sizeof(GrnSigBook));
		UnlockReleaseBuffer(buffer);
		for (uint32 j = i; j < i + n; j++)
			if (grn_sig_check(&books[j]) != NULL)
				grnnd_corrupt(index, block, grn_sig_check(&books[j]));
	}
}

/* ---- descriptions ---- */

static void
end_of_transaction(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT ||
		event == XACT_EVENT_PREPARE)
		transaction++;
}

/* Frees the arrays and hints of an entry. */
static void
drop_arrays(CacheEntry *entry)
{
	entry->ix.hints = no_hints;
	entry->ix.codec.mean = entry->ix.encoder.mean = NULL;
	entry->ix.codec.basis = entry->ix.encoder.basis = NULL;
	entry->ix.codec.short_basis = entry->ix.encoder.short_basis = NULL;
	entry->ix.books = NULL;
	entry->filled = false;
	cache_arrays_bytes -= entry->arrays_bytes;
	entry->arrays_bytes = 0;
	if (entry->arrays == NULL)
		return;
	MemoryContextDelete(entry->arrays);
	entry->arrays = NULL;
}

static Size
arrays_budget(void)
{
	return Min(MAX_ARRAYS_BYTES, (Size) work_mem * 1024 * ARRAYS_WORK_MEMS);
}

/* Frees the least recently used arrays until `bytes` more bytes fit the budget. */
static void
reserve_arrays(Size bytes)
{
	dlist_iter	at;

	dlist_reverse_foreach(at, &used)
	{
		CacheEntry *entry = dlist_container(CacheEntry, node, at.cur);

		if (cache_arrays_bytes + bytes <= arrays_budget())
			break;
		if (entry->arrays != NULL)
			drop_arrays(entry);
	}
}

static int32 *
new_hints(MemoryContext context, uint32 n)
{
	int32	   *hints = MemoryContextAlloc(context, n * sizeof(int32));

	memset(hints, (uint8) GRNND_NO_HINT, n * sizeof(int32));
	return hints;
}

/* Does the entry have hints for an index of `blocks` blocks? */
static bool
has_hints(const CacheEntry *entry, BlockNumber blocks)
{
	uint32		shift;

	return grnnd_hints_for(blocks, &shift) <= entry->ix.hints.mask + 1 && shift <= entry->ix.hints.shift;
}

/* Updates the size of an entry. */
static void
count_bytes(CacheEntry *entry)
{
	cache_bytes -= entry->bytes;
	entry->bytes = MemoryContextMemAllocated(entry->context, false);
	cache_bytes += entry->bytes;
}

/*
 * Reads the center of own vectors, if the index has one.  Unlike the arrays, the center lives as
 * long as the entry, because a scan needs it for every record until its end.
 */
static void
read_center(Relation index, CacheEntry *entry)
{
	GrnndIndex *ix = &entry->ix;
	Size		bytes = ix->meta.dim * sizeof(float);
	float	   *x = (float *) ix->center.x;

	if (ix->meta.center_pages == 0 || ix->layout.center != NULL)
		return;
	/* an error during an earlier read may have left the memory allocated */
	if (x == NULL)
		ix->center.x = x = MemoryContextAlloc(entry->context, bytes);
	read_floats(index, ix->meta.codec_block + ix->meta.codec_pages, ix->meta.center_pages, x, bytes);
	grn_layout_set_center(&ix->layout, &ix->center, ix->key.metric->comparison, x);
	count_bytes(entry);
}

/* Reads an entry's arrays and makes its hints. */
static void
fill_entry(Relation index, CacheEntry *entry)
{
	GrnndIndex *ix = &entry->ix;
	Size		arrays_bytes;
	Size		codec_bytes;
	Size		short_bytes;
	Size		book_bytes = ix->meta.sig_bytes * sizeof(GrnSigBook);
	int16	   *short_basis;
	uint32		hints;
	uint32		hints_shift;
	float	   *codec;

	if (entry->filled)
		return;
	/* an error may have left incomplete arrays */
	drop_arrays(entry);
	read_center(index, entry);
	codec_bytes = sizeof(float) *
		grn_codec_floats(ix->meta.dim, grn_code_dims(ix->encoder.shape));
	short_bytes = sizeof(int16) * grn_code_dims(ix->encoder.shape) * ix->meta.dim;
	hints = grnnd_hints_for(RelationGetNumberOfBlocks(index), &hints_shift);
	arrays_bytes = codec_bytes + short_bytes + book_bytes + hints * sizeof(int32);
	reserve_arrays(arrays_bytes);
	entry->arrays = AllocSetContextCreate(entry->context, "grnnd index arrays",
										  ALLOCSET_SMALL_SIZES);
	codec = MemoryContextAllocHuge(entry->arrays, Max(codec_bytes, 1));
	read_floats(index, ix->meta.codec_block, ix->meta.codec_pages, codec, codec_bytes);
	if (book_bytes > 0)
	{
		GrnSigBook *books = MemoryContextAlloc(entry->arrays, book_bytes);

		read_books(index, &ix->meta, books);
		ix->books = books;
	}
	ix->encoder.mean = codec;
	ix->encoder.basis = codec + ix->meta.dim;
	grn_codec_set_metric(&ix->encoder, ix->key.metric, ix->meta.norm_unit);
	short_basis = MemoryContextAllocHuge(entry->arrays, Max(short_bytes, 1));
	grn_codec_shorten(&ix->encoder, short_basis);
	ix->encoder.short_basis = short_basis;
	ix->codec = ix->encoder;
	if (ix->meta.codes_ignored || ix->meta.fit_state != GRNND_FITTED)
		ix->codec.shape = GRN_NO_CODES;
	ix->hints = (GrnndHints) {new_hints(entry->arrays, hints), hints - 1, hints_shift};
	entry->arrays_bytes = arrays_bytes;
	cache_arrays_bytes += arrays_bytes;
	entry->filled = true;
}

/*
 * Frees the least recently used descriptions until the cache is within its limit.  Descriptions
 * used by the current transaction are at the list's front.
 */
static void
evict(void)
{
	while (cache_bytes > MAX_BYTES)
	{
		CacheEntry *entry = dlist_tail_element(CacheEntry, node, &used);

		if (entry->transaction == transaction)
			break;
		drop_arrays(entry);
		dlist_delete(&entry->node);
		hash_search(cache, &entry->key, HASH_REMOVE, NULL);
		cache_bytes -= entry->bytes;
		MemoryContextDelete(entry->context);
	}
}

static void
make_cache(void)
{
	HASHCTL		control = {.keysize = sizeof(CacheKey), .entrysize = sizeof(CacheSlot)};

	cache = hash_create("grnnd indexes", 64, &control, HASH_ELEM | HASH_BLOBS);
	RegisterXactCallback(end_of_transaction, NULL);
}

/* The entry with this key, or NULL. */
static CacheEntry *
look_up(const CacheKey *key)
{
	CacheSlot  *slot = cache == NULL ? NULL : hash_search(cache, key, HASH_FIND, NULL);

	return slot == NULL ? NULL : slot->entry;
}

/* Reads the metapage, and finds or makes the entry for it. */
static CacheEntry *
load_entry(Relation index)
{
	GrnndKey	key = grnnd_key(index);
	GrnndAttrs *attrs = grnnd_attrs(index);
	GrnndMeta	meta;
	GrnndNotes	notes;
	GrnLayout	layout;
	MemoryContext context;
	CacheEntry *entry;
	CacheKey	name;

	if (RelationGetNumberOfBlocks(index) == 0)
		grnnd_corrupt(index, 0, "the file is empty");
	prefetch_head(index);
	read_meta(index, &meta, &notes);
	check_meta(index, &meta, &key, attrs, &layout);

	/* an identical metapage means an identical codec, because build_id names the build */
	memset(&name, 0, sizeof(name));
	name.build_id = meta.build_id;
	name.type = key.type;
	name.crc = meta.crc;
	while ((entry = look_up(&name)) != NULL)
	{
		if (memcmp(&entry->ix.meta, &meta, sizeof(meta)) == 0)
		{
			entry->ix.notes = notes;
			return entry;
		}
		name.number++;
	}

	if (cache == NULL)
		make_cache();
	evict();
	context = AllocSetContextCreate(CacheMemoryContext, "grnnd index",
									ALLOCSET_SMALL_SIZES);
	entry = MemoryContextAllocZero(context, sizeof(CacheEntry));
	entry->context = context;
	entry->ix.meta = meta;
	entry->ix.notes = notes;
	entry->ix.layout = layout;
	entry->ix.key = key;
	entry->ix.key.words = meta.dim;
	entry->ix.attrs = memcpy(MemoryContextAlloc(context, grnnd_attrs_bytes(attrs)), attrs,
							 grnnd_attrs_bytes(attrs));
	entry->ix.hints = no_hints;
	entry->ix.encoder.dim = meta.dim;
	entry->ix.encoder.shape = meta.fit_state == GRNND_UNFITTED ? GRN_NO_CODES : meta.shape;
	entry->ix.encoder.norm_unit = meta.norm_unit;
	entry->ix.encoder.power = meta.power;
	memcpy(entry->ix.encoder.steps, meta.steps, sizeof(meta.steps));
	entry->ix.codec = entry->ix.encoder;
	if (meta.codes_ignored || meta.fit_state != GRNND_FITTED)
		entry->ix.codec.shape = GRN_NO_CODES;
	entry->key = name;
	((CacheSlot *) hash_search(cache, &name, HASH_ENTER, NULL))->entry = entry;
	dlist_push_head(&used, &entry->node);
	count_bytes(entry);
	return entry;
}

/* Does the metapage of an unfitted or filling index still match the entry? */
static bool
is_current(Relation index, const CacheEntry *entry)
{
	GrnndMeta	meta;

	read_meta(index, &meta, NULL);
	return memcmp(&entry->ix.meta, &meta, sizeof(meta)) == 0;
}

bool
grnnd_is_filling(Relation index)
{
	GrnndMeta	meta;

	read_meta(index, &meta, NULL);
	return meta.fit_state == GRNND_FILLING;
}

bool
grnnd_lists_current(Relation index, const GrnndIndex *ix)
{
	GrnndMeta	meta;

	read_meta(index, &meta, NULL);
	if (meta.list_generation == ix->meta.list_generation &&
		meta.list_buckets == ix->meta.list_buckets && meta.list_state == ix->meta.list_state)
		return true;
	/* the next statement must read the metapage, even if no invalidation message arrives */
	if (index->rd_amcache != NULL)
		memset(index->rd_amcache, 0, sizeof(CacheKey));
	return false;
}

static CacheEntry *
use_entry(CacheEntry *entry)
{
	dlist_move_head(&used, &entry->node);
	entry->transaction = transaction;
	return entry;
}

/* Loads the entry of the current metapage and stores its key in rd_amcache. */
static CacheEntry *
renew_entry(Relation index)
{
	CacheEntry *entry = load_entry(index);

	if (index->rd_amcache == NULL)
		index->rd_amcache = MemoryContextAlloc(index->rd_indexcxt, sizeof(CacheKey));
	*(CacheKey *) index->rd_amcache = entry->key;
	return entry;
}

/*
 * rd_amcache holds only the key of the entry, because the relcache frees rd_amcache when the
 * relation changes, and the entry may be freed earlier.
 */
static CacheEntry *
find_entry(Relation index)
{
	CacheEntry *entry = index->rd_amcache == NULL ? NULL : look_up(index->rd_amcache);

	if (entry == NULL || (entry->ix.meta.fit_state != GRNND_FITTED && !is_current(index, entry)))
		entry = renew_entry(index);
	return use_entry(entry);
}

const GrnndIndex *
grnnd_index_shape(Relation index)
{
	return &find_entry(index)->ix;
}

const GrnndIndex *
grnnd_index(Relation index)
{
	CacheEntry *entry = find_entry(index);

	entry->filled &= has_hints(entry, RelationGetNumberOfBlocks(index));
	fill_entry(index, entry);
	return &entry->ix;
}

const GrnndIndex *
grnnd_index_anew(Relation index)
{
	CacheEntry *entry = use_entry(renew_entry(index));

	fill_entry(index, entry);
	return &entry->ix;
}

void
grnnd_copy_index(Relation index, GrnndIndex *copy)
{
	Size		codec_bytes;
	float	   *codec;

	*copy = *grnnd_index_anew(index);
	codec_bytes = sizeof(float) *
		grn_codec_floats(copy->meta.dim, grn_code_dims(copy->encoder.shape));
	codec = palloc_extended(Max(codec_bytes, 1), MCXT_ALLOC_HUGE);
	memcpy(codec, copy->encoder.mean, codec_bytes);
	copy->encoder.mean = copy->codec.mean = codec;
	copy->encoder.basis = copy->codec.basis = codec + copy->meta.dim;
	copy->encoder.short_basis = copy->codec.short_basis = NULL;
	if (copy->layout.center != NULL)
		grn_layout_set_center(&copy->layout, &copy->center, copy->key.metric->comparison,
							  memcpy(palloc(copy->meta.dim * sizeof(float)), copy->center.x,
									 copy->meta.dim * sizeof(float)));
	if (copy->books != NULL)
		copy->books = memcpy(palloc(copy->meta.sig_bytes * sizeof(GrnSigBook)), copy->books,
							 copy->meta.sig_bytes * sizeof(GrnSigBook));
	copy->hints.at = new_hints(CurrentMemoryContext, copy->hints.mask + 1);
}
