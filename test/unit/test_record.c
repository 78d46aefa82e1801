/*
 * test_record.c - the geometry of records over the whole range of dimensions and
 * degrees, writing, and checks on bytes that are no record.
 */
#include "store/codec.h"
#include "store/record.h"
#include "unit.h"

#define PAYLOAD 8160

static void
check_layout(const GrnLayout *l)
{
	uint32_t	used = l->span * l->payload;

	CHECK(l->off_tids == sizeof(GrnRecord), "dim %u", l->dim);
	CHECK(l->tids_max >= GRN_MIN_TIDS && l->tids_max <= GRN_MAX_TIDS, "%u", l->tids_max);
	CHECK(l->off_attrs == l->off_tids + l->tids_max * GRN_TID_BYTES, "dim %u", l->dim);
	if (l->shape.own > 0)
		CHECK(l->off_code == l->off_vec && l->off_sig == l->off_attrs + l->tids_max * l->attr_bytes &&
			  l->code_bytes == l->vec_bytes && l->span == 1, "dim %u", l->dim);
	else
		CHECK(l->off_code == l->off_attrs + l->tids_max * l->attr_bytes &&
			  l->off_sig == l->off_code + l->code_bytes, "dim %u", l->dim);
	CHECK(l->off_ids >= l->off_sig + l->sig_bytes && l->off_ids % 4 == 0, "dim %u", l->dim);
	CHECK(l->off_factors == l->off_ids + 4 * l->degree, "dim %u", l->dim);
	CHECK(l->off_codes == l->off_factors + (l->code_bytes && !l->shape.own ? 4 * l->degree : 0),
		  "dim %u", l->dim);
	CHECK(l->off_sigs == l->off_codes + l->degree * l->code_bytes, "dim %u", l->dim);
	CHECK(l->off_vec >= l->off_sigs + l->degree * l->sig_bytes && l->off_vec % 4 == 0,
		  "dim %u", l->dim);
	CHECK(l->hot_bytes == (l->shape.own > 0 ? l->record_bytes : l->off_vec) &&
		  l->hot_bytes <= l->payload, "dim %u", l->dim);
	CHECK(l->vec_bytes == grn_form_bytes(l->form, l->dim), "dim %u", l->dim);
	CHECK(l->record_bytes >= l->off_vec + l->vec_bytes && l->record_bytes % 4 == 0,
		  "dim %u", l->dim);
	CHECK(l->per_page >= 1 && l->span >= 1 && (l->per_page == 1 || l->span == 1),
		  "dim %u", l->dim);
	CHECK(l->per_page * l->record_bytes <= used, "dim %u", l->dim);
	CHECK(l->span == 1 || l->record_bytes > (l->span - 1) * l->payload, "dim %u", l->dim);
	CHECK(l->vec_first == (l->span == 1 ? l->vec_bytes
						   : l->payload - l->hot_bytes < l->vec_bytes
						   ? l->payload - l->hot_bytes : l->vec_bytes), "dim %u", l->dim);
	CHECK(l->off_chain_attrs == sizeof(GrnRecord) + l->chain_tids * GRN_TID_BYTES, "dim %u",
		  l->dim);
	CHECK(l->off_chain_attrs + l->chain_tids * l->attr_bytes <=
		  (l->span > 1 ? l->payload : l->record_bytes), "dim %u", l->dim);
	CHECK(l->chain_tids >= l->tids_max, "dim %u", l->dim);
	CHECK(sizeof(GrnRecord) + sizeof(GrnFreed) <= l->record_bytes, "dim %u", l->dim);
	/* With fewer TIDs no more records would fit a page, nor fewer pages hold one. */
	{
		uint32_t	before_ids = 20 + GRN_MIN_TIDS * (6 + l->attr_bytes) +
			(l->shape.own > 0 ? 0 : l->code_bytes) + l->sig_bytes;
		uint32_t	least = (before_ids + 3) / 4 * 4 + (4 + l->factor_bytes) * l->degree +
			l->degree * (l->code_bytes + l->sig_bytes);

		least = ((least + 3) / 4 * 4 + l->vec_bytes + 3) / 4 * 4;
		CHECK(l->span > 1 ? least > (l->span - 1) * l->payload
			  : l->payload / least == l->per_page, "dim %u", l->dim);
	}
}

/* Some shape of so many bytes, which is all that a layout asks for. */
static GrnCodeShape
shape_of(uint32_t bytes)
{
	GrnCodeShape shape = {.dims = {0, 0, 0}};
	uint32_t	left = bytes;

	/* pieces of 8, 4 and 2 bytes: two of 4 and four of 1 bit's where there is room */
	if (bytes >= 32 && bytes <= 64)
		shape.dims[1] = 64, left -= 16;
	if (left % 8 != 0)
		shape.dims[2] = 32, left -= 4;
	shape.dims[0] = 2 * left;
	if (grn_code_dims(shape) > GRN_MAX_CODE_DIMS)
		shape = (GrnCodeShape) {.dims = {2 * (bytes - 4), 16, 0}};
	return shape;
}

/*
 * Longer codes never cost less; no codes cost many times the shortest ones, so that it
 * takes a hopeless spectrum to do without.
 */
static void
check_costs(uint32_t dim, uint32_t degree, GrnForm format)
{
	GrnCodeCosts costs;
	uint32_t	most;
	GrnLayout	l;

	grn_layout_code_costs(&(GrnLayoutSpec) {.dim = dim, .degree = degree, .form = format,
											.payload = PAYLOAD}, &costs);
	most = grn_most_code_bytes(&costs);
	CHECK(most > 0, "dim %u degree %u", dim, degree);
	for (uint32_t bytes = 0; bytes <= GRN_MAX_CODE_BYTES; bytes += GRN_CODE_STEP)
	{
		float		cost = costs.visit[bytes / GRN_CODE_STEP];

		CHECK(isfinite(cost) ? cost > 0 && bytes <= most : bytes > most, "dim %u, %u bytes: %g",
			  dim, bytes, cost);
		CHECK(bytes <= GRN_CODE_STEP || cost >= costs.visit[bytes / GRN_CODE_STEP - 1],
			  "dim %u, %u bytes", dim, bytes);
	}
	CHECK(costs.visit[0] > 4 * costs.visit[1], "dim %u: %g, %g without codes", dim,
		  costs.visit[1], costs.visit[0]);
	CHECK(grn_layout(&l, dim, degree, shape_of(most), format, PAYLOAD), "dim %u", dim);
}

static void
layouts_are_sound(void)
{
	static const uint32_t degrees[] = {8, 9, 16, 24, 31, 32, 40, 48, 56, 64, 80, 96};

	for (uint32_t bytes = GRN_CODE_STEP; bytes <= GRN_MAX_CODE_BYTES; bytes += GRN_CODE_STEP)
		CHECK(grn_shape_sound(shape_of(bytes)) && grn_code_bytes(shape_of(bytes)) == bytes,
			  "%u bytes", bytes);
	for (uint32_t dim = 1; dim <= GRN_MAX_DIM; dim += dim < 300 ? 1 : dim < 2100 ? 7 : 89)
		for (size_t d = 0; d < sizeof(degrees) / sizeof(degrees[0]); d++)
			for (int format = GRN_FORM_F32; format <= GRN_FORM_U8; format++)
			{
				GrnLayout	l;

				for (uint32_t bytes = 0; bytes <= GRN_MAX_CODE_BYTES; bytes += GRN_CODE_STEP)
					if (grn_layout(&l, dim, degrees[d], shape_of(bytes), (GrnForm) format,
								   PAYLOAD))
					{
						CHECK(l.code_bytes == bytes, "%u bytes", bytes);
						check_layout(&l);
					}
					else
						CHECK(20 + 12 + bytes + degrees[d] * (8 + bytes) > PAYLOAD - 8,
							  "dim %u degree %u: %u bytes", dim, degrees[d], bytes);
				check_costs(dim, degrees[d], (GrnForm) format);
			}
	/* rows of bits that are their own codes */
	for (uint32_t dim = 1; dim <= 8 * GRN_MOST_OWN_BYTES; dim++)
		for (size_t d = 0; d < sizeof(degrees) / sizeof(degrees[0]); d++)
			for (uint32_t sig = 0; sig <= 8; sig += 4)
			{
				GrnCodeShape own = {.own = (uint16_t) ((dim + 7) / 8)};
				GrnLayoutSpec spec = {.dim = dim, .degree = degrees[d], .shape = own,
					.form = GRN_FORM_BITS, .sig_bytes = sig, .attr_bytes = 2 * sig, .payload = PAYLOAD};
				GrnLayout	l;

				CHECK(grn_layout_of(&l, &spec) && l.code_bytes == own.own, "dim %u degree %u", dim, degrees[d]);
				check_layout(&l);
				spec.shape.own++;
				CHECK(!grn_layout_of(&l, &spec), "dim %u: codes longer than the row", dim);
			}
	{
		GrnLayout	l;

		CHECK(!grn_layout(&l, 10, 96, shape_of(128), GRN_FORM_F32, PAYLOAD),
			  "96 codes of 128 bytes");
	}
}

static void
shapes_of_others_are_checked(void)
{
	CHECK(grn_shape_sound(GRN_NO_CODES), "none");
	CHECK(grn_shape_sound((GrnCodeShape) {.dims = {16, 96, 128}}), "three blocks");
	CHECK(grn_shape_sound((GrnCodeShape) {.dims = {256, 0, 0}}), "128 bytes");
	CHECK(!grn_shape_sound((GrnCodeShape) {.dims = {256, 0, 16}}), "too many dimensions");
	CHECK(!grn_shape_sound((GrnCodeShape) {.dims = {UINT16_MAX - 15, 16, 16}}), "far too many");
	CHECK(!grn_shape_sound((GrnCodeShape) {.dims = {0, 0, 16}}), "two bytes");
	CHECK(!grn_shape_sound((GrnCodeShape) {.dims = {8, 0, 0}}), "half a piece");
}

/* The figures that src/README and the defaults rest on. */
static void
known_layouts(void)
{
	static const struct
	{
		uint32_t	dim,
					degree,
					code_bytes;
		GrnForm		format;
		uint32_t	per_page,
					span;
	}			cases[] = {
		{128, 32, 24, GRN_FORM_F16, 6, 1},
		{128, 32, 20, GRN_FORM_U8, 7, 1},
		{128, 32, 24, GRN_FORM_F32, 5, 1},
		{384, 32, 48, GRN_FORM_F32, 2, 1},
		{384, 32, 24, GRN_FORM_F32, 3, 1},
		{384, 32, 40, GRN_FORM_U8, 4, 1},
		{768, 32, 44, GRN_FORM_U8, 3, 1},
		{1536, 32, 64, GRN_FORM_U8, 2, 1},
		{768, 32, 64, GRN_FORM_F32, 1, 1},
		{960, 48, 48, GRN_FORM_F32, 1, 1},
		{960, 64, 48, GRN_FORM_F32, 1, 1},
		{960, 48, 64, GRN_FORM_F32, 1, 1},
		{960, 32, 48, GRN_FORM_F16, 2, 1},
		{1536, 32, 48, GRN_FORM_F32, 1, 1},
		{3072, 48, 48, GRN_FORM_F32, 1, 2},
		{16000, 48, 48, GRN_FORM_F32, 1, 9}
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		GrnLayout	l;

		CHECK(grn_layout(&l, cases[i].dim, cases[i].degree, shape_of(cases[i].code_bytes),
						 cases[i].format, PAYLOAD), "case %zu", i);
		CHECK(l.per_page == cases[i].per_page && l.span == cases[i].span,
			  "dim %u: %u a page, %u pages", l.dim, l.per_page, l.span);
	}
	{
		GrnLayout	l;

		grn_layout(&l, 128, 32, shape_of(20), GRN_FORM_U8, PAYLOAD);
		CHECK(l.record_bytes == 1164 && l.tids_max == 16, "%u bytes, %u TIDs",
			  l.record_bytes, l.tids_max);
	}
	for (uint32_t dim = 1; dim <= GRN_MAX_DIM; dim++)
	{
		uint32_t	degree = grn_default_degree(dim, GRN_FORM_F32, true, PAYLOAD);

		CHECK(degree >= 32 && degree <= GRN_MAX_DEGREE, "dim %u: %u", dim, degree);
		degree = grn_default_degree(dim, GRN_FORM_U8, true, PAYLOAD);
		CHECK((degree >= 32 || degree == 28) && degree <= GRN_MAX_DEGREE, "dim %u: %u", dim, degree);
		/* without codes there is nothing to be said for fewer */
		CHECK(grn_default_degree(dim, GRN_FORM_U8, false, PAYLOAD) >= 32, "dim %u", dim);
		CHECK(grn_layout_form(GRN_KEEP_DEFAULT, dim, 0, true, GRN_FORM_U8, PAYLOAD) == GRN_FORM_U8, "dim %u", dim);
	}
}

/* What the default layout does with rows of 32-bit floats, which layout = exact keeps. */
static void
default_layouts(void)
{
	static const struct
	{
		uint32_t	dim;
		GrnForm		form;
		uint32_t	degree,
					exact_degree;
		uint32_t	code_bytes,
					per_page;
	}			cases[] = {
		{3, GRN_FORM_F32, 32, 32, 16, 9},
		{128, GRN_FORM_U8, 32, 32, 20, 7},
		{256, GRN_FORM_U8, 32, 32, 44, 4},
		{384, GRN_FORM_U8, 28, 32, 48, 4},
		{512, GRN_FORM_U8, 32, 32, 48, 3},
		{768, GRN_FORM_ROTATED4, 28, 48, 48, 4},
		{960, GRN_FORM_U8, 32, 48, 44, 3},
		{1024, GRN_FORM_U8, 28, 48, 48, 3},
		{1536, GRN_FORM_U8, 32, 32, 64, 2},
		{2048, GRN_FORM_U8, 32, 48, 48, 2},
		{3072, GRN_FORM_ROTATED4, 32, 48, 68, 2}
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		uint32_t	dim = cases[i].dim;
		GrnForm		form = grn_layout_form(GRN_KEEP_DEFAULT, dim, 0, true, GRN_FORM_F32, PAYLOAD);
		uint32_t	degree = grn_default_degree(dim, form, true, PAYLOAD);
		uint32_t	exact = grn_default_degree(dim, GRN_FORM_F32, true, PAYLOAD);
		GrnLayout	l;

		CHECK(form == cases[i].form && degree == cases[i].degree && exact == cases[i].exact_degree,
			  "dim %u: form %d, degree %u, exact %u", dim, form, degree, exact);
		CHECK(grn_layout_form(GRN_KEEP_BYTES, dim, 0, true, GRN_FORM_F32, PAYLOAD) ==
			  (dim > 3 ? GRN_FORM_U8 : GRN_FORM_F32), "dim %u", dim);
		CHECK(grn_layout_form(GRN_KEEP_DEFAULT, dim, degree, true, GRN_FORM_F32, PAYLOAD) == form, "dim %u", dim);
		CHECK(grn_layout(&l, dim, degree, shape_of(cases[i].code_bytes), form, PAYLOAD) &&
			  l.per_page == cases[i].per_page, "dim %u: %u a page", dim, l.per_page);
	}
}

/* Integers beside the vector: pages hold as many records, of fewer edges where that takes it. */
static void
column_layouts(void)
{
	static const struct
	{
		uint32_t	dim;
		uint32_t	degree[5];	/* with so many columns */
	}			cases[] = {
		{128, {32, 31, 30, 29, 28}},
		{384, {28, 27, 26, 26, 25}},
		{768, {28, 27, 26, 26, 25}},
		{1536, {32, 31, 31, 30, 30}}
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		uint32_t	dim = cases[i].dim;
		GrnForm		form = grn_layout_form(GRN_KEEP_DEFAULT, dim, 0, true, GRN_FORM_F32, PAYLOAD);
		uint32_t	per_page = 0;

		for (uint32_t columns = 0; columns < 5; columns++)
		{
			GrnLayoutSpec spec = {.dim = dim, .degree = cases[i].degree[0], .form = form,
				.attr_bytes = columns == 0 ? 0 : 1 + 4 * columns, .sig_bytes = columns, .payload = PAYLOAD};
			GrnCodeCosts costs;
			GrnLayout	l;

			spec.degree = grn_degree_beside_columns(&spec);
			CHECK(spec.degree == cases[i].degree[columns], "dim %u, %u columns: %u", dim, columns, spec.degree);
			grn_layout_code_costs(&spec, &costs);
			spec.shape = grn_codec_usual_shape(dim, &costs);
			CHECK(grn_layout_of(&l, &spec), "dim %u", dim);
			if (columns == 0)
				per_page = l.per_page;
			CHECK(l.per_page == per_page, "dim %u, %u columns: %u a page", dim, columns, l.per_page);
		}
	}
	{
		/* nothing that an eighth of the edges could do */
		GrnLayoutSpec wide = {.dim = 384, .degree = 32, .form = GRN_FORM_U8, .attr_bytes = 200,
			.sig_bytes = 31, .payload = PAYLOAD};

		CHECK(grn_degree_beside_columns(&wide) == 32, "%u", grn_degree_beside_columns(&wide));
	}
}

/* The layout "compact" makes records without codes of 32-bit floats and of binary16. */
static void
compact_layouts(void)
{
	static const struct
	{
		uint32_t	dim;
		GrnForm		form;
		uint32_t	degree;
		uint32_t	most_bytes; /* a row */
	}			cases[] = {
		{16, GRN_FORM_ROTATED4, 32, 180},
		{128, GRN_FORM_ROTATED4, 32, 240},
		{192, GRN_FORM_ROTATED4, 24, 240},
		{193, GRN_FORM_ROTATED2, 32, 227},
		{384, GRN_FORM_ROTATED2, 24, 240},
		{768, GRN_FORM_ROTATED1, 24, 240},
		{1536, GRN_FORM_ROTATED1, 24, 340},
		{3072, GRN_FORM_ROTATED1, 24, 544}
	};

	CHECK(grn_layout_form(GRN_KEEP_COMPACT, 15, 0, false, GRN_FORM_F32, PAYLOAD) == GRN_FORM_F32, "15 dimensions");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		uint32_t	dim = cases[i].dim;
		GrnForm		form = grn_layout_form(GRN_KEEP_COMPACT, dim, 0, false, GRN_FORM_F32, PAYLOAD);
		uint32_t	degree = grn_default_degree(dim, form, false, PAYLOAD);
		GrnLayout	l;

		CHECK(form == cases[i].form && grn_is_compact(form, dim), "dim %u: form %d", dim, form);
		CHECK(grn_layout_form(GRN_KEEP_COMPACT, dim, degree, false, GRN_FORM_F16, PAYLOAD) == form, "dim %u", dim);
		CHECK(grn_layout_form(GRN_KEEP_COMPACT, dim, 0, false, GRN_FORM_BITS, PAYLOAD) == GRN_FORM_BITS,
			  "dim %u", dim);
		CHECK(degree == cases[i].degree, "dim %u: degree %u", dim, degree);
		CHECK(grn_layout(&l, dim, degree, GRN_NO_CODES, form, PAYLOAD) &&
			  PAYLOAD / l.per_page <= cases[i].most_bytes, "dim %u: %u a page", dim, l.per_page);
	}
}

/* Sparse rows stay as they are in every layout. */
static void
sparse_rows_are_kept(void)
{
	for (GrnKeep keep = GRN_KEEP_DEFAULT; keep <= GRN_KEEP_BYTES; keep++)
	{
		GrnForm		form = grn_layout_form(keep, 260, 0, false, GRN_FORM_SPARSE, PAYLOAD);
		uint32_t	degree = grn_default_degree(260, form, false, PAYLOAD);
		GrnLayout	l;

		CHECK(form == GRN_FORM_SPARSE && degree == 40, "form %d, degree %u", form, degree);
		CHECK(grn_layout(&l, 260, degree, GRN_NO_CODES, form, PAYLOAD) && l.vec_bytes == 1040 && l.per_page == 6,
			  "%u a page", l.per_page);
	}
}

static void
ids_map_to_pages(void)
{
	static const uint32_t dims[] = {3, 128, 960, 3072};

	for (size_t d = 0; d < sizeof(dims) / sizeof(dims[0]); d++)
	{
		GrnLayout	l;
		uint32_t	page = 0,
					slot = 0;

		grn_layout(&l, dims[d], 32, shape_of(16), GRN_FORM_F32, PAYLOAD);
		for (uint32_t id = 0; id < 1000; id++)
		{
			CHECK(grn_node_page(&l, id) == page && grn_node_slot(&l, id) == slot,
				  "dim %u id %u", dims[d], id);
			if (++slot == l.per_page)
			{
				slot = 0;
				page += l.span;
			}
		}
	}
}

static void
written_records_read_back(void)
{
	static const uint32_t dims[] = {1, 3, 64, 128, 777, 3072};

	for (size_t d = 0; d < sizeof(dims) / sizeof(dims[0]); d++)
		for (int format = GRN_FORM_F32; format <= GRN_FORM_U8; format++)
			for (uint32_t bytes = 0; bytes <= 36; bytes += 12)
				for (uint32_t count = 0; count <= 24; count += 8)
				{
					/* as of filters: none, one column, several */
					uint32_t	sig_bytes = (bytes + count) % 5;
					uint32_t	dim = dims[d];
					GrnLayout	l;
					uint8_t    *rec;
					float	   *x = malloc(4 * dim);
					float	   *back = malloc(4 * dim);
					uint8_t		tids[GRN_MAX_TIDS * GRN_TID_BYTES];
					uint8_t		attrs[GRN_MAX_TIDS * 20];
					uint8_t		codes[100 * 36];
					uint8_t		sigs[100 * 4];
					GrnFactor	factors[100];
					uint32_t	ids[24],
								index[24];
					GrnRecord  *r;
					GrnRecordSource src = {0};
					double		off = 0;
					bool		direct = count == 16;

					grn_layout_of(&l, &(GrnLayoutSpec) {.dim = dim, .degree = 24,
														.shape = shape_of(bytes),
														.form = (GrnForm) format,
														.attr_bytes = 5 * sig_bytes,
														.sig_bytes = sig_bytes,
														.payload = PAYLOAD});
					check_layout(&l);
					rec = unit_guarded(l.record_bytes);
					memset(rec, 0xEE, l.record_bytes);
					for (uint32_t j = 0; j < dim; j++)
						x[j] = unit_normal() * 50 + 100;
					for (size_t i = 0; i < sizeof(tids); i++)
						tids[i] = (uint8_t) unit_random() | 1;	/* no row is 0 */
					for (size_t i = 0; i < sizeof(codes); i++)
						codes[i] = (uint8_t) unit_random();
					for (size_t i = 0; i < sizeof(attrs); i++)
						attrs[i] = (uint8_t) unit_random();
					for (size_t i = 0; i < sizeof(sigs); i++)
						sigs[i] = (uint8_t) unit_random();
					for (size_t i = 0; i < 100; i++)
						factors[i] = (GrnFactor) {(uint32_t) unit_random()};
					for (uint32_t i = 0; i < count; i++)
					{
						ids[i] = direct ? i * 3 : 1000 + i;
						index[i] = 99 - i;
					}
					src.x = x;
					src.code = codes;
					src.factor = factors[0];
					src.sig = sigs;
					src.tids = tids;
					src.attrs = attrs;
					src.ntids = l.tids_max;
					src.next = GRN_INVALID_ID;
					src.ids = ids;
					src.code_index = direct ? NULL : index;
					src.count = count;
					src.all_codes = codes;
					src.all_factors = factors;
					src.all_sigs = sigs;
					grn_record_write(&l, &src, rec);

					r = (GrnRecord *) rec;
					CHECK(grn_record_check(&l, rec, 7777, 10000) == NULL, "%s",
						  grn_record_check(&l, rec, 7777, 10000));
					CHECK(r->state == GRN_NODE && r->count == count && r->version == 0 &&
						  r->ntids == l.tids_max && r->next == GRN_INVALID_ID, "dim %u", dim);
					CHECK(memcmp(rec + l.off_tids, tids, l.tids_max * 6) == 0, "dim %u", dim);
					CHECK(memcmp(grn_rec_ids(&l, rec), ids, 4 * count) == 0, "dim %u", dim);
					for (uint32_t i = 0; i < count && bytes > 0; i++)
					{
						uint32_t	from = direct ? ids[i] : index[i];

						CHECK(memcmp(grn_rec_codes(&l, rec) + bytes * i, codes + bytes * from, bytes) == 0,
							  "dim %u neighbor %u", dim, i);
						CHECK(memcmp(grn_rec_factors(&l, rec) + i, factors + from, 4) == 0,
							  "dim %u neighbor %u", dim, i);
					}
					if (bytes > 0)
						CHECK(memcmp(rec + l.off_code, codes, bytes) == 0 &&
							  memcmp(&r->factor, factors, 4) == 0, "dim %u", dim);
					CHECK(memcmp(rec + l.off_sig, sigs, sig_bytes) == 0 &&
						  memcmp(grn_rec_attrs(&l, rec), attrs, l.tids_max * l.attr_bytes) == 0,
						  "dim %u", dim);
					for (uint32_t i = 0; i < count; i++)
						CHECK(memcmp(grn_rec_sigs(&l, rec) + sig_bytes * i,
									 sigs + sig_bytes * (direct ? ids[i] : index[i]), sig_bytes) == 0,
							  "dim %u neighbor %u", dim, i);
					grn_form_load((GrnForm) format, rec + l.off_vec, dim, back);
					for (uint32_t j = 0; j < dim; j++)
						off += pow((double) x[j] - back[j], 2);
					off = sqrt(off);
					CHECK(format == GRN_FORM_F32 ? r->error == 0 && off == 0
						  : r->error >= off && r->error <= off * 1.001, "dim %u: %g for %g",
						  dim, r->error, off);
					unit_guarded_free(rec, l.record_bytes);
					free(x);
					free(back);
				}
}

static void
each_fault_is_found(void)
{
	GrnLayout	l;
	uint8_t    *rec;
	GrnRecord  *r;
	GrnRecord	good = {.state = GRN_NODE, .count = 3, .ntids = 1, .next = GRN_INVALID_ID};
	uint32_t   *ids;

	grn_layout(&l, 16, 8, shape_of(16), GRN_FORM_F32, PAYLOAD);
	rec = calloc(1, l.record_bytes);
	r = (GrnRecord *) rec;
	memset(rec + l.off_tids, 1, l.tids_max * GRN_TID_BYTES);
	ids = grn_rec_ids(&l, rec);
	ids[0] = 1;
	ids[1] = 2;
	ids[2] = 3;

#define EXPECT(what, change) \
	do { \
		*r = good; \
		change; \
		CHECK((grn_record_check(&l, rec, 10, 100) != NULL) == (what), "%s", #change); \
	} while (0)

	EXPECT(false, (void) 0);
	EXPECT(false, r->state = GRN_DEAD);
	EXPECT(false, r->state = GRN_FREE);
	EXPECT(true, (r->state = GRN_FREE, r->count = 9));
	EXPECT(true, (r->state = GRN_FREE, r->ntids = (uint8_t) (l.tids_max + 1)));
	EXPECT(false, r->state = GRN_LIST);
	EXPECT(true, r->state = 5);
	EXPECT(true, r->count = 9);
	EXPECT(true, r->flags = 4);
	EXPECT(false, r->flags = GRN_UNLISTED);
	EXPECT(true, (r->flags = GRN_UNLISTED, r->state = GRN_DEAD));
	EXPECT(true, (r->flags = GRN_UNLISTED, r->state = GRN_TIDS));
	EXPECT(true, r->flags = 1);
	EXPECT(true, r->ntids = (uint8_t) (l.tids_max + 1));
	EXPECT(true, r->error = -1);
	EXPECT(true, r->error = NAN);
	EXPECT(true, r->error = INFINITY);
	EXPECT(true, r->next = 100);
	EXPECT(true, r->next = 10);
	EXPECT(false, r->next = 99);
	EXPECT(true, ids[2] = 100);
	EXPECT(true, ids[2] = 10);
	EXPECT(false, ids[2] = 99);
	/* past the count anything may stand */
	EXPECT(false, ids[3] = UINT32_MAX);
	/* the second TID: block 65792, row 0 */
	memset(rec + l.off_tids + 2 * GRN_TID_BYTES - 2, 0, 2);
	EXPECT(false, (void) 0);
	EXPECT(true, r->ntids = 2);

	memset(rec + l.off_tids, 1, l.chain_tids * GRN_TID_BYTES);
	EXPECT(false, (r->state = GRN_TIDS, r->ntids16 = (uint16_t) l.chain_tids));
	EXPECT(true, (r->state = GRN_TIDS, r->ntids16 = (uint16_t) (l.chain_tids + 1)));
	EXPECT(true, (r->state = GRN_TIDS, r->ntids16 = 0, r->next = 100));
	memset(rec + l.off_tids + l.chain_tids * GRN_TID_BYTES - 2, 0, 2);
	EXPECT(true, (r->state = GRN_TIDS, r->ntids16 = (uint16_t) l.chain_tids));
	EXPECT(false, (r->state = GRN_TIDS, r->ntids16 = (uint16_t) (l.chain_tids - 1)));
	free(rec);
}

/* Random bytes: whatever the check says, it reads nothing outside the hot part. */
static void
random_bytes_are_checked(void)
{
	size_t		sound = 0,
				bad = 0;

	for (int round = 0; round < 200000; round++)
	{
		static const uint32_t dims[] = {1, 128, 960, 3072};
		static uint8_t *rec[4];
		static GrnLayout l[4];
		int			d = round % 4;
		GrnRecord  *r;

		if (rec[d] == NULL)
		{
			grn_layout(&l[d], dims[d], d == 1 ? 96 : 32, shape_of(16), GRN_FORM_F32, PAYLOAD);
			rec[d] = unit_guarded(l[d].hot_bytes);
		}
		r = (GrnRecord *) rec[d];
		for (size_t i = 0; i < l[d].hot_bytes; i += 8)
		{
			uint64_t	x = unit_random();

			/* small ids, so that some records pass */
			if (round % 8 > 3)
				x &= UINT64_C(0x0000000F0000000F);
			memcpy(rec[d] + i, &x, l[d].hot_bytes - i < 8 ? l[d].hot_bytes - i : 8);
		}
		if (round % 3)
			r->state = (uint8_t) (unit_random() % 6);
		if (round % 8 > 3)
			r->error = 0;
		if (grn_record_check(&l[d], rec[d], 100, 200) == NULL)
		{
			sound++;
			CHECK(r->state <= GRN_LIST, "state %d", r->state);
			if (r->state == GRN_NODE || r->state == GRN_DEAD)
				CHECK(r->count <= l[d].degree && r->ntids <= l[d].tids_max, "counts");
		}
		else
			bad++;
	}
	CHECK(sound > 1000 && bad > 1000, "%zu sound, %zu bad", sound, bad);
}

int
main(void)
{
	grn_dist_init();
	RUN(layouts_are_sound);
	RUN(shapes_of_others_are_checked);
	RUN(known_layouts);
	RUN(default_layouts);
	RUN(column_layouts);
	RUN(compact_layouts);
	RUN(sparse_rows_are_kept);
	RUN(ids_map_to_pages);
	RUN(written_records_read_back);
	RUN(each_fault_is_found);
	RUN(random_bytes_are_checked);
	UNIT_END();
}
