/*
 * record.c - layouts of records, writing of records, and checks of records read from disk.
 */
#include "store/record.h"

#include <float.h>
#include <string.h>

#include "store/codec.h"

/* On-disk sizes must not change with the compiler. */
_Static_assert(sizeof(GrnFactor) == 4, "on-disk size");
_Static_assert(sizeof(GrnRecord) == 20, "on-disk size");
_Static_assert(sizeof(GrnFreed) == 8, "on-disk size");
_Static_assert(offsetof(GrnRecord, version) == 4, "on-disk layout");
_Static_assert(offsetof(GrnRecord, next) == 8, "on-disk layout");
_Static_assert(offsetof(GrnRecord, error) == 12, "on-disk layout");
_Static_assert(offsetof(GrnRecord, factor) == 16, "on-disk layout");

#define ALIGN4(x) (((x) + 3) & ~(uint32_t) 3)

static uint32_t
divide_up(uint32_t a, uint32_t b)
{
	return (a + b - 1) / b;
}

/* Fills the offsets for records with room for `tids` TIDs. */
static void
set_offsets(GrnLayout *l, uint32_t tids)
{
	l->tids_max = tids;
	l->off_tids = sizeof(GrnRecord);
	l->off_attrs = l->off_tids + tids * GRN_TID_BYTES;
	l->off_code = l->off_attrs + tids * l->attr_bytes;
	l->off_sig = l->off_code + (l->shape.own > 0 ? 0 : l->code_bytes);
	l->off_ids = ALIGN4(l->off_sig + l->sig_bytes);
	l->off_factors = l->off_ids + 4 * l->degree;
	l->off_codes = l->off_factors + l->degree * l->factor_bytes;
	l->off_sigs = l->off_codes + l->degree * l->code_bytes;
	l->off_vec = ALIGN4(l->off_sigs + l->degree * l->sig_bytes);
	l->hot_bytes = l->off_vec;
	l->record_bytes = ALIGN4(l->off_vec + l->vec_bytes);
	if (l->shape.own > 0)
	{
		l->off_code = l->off_vec;
		l->hot_bytes = l->record_bytes;
	}
}

bool
grn_layout_of(GrnLayout *layout, const GrnLayoutSpec *spec)
{
	GrnLayout	l;
	uint32_t	room;

	memset(&l, 0, sizeof(l));
	l.dim = spec->dim;
	l.degree = spec->degree;
	l.shape = spec->shape;
	l.form = spec->form;
	l.attr_bytes = spec->attr_bytes;
	l.sig_bytes = spec->sig_bytes;
	l.code_bytes = grn_code_bytes(spec->shape);
	l.vec_bytes = (uint32_t) grn_form_bytes(spec->form, spec->dim);
	l.payload = spec->payload & ~(uint32_t) 3;
	if (l.shape.own > 0 && l.shape.own != l.vec_bytes)
		return false;
	if (l.code_bytes > 0 && l.shape.own == 0)
		l.factor_bytes = sizeof(GrnFactor);

	set_offsets(&l, GRN_MIN_TIDS);
	if (l.hot_bytes > l.payload)
		return false;
	if (l.record_bytes <= l.payload)
	{
		l.per_page = l.payload / l.record_bytes;
		l.span = 1;
		room = l.payload / l.per_page;
	}
	else
	{
		l.per_page = 1;
		l.span = divide_up(l.record_bytes, l.payload);
		room = l.span * l.payload;
	}

	/* Bytes that would be unused hold TIDs, so duplicates need shorter chains. */
	for (uint32_t tids = GRN_MAX_TIDS; tids >= GRN_MIN_TIDS; tids--)
	{
		set_offsets(&l, tids);
		if (l.record_bytes <= room && l.hot_bytes <= l.payload)
			break;
	}

	l.vec_first = l.payload - l.off_vec;
	if (l.vec_first > l.vec_bytes)
		l.vec_first = l.vec_bytes;
	l.chain_tids = ((l.span > 1 ? l.payload : l.record_bytes) - l.off_tids) /
		(GRN_TID_BYTES + l.attr_bytes);
	l.off_chain_attrs = l.off_tids + l.chain_tids * GRN_TID_BYTES;
	*layout = l;
	return true;
}

/* A shape of `bytes` bytes, a multiple of GRN_CODE_STEP: all that a layout depends on. */
static GrnCodeShape
shape_of_bytes(uint32_t bytes)
{
	GrnCodeShape shape = GRN_NO_CODES;

	shape.dims[0] = (uint16_t) (2 * bytes);
	return shape;
}

/*
 * With 4 bits a number, records of 621 to 768 dimensions come four to a page instead of three.  28
 * edges with codes of 48 bytes are then better than 32 edges with 40 bytes, and nearly as good as
 * 32 edges with 48 bytes three to a page (768 dimensions; test/bench/decisions.md).
 */
#define ROTATED_DEGREE 28
#define ROTATED_MORE_DEGREE 32	/* where that leaves room for LARGE_ROOM_BYTES */
/*
 * Own vectors from this size on are long (GRN_MOST_POOR_LONG).  With half, 10,000 normal rows of
 * 256 dimensions get shorter codes: recall .968 in .41 ms instead of .965 in .28, a quarter fewer
 * bytes.  Four other sets, among them sentences, are the same, as all are with twice.
 */
#define LONG_OWN_BYTES 512
/*
 * Records of layout compact keep no codes, so a search visits each neighbor.  24 edges beside an
 * own vector of COMPACT_OWN_BYTES take 234 bytes a row.  Beside an own vector of up to
 * COMPACT_SHORT_BYTES (136 dimensions in 4 bits, 272 in 2 bits), 32 edges take as much.  Recall at
 * ef 40 with 24 and 32 edges, 128 dimensions: 60,000 SIFT descriptors .964 and .979, 20,000
 * sentences .990 and .991; 40 edges .989 instead of .985 of 20,000 SIFT descriptors in 274 bytes.
 */
#define COMPACT_DEGREE 24
#define COMPACT_SHORT_DEGREE 32
#define COMPACT_SHORT_BYTES 76
#define COMPACT_OWN_BYTES 104
/*
 * Fewer numbers stay exact.  10,000 image patches cut to 8, 12 and 24 dimensions, recall at ef 40:
 * in 4 bits .998, .994 and .992 by 174, 178 and 182 bytes, exact 1.000, 1.000 and .999 by 193, 208
 * and 261.
 */
#define COMPACT_LEAST_DIM 16
/*
 * Sparse rows, without codes: recall at ef 40 of 20,000 rows by inner product with 32 and 40 edges
 * is .501 and .566 of made SPLADE rows, .743 and .79 of short queries of documentation.
 */
#define SPARSE_DEGREE 40
/*
 * A search without codes must visit each neighbor, which takes 17 to 40 times the visits of codes
 * without errors.  Half and twice build the same indexes of seven sets, among them sentences, image
 * patches, word vectors and normal rows.
 */
#define VISITS_WITHOUT_CODES 30

bool
grn_is_compact(GrnForm form, uint32_t dim)
{
	return grn_form(form)->rotated && form == grn_rotated_form(dim, COMPACT_OWN_BYTES);
}

bool
grn_is_long(GrnForm form, uint32_t dim)
{
	return grn_form_bytes(form, dim) >= LONG_OWN_BYTES;
}

/*
 * The layout of these records without filter columns.  Restores the edges that records have given
 * up for their columns.
 */
static GrnLayoutSpec
without_columns(const GrnLayoutSpec *spec)
{
	GrnLayoutSpec plain = *spec;

	plain.degree = grn_default_degree(spec->dim, spec->form, true, spec->payload);
	if (grn_degree_beside_columns(&plain) != spec->degree)
		plain.degree = spec->degree;
	plain.attr_bytes = plain.sig_bytes = 0;
	return plain;
}

/* Does a have more records a page than b, or fewer pages a record? */
static bool
is_denser(const GrnLayout *a, const GrnLayout *b)
{
	return a->span < b->span || a->per_page > b->per_page;
}

/*
 * Would such codes fill the bytes of edges that were given up, in pages with fewer records?  Such
 * pages would wrongly seem cheaper.
 */
static bool
fills_given_up(const GrnLayout *l, GrnLayoutSpec plain)
{
	GrnLayout	p;

	plain.shape = l->shape;
	return !grn_layout_of(&p, &plain) || is_denser(l, &p);
}

/*
 * The cost of a visit is the share of a page that a record takes, because both reads and the size
 * of the index grow with this share.  SIFT thus gets seven records a page, and sentence embeddings
 * of 384 dimensions in 8 bits get four.
 */
void
grn_layout_code_costs(const GrnLayoutSpec *spec, GrnCodeCosts *costs)
{
	GrnLayoutSpec plain = spec->sig_bytes > 0 ? without_columns(spec) : *spec;

	for (uint32_t bytes = 0; bytes <= GRN_MAX_CODE_BYTES; bytes += GRN_CODE_STEP)
	{
		float		cost = INFINITY;
		GrnLayoutSpec coded = *spec;
		GrnLayout	l;

		coded.shape = shape_of_bytes(bytes);
		if (grn_layout_of(&l, &coded) &&
			!(plain.degree > spec->degree && fills_given_up(&l, plain)))
			cost = (float) (l.payload * l.span) / (float) l.per_page;
		if (bytes == 0)
			cost *= VISITS_WITHOUT_CODES;
		costs->visit[bytes / GRN_CODE_STEP] = cost;
	}
}

GrnCodeShape
grn_layout_own_shape(const GrnMetricInfo *metric, const GrnLayoutSpec *spec)
{
	GrnLayoutSpec own = *spec;
	GrnLayout	l;

	own.shape = grn_own_shape(metric, spec->form, spec->dim);
	return grn_layout_of(&l, &own) ? own.shape : GRN_NO_CODES;
}

void
grn_forget_costs(GrnCodeCosts *costs, uint32_t most)
{
	costs->visit[0] = INFINITY;
	for (uint32_t i = 1; i <= GRN_MAX_CODE_BYTES / GRN_CODE_STEP; i++)
		costs->visit[i] = i * GRN_CODE_STEP > most || isinf(costs->visit[i]) ? INFINITY : 1;
}

uint32_t
grn_most_code_bytes(const GrnCodeCosts *costs)
{
	uint32_t	most = GRN_MAX_CODE_BYTES;

	while (most > 0 && isinf(costs->visit[most / GRN_CODE_STEP]))
		most -= GRN_CODE_STEP;
	return most;
}

/*
 * Bytes of code that leave the fit some choice among short codes, longer codes and the longest
 * codes.  20,000 sentences and image patches.  ROOM_BYTES: with half patches have a 22% smaller
 * index and 16% more visits at ef 40, with twice sentences have a twice as large index and 14%
 * fewer visits, at recall within .0025.  LONG_ROOM_BYTES: with twice sentences have .8% more visits
 * and .0025 less recall.  LARGE_ROOM_BYTES: the same indexes with half and twice.
 */
#define ROOM_BYTES 40
#define LONG_ROOM_BYTES 48
#define LARGE_ROOM_BYTES 64

/* The layout of records with codes of `bytes` bytes, or of the longest if these are shorter. */
static bool
room_layout(GrnLayout *l, uint32_t dim, uint32_t degree, uint32_t bytes, GrnForm form,
			uint32_t payload)
{
	uint32_t	all = grn_max_code_dims(dim) / 2;

	return grn_layout(l, dim, degree, shape_of_bytes(all < bytes ? all : bytes), form, payload);
}

/*
 * The degree of records whose edges hold the neighbors' rows: 28 instead of 32 if that saves
 * pages.  Rows of 384 bits take 2,048 bytes with 32 edges and 1,639 bytes with 28 edges, at equal
 * visits and .002 less recall at the default ef.
 */
static uint32_t
own_degree(uint32_t dim, GrnForm form, uint32_t payload)
{
	GrnCodeShape shape = {.own = (uint16_t) grn_form_bytes(form, dim)};
	GrnLayout	usual;
	GrnLayout	l;

	return grn_layout(&usual, dim, 32, shape, form, payload) &&
		grn_layout(&l, dim, 28, shape, form, payload) && 4 * l.per_page >= 5 * usual.per_page
		? 28 : 32;
}

/*
 * True if 28 edges with longer codes are better than 32 edges whose codes a page leaves no more
 * room for.  Measured on a million sentences in 8 bits (384 dimensions): 28 edges with 48 bytes
 * reach recall .95 at ef 44 and .99 at ef 152, 32 edges with 40 bytes at ef 50 and 168.  30 and 26
 * edges are as good as 28 (test/bench/decisions.md).
 */
static bool
prefers_long_codes(uint32_t dim, GrnForm form, uint32_t payload)
{
	GrnLayout	usual;
	GrnLayout	longer;
	GrnLayout	fewer;

	return form == GRN_FORM_ROUNDED &&
		room_layout(&usual, dim, 32, ROOM_BYTES, form, payload) &&
		room_layout(&longer, dim, 32, ROOM_BYTES + GRN_CODE_STEP, form, payload) &&
		is_denser(&usual, &longer) &&
		room_layout(&fewer, dim, 28, LONG_ROOM_BYTES, form, payload) && !is_denser(&usual, &fewer);
}

/*
 * Returns 32, or 28 by prefers_long_codes(), or more if that takes no more pages and leaves room
 * for longer codes.  On GIST 48 edges make 10% fewer visits at recall 0.99 than 32 edges, and 64
 * edges no fewer than 48.
 */
uint32_t
grn_default_degree(uint32_t dim, GrnForm form, bool codes, uint32_t payload)
{
	static const uint32_t large[] = {48, 40};
	GrnLayout	usual;
	GrnLayout	l;

	if (grn_form(form)->rotated)
	{
		if (grn_is_compact(form, dim))
			return grn_form_bytes(form, dim) <= COMPACT_SHORT_BYTES ? COMPACT_SHORT_DEGREE : COMPACT_DEGREE;
		return room_layout(&usual, dim, ROTATED_DEGREE, LONG_ROOM_BYTES, form, payload) &&
			room_layout(&l, dim, ROTATED_MORE_DEGREE, LARGE_ROOM_BYTES, form, payload) &&
			!is_denser(&usual, &l) ? ROTATED_MORE_DEGREE : ROTATED_DEGREE;
	}
	if (grn_form(form)->sparse)
		return SPARSE_DEGREE;
	if (grn_may_be_codes(form, dim))
		return own_degree(dim, form, payload);
	if (room_layout(&usual, dim, 32, ROOM_BYTES, form, payload))
		for (size_t i = 0; i < sizeof(large) / sizeof(large[0]); i++)
			if (room_layout(&l, dim, large[i], LARGE_ROOM_BYTES, form, payload) &&
				!is_denser(&usual, &l))
				return large[i];
	return codes && prefers_long_codes(dim, form, payload) ? 28 : 32;
}

/*
 * A filter column takes one byte beside each edge, and room for its values.  If a page would hold
 * fewer records, up to this number of edges is given up.
 */
#define GIVEN_UP(degree) ((degree) / 8)

/* The longest codes that leave a page as many records as the usual shape of a fit. */
static GrnCodeShape
usual_room(const GrnLayoutSpec *spec)
{
	GrnLayoutSpec coded = *spec;
	GrnCodeCosts costs;
	GrnLayout	usual;
	GrnLayout	l;

	if (grn_may_be_codes(spec->form, spec->dim))
		return (GrnCodeShape) {.own = (uint16_t) grn_form_bytes(spec->form, spec->dim)};
	grn_layout_code_costs(spec, &costs);
	coded.shape = grn_codec_usual_shape(spec->dim, &costs);
	if (!grn_layout_of(&usual, &coded))
		return GRN_NO_CODES;
	for (uint32_t bytes = GRN_MAX_CODE_BYTES; bytes > grn_code_bytes(coded.shape); bytes -= GRN_CODE_STEP)
	{
		coded.shape = shape_of_bytes(bytes);
		if (grn_layout_of(&l, &coded) && !is_denser(&usual, &l))
			return coded.shape;
	}
	return usual.shape;
}

uint32_t
grn_degree_beside_columns(const GrnLayoutSpec *spec)
{
	GrnLayoutSpec plain = *spec;
	GrnLayoutSpec with = *spec;
	GrnLayout	usual;
	GrnLayout	l;

	if (spec->attr_bytes + spec->sig_bytes == 0)
		return spec->degree;
	plain.attr_bytes = plain.sig_bytes = 0;
	with.shape = plain.shape = usual_room(&plain);
	if (grn_layout_of(&usual, &plain))
		for (; with.degree >= spec->degree - GIVEN_UP(spec->degree); with.degree--)
			if (grn_layout_of(&l, &with) && !is_denser(&usual, &l))
				return with.degree;
	return spec->degree;
}

/*
 * True if 4 bits a number, with codes of LONG_ROOM_BYTES, give more records a page than 8 bits with
 * codes of ROOM_BYTES: four instead of three at 621 to 768 dimensions, two instead of one at 2,661
 * to 4,848.  Three instead of two cost too many visits (test/bench/decisions.md).  Records with
 * more edges than ROTATED_MORE_DEGREE stay in 8 bits.  degree 0: ROTATED_DEGREE.
 */
static bool
saves_by_rotation(uint32_t dim, uint32_t degree, uint32_t payload)
{
	GrnLayout	rounded;
	GrnLayout	rotated;

	if (degree == 0)
		degree = ROTATED_DEGREE;
	return degree <= ROTATED_MORE_DEGREE && !grn_is_compact(GRN_FORM_ROUNDED_MORE, dim) &&
		room_layout(&rotated, dim, degree, LONG_ROOM_BYTES, GRN_FORM_ROUNDED_MORE, payload) &&
		(!room_layout(&rounded, dim, degree, ROOM_BYTES, GRN_FORM_ROUNDED, payload) ||
		 (is_denser(&rotated, &rounded) && (rotated.per_page > 3 || rounded.per_page == 1)));
}

GrnForm
grn_layout_form(GrnKeep keep, uint32_t dim, uint32_t degree, bool codes, GrnForm exact,
				uint32_t payload)
{
	uint32_t	bytes = codes ? ROOM_BYTES : 0;
	GrnLayout	rounded;
	GrnLayout	l;
	uint32_t	degrees[2] = {degree, degree};

	if (keep == GRN_KEEP_EXACT || grn_form(exact)->sparse)
		return exact;
	if (keep == GRN_KEEP_COMPACT)
	{
		GrnForm		form = grn_rotated_form(dim, COMPACT_OWN_BYTES);

		return dim >= COMPACT_LEAST_DIM && grn_form_bytes(form, dim) < grn_form_bytes(exact, dim)
			? form : exact;
	}
	if (keep == GRN_KEEP_DEFAULT && codes &&
		grn_form_bytes(exact, dim) > grn_form_bytes(GRN_FORM_ROUNDED, dim) && saves_by_rotation(dim, degree, payload))
		return GRN_FORM_ROUNDED_MORE;
	if (degree == 0)
	{
		degrees[0] = grn_default_degree(dim, GRN_FORM_ROUNDED, codes, payload);
		degrees[1] = grn_default_degree(dim, exact, codes, payload);
	}
	return grn_form_bytes(exact, dim) > grn_form_bytes(GRN_FORM_ROUNDED, dim) &&
		room_layout(&rounded, dim, degrees[0], bytes, GRN_FORM_ROUNDED, payload) &&
		(!room_layout(&l, dim, degrees[1], bytes, exact, payload) || is_denser(&rounded, &l))
		? GRN_FORM_ROUNDED : exact;
}

GrnForm
grn_layout_form_beside_columns(GrnKeep keep, bool codes, const GrnLayoutSpec *rows)
{
	GrnLayoutSpec usual = *rows;

	usual.form = grn_layout_form(keep, rows->dim, 0, codes, rows->form, rows->payload);
	usual.degree = grn_default_degree(rows->dim, usual.form, codes, rows->payload);
	if (codes && rows->sig_bytes > 0 && grn_degree_beside_columns(&usual) == rows->degree)
		return usual.form;
	return grn_layout_form(keep, rows->dim, rows->degree, codes, rows->form, rows->payload);
}

void
grn_record_write(const GrnLayout *l, const GrnRecordSource *src, void *rec)
{
	GrnRecord  *r = rec;

	memset(rec, 0, l->record_bytes);
	r->state = GRN_NODE;
	r->ntids = (uint8_t) src->ntids;
	r->count = (uint8_t) src->count;
	r->next = src->next;
	if (src->ntids > 0)
	{
		memcpy(GRN_REC_PTR(rec, l->off_tids), src->tids, src->ntids * GRN_TID_BYTES);
		if (l->attr_bytes > 0)
			memcpy(grn_rec_attrs(l, rec), src->attrs, src->ntids * l->attr_bytes);
	}
	if (src->count > 0)
		memcpy(grn_rec_ids(l, rec), src->ids, 4 * src->count);
	if (l->code_bytes > 0 && src->code != NULL)
	{
		uint8_t    *codes = grn_rec_codes(l, rec);

		r->factor = src->factor;
		memcpy(GRN_REC_PTR(rec, l->off_code), src->code, l->code_bytes);
		for (uint32_t i = 0; i < src->count; i++)
		{
			size_t		from = src->code_index ? src->code_index[i] : src->ids[i];

			grn_rec_set_factor(l, rec, i, src->all_factors[from]);
			memcpy(codes + (size_t) i * l->code_bytes,
				   src->all_codes + from * l->code_bytes, l->code_bytes);
		}
	}
	if (l->sig_bytes > 0)
	{
		memcpy(GRN_REC_PTR(rec, l->off_sig), src->sig, l->sig_bytes);
		for (uint32_t i = 0; i < src->count; i++)
		{
			size_t		from = src->code_index ? src->code_index[i] : src->ids[i];

			memcpy(grn_rec_sigs(l, rec) + (size_t) i * l->sig_bytes,
				   src->all_sigs + from * l->sig_bytes, l->sig_bytes);
		}
	}
	r->error = grn_own_store(l, src->x, src->stored, GRN_REC_PTR(rec, l->off_vec));
	if (src->stored != NULL && !grn_form(l->form)->sparse)
		r->error = src->error;
}

static const char *
check_edges(const GrnLayout *l, const GrnRecord *r, const void *rec, uint32_t self,
			uint32_t nodes)
{
	const uint8_t *ids = GRN_REC_PTR(rec, l->off_ids);

	if (r->count > l->degree)
		return "too many neighbors in a record";
	for (uint32_t i = 0; i < r->count; i++)
	{
		uint32_t	id;

		memcpy(&id, ids + 4 * (size_t) i, sizeof(id));
		if (id >= nodes)
			return "neighbor id leads out of the index";
		if (id == self)
			return "node is its own neighbor";
	}
	return NULL;
}

/* A TID's last two bytes are the row's number on its page, which is never 0. */
static const char *
check_tids(const GrnLayout *l, const void *rec, uint32_t n)
{
	const uint8_t *tids = GRN_REC_PTR(rec, l->off_tids);

	for (uint32_t i = 0; i < n; i++)
	{
		uint16_t	row;

		memcpy(&row, tids + i * GRN_TID_BYTES + GRN_TID_BYTES - sizeof(row), sizeof(row));
		if (row == 0)
			return "a heap TID of a record names no row";
	}
	return NULL;
}

const char *
grn_record_check_own(const GrnLayout *l, const void *rec, uint32_t self, uint32_t nodes)
{
	GrnRecord	r;

	memcpy(&r, rec, sizeof(r));
	if ((r.flags & ~(GRN_UNLISTED | GRN_GROUP | GRN_GUIDE)) != 0 ||
		((r.flags & GRN_UNLISTED) != 0 && r.state != GRN_NODE) ||
		((r.flags & (GRN_GROUP | GRN_GUIDE)) != 0 && r.state != GRN_LIST))
		return "unknown flags of a record";
	switch ((GrnState) r.state)
	{
		case GRN_FREE:
			return r.ntids > l->tids_max ? "too many heap TIDs in a free record" : NULL;
		case GRN_TIDS:
			if (r.ntids16 > l->chain_tids)
				return "too many heap TIDs in a chained record";
			if (r.next != GRN_INVALID_ID && (r.next >= nodes || r.next == self))
				return "chain of heap TIDs leads out of the index";
			return check_tids(l, rec, r.ntids16);
		case GRN_LIST:
			if (r.ntids16 > grn_list_rows(l))
				return "too many rows in a list's record";
			if (r.next != GRN_INVALID_ID && (r.next >= nodes || r.next == self))
				return "list leads out of the index";
			return NULL;
		case GRN_NODE:
		case GRN_DEAD:
			if (r.ntids > l->tids_max)
				return "too many heap TIDs in a record";
			if (r.next != GRN_INVALID_ID && (r.next >= nodes || r.next == self))
				return "chain of heap TIDs leads out of the index";
			if (!(r.error >= 0) || r.error > FLT_MAX)
				return "rounding error of a record is not a number";
			return check_tids(l, rec, r.ntids);
	}
	return "unknown state of a record";
}

const char *
grn_record_check(const GrnLayout *l, const void *rec, uint32_t self, uint32_t nodes)
{
	const char *what = grn_record_check_own(l, rec, self, nodes);
	GrnRecord	r;

	memcpy(&r, rec, sizeof(r));
	return what != NULL || r.state == GRN_TIDS || r.state == GRN_LIST ? what
		: check_edges(l, &r, rec, self, nodes);
}

/* ---- edges ---- */

GrnEdge
grn_get_edge(const GrnLayout *l, const GrnRecord *rec, uint32_t i)
{
	return (GrnEdge) {.id = grn_rec_ids(l, rec)[i],
					  .factor = grn_rec_factor(l, rec, i),
					  .code = grn_rec_codes(l, rec) + (size_t) i * l->code_bytes,
					  .sig = grn_rec_sigs(l, rec) + (size_t) i * l->sig_bytes};
}

GrnEdge
grn_own_edge(const GrnLayout *l, const GrnRecord *rec, uint32_t id)
{
	return (GrnEdge) {.id = id, .factor = rec->factor,
					  .code = GRN_REC_PTR(rec, l->off_code), .sig = GRN_REC_PTR(rec, l->off_sig)};
}

void
grn_set_edge(const GrnLayout *l, GrnRecord *rec, uint32_t i, const GrnEdge *edge)
{
	grn_rec_ids(l, rec)[i] = edge->id;
	if (l->code_bytes > 0)
	{
		grn_rec_set_factor(l, rec, i, edge->factor);
		memcpy(grn_rec_codes(l, rec) + (size_t) i * l->code_bytes, edge->code, l->code_bytes);
	}
	/* an edge that gets a new code keeps its signature: source and destination may be the same */
	if (l->sig_bytes > 0)
		memmove(grn_rec_sigs(l, rec) + (size_t) i * l->sig_bytes, edge->sig, l->sig_bytes);
}

void
grn_shift_edges(const GrnLayout *l, GrnRecord *rec, uint32_t from, uint32_t to)
{
	while (from != to)
	{
		uint32_t	next = from < to ? from + 1 : from - 1;
		GrnEdge		edge = grn_get_edge(l, rec, next);

		grn_set_edge(l, rec, from, &edge);
		from = next;
	}
}

void
grn_add_edge(const GrnLayout *l, GrnRecord *rec, const GrnEdge *edge)
{
	grn_set_edge(l, rec, rec->count, edge);
	rec->count++;
}
