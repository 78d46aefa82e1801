/*
 * search_bench_filters.h - labels of rows and the filters by them, a part of search_bench.c.
 */
typedef struct LabelFilter
{
	GrnFilter	base;
	GrnSigSet	set;
	uint16_t	label;
}			LabelFilter;

static bool
label_passes(const GrnFilter *self, const uint8_t *attrs)
{
	uint16_t	label;

	memcpy(&label, attrs, sizeof(label));
	return label == ((const LabelFilter *) self)->label;
}

/* Few labels have a signature each, as frequent values of an index do; more share them. */
static uint8_t
signature(uint16_t label)
{
	return (uint8_t) (1 + label % 254);
}

static void
make_filter(LabelFilter * f, uint16_t label, bool checked)
{
	uint8_t		sig = signature(label);

	memset(f, 0, sizeof(*f));
	f->base.sets = &f->set;
	f->base.nsets = checked ? 0 : 1;
	f->base.passes = label_passes;
	f->label = label;
	f->set.passes[sig] = true;
	f->set.passes[GRN_SIG_ANY] = true;
}

static uint32_t
nearest_center(const Bench * b, const float *x)
{
	uint32_t	best = 0;
	float		least = INFINITY;

	for (uint32_t c = 0; c < b->tenants; c++)
	{
		float		d = exact(b, x, b->centers[c]);

		if (d < least)
		{
			least = d;
			best = c;
		}
	}
	return best;
}

/* One of the farthest tenth. */
static uint32_t
far_center(const Bench * b, const float *q, uint64_t draw)
{
	uint32_t	rank = (uint32_t) (draw % (b->tenants / 10 > 0 ? b->tenants / 10 : 1));

	for (uint32_t c = 0; c < b->tenants; c++)
	{
		float		d = exact(b, q, b->centers[c]);
		uint32_t	farther = 0;

		for (uint32_t o = 0; o < b->tenants; o++)
		{
			float		e = exact(b, q, b->centers[o]);

			farther += e > d || (e == d && o < c);
		}
		if (farther == rank)
			return c;
	}
	return 0;
}

static void
label_rows(void *arg, int worker, size_t begin, size_t end)
{
	Bench	   *b = arg;

	(void) worker;
	for (size_t i = begin; i < end; i++)
		b->labels[i] = b->tenants > 0
			? (uint16_t) nearest_center(b, b->base + i * b->space)
			: (double) (grn_random(3, 3, (uint32_t) i) % 1000000) < 1e6 * b->pass;
}

static void
make_labels(Bench * b)
{
	b->labels = calloc(b->n, sizeof(uint16_t));
	b->wanted = calloc(b->queries, sizeof(uint16_t));
	if (b->pass == 0 && b->tenants == 0)
		return;
	b->centers = malloc(4 * (b->tenants + 1));
	for (uint32_t c = 0; c < b->tenants; c++)
		b->centers[c] = (uint32_t) (grn_random(4, 4, c) % b->n);
	b->parallel->run(b->parallel, b->n, 256, label_rows, b);
	for (uint32_t i = 0; i < b->queries; i++)
	{
		const float *q = b->query + (size_t) i * b->space;
		uint64_t	draw = grn_random(5, 5, i);

		if (b->tenants == 0)
			b->wanted[i] = 1;
		else if (strcmp(b->which, "own") == 0)
			b->wanted[i] = (uint16_t) nearest_center(b, q);
		else if (strcmp(b->which, "far") == 0)
			b->wanted[i] = (uint16_t) far_center(b, q, draw);
		else
			b->wanted[i] = (uint16_t) (draw % b->tenants);
	}
}

static bool
filters(const Bench * b)
{
	return b->pass > 0 || b->tenants > 0;
}
