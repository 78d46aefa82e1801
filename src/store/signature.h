/*
 * signature.h - the byte of a signature that represents one value of a filter column.
 *
 * A value comes as a 64-bit key.  Keys of an ordered column are in the order of its values, and so
 * are its bytes: each byte represents a range of keys.  Keys of a hashed column have no order:
 * each frequent key has its own byte, and a hash distributes the remaining keys over the remaining
 * bytes.  The column's book maps keys to bytes.  The book is fitted to a sample of the column's
 * values.  Without a book a hash distributes all keys over all bytes.
 */
#ifndef GRN_SIGNATURE_H
#define GRN_SIGNATURE_H

#include "store/filter.h"

#define GRN_SIG_CODES 254		/* bytes 1 to 254; the two others are GRN_SIG_ANY and GRN_SIG_NULL */

typedef enum GrnBookOrder		/* on disk: never renumber */
{
	GRN_BOOK_HASHED = 0,
	GRN_BOOK_ORDERED = 1,
	GRN_BOOK_RANKS = 2,			/* the book is ordered and gives ranks only, because it was fitted
								 * after signatures had been written */
	GRN_BOOK_ELEMENTS = 3		/* for arrays: keys are classes of elements without a list of rows */
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

#endif							/* GRN_SIGNATURE_H */
