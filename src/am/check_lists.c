/*
 * check_lists.c - grnnd_check()'s look at lists by values: that each chain is sound, that a row has
 * its node's code and signature, and that each live node is in the lists of its values.
 */
#include "am/check_lists.h"

#include "am/lists.h"
#include "am/page.h"
#include "am/write/bitset.h"
#include "am/write/edit.h"
#include "am/write/maintenance.h"

typedef struct Lists
{
	Relation	index;
	const GrnndIndex *ix;
	BufferAccessStrategy strategy;
	GrnndReportFn report;
	void	   *arg;
	uint32		limit;			/* ids */
	GrnRecord  *node;			/* copies of records */
	GrnRecord  *list;
	GrnndSet	listed;			/* nodes that are in the list of a value, of one column */
	GrnndSet   *unlisted;
} Lists;

bool
grnnd_signature_fits(const GrnndIndex *ix, const GrnSigBook *books, const GrnRecord *rec)
{
	const GrnLayout *l = &ix->layout;
	const uint8 *sig = GRN_REC_PTR(rec, l->off_sig);

	for (uint32 i = 0; i < rec->ntids && l->sig_bytes > 0; i++)
	{
		uint8		right[GRN_MAX_SIG_BYTES];

		grnnd_sign(ix->attrs, books, grn_rec_attrs(l, rec) + i * l->attr_bytes, right);
		for (uint32 c = 0; c < l->sig_bytes; c++)
			if (sig[c] != GRN_SIG_ANY && sig[c] != right[c])
				return false;
	}
	return true;
}

/* Is the hash that of a value beside one of the node's own TIDs? */
static bool
has_value(const Lists *c, uint32 column, uint32 hash)
{
	const GrnLayout *l = &c->ix->layout;

	for (uint32 i = 0; i < c->node->ntids; i++)
		if (grnnd_attr_hash(c->ix->attrs, column,
							grn_rec_attrs(l, c->node) + i * l->attr_bytes) == hash)
			return true;
	return false;
}

static void
check_row(Lists *c, uint32 column, uint32 record, uint32 i)
{
	const GrnLayout *l = &c->ix->layout;
	const uint8_t *at = grn_list_row(l, c->list, i);
	GrnListRow	row;

	memcpy(&row, at, sizeof(row));
	if (row.id >= c->limit)
	{
		c->report(c->arg, record, "list names a node that does not exist", row.id);
		return;
	}
	/* stale rows do no harm */
	if (grnnd_copy_record(c->index, c->ix, row.id, c->node, c->strategy) != GRN_NODE ||
		!has_value(c, column, row.hash))
		return;
	if (memcmp(&row.factor, &c->node->factor, sizeof(row.factor)) != 0 ||
		memcmp(at + sizeof(row), GRN_REC_PTR(c->node, l->off_code), l->code_bytes) != 0 ||
		memcmp(at + sizeof(row) + l->code_bytes, GRN_REC_PTR(c->node, l->off_sig),
			   l->sig_bytes) != 0)
		c->report(c->arg, record, "list holds another code or signature than the record itself of node",
				  row.id);
	grnnd_set_add(&c->listed, row.id);
}

static void
check_chain(Lists *c, uint32 column, uint32 bucket)
{
	uint32		id = grnnd_list_head(c->index, c->ix, bucket).first;
	uint32		steps = 0;

	while (id != GRN_INVALID_ID)
	{
		grnnd_delay_point();
		if (id >= c->limit || ++steps > c->limit)
		{
			c->report(c->arg, id, "list has no end", GRN_INVALID_ID);
			return;
		}
		grnnd_copy_record(c->index, c->ix, id, c->list, c->strategy);
		if (!grnnd_in_list(c->list, bucket))
		{
			c->report(c->arg, id, "list holds a foreign record", GRN_INVALID_ID);
			return;
		}
		for (uint32 i = 0; i < c->list->ntids16; i++)
			check_row(c, column, id, i);
		id = c->list->next;
	}
}

/* Has a node's own TID a value of the column for which there are lists? */
static bool
has_listed_value(const Lists *c, uint32 column)
{
	const GrnLayout *l = &c->ix->layout;

	for (uint32 i = 0; i < c->node->ntids; i++)
		if (grnnd_is_listed(c->ix->attrs, column,
							grn_rec_attrs(l, c->node) + i * l->attr_bytes))
			return true;
	return false;
}

/* Each node with such a value is in the list of one of them at least. */
static void
check_nodes(Lists *c, uint32 column)
{
	for (uint32 id = 0; id < c->limit; id++)
	{
		if (id % c->ix->layout.per_page == 0)
			grnnd_delay_point();
		if (!grnnd_set_has(&c->listed, id) &&
			grnnd_copy_record(c->index, c->ix, id, c->node, c->strategy) == GRN_NODE &&
			has_listed_value(c, column))
			grnnd_set_add(c->unlisted, id);
	}
}

void
grnnd_check_lists(Relation index, const GrnndIndex *ix, BufferAccessStrategy strategy,
				  uint32 limit, GrnndReportFn report, void *arg, GrnndSet *unlisted)
{
	const GrnndMeta *meta = &ix->meta;
	Lists		c = {.index = index, .ix = ix, .strategy = strategy, .report = report, .arg = arg,
		.limit = limit, .unlisted = unlisted};

	if (meta->list_pages == 0)
		return;
	c.node = palloc(grnnd_copy_bytes(ix));
	c.list = palloc(grnnd_copy_bytes(ix));
	grnnd_set_init(&c.listed, limit);
	for (uint32 column = 0; column < meta->ncolumns; column++)
	{
		grnnd_set_clear(&c.listed);
		for (uint32 b = 0; b < meta->list_buckets; b++)
			check_chain(&c, column, column * meta->list_buckets + b);
		check_nodes(&c, column);
	}
	pfree(c.listed.words);
	pfree(c.list);
	pfree(c.node);
}
