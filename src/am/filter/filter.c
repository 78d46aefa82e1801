/*
 * filter.c - the conditions of a scan on filter columns.
 *
 * Each condition becomes a test of the column's key: the key is in a range, is in a list of
 * keys, has some or all bits of an array, is NULL, or is not NULL.  If records have
 * signatures, each test also becomes a set of signature bytes that may pass.
 */
#include "am/filter/attribute.h"

#include "utils/array.h"
#include "utils/lsyscache.h"

typedef enum TestKind
{
	TEST_RANGE,
	TEST_LIST,
	TEST_OVERLAPS,
	TEST_CONTAINS,
	TEST_NULL,
	TEST_NOT_NULL
} TestKind;

typedef struct GrnndTest
{
	TestKind	kind;
	uint32		column;
	int64		least;			/* for a range: least and most are inside */
	int64		most;
	int64	   *keys;			/* [nkeys] for a list: ascending */
	uint32		nkeys;
	int64		bits;			/* for overlaps and contains: bits of the elements */
} Test;

static bool
is_listed(const Test *t, int64 key)
{
	uint32		at = grn_find_key(t->keys, t->nkeys, key);

	return at < t->nkeys && t->keys[at] == key;
}

/* GrnFilter.passes() */
static bool
passes(const GrnFilter *self, const uint8_t *values)
{
	const GrnndFilter *f = (const GrnndFilter *) self;

	for (uint32 i = 0; i < f->ntests; i++)
	{
		const Test *t = &f->tests[i];
		int64		key;
		bool		known = grnnd_attr_key(f->attrs, t->column, values, &key);
		bool		pass;

		if (t->kind == TEST_RANGE)
			pass = known && key >= t->least && key <= t->most;
		else if (t->kind == TEST_LIST)
			pass = known && is_listed(t, key);
		else if (t->kind == TEST_OVERLAPS)
			pass = known && (key & t->bits) != 0;
		else if (t->kind == TEST_CONTAINS)
			pass = known && (key & t->bits) == t->bits;
		else
			pass = known == (t->kind == TEST_NOT_NULL);
		if (!pass)
			return false;
	}
	return true;
}

/* Makes the test of a comparison with one key.  Returns false if no key passes. */
static bool
set_range(Test *t, int strategy, int64 key, bool exact)
{
	t->kind = TEST_RANGE;
	t->least = PG_INT64_MIN;
	t->most = PG_INT64_MAX;
	switch ((GrnndAttrStrategy) strategy)
	{
		case GRNND_LESS_STRATEGY:
			/* If keys are not exact, a smaller value may have the same key. */
			if (exact && key == PG_INT64_MIN)
				return false;
			t->most = key - exact;
			return true;
		case GRNND_LESS_EQUAL_STRATEGY:
			t->most = key;
			return true;
		case GRNND_EQUAL_STRATEGY:
			t->least = t->most = key;
			return true;
		case GRNND_GREATER_EQUAL_STRATEGY:
			t->least = key;
			return true;
		case GRNND_GREATER_STRATEGY:
			if (exact && key == PG_INT64_MAX)
				return false;
			t->least = key + exact;
			return true;
		case GRNND_OVERLAP_STRATEGY:
		case GRNND_CONTAINS_STRATEGY:
			break;
	}
	elog(ERROR, "unknown strategy %d of a condition on a grnnd index", strategy);
}

/* Makes the test of a comparison with any element of an array.  Returns false if no key passes. */
static bool
set_list(Test *t, const GrnndAttr *attr, const ScanKeyData *key)
{
	ArrayType  *array = DatumGetArrayTypeP(key->sk_argument);
	Oid			type = OidIsValid(key->sk_subtype) ? key->sk_subtype : attr->input;
	int16		length;
	bool		by_value;
	char		align;
	Datum	   *values;
	bool	   *isnull;
	int			n;

	get_typlenbyvalalign(ARR_ELEMTYPE(array), &length, &by_value, &align);
	deconstruct_array(array, ARR_ELEMTYPE(array), length, by_value, align, &values, &isnull, &n);
	t->keys = palloc(Max(n, 1) * sizeof(int64));
	for (int i = 0; i < n; i++)
		if (!isnull[i])
			t->keys[t->nkeys++] = attr->type->key(attr, values[i], type);
	if (t->nkeys == 0)
		return false;
	qsort(t->keys, t->nkeys, sizeof(int64), grn_compare_keys);
	t->kind = TEST_LIST;
	if (key->sk_strategy == GRNND_LESS_STRATEGY || key->sk_strategy == GRNND_LESS_EQUAL_STRATEGY)
		return set_range(t, key->sk_strategy, t->keys[t->nkeys - 1], attr->type->exact);
	if (key->sk_strategy != GRNND_EQUAL_STRATEGY || t->nkeys == 1)
		return set_range(t, key->sk_strategy, t->keys[0], attr->type->exact);
	return true;
}

/* Makes the test of an array's elements.  Returns false if no array passes. */
static bool
set_elements(Test *t, const GrnndAttr *attr, const ScanKeyData *key)
{
	t->bits = attr->type->key(attr, key->sk_argument, attr->input);
	t->kind = key->sk_strategy == GRNND_OVERLAP_STRATEGY ? TEST_OVERLAPS : TEST_CONTAINS;
	return t->bits != 0 || t->kind == TEST_CONTAINS;
}

/* Adds the signature bytes of arrays that may pass the test. */
static void
fill_array_set(GrnSigSet *set, const Test *t)
{
	uint8		wanted = grn_sig_fold((uint64) t->bits);

	for (int byte = 1; byte < GRN_SIG_NULL; byte++)
		if (t->kind == TEST_OVERLAPS ? (byte & wanted) != 0 : (byte & wanted) == wanted)
			grn_sig_add_byte(set, (uint8_t) byte);
}

/* Computes the bytes that a column's signature may have if a row passes the test. */
static void
fill_set(GrnSigSet *set, const Test *t, const GrnSigBook *book)
{
	set->at = t->column;
	grn_sig_add_byte(set, GRN_SIG_ANY);
	switch (t->kind)
	{
		case TEST_RANGE:
			grn_sig_add(book, t->least, t->most, set);
			break;
		case TEST_LIST:
			for (uint32 i = 0; i < t->nkeys; i++)
				grn_sig_add(book, t->keys[i], t->keys[i], set);
			break;
		case TEST_OVERLAPS:
		case TEST_CONTAINS:
			fill_array_set(set, t);
			break;
		case TEST_NULL:
			grn_sig_add_byte(set, GRN_SIG_NULL);
			break;
		case TEST_NOT_NULL:
			for (int byte = 1; byte < GRN_SIG_NULL; byte++)
				grn_sig_add_byte(set, (uint8_t) byte);
			break;
	}
}

/* Adds the set of a test.  All tests of one column share a set. */
static void
add_set(GrnSigSet *sets, uint32 *nsets, const Test *t, const GrnSigBook *book)
{
	GrnSigSet	set = {0};
	uint32		i = 0;

	fill_set(&set, t, book);
	while (i < *nsets && sets[i].at != set.at)
		i++;
	if (i == *nsets)
	{
		sets[(*nsets)++] = set;
		return;
	}
	for (int byte = 0; byte <= PG_UINT8_MAX; byte++)
		sets[i].passes[byte] &= set.passes[byte];
}

/* Adds the test of one scan key. */
static void
add_test(GrnndFilter *f, const ScanKeyData *key)
{
	Test	   *t = &f->tests[f->ntests];
	const GrnndAttr *attr;
	Oid			type;

	/* Rows without a vector are not in the index. */
	if (key->sk_attno == 1)
	{
		if (!(key->sk_flags & (SK_SEARCHNULL | SK_SEARCHNOTNULL)))
			elog(ERROR, "a condition on the vector of a grnnd index");
		f->nothing |= (key->sk_flags & SK_SEARCHNULL) != 0;
		return;
	}
	t->column = (uint32) key->sk_attno - 2;
	attr = &f->attrs->attr[t->column];
	type = OidIsValid(key->sk_subtype) ? key->sk_subtype : attr->input;
	f->ntests++;
	if (key->sk_flags & SK_SEARCHNULL)
		t->kind = TEST_NULL;
	else if (key->sk_flags & SK_SEARCHNOTNULL)
		t->kind = TEST_NOT_NULL;
	else if (key->sk_flags & SK_ISNULL)
		f->nothing = true;		/* all operators are strict */
	else
	{
		f->recheck |= !attr->type->exact;
		if (attr->type->kind == GRNND_ATTR_ARRAY)
			f->nothing |= !set_elements(t, attr, key);
		else if (key->sk_flags & SK_SEARCHARRAY)
			f->nothing |= !set_list(t, attr, key);
		else
			f->nothing |= !set_range(t, key->sk_strategy,
									 attr->type->key(attr, key->sk_argument, type),
									 attr->type->exact);
	}
}

/* Returns the range that all range tests of a column allow together. */
static Test
column_range(const GrnndFilter *filter, uint32 column)
{
	Test		all = {.kind = TEST_RANGE, .least = PG_INT64_MIN, .most = PG_INT64_MAX};

	for (uint32 i = 0; i < filter->ntests; i++)
		if (filter->tests[i].kind == TEST_RANGE && filter->tests[i].column == column)
		{
			all.least = Max(all.least, filter->tests[i].least);
			all.most = Min(all.most, filter->tests[i].most);
		}
	return all;
}

GrnndFilter *
grnnd_make_filter(const GrnndAttrs *attrs, const GrnSigBook *books, const ScanKeyData *keys,
				  int nkeys)
{
	GrnndFilter *f;

	if (nkeys == 0)
		return NULL;
	f = palloc0(sizeof(GrnndFilter));
	f->base.passes = passes;
	f->attrs = attrs;
	f->books = books;
	f->tests = palloc0(nkeys * sizeof(Test));
	for (int i = 0; i < nkeys; i++)
		add_test(f, &keys[i]);
	/* A parameter may make the end of a range smaller than its start. */
	for (uint32 i = 0; i < f->ntests; i++)
	{
		Test		range = column_range(f, f->tests[i].column);

		f->nothing |= range.least > range.most;
	}
	if (f->ntests == 0 && !f->nothing)
	{
		pfree(f);
		return NULL;
	}
	if (books != NULL && !f->nothing)
	{
		GrnSigSet  *sets = palloc0(f->ntests * sizeof(GrnSigSet));

		for (uint32 i = 0; i < f->ntests; i++)
			add_set(sets, &f->base.nsets, &f->tests[i], &books[f->tests[i].column]);
		f->base.sets = sets;
	}
	return f;
}

static int
compare_ranks(const void *a, const void *b)
{
	uint32		x = ((const GrnndRanks *) a)->least;
	uint32		y = ((const GrnndRanks *) b)->least;

	return (x > y) - (x < y);
}

/* Sorts single ranks and drops repeated ranks. */
static uint32
sort_ranks(GrnndRanks *ranks, uint32 n)
{
	uint32		kept = 0;

	qsort(ranks, n, sizeof(GrnndRanks), compare_ranks);
	for (uint32 i = 0; i < n; i++)
		if (kept == 0 || ranks[i].least != ranks[kept - 1].least)
			ranks[kept++] = ranks[i];
	return kept;
}

uint32
grnnd_filter_ranks(const GrnndFilter *filter, uint32 i, uint32 *column, GrnndRanks *ranks, uint32 most)
{
	const Test *t = &filter->tests[i];
	const GrnSigBook *book = &filter->books[t->column];
	Test		range;
	uint64		width;
	uint32		n = 0;

	*column = t->column;
	if (!grnnd_has_list(&filter->attrs->attr[t->column]))
		return 0;
	if (t->kind == TEST_NULL)
		ranks[n++].least = grnnd_key_rank(book, true, 0);
	else if (t->kind == TEST_LIST && t->nkeys <= most)
		for (; n < t->nkeys; n++)
			ranks[n].least = grnnd_key_rank(book, false, t->keys[n]);
	else if (t->kind == TEST_RANGE)
	{
		range = column_range(filter, t->column);
		if (grnnd_is_ranked(book))
		{
			ranks->least = grnnd_key_rank(book, false, range.least);
			ranks->most = grnnd_key_rank(book, false, range.most);
			return 1;
		}
		width = (uint64) range.most - (uint64) range.least;
		for (; width < most && n <= width; n++)
			ranks[n].least = grnnd_key_rank(book, false, range.least + n);
	}
	for (uint32 j = 0; j < n; j++)
		ranks[j].most = ranks[j].least;
	return sort_ranks(ranks, n);
}

bool
grnnd_ranks_cover(const GrnndFilter *filter, uint32 i)
{
	const Test *t = &filter->tests[i];

	for (uint32 j = 0; j < filter->ntests; j++)
		if (j != i && filter->tests[j].column == t->column &&
			(t->kind != TEST_RANGE || filter->tests[j].kind != TEST_RANGE))
			return false;
	return true;
}
