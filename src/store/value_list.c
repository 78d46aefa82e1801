/*
 * value_list.c - see value_list.h.
 */
#include "store/value_list.h"

GrnListRow
grn_value_row(const GrnValueList *list, uint32_t row)
{
	const GrnLayout *l = list->layout;
	uint32_t	node = list->nodes[row];

	return (GrnListRow) {list->ids != NULL ? list->ids[node] : node, list->ranks[row], list->factors[node],
						 list->codes + (size_t) node * l->code_bytes, list->sigs + (size_t) node * l->sig_bytes};
}

void
grn_group_value_list(const GrnValueList *list, void (*poll) (void *arg), void *arg, void *workspace)
{
	GrnGrouping how = {.codec = list->codec, .codes = list->codes, .factors = list->factors,
		.room = grn_group_room(list->layout), .seed = list->bucket, .poll = poll, .arg = arg};

	grn_group_rows(&how, list->nodes, list->n, &list->groups, workspace);
}

/* Fills a record with rows from `first` on, before `end`.  order: NULL, or the rows' order. */
static void
fill(const GrnValueList *list, const uint32_t *order, uint32_t first, uint32_t end, uint8_t flags, GrnRecord *rec)
{
	uint32_t	room = grn_list_rows(list->layout);

	if (first >= end)
		return;
	grn_list_start(rec, list->bucket, list->generation, flags);
	for (uint32_t i = first; i < end && rec->ntids16 < room; i++)
	{
		GrnListRow	row = grn_value_row(list, order != NULL ? order[i] : i);

		grn_list_set_row(list->layout, rec, rec->ntids16++, &row);
	}
}

void
grn_fill_chained(const GrnValueList *list, uint32_t number, GrnRecord *rec)
{
	fill(list, NULL, number * grn_list_rows(list->layout), list->n, 0, rec);
}

static uint32_t
begin_of(const GrnValueList *list, uint32_t group)
{
	return group > 0 ? list->groups.ends[group - 1] : 0;
}

uint32_t
grn_rows_of_group(const GrnValueList *list, uint32_t group)
{
	return list->groups.ends[group] - begin_of(list, group);
}

void
grn_fill_group(const GrnValueList *list, uint32_t group, uint32_t number, GrnRecord *rec)
{
	fill(list, list->groups.order, begin_of(list, group) + number * grn_list_rows(list->layout),
		 list->groups.ends[group], GRN_GROUP, rec);
}

void
grn_guide_to(const GrnValueList *list, uint32_t group, uint32_t id, GrnRecord *guide)
{
	static const uint8_t any[GRN_MAX_SIG_BYTES];	/* zeroes: GRN_SIG_ANY */
	const GrnLayout *l = list->layout;
	GrnListRow	row = {id, 0, list->groups.factors[group], list->groups.middles + (size_t) group * l->code_bytes, any};

	if (guide->ntids16 == 0)
		grn_list_start(guide, list->bucket, list->generation, GRN_GUIDE);
	grn_list_set_row(l, guide, guide->ntids16++, &row);
}
