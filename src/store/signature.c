/*
 * signature.c - fits the books of signatures, and maps keys to bytes and ranks.
 */
#include "store/filter.h"

#include <stdlib.h>

/*
 * Number of bytes of an ordered column reserved for keys above all keys of the sample, because
 * times and serial numbers grow.  Each reserved range is an eighth larger than the range before,
 * so all ranges together cover several times the sample's range.  Half and twice change the visits
 * of ranges of 3% by 4% at most (20,000 sentences, image patches and SIFT rows).
 */
#define LATER 40
#define PRESENT (GRN_SIG_CODES - LATER)

/*
 * Most keys of a hashed column with own bytes; the remaining keys need bytes too.  Filters on 400
 * texts of Zipf's law read the same pages with 95 and 240 (20,000 sentences and image patches).
 */
#define MOST_FREQUENT 190

int
grn_compare_keys(const void *a, const void *b)
{
	int64_t		x = *(const int64_t *) a;
	int64_t		y = *(const int64_t *) b;

	return (x > y) - (x < y);
}

/* Number of keys equal to keys[i], from i on. */
static uint32_t
equal_keys(const int64_t *keys, uint32_t n, uint32_t i)
{
	uint32_t	j = i + 1;

	while (j < n && keys[j] == keys[i])
		j++;
	return j - i;
}

static uint32_t
distinct_keys(const int64_t *keys, uint32_t n)
{
	uint32_t	distinct = 0;

	for (uint32_t i = 0; i < n; i += equal_keys(keys, n, i))
		distinct++;
	return distinct;
}

/*
 * Fits ranges with about equal numbers of keys.  A frequent key has its own range.  Any other
 * range is complete before the next range begins, or ends early before a frequent key, so at most
 * PRESENT ranges are needed.
 */
static void
fit_present(GrnSigBook *book, const int64_t *keys, uint32_t n)
{
	bool		all = distinct_keys(keys, n) <= PRESENT;
	uint32_t	frequent = all ? 1 : n / (PRESENT / 2) + 1;
	uint32_t	nfrequent = 0;
	uint32_t	others = n;
	uint32_t	share;
	uint32_t	have = 0;

	for (uint32_t i = 0, m; i < n; i += m)
	{
		m = equal_keys(keys, n, i);
		if (m >= frequent)
		{
			nfrequent++;
			others -= m;
		}
	}
	share = all ? 1 : others / (PRESENT - 2 * nfrequent - 1) + 1;
	for (uint32_t i = 0, m; i < n; i += m)
	{
		m = equal_keys(keys, n, i);
		if (m >= frequent && have > 0)
		{
			book->keys[book->count++] = keys[i - 1];
			have = 0;
		}
		have += m;
		if (m >= frequent || have >= share)
		{
			book->keys[book->count++] = keys[i];
			have = 0;
		}
	}
	if (have > 0)
		book->keys[book->count++] = keys[n - 1];
}

/* Adds ranges above the last key, the first as wide as the mean range of the upper half. */
static void
fit_later(GrnSigBook *book)
{
	uint32_t	half = book->count / 2;
	uint64_t	last = (uint64_t) book->keys[book->count - 1] ^ (UINT64_C(1) << 63);
	uint64_t	middle = (uint64_t) book->keys[half] ^ (UINT64_C(1) << 63);
	uint64_t	step = (last - middle) / (book->count - half) + 1;

	for (int i = 0; i < LATER && last <= UINT64_MAX - step; i++)
	{
		last += step;
		book->keys[book->count++] = (int64_t) (last ^ (UINT64_C(1) << 63));
		step += step / 8 < UINT64_MAX / 2 - step ? step / 8 : 0;
	}
}

typedef struct Frequent
{
	int64_t		key;
	uint32_t	count;
} Frequent;

static int
compare_frequent(const void *a, const void *b)
{
	const Frequent *x = a;
	const Frequent *y = b;

	return x->count != y->count ? (x->count < y->count) - (x->count > y->count)
		: (x->key > y->key) - (x->key < y->key);
}

/* Gives bytes to the most frequent keys, each as frequent as the keys that will share one. */
static void
fit_frequent(GrnSigBook *book, const int64_t *keys, uint32_t n)
{
	Frequent	top[2 * MOST_FREQUENT];
	uint32_t	ntop = 0;

	for (uint32_t i = 0, m; i < n; i += m)
	{
		m = equal_keys(keys, n, i);
		if (m < n / (2 * GRN_SIG_CODES))
			continue;
		top[ntop++] = (Frequent) {keys[i], m};
		if (ntop == 2 * MOST_FREQUENT)
		{
			qsort(top, ntop, sizeof(Frequent), compare_frequent);
			ntop = MOST_FREQUENT;
		}
	}
	qsort(top, ntop, sizeof(Frequent), compare_frequent);
	book->count = ntop < MOST_FREQUENT ? ntop : MOST_FREQUENT;
	for (uint32_t i = 0; i < book->count; i++)
		book->keys[i] = top[i].key;
	qsort(book->keys, book->count, sizeof(int64_t), grn_compare_keys);
}

void
grn_sig_fit(GrnSigBook *book, bool ordered, int64_t *keys, uint32_t n)
{
	memset(book, 0, sizeof(*book));
	book->ordered = ordered;
	if (n == 0)
		return;
	qsort(keys, n, sizeof(int64_t), grn_compare_keys);
	if (ordered)
	{
		fit_present(book, keys, n);
		fit_later(book);
	}
	else
		fit_frequent(book, keys, n);
}

const char *
grn_sig_check(const GrnSigBook *book)
{
	if (book->ordered > GRN_BOOK_FORMER || book->count > (book->ordered ? GRN_SIG_CODES : MOST_FREQUENT))
		return "impossible book of signatures";
	for (uint32_t i = 1; i < book->count; i++)
		if (book->keys[i - 1] >= book->keys[i])
			return "keys of a book of signatures are out of order";
	return NULL;
}

uint32_t
grn_find_key(const int64_t *keys, uint32_t n, int64_t key)
{
	const int64_t *from = keys;

	if (n == 0)
		return 0;
	/* a product instead of a branch, because half of the branches would be mispredicted */
	while (n > 1)
	{
		uint32_t	half = n / 2;

		from += half * (uint32_t) (from[half - 1] < key);
		n -= half;
	}
	return (uint32_t) (from - keys) + (*from < key);
}

#define RANK_BITS 24			/* low bits of a rank, for keys of one byte */
/* Maps number `at` of `many` numbers to [0, 2^RANK_BITS), in order. */
static uint32_t
place_among(uint64_t at, uint64_t many)
{
	int			shift = 0;

	while ((many - 1) >> shift >> RANK_BITS != 0)
		shift++;
	return (uint32_t) ((at >> shift << RANK_BITS) / (((many - 1) >> shift) + 1));
}

/*
 * The rank of a key at this distance outside the book: a logarithmic scale, by the leading bits.
 */
static uint32_t
place_beyond(uint64_t distance)
{
	enum
	{
		MANTISSA = RANK_BITS - 6
	};
	int			exponent = 63 - __builtin_clzll(distance);
	uint64_t	mantissa = exponent > MANTISSA ? distance >> (exponent - MANTISSA)
		: distance << (MANTISSA - exponent);

	return (uint32_t) exponent << MANTISSA | (uint32_t) (mantissa & ((1u << MANTISSA) - 1));
}

uint32_t
grn_sig_rank(const GrnSigBook *book, int64_t key)
{
	const int64_t *keys = book->keys;
	uint32_t	n = book->count;
	uint32_t	at = grn_find_key(keys, n, key);
	uint64_t	k = (uint64_t) key;

	if (at == n)
		return (n + 1) << RANK_BITS | place_beyond(k - (uint64_t) keys[n - 1]);
	if (at == 0 && key < keys[0])
		return (UINT32_C(1) << RANK_BITS) - 1 - place_beyond((uint64_t) keys[0] - k);
	if (at == 0)
		return UINT32_C(1) << RANK_BITS;
	return (at + 1) << RANK_BITS |
		place_among(k - (uint64_t) keys[at - 1] - 1, (uint64_t) keys[at] - (uint64_t) keys[at - 1]);
}

/* Number of keys that determine signatures. */
static uint32_t
signing_keys(const GrnSigBook *book)
{
	return book->ordered == GRN_BOOK_RANKS ? 0 : book->count;
}

uint8_t
grn_sig_byte(const GrnSigBook *book, int64_t key)
{
	uint32_t	used = signing_keys(book);
	uint32_t	at = grn_find_key(book->keys, used, key);

	if (book->ordered && used > 0)
		return (uint8_t) (1 + (at < used ? at : used - 1));
	if (at < used && book->keys[at] == key)
		return (uint8_t) (1 + at);
	return (uint8_t) (1 + used + grn_random(0, 0, (uint64_t) key) % (GRN_SIG_CODES - used));
}

void
grn_sig_add(const GrnSigBook *book, int64_t least, int64_t most, GrnSigSet *set)
{
	uint32_t	first = 1;
	uint32_t	last = GRN_SIG_CODES;

	if (least > most)
		return;
	if (least == most)
		first = last = grn_sig_byte(book, least);
	else if (book->ordered && signing_keys(book) > 0)
	{
		first = grn_sig_byte(book, least);
		last = grn_sig_byte(book, most);
	}
	for (uint32_t byte = first; byte <= last; byte++)
		grn_sig_add_byte(set, (uint8_t) byte);
}
