/*
 * value_list.h - the list of a bucket of values, made of rows in memory: its groups, and the
 * records of its chain, of its groups and of its guide.
 *
 * Builds make all lists so, and fits make groups of the rows at hand so.  Later rows are added to
 * records one by one (am/filter/lists.c).
 */
#ifndef GRN_VALUE_LIST_H
#define GRN_VALUE_LIST_H

#include "store/group.h"

typedef struct GrnValueList
{
	const GrnLayout *layout;
	const GrnCodec *codec;
	uint32_t	bucket;
	uint16_t	generation;
	uint32_t	n;				/* rows */
	const uint32_t *nodes;		/* [n] index of each row's node in the next four arrays */
	const uint32_t *ranks;		/* [n] */
	const uint32_t *ids;		/* NULL: the index is the id */
	const GrnFactor *factors;
	const uint8_t *codes;
	const uint8_t *sigs;
	GrnGroups	groups;			/* without groups not used */
} GrnValueList;

extern GrnListRow grn_value_row(const GrnValueList *list, uint32_t row);

/* Makes list->groups.  workspace: grn_group_bytes() of the rows.  poll, arg: of GrnGrouping. */
extern void grn_group_value_list(const GrnValueList *list, void (*poll) (void *arg), void *arg, void *workspace);

/*
 * Fill record `number` of the chain, or of a group, from zeroes on.  The record leads to no other
 * yet, and stays free if no row is left for it.
 */
extern void grn_fill_chained(const GrnValueList *list, uint32_t number, GrnRecord *rec);
extern void grn_fill_group(const GrnValueList *list, uint32_t group, uint32_t number, GrnRecord *rec);
/* Number of a group's rows. */
extern uint32_t grn_rows_of_group(const GrnValueList *list, uint32_t group);
/* Adds a group to a record of the guide, which has room.  id: of the group's first record. */
extern void grn_guide_to(const GrnValueList *list, uint32_t group, uint32_t id, GrnRecord *guide);

#endif							/* GRN_VALUE_LIST_H */
