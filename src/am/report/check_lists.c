/*
 * check_lists.c - the check of lists of values, for grnnd_check().  Each chain must be sound.
 * Guides must name all groups exactly once.  A list's row must have its node's code and signature.
 * Each node must be in the lists of its TIDs' values.
 */
#include "am/report/check_impl.h"

#include "am/filter/filter.h"
#include "am/index/index.h"
#include "am/write/write.h"

typedef struct Lists
{
	IndexCheck *check;
	const GrnndIndex *ix;
	GrnRecord  *node;			/* copies of records */
	GrnRecord  *list;
	GrnRecord  *guide;
	GrnndSet	groups;			/* records of groups named by guides, of all columns so far */
	GrnndSet	listed;			/* value_bit()s of nodes in lists of the current column */
} Lists;

/* Copies a record, which must exist. */
static GrnState
copy(Lists *c, uint32 id, GrnRecord *rec)
{
	return grnnd_copy_record(c->check->index, c->ix, id, rec, c->check->strategy);
}

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

/* Returns the rank of a column's list to which TID i of a record belongs. */
static uint32
rank_of_tid(const Lists *c, uint32 column, const GrnRecord *rec, uint32 i)
{
	const GrnLayout *l = &c->ix->layout;

	return grnnd_attr_rank(c->ix->attrs, c->check->books, column, grn_rec_attrs(l, rec) + i * l->attr_bytes);
}

/*
 * Bits for each node, one chosen by a hash of a value's rank: the node is in the list of a value
 * with this bit.  The check thus detects seven of eight values that are missing in lists.
 */
#define VALUE_BITS(limit) ((limit) < PG_UINT32_MAX / 8 ? 8 : 1)

static uint32
value_bit(const Lists *c, uint32 id, uint32 rank)
{
	uint32		bits = VALUE_BITS(c->check->limit);

	return id * bits + (rank * UINT32_C(0x9E3779B1) >> 24) % bits;
}

/* Is this the rank of a value beside one of the node's own TIDs? */
static bool
has_value(const Lists *c, uint32 column, uint32 rank)
{
	for (uint32 i = 0; i < c->node->ntids; i++)
		if (rank_of_tid(c, column, c->node, i) == rank)
			return true;
	return false;
}

static void
check_row(Lists *c, uint32 column, uint32 bucket, uint32 record, uint32 i)
{
	const GrnLayout *l = &c->ix->layout;
	GrnListRow	row = grn_list_row(l, c->list, i);

	if (row.id >= c->check->limit)
	{
		grnnd_report_record(c->check, record, "list names a node that does not exist", row.id);
		return;
	}
	if (grn_list_bucket(c->ix->meta.list_buckets, column, row.rank) != bucket)
	{
		grnnd_report_record(c->check, record, "list holds a value that belongs to another, of node", row.id);
		return;
	}
	/* stale rows are harmless */
	if (copy(c, row.id, c->node) != GRN_NODE)
		return;
	grnnd_set_add(&c->listed, value_bit(c, row.id, row.rank));
	if (!has_value(c, column, row.rank))
		return;
	if (memcmp(&row.factor, &c->node->factor, sizeof(row.factor)) != 0 ||
		memcmp(row.code, GRN_REC_PTR(c->node, l->off_code), l->code_bytes) != 0 ||
		memcmp(row.sig, GRN_REC_PTR(c->node, l->off_sig), l->sig_bytes) != 0)
		grnnd_report_record(c->check, record, "list holds another code or signature than the record itself of node",
							row.id);
}

/* Checks a group of a bucket.  A guide may still name a group that vacuum has freed. */
static void
check_group(Lists *c, uint32 column, uint32 bucket, uint32 id)
{
	uint32		first = id - grn_node_slot(&c->ix->layout, id);
	uint32		before = id;

	while (id != GRN_INVALID_ID)
	{
		uint16		unused;

		if (id >= c->check->limit || grnnd_set_has(&c->groups, id))
		{
			grnnd_report_record(c->check, id, id >= c->check->limit ? "guide of a list names a group that does not exist"
								: "guides of lists name a group twice", id);
			return;
		}
		if (id < before || id - first >= c->ix->layout.per_page)
		{
			grnnd_report_record(c->check, before, "group leads off its page, to", id);
			return;
		}
		grnnd_set_add(&c->groups, id);
		copy(c, id, c->list);
		if (!grnnd_is_listing(c->ix, c->list) || (c->list->flags & GRN_GROUP) == 0)
			return;
		if (grn_tids_owner(c->list, &unused) != bucket)
		{
			grnnd_report_record(c->check, id, "guide of a list names a group of another list", id);
			return;
		}
		for (uint32 r = 0; r < c->list->ntids16; r++)
			check_row(c, column, bucket, id, r);
		before = id;
		id = c->list->next;
	}
}

/* Checks the records of a bucket's chain, or of its guide, from record id on. */
static void
check_records(Lists *c, uint32 column, uint32 bucket, uint32 id, bool guide)
{
	GrnRecord  *rec = guide ? c->guide : c->list;
	uint32		steps = 0;

	for (; id != GRN_INVALID_ID; id = rec->next)
	{
		grnnd_delay_point();
		if (id >= c->check->limit || ++steps > c->check->limit)
		{
			grnnd_report_record(c->check, id, guide ? "guide of a list has no end" : "list has no end", GRN_INVALID_ID);
			return;
		}
		copy(c, id, rec);
		if (!grnnd_in_list(c->ix, rec, bucket, guide ? GRN_GUIDE : 0))
		{
			grnnd_report_record(c->check, id, guide ? "guide of a list holds a foreign record"
								: "list holds a foreign record", GRN_INVALID_ID);
			return;
		}
		for (uint32 i = 0; i < rec->ntids16; i++)
			if (guide)
				check_group(c, column, bucket, grn_list_row(&c->ix->layout, rec, i).id);
			else
				check_row(c, column, bucket, id, i);
	}
}

/* Adds a record to the unlisted ones if a list of its TIDs' values lacks the node. */
static void
check_values(Lists *c, uint32 column, uint32 id)
{
	GrnState	state = copy(c, id, c->node);
	uint32		n = state == GRN_NODE ? c->node->ntids : state == GRN_TIDS ? c->node->ntids16 : 0;
	uint16		unused;
	uint32		node = state == GRN_TIDS ? grn_tids_owner(c->node, &unused) : id;

	if (column == c->ix->meta.ncolumns - 1 && grnnd_is_listing(c->ix, c->node) &&
		(c->node->flags & GRN_GROUP) != 0 && c->node->ntids16 > 0 && !grnnd_set_has(&c->groups, id))
		grnnd_report_record(c->check, id, "no guide of a list names this group", GRN_INVALID_ID);

	if (!grnnd_has_list(&c->ix->attrs->attr[column]))
		return;
	for (uint32 i = 0; i < n && node < c->check->limit; i++)
		if (!grnnd_set_has(&c->listed, value_bit(c, node, rank_of_tid(c, column, c->node, i))))
			grnnd_set_add(&c->check->unlisted, id);
}

void
grnnd_check_lists(IndexCheck *check)
{
	const GrnndIndex *ix = check->ix;
	const GrnndMeta *meta = &ix->meta;
	Lists		c = {.check = check, .ix = ix};

	if (!grnnd_has_lists(meta))
		return;
	c.node = palloc(grnnd_copy_bytes(ix));
	c.list = palloc(grnnd_copy_bytes(ix));
	c.guide = palloc(grnnd_copy_bytes(ix));
	grnnd_set_init(&c.groups, check->limit);
	grnnd_set_init(&c.listed, check->limit * VALUE_BITS(check->limit));
	for (uint32 column = 0; column < meta->ncolumns; column++)
	{
		grnnd_set_clear(&c.listed);
		for (uint32 b = 0; b < meta->list_buckets && grnnd_has_list(&ix->attrs->attr[column]); b++)
		{
			uint32		bucket = column * meta->list_buckets + b;
			GrnndListHead head = grnnd_list_head(check->index, ix, bucket);

			check_records(&c, column, bucket, head.first, false);
			check_records(&c, column, bucket, head.guide, true);
		}
		for (uint32 id = 0; id < check->limit; id++)
		{
			if (id % ix->layout.per_page == 0)
				grnnd_delay_point();
			check_values(&c, column, id);
		}
	}
	pfree(c.listed.words);
	pfree(c.groups.words);
	pfree(c.guide);
	pfree(c.list);
	pfree(c.node);
}
