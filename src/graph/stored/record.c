/*
 * record.c - the geometry of records, their writing, and the checks on those
 * read from disk.
 */
#include "graph/stored/record.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* What stands on disk may not change size with the compiler. */
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

/* Fills the offsets for a number of TIDs. */
static void
place(GrnLayout *l, uint32_t tids)
{
	l->tids_max = tids;
	l->off_tids = sizeof(GrnRecord);
	l->off_code = l->off_tids + tids * GRN_TID_BYTES;
	l->off_ids = ALIGN4(l->off_code + l->code_bytes);
	l->off_factors = l->off_ids + 4 * l->degree;
	l->off_codes = l->off_factors +
		(l->code_dims > 0 ? l->degree * (uint32_t) sizeof(GrnFactor) : 0);
	l->off_vec = ALIGN4(l->off_codes + l->degree * l->code_bytes);
	l->hot_bytes = l->off_vec;
	l->record_bytes = ALIGN4(l->off_vec + l->vec_bytes);
}

bool
grn_layout(GrnLayout *layout, uint32_t dim, uint32_t degree, uint32_t code_dims,
		   GrnForm format, uint32_t payload)
{
	GrnLayout	l;
	uint32_t	room;

	memset(&l, 0, sizeof(l));
	l.dim = dim;
	l.degree = degree;
	l.code_dims = code_dims;
	l.form = format;
	l.code_bytes = (uint32_t) grn_code_bytes(code_dims);
	l.vec_bytes = (uint32_t) grn_form_bytes(format, dim);
	l.payload = payload & ~(uint32_t) 3;

	place(&l, GRN_MIN_TIDS);
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

	/* Bytes that would lie idle hold TIDs: duplicates then need fewer chains. */
	for (uint32_t tids = GRN_MAX_TIDS; tids >= GRN_MIN_TIDS; tids--)
	{
		place(&l, tids);
		if (l.record_bytes <= room && l.hot_bytes <= l.payload)
			break;
	}

	l.vec_first = l.payload - l.hot_bytes;
	if (l.vec_first > l.vec_bytes)
		l.vec_first = l.vec_bytes;
	l.chain_tids = ((l.span > 1 ? l.payload : l.record_bytes) - l.off_tids) / GRN_TID_BYTES;
	*layout = l;
	return true;
}

/* All of the dimensions, as a multiple of what codes come in. */
static uint32_t
all_code_dims(uint32_t dim)
{
	uint32_t	all = divide_up(dim, GRN_CODE_ALIGN) * GRN_CODE_ALIGN;

	return all < GRN_MAX_CODE_DIMS ? all : GRN_MAX_CODE_DIMS;
}

uint32_t
grn_layout_max_code_dims(uint32_t dim, uint32_t degree, GrnForm format,
						 uint32_t payload)
{
	GrnLayout	least;
	GrnLayout	l;
	uint32_t	best = 0;

	if (!grn_layout(&least, dim, degree, GRN_CODE_ALIGN, format, payload))
		return 0;
	for (uint32_t k = GRN_CODE_ALIGN; k <= all_code_dims(dim); k += GRN_CODE_ALIGN)
		if (grn_layout(&l, dim, degree, k, format, payload) && l.span <= least.span + 1)
			best = k;
	return best;
}

/*
 * A visit costs a pin and a lock, about as much as reading VISIT_BYTES, and its
 * record's bytes; without codes each neighbour has to be visited, which made 17
 * times the visits on all of the data measured.  Room matters too: half the
 * records a page is worth twice the visits (20,000 embedded glosses of 384
 * dimensions are found as fast from two records a page as from one with more
 * code).  The room that records without any code save is not counted.
 */
#define VISIT_BYTES 5000
#define VISITS_WITHOUT_CODES 17

void
grn_layout_code_costs(uint32_t dim, uint32_t degree, GrnForm format,
					  uint32_t payload, uint32_t max_code_dims, float *costs)
{
	GrnLayout	l;
	uint32_t	most = 1;		/* records a page, of those with codes */

	if (max_code_dims > 0 && grn_layout(&l, dim, degree, GRN_CODE_ALIGN, format, payload))
		most = l.per_page;
	for (uint32_t k = 0; k <= max_code_dims; k += GRN_CODE_ALIGN)
	{
		float		cost = INFINITY;

		if (grn_layout(&l, dim, degree, k, format, payload))
			cost = (float) (VISIT_BYTES + l.record_bytes) * (float) l.span /
				(float) (l.per_page < most ? l.per_page : most);
		costs[k / GRN_CODE_ALIGN] = k == 0 ? cost * VISITS_WITHOUT_CODES : cost;
	}
}

/* Code dimensions that leave some choice to the fit, for the default degree. */
#define ROOM_DIMS 96

/*
 * 32 where a page holds two or more records of rows in the form of their type with room
 * for codes.  Beyond, a record has its page for itself whatever the degree, so 48 or
 * 40 are free where they leave that room: on GIST 48 makes 10% fewer visits at
 * recall 0.99 than 32, and 64 no fewer than 48.
 */
uint32_t
grn_default_degree(GrnForm rows, uint32_t dim, uint32_t payload)
{
	static const uint32_t large[] = {48, 40};
	uint32_t	room = all_code_dims(dim) < ROOM_DIMS ? all_code_dims(dim) : ROOM_DIMS;
	GrnLayout	l;
	uint32_t	span;

	if (!grn_layout(&l, dim, 32, room, rows, payload) || l.per_page > 1)
		return 32;
	span = l.span;
	for (size_t i = 0; i < sizeof(large) / sizeof(large[0]); i++)
		if (grn_layout(&l, dim, large[i], room, rows, payload) && l.span == span)
			return large[i];
	return 32;
}

/* More than any 16,000 differences whose squares vanish in single precision. */
#define LEAST_ERROR 1e-20f

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
		memcpy(GRN_REC_PTR(rec, l->off_tids), src->tids, src->ntids * GRN_TID_BYTES);
	if (src->count > 0)
		memcpy(grn_rec_ids(l, rec), src->ids, 4 * src->count);
	if (l->code_dims > 0 && src->code != NULL)
	{
		uint8_t    *codes = grn_rec_codes(l, rec);
		GrnFactor  *factors = grn_rec_factors(l, rec);

		r->factor = src->factor;
		memcpy(GRN_REC_PTR(rec, l->off_code), src->code, l->code_bytes);
		for (uint32_t i = 0; i < src->count; i++)
		{
			size_t		from = src->code_index ? src->code_index[i] : src->ids[i];

			factors[i] = src->all_factors[from];
			memcpy(codes + (size_t) i * l->code_bytes,
				   src->all_codes + from * l->code_bytes, l->code_bytes);
		}
	}
	if (src->stored != NULL)
		memcpy(GRN_REC_PTR(rec, l->off_vec), src->stored, l->vec_bytes);
	else if (!grn_form_store(l->form, src->x, l->dim, GRN_REC_PTR(rec, l->off_vec)))
	{
		float		e2 = grn_form_l2(l->form, src->x, GRN_REC_PTR(rec, l->off_vec), l->dim);

		/*
		 * How far rounding moved it, a little too large rather than too small:
		 * a scan subtracts it for a lower bound.  The sum may overflow or vanish where
		 * the vector does not.
		 */
		r->error = fminf(sqrtf(e2) * 1.0001f + LEAST_ERROR, FLT_MAX);
	}
}

static const char *
check_edges(const GrnLayout *l, const GrnRecord *r, const void *rec, uint32_t self,
			uint32_t nodes)
{
	const uint8_t *ids = GRN_REC_PTR(rec, l->off_ids);

	if (r->count > l->degree)
		return "too many neighbours in a record";
	for (uint32_t i = 0; i < r->count; i++)
	{
		uint32_t	id;

		memcpy(&id, ids + 4 * (size_t) i, sizeof(id));
		if (id >= nodes)
			return "neighbour id leads out of the index";
		if (id == self)
			return "node is its own neighbour";
	}
	return NULL;
}

/* PostgreSQL looks no TID up whose last two bytes, the row's number on its page, are 0. */
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
grn_record_check(const GrnLayout *l, const void *rec, uint32_t self, uint32_t nodes)
{
	GrnRecord	r;
	const char *what;

	memcpy(&r, rec, sizeof(r));
	if ((r.flags & ~GRN_KILLED) != 0)
		return "unknown flags of a record";
	if ((r.flags & GRN_KILLED) != 0 &&
		!(r.state == GRN_NODE && r.ntids > 0) && !(r.state == GRN_TIDS && r.ntids16 > 0))
		return "rows of a record are marked as dead, but it has none";
	switch (r.state)
	{
		case GRN_FREE:
			return check_edges(l, &r, rec, self, nodes);
		case GRN_TIDS:
			if (r.ntids16 > l->chain_tids)
				return "too many heap TIDs in a chained record";
			if (r.next != GRN_INVALID_ID && (r.next >= nodes || r.next == self))
				return "chain of heap TIDs leads out of the index";
			return check_tids(l, rec, r.ntids16);
		case GRN_NODE:
		case GRN_DEAD:
			break;
		default:
			return "unknown state of a record";
	}
	if (r.ntids > l->tids_max)
		return "too many heap TIDs in a record";
	if (r.next != GRN_INVALID_ID && (r.next >= nodes || r.next == self))
		return "chain of heap TIDs leads out of the index";
	if (!(r.error >= 0) || r.error > FLT_MAX)
		return "rounding error of a record is no number";
	what = check_tids(l, rec, r.ntids);
	if (what != NULL)
		return what;
	return check_edges(l, &r, rec, self, nodes);
}
