/*
 * write_filters.c - the values of filter columns in a build: ranks and signatures of all rows,
 * which the builder makes lists of, and the pages of books, sample and lists' heads.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/bufpage.h"

#include "am/create/write_index_impl.h"
#include "am/filter/filter.h"
#include "am/index/index.h"
#include "am/index/page_store.h"

/*
 * Growth that the directory of lists allows: the directory has room for the buckets of an index
 * with LATER_NODES times as many nodes.  Half and twice build indexes of the same visits in the
 * same time, within a tenth (20,000 sentences, image patches and SIFT rows, four columns).
 */
#define LATER_NODES 16

/* Rows between two looks at the builder's messages: the work of a millisecond. */
#define ROWS_PER_POLL 8192

/* ---- values ---- */

static void
fit_book(GrnndBuild *build, uint32 column)
{
	uint64		sampled = Min(build->rows, GRNND_BOOK_ROWS);
	GrnndBookSample *sample = palloc0(sizeof(GrnndBookSample));
	const uint8 *values = (const uint8 *) build->map->base[GRN_SEG_ATTRS];

	for (uint64 i = 0; i < sampled; i++)
		grnnd_sample_row(build->attrs, column, values + i * build->rows / sampled * build->attrs->bytes, sample);
	grnnd_fit_book(&build->attrs->attr[column], sample, false, &build->books[column]);
	pfree(sample);
}

static void
make_value(GrnndBuild *build, uint64 row)
{
	const GrnndAttrs *attrs = build->attrs;
	const uint8 *values = (const uint8 *) build->map->base[GRN_SEG_ATTRS] + row * attrs->bytes;
	uint8		sig[GRN_MAX_SIG_BYTES];

	grnnd_sign(attrs, build->books, values, sig);
	for (uint32 c = 0; c < attrs->n; c++)
	{
		uint32		rank = grnnd_attr_rank(attrs, build->books, c, values);
		uint8	   *out = grn_value(build->map->base[GRN_SEG_VALUES], attrs->n, row, c);

		memcpy(out, &rank, sizeof(rank));
		out[sizeof(rank)] = sig[c];
	}
}

void
grnnd_make_values(GrnndBuild *build, bool fit)
{
	uint64		bytes = build->rows * build->spec.sig_bytes * GRN_VALUE_BYTES;

	if (build->spec.sig_bytes == 0)
		return;
	build->books = palloc0(build->attrs->n * sizeof(GrnSigBook));
	for (uint32 c = 0; fit && c < build->attrs->n; c++)
		fit_book(build, c);
	grnnd_mapping_grow(build->map, GRN_SEG_VALUES, bytes);
	grnnd_mapping_populate(build->map, GRN_SEG_VALUES, 0, bytes);
	for (uint64 row = 0; row < build->rows; row++)
	{
		if (row % ROWS_PER_POLL == 0)
		{
			CHECK_FOR_INTERRUPTS();
			grnnd_builder_poll(&build->builder);
		}
		make_value(build, row);
	}
}

/* ---- pages ---- */

uint16
grnnd_list_pages(const GrnndMeta *meta, const GrnLayout *layout)
{
	uint32		heads = 0;

	/* Room for the lists that a later fit makes of a larger index. */
	if (meta->list_buckets > 0)
		heads = grnnd_list_buckets(layout, (uint64) meta->build_nodes * LATER_NODES) * meta->ncolumns;
	else if (meta->sig_bytes > 0 && layout->code_bytes > 0)
		return (uint16) grnnd_open_list_pages(meta->ncolumns);
	return (uint16) ((heads + GRNND_LISTS_PER_PAGE - 1) / GRNND_LISTS_PER_PAGE);
}

static void
form_book_page(const GrnndNewIndex *new, uint32 number, Page page)
{
	uint32		first = number * GRNND_BOOKS_PER_PAGE;
	uint32		n = Min(new->plan.meta.ncolumns - first, GRNND_BOOKS_PER_PAGE);

	grnnd_page_init(page, GRNND_BOOKS);
	/* An index that is built empty has no books: its signatures are hashes. */
	if (new->books != NULL)
		memcpy(GrnndPagePayload(page), new->books + first, n * sizeof(GrnSigBook));
}

static void
form_sample_page(const GrnndNewIndex *new, uint32 number, Page page)
{
	const GrnLayout *l = &new->layout;
	uint32		rows = Min(new->nodes, GRNND_SAMPLE_ROWS);

	grnnd_page_init(page, GRNND_SAMPLE);
	for (uint32 i = number; i < rows; i += new->plan.meta.sample_pages)
	{
		uint32		node = (uint32) ((uint64) i * new->nodes / rows);
		GrnEdge		row = {.id = node, .sig = new->new_lists.sigs + (uint64) node * l->sig_bytes};
		static const uint8 no_code[GRN_MAX_CODE_BYTES];

		row.code = no_code;
		if (new->built.codes != NULL)
		{
			row.code = new->built.codes + (uint64) node * l->code_bytes;
			row.factor = new->built.factors[node];
		}
		if (!grnnd_sample_append(l, page, &row))
			break;
	}
}

static void
form_heads_page(const GrnndNewIndex *new, uint32 number, Page page)
{
	uint32		first = number * GRNND_LISTS_PER_PAGE;
	GrnndListHead *heads = (GrnndListHead *) GrnndPagePayload(page);
	uint32		nbuckets = new->plan.meta.list_buckets * new->plan.meta.ncolumns;

	grnnd_page_init(page, GRNND_LISTS);
	for (uint32 b = first; b < Min(first + GRNND_LISTS_PER_PAGE, nbuckets); b++)
	{
		const GrnBucket *of = &new->new_lists.buckets[b];
		GrnndListHead *head = &heads[b - first];
		uint32		records = of[1].record - of->record;
		uint64		id = new->lists.chains + of->record;

		*head = GRNND_NO_LIST;
		if (of[1].record < of->record || of[1].group < of->group ||
			id + records > new->lists.groups || new->lists.guides + of[1].guide > new->lists.end)
			grnnd_bad_result("a list lies outside the index");
		if (grn_is_grouped(of))
		{
			head->guide = (uint32) (new->lists.guides + of->guide);
			head->groups = of[1].group - of->group;
			continue;
		}
		head->first = records > 0 ? (uint32) id : GRN_INVALID_ID;
		/* All records except the last are full. */
		head->room = records > 0 ? (uint32) (id + records - 1) : GRN_INVALID_ID;
		head->records = records;
	}
}

void
grnnd_form_filter_page(const GrnndNewIndex *new, uint32 number, Page page)
{
	const GrnndMeta *meta = &new->plan.meta;

	if (number < meta->book_pages)
		form_book_page(new, number, page);
	else if (number < meta->book_pages + meta->sample_pages)
		form_sample_page(new, number - meta->book_pages, page);
	else
		form_heads_page(new, number - meta->book_pages - meta->sample_pages, page);
}
