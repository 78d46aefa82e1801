/*
 * fuzz_record.c - searches over records of any bytes, as pages on a disk may hold them.  A
 * record that grn_record_check() refuses ends the search, as it does in the server, or is
 * passed over.
 */
#include "fuzz.h"

#include <setjmp.h>

#include "store/search.h"

#define MOST_RECORDS 24
#define MOST_VISITS 2000

typedef struct Store
{
	GrnStore	base;
	GrnLayout	layout;
	uint8_t    *records[MOST_RECORDS];	/* hot parts, each on its own */
	uint8_t    *vectors[MOST_RECORDS];
	uint32_t	n;
	bool		leave;			/* a bad record ends the search */
	uint32_t	visits;
	jmp_buf		escape;
	void	   *blocks[4096];
} Store;

static bool
visit(GrnStore *self, uint32_t id, GrnVisitFn fn, void *arg)
{
	Store	   *s = (Store *) self;

	MUST(id < s->n);
	if (++s->visits > MOST_VISITS)
		longjmp(s->escape, 1);
	if (grn_record_check(&s->layout, s->records[id], id, s->n) != NULL)
	{
		if (s->leave)
			longjmp(s->escape, 1);
		return false;
	}
	if (!grn_record_leads_on((const GrnRecord *) s->records[id]))
		return false;
	fn(arg, (const GrnRecord *) s->records[id], s->vectors[id]);
	return true;
}

static void *
take_memory(GrnStore *self, size_t bytes)
{
	Store	   *s = (Store *) self;

	for (size_t i = 0; i < sizeof(s->blocks) / sizeof(s->blocks[0]); i++)
		if (s->blocks[i] == NULL)
			return s->blocks[i] = malloc(bytes);
	abort();
}

static void
give_memory(GrnStore *self, void *p)
{
	Store	   *s = (Store *) self;

	for (size_t i = 0; i < sizeof(s->blocks) / sizeof(s->blocks[0]); i++)
		if (s->blocks[i] == p)
		{
			free(p);
			s->blocks[i] = NULL;
			return;
		}
	abort();
}

/* A layout of any kind that pages may have. */
static bool
take_layout(Input *in, GrnLayout *l)
{
	GrnLayoutSpec spec = {0};

	spec.form = (GrnForm) take_number(in, 0, 5);
	spec.dim = take_number(in, 1, 40);
	spec.degree = take_number(in, GRN_MIN_DEGREE, 20);
	for (int b = 0; b < GRN_CODE_BLOCKS; b++)
		spec.shape.dims[b] = GRN_CODE_ALIGN * take_number(in, 0, 3);
	spec.attr_bytes = take_number(in, 0, 1) * take_number(in, 0, 16);
	spec.sig_bytes = take_number(in, 0, 1) * take_number(in, 0, 8);
	spec.payload = take_number(in, 64, 8160) & ~(uint32_t) 7;
	if (!grn_shape_sound(spec.shape) || grn_form(spec.form) == NULL || !grn_layout_of(l, &spec))
		return false;
	MUST(l->hot_bytes == l->off_vec && l->off_vec <= l->payload);
	MUST(l->off_tids >= sizeof(GrnRecord) && l->off_tids + l->tids_max * GRN_TID_BYTES <= l->off_code);
	MUST(l->off_factors >= l->off_ids + 4 * l->degree);
	MUST(l->record_bytes >= l->off_vec + l->vec_bytes);
	MUST(l->span > 1 ? l->per_page == 1 && l->vec_first < l->vec_bytes
		 : l->per_page * l->record_bytes <= l->payload);
	MUST(l->chain_tids * GRN_TID_BYTES + l->off_tids <= l->payload);
	return true;
}

/* Bytes of the input, with a header that is mostly sound: else nothing would be searched. */
static void
take_record(Input *in, Store *s, uint32_t id)
{
	const GrnLayout *l = &s->layout;
	uint8_t    *bytes = s->records[id];
	uint32_t	odd = take_number(in, 0, 15);
	GrnRecord	r;

	take_bytes(in, bytes, l->hot_bytes);
	take_bytes(in, s->vectors[id], l->vec_bytes);
	if (odd == 0)
		return;
	memcpy(&r, bytes, sizeof(r));
	r.state = odd < 12 ? GRN_NODE : odd < 14 ? GRN_DEAD : odd == 14 ? GRN_FREE : GRN_TIDS;
	r.flags = 0;
	r.ntids = (uint8_t) (r.ntids % (l->tids_max + 1));
	r.count = (uint8_t) (r.count % (l->degree + 1));
	if (r.next >= s->n)
		r.next = GRN_INVALID_ID;
	r.error = fabsf(r.error) <= 1e38f ? fabsf(r.error) : 0;
	memcpy(bytes, &r, sizeof(r));
	for (uint32_t i = 0; i < l->degree; i++)
	{
		uint32_t	y;

		memcpy(&y, bytes + l->off_ids + 4 * i, 4);
		y %= s->n;
		memcpy(bytes + l->off_ids + 4 * i, &y, 4);
	}
	for (uint32_t i = 0; i < l->tids_max; i++)
		bytes[l->off_tids + i * GRN_TID_BYTES + GRN_TID_BYTES - 1] |= 1;
}

static void
search(Store *s, const GrnSearchParams *params, const float *q, const uint8_t *codes, uint32_t runs)
{
	GrnFactor	factors[2] = {{0}};
	uint32_t	ids[2] = {0, s->n - 1};
	GrnSearch  *search = grn_search_begin(params, &s->base, q);

	grn_search_entries(search, ids, codes, factors, s->n > 1 ? 2 : 1);
	for (uint32_t run = 0; run < runs; run++)
	{
		uint32_t	n = grn_search_run(search);
		const GrnFound *found = grn_search_found(search);
		uint64_t	bytes = 0;

		MUST(n <= s->n);
		for (uint32_t i = 0; i < n; i++)
		{
			MUST(found[i].id < s->n && found[i].ntids <= s->layout.tids_max);
			for (uint32_t j = 0; j < i; j++)
				MUST(found[i].id != found[j].id);
			if (found[i].ntids > 0)
				bytes += grn_search_tids(search)[(found[i].tids + found[i].ntids) * GRN_TID_BYTES - 1];
			if (params->keep_vectors)
			{
				GrnFactor	factor;

				bytes += ((const uint8_t *) grn_search_vector(search, i))[s->layout.vec_bytes - 1];
				(void) grn_search_code(search, i, &factor);
			}
		}
		(void) *(volatile uint64_t *) &bytes;
		if (n == 0)
			break;
	}
	grn_search_end(search);
}

/* A codec of which some numbers are any: its pages have no checksum of their own. */
static void
take_codec(Input *in, const GrnLayout *l, const GrnMetricInfo *metric, float *model, GrnCodec *codec)
{
	uint32_t	dims = grn_code_dims(l->shape);

	codec->dim = l->dim;
	codec->shape = l->shape;
	codec->norm_unit = 1;
	for (int b = 0; b < GRN_CODE_BLOCKS; b++)
		codec->steps[b] = take_number(in, 0, 1) ? 0.25f : 1e-20f;
	for (uint32_t i = 0; i < dims; i++)
		model[l->dim * (1 + i) + i % l->dim] = 1;
	for (uint32_t i = take_number(in, 0, 20); i > 0; i--)
		model[take_number(in, 0, l->dim * (1 + dims) - 1)] = take_float(in);
	codec->mean = model;
	codec->basis = model + l->dim;
	grn_codec_set_metric(codec, metric, 1);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint32_t metrics[] = {1, 2, 3, 4, 6, 7};
	static bool ready;
	Input		in = {data, size};
	Store		s = {.base = {.visit = visit, .alloc = take_memory, .free = give_memory}};
	GrnCodec	codec = {0};
	GrnSearchParams params = {0};
	float	   *model;
	float	   *q;
	uint8_t    *codes;

	if (!ready)
		grn_dist_init();
	ready = true;
	if (!take_layout(&in, &s.layout))
		return 0;
	s.n = take_number(&in, 1, MOST_RECORDS);
	s.leave = take_number(&in, 0, 3) == 0;
	params.layout = &s.layout;
	params.metric = grn_metric(metrics[take_number(&in, 0, 5)]);
	params.ef = take_number(&in, 1, 40);
	params.resumable = take_number(&in, 0, 1);
	params.memory_limit = take_number(&in, 0, 1) * take_number(&in, 0, 4000);
	params.keep_vectors = take_number(&in, 0, 1);
	params.dead_limit = take_number(&in, 0, 8);
	params.max_visits = take_number(&in, 0, 8);
	model = calloc(grn_codec_floats(s.layout.dim, grn_code_dims(s.layout.shape)) + 1, sizeof(float));
	q = calloc(s.layout.dim, sizeof(float));
	codes = calloc(2, s.layout.code_bytes + 1);
	if (grn_code_dims(s.layout.shape) > 0)
	{
		take_codec(&in, &s.layout, params.metric, model, &codec);
		params.codec = &codec;
		params.by_row = take_number(&in, 0, 1);
	}
	/* queries are finite and not too long */
	for (uint32_t i = 0; i < s.layout.dim; i++)
	{
		q[i] = take_float(&in);
		if (!(fabsf(q[i]) < 1e18f))
			q[i] = 1;
	}
	take_bytes(&in, codes, 2 * s.layout.code_bytes);
	for (uint32_t i = 0; i < s.n; i++)
	{
		s.records[i] = calloc(1, s.layout.hot_bytes);
		s.vectors[i] = calloc(1, s.layout.vec_bytes);
	}
	for (uint32_t i = 0; i < s.n; i++)
		take_record(&in, &s, i);
	if (setjmp(s.escape) == 0)
		search(&s, &params, q, codes, take_number(&in, 1, 4));
	for (size_t i = 0; i < sizeof(s.blocks) / sizeof(s.blocks[0]); i++)
		free(s.blocks[i]);
	for (uint32_t i = 0; i < s.n; i++)
	{
		free(s.records[i]);
		free(s.vectors[i]);
	}
	free(model);
	free(q);
	free(codes);
	return 0;
}
