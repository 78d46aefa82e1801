/*
 * list_make.c - what CREATE INDEX and fits make lists from: the books of the columns, and the lists
 * that a node is in.
 */
#include "am/filter/attribute.h"

void
grnnd_sample_row(const GrnndAttrs *attrs, uint32 column, const uint8 *values, const uint8 *elements,
				 GrnndBookSample *s)
{
	s->rows++;
	if (attrs->attr[column].type->kind != GRNND_ATTR_ARRAY)
		s->nkeys += s->nkeys < GRNND_BOOK_ROWS && grnnd_attr_key(attrs, column, values, &s->keys[s->nkeys]);
	else if (elements != NULL)
		grnnd_count_elements(&attrs->attr[column], elements, s->elements);
}

void
grnnd_fit_book(const GrnndAttr *attr, const GrnLayout *l, GrnndBookSample *s, bool ranks, GrnSigBook *book)
{
	bool		ordered = attr->type->kind == GRNND_ATTR_ORDER;

	if (attr->type->kind == GRNND_ATTR_ARRAY)
		grnnd_fit_elements(book, l, s->elements, Max(s->rows, 1));
	else if (!ranks || (ordered && !(book->ordered == GRN_BOOK_ORDERED && book->count > 0)))
	{
		grn_sig_fit(book, ordered, s->keys, s->nkeys);
		if (ranks)
			book->ordered = GRN_BOOK_RANKS;
	}
}

bool
grnnd_next_ranks(const GrnndAttrs *attrs, const GrnSigBook *books, uint32 column, const uint8 *values,
				 const uint8 *elements, GrnndRowRanks *r)
{
	GrnndRowRanks next;

	next.n = grnnd_list_ranks(attrs, books, column, values, elements, next.ranks);
	if (next.n == r->n && memcmp(next.ranks, r->ranks, next.n * sizeof(uint32)) == 0)
		return false;
	memcpy(r, &next, offsetof(GrnndRowRanks, ranks) + next.n * sizeof(uint32));
	return true;
}
