/*
 * forming.c - forms the pages of an index from the result of its build; see forming.h.
 *
 * The result may be another host's, and is checked before it is followed.
 */
#include "builder/forming.h"

#include <string.h>

#include "memory/memory.h"
#include "space/metric.h"

/* The vectors of nodes: in WORK if rows have moved.  Returns false if they lie outside. */
static bool
find_vectors(GrnForming *f)
{
	const GrnBuildResult *r = f->result;
	GrnRows    *vectors = &f->vectors;

	*vectors = (GrnRows) {.base = f->base[GRN_SEG_VECTORS], .n = f->rows, .row_bytes = f->spec->row_bytes,
						  .dim = f->spec->dim, .embedding = grn_metric((GrnMetric) f->spec->metric)->embedding,
						  .form = (GrnForm) f->spec->form};
	if (!r->moved)
		return true;
	vectors->base = (char *) f->base[GRN_SEG_WORK] + r->off_vectors;
	vectors->n = r->moved;
	if (r->own_items)
	{
		vectors->form = (GrnForm) r->form;
		vectors->row_bytes = grn_own_item_bytes((GrnForm) r->form, f->spec->dim);
		if (r->form != f->form.form)
			return false;
	}
	/* A page's rows are seldom near each other: read-ahead would push wanted pages out of memory. */
	if (r->off_vectors % 4 == 0 && r->off_vectors <= f->bytes[GRN_SEG_WORK] &&
		r->moved <= (f->bytes[GRN_SEG_WORK] - r->off_vectors) / vectors->row_bytes)
	{
		grn_pages_scattered(vectors->base, vectors->n * vectors->row_bytes, true);
		return true;
	}
	return false;
}

bool
grn_forming_begin(GrnForming *f, GrnFailure *failure)
{
	GrnBuildResult of = *f->result;

	of.shape = f->form.shape;
	of.form = f->form.form;
	f->at = grn_result_arrays(f->result, f->rows, f->spec->dim, false, f->base[GRN_SEG_RESULT]);
	if (!grn_result_layout(&f->layout, f->spec, &of) || f->at.bytes > f->bytes[GRN_SEG_RESULT] || !find_vectors(f))
		return grn_fail(failure, "XX000", "The table is unchanged. Please report this as a bug of grnnd.",
						"the index builder's result is invalid: an array lies outside its segment");
	grn_layout_set_center(&f->layout, &f->center, grn_metric((GrnMetric) f->spec->metric)->comparison, f->at.center);
	if (f->form.coded)
		f->codec = grn_result_codec(f->result, (GrnMetric) f->spec->metric, f->spec->dim, f->at.codec);
	else
		f->at.codes = NULL;
	f->nbuckets = f->form.buckets * f->layout.sig_bytes;
	f->places = grn_place_lists(&f->layout, f->form.first_list, &f->sizes);
	return f->layout.sig_bytes == 0 || grn_make_lists(f, failure);
}

/* ---- records ---- */

/* Returns false if the result names what does not exist. */
static bool
form_node(const GrnForming *f, GrnFormRoom *room, uint32_t node, GrnRecord *rec)
{
	const GrnLayout *l = &f->layout;
	GrnRecordSource src = grn_result_record(&f->at, l, node);
	uint32_t	number = f->at.moved ? f->at.moved[node] : f->at.rows[f->at.row_start[node]];
	const void *row;

	if (src.count > l->degree || number >= f->vectors.n)
		return false;
	for (uint32_t i = 0; i < src.count; i++)
		if (src.ids[i] >= f->result->nodes)
			return false;
	row = grn_row(&f->vectors, number);
	if (f->vectors.form == l->form)
	{
		src.stored = row;
		if (f->result->own_items)
			src.error = grn_own_item_error(l->form, l->dim, row);
	}
	else
		src.x = grn_row_values(&f->vectors, row, room->x);
	if (l->sig_bytes > 0)
	{
		src.sig = f->lists.sigs + (uint64_t) node * l->sig_bytes;
		src.all_sigs = f->lists.sigs;
	}
	grn_record_write(l, &src, rec);
	return true;
}

/* Forms the record `id` in a zeroed record. */
static void
form_record(const GrnForming *f, GrnFormRoom *room, uint64_t id, void *rec)
{
	if (id < f->result->nodes)
		(void) form_node(f, room, (uint32_t) id, rec);
	else if (id >= f->form.first_list && id < f->places.end)
		grn_form_list(f, id, rec);
}

/* ---- pages ---- */

bool
grn_form_room_begin(GrnFormRoom *room, const GrnForming *f)
{
	room->x = grn_alloc(f->layout.dim * sizeof(float));
	room->record = grn_alloc(f->layout.record_bytes);
	room->id = UINT64_MAX;
	return room->x != NULL && room->record != NULL;
}

void
grn_form_room_end(GrnFormRoom *room)
{
	grn_free(room->x);
	grn_free(room->record);
}

/* Forms a page of a record that spans pages, or of several records. */
static void
form_page(const GrnForming *f, GrnFormRoom *room, uint64_t number, char *payload)
{
	const GrnLayout *l = &f->layout;
	uint64_t	id = number * l->per_page / l->span;
	uint32_t	offset = number % l->span * l->payload;

	if (l->span == 1)
	{
		for (uint32_t slot = 0; slot < l->per_page; slot++)
			form_record(f, room, id + slot, payload + (size_t) slot * l->record_bytes);
		return;
	}
	if (room->id != id)
	{
		memset(room->record, 0, l->record_bytes);
		form_record(f, room, id, room->record);
		room->id = id;
	}
	memcpy(payload, room->record + offset,
		   l->payload < l->record_bytes - offset ? l->payload : l->record_bytes - offset);
}

void
grn_form_pages(const GrnForming *f, GrnFormRoom *room, uint64_t first, uint32_t n, char *pages)
{
	memset(pages, 0, (size_t) n * f->form.page_bytes);
	for (uint32_t i = 0; i < n; i++)
		form_page(f, room, first + i, pages + (size_t) i * f->form.page_bytes + f->form.payload_at);
}
