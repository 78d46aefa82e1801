/*
 * filter.h - conditions on filter columns, as a search of the graph tests them.
 *
 * A signature has one byte for each filter column and is kept beside every code.  A signature can
 * only rule a row out: if a byte is not in the set of its column, the row fails and need not be
 * read.  The values beside a record's heap TIDs decide whether a row passes.
 */
#ifndef GRN_FILTER_H
#define GRN_FILTER_H

#include "store/record.h"

#define GRN_SIG_ANY 0			/* signature of rows that differ: every filter lets it pass */
#define GRN_SIG_NULL 255		/* signature of NULL */

/* The bytes of one column's signatures that may pass. */
typedef struct GrnSigSet
{
	uint32_t	at;				/* index of the byte in a signature */
	bool		passes[256];	/* may a row with this byte pass? */
} GrnSigSet;

typedef struct GrnFilter
{
	const GrnSigSet *sets;		/* [nsets]; a signature passes if all sets let it pass */
	uint32_t	nsets;
	/* Does a row with these values [attr_bytes] pass?  Under a page's lock.  NULL: no condition. */
	bool		(*passes) (const struct GrnFilter *self, const uint8_t *attrs);
	/* Is a row of this address [GRN_TID_BYTES] perhaps in `rows`?  NULL: no such condition. */
	bool		(*has) (const void *rows, const uint8_t *tid);
	const void *rows;
} GrnFilter;

/* Does a row with this address and these values pass? */
static inline bool
grn_row_passes(const GrnFilter *f, const uint8_t *tid, const uint8_t *attrs)
{
	return (f->has == NULL || f->has(f->rows, tid)) && (f->passes == NULL || f->passes(f, attrs));
}

/* May a row with this signature pass? */
static inline bool
grn_sig_passes(const GrnFilter *f, const uint8_t *sig)
{
	bool		pass = true;

	for (uint32_t i = 0; i < f->nsets; i++)
		pass &= f->sets[i].passes[sig[f->sets[i].at]];
	return pass;
}

/* grn_sig_passes() for `count` signatures at a distance of `bytes`, one set after the other. */
static inline void
grn_sigs_pass(const GrnFilter *f, const uint8_t *sigs, size_t bytes, uint32_t count, bool *pass)
{
	if (f->nsets == 0)
		memset(pass, true, count);
	for (uint32_t i = 0; i < f->nsets; i++)
	{
		const bool *passes = f->sets[i].passes;
		const uint8_t *sig = sigs + f->sets[i].at;

		if (i == 0)
			for (uint32_t j = 0; j < count; j++, sig += bytes)
				pass[j] = passes[*sig];
		else
			for (uint32_t j = 0; j < count; j++, sig += bytes)
				pass[j] &= passes[*sig];
	}
}

/*
 * signature.c: the byte of a signature that represents one value of a filter column.
 *
 * A value comes as a 64-bit key.  Keys of an ordered column are in the order of its values, and so
 * are its bytes: each byte represents a range of keys.  Keys of a hashed column have no order:
 * each frequent key has its own byte, and a hash distributes the remaining keys over the remaining
 * bytes.  The column's book maps keys to bytes.  The book is fitted to a sample of the column's
 * values.  Without a book a hash distributes all keys over all bytes.
 */

#define GRN_SIG_CODES 254		/* bytes 1 to 254; the two others are GRN_SIG_ANY and GRN_SIG_NULL */

typedef enum GrnBookOrder		/* on disk: never renumber */
{
	GRN_BOOK_HASHED = 0,
	GRN_BOOK_ORDERED = 1,
	GRN_BOOK_RANKS = 2,			/* the book is ordered and gives ranks only, because it was fitted
								 * after signatures had been written */
	GRN_BOOK_FORMER = 3			/* of an array, by an earlier version: not used */
} GrnBookOrder;

/* The book of a column, on disk. */
typedef struct GrnSigBook
{
	uint32_t	count;			/* number of keys; 0: not fitted */
	uint32_t	ordered;		/* GrnBookOrder */
	/* ascending; ordered: the greatest key of each byte from 1 on, the last with all beyond */
	int64_t		keys[GRN_SIG_CODES];
} GrnSigBook;

_Static_assert(sizeof(GrnSigBook) == 2040, "GrnSigBook is on disk");

/* Fits a book to keys [n].  Sorts the keys. */
extern void grn_sig_fit(GrnSigBook *book, bool ordered, int64_t *keys, uint32_t n);
/* Returns NULL for a sound book, else a static string that names the damage. */
extern const char *grn_sig_check(const GrnSigBook *book);
/* Compares two keys, for qsort(). */
extern int	grn_compare_keys(const void *a, const void *b);
/* Index of the first key, of n ascending keys, that is not less than `key`; n if all are less. */
extern uint32_t grn_find_key(const int64_t *keys, uint32_t n, int64_t key);
/* The byte of a key. */
extern uint8_t grn_sig_byte(const GrnSigBook *book, int64_t key);
/* Adds to the set the bytes of all keys from least to most. */
extern void grn_sig_add(const GrnSigBook *book, int64_t least, int64_t most, GrnSigSet *set);

/*
 * The rank of a key in a fitted ordered book: 32 bits in the order of keys.  The upper 8 bits
 * follow from the key's byte, the lower bits from the key's position in the byte's range.  Two
 * keys have one rank only if a byte has a very large range, or far outside the book's range.
 */
extern uint32_t grn_sig_rank(const GrnSigBook *book, int64_t key);

/* The signature byte of an array with 64 bits: each bit of the byte is the OR of eight bits. */
static inline uint8_t
grn_sig_fold(uint64_t bits)
{
	uint8_t		byte = 0;

	for (int i = 0; i < 8; i++)
		byte |= (uint8_t) (bits >> 8 * i);
	return byte;
}

static inline void
grn_sig_add_byte(GrnSigSet *set, uint8_t byte)
{
	set->passes[byte] = true;
}

#endif							/* GRN_FILTER_H */
