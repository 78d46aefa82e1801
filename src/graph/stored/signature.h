/*
 * signature.h - the byte of a signature that stands for one value of a filter column.
 *
 * A value comes as a key of 64 bits.  Keys of an ordered column are in the order of its values,
 * and its bytes are too: each stands for a range of keys.  Those of a hashed column have no
 * order: frequent keys have a byte of their own, the others share what is left by a hash.
 * The column's book says which key has which byte.  It is fitted to a sample
 * of the column's values.  Without a book all bytes are shared by a hash.
 */
#ifndef GRN_SIGNATURE_H
#define GRN_SIGNATURE_H

#include "graph/stored/filter.h"

#define GRN_SIG_CODES 254		/* 1 to 254; the other two are GRN_SIG_ANY and GRN_SIG_NULL */

typedef enum GrnBookOrder		/* on disk: never renumber */
{
	GRN_BOOK_HASHED = 0,
	GRN_BOOK_ORDERED = 1,
	GRN_BOOK_RANKS = 2,			/* keys have an order, but only ranks are by the book: it was
								 * fitted when there were signatures already */
	GRN_BOOK_ELEMENTS = 3		/* of arrays: keys are classes of elements that have no list of
								 * rows */
} GrnBookOrder;

/* On disk. */
typedef struct GrnSigBook
{
	uint32_t	count;			/* of keys; 0: not fitted */
	uint32_t	ordered;		/* GrnBookOrder */
	/* ascending; ordered: the greatest key of each byte from 1 on, and the last takes all above */
	int64_t		keys[GRN_SIG_CODES];
} GrnSigBook;

_Static_assert(sizeof(GrnSigBook) == 2040, "GrnSigBook is on disk");

/* Fits a book to keys [n], which are sorted. */
extern void grn_sig_fit(GrnSigBook *book, bool ordered, int64_t *keys, uint32_t n);
/* NULL if the book is sound, else what is wrong with it (a static string). */
extern const char *grn_sig_check(const GrnSigBook *book);
/* Compares two keys, for qsort(). */
extern int	grn_compare_keys(const void *a, const void *b);
/* The first of keys [n], ascending, that is not less than key; n if all are. */
extern uint32_t grn_find_key(const int64_t *keys, uint32_t n, int64_t key);
/* The byte of a key. */
extern uint8_t grn_sig_byte(const GrnSigBook *book, int64_t key);
/* Adds the bytes that keys from least to most may have. */
extern void grn_sig_add(const GrnSigBook *book, int64_t least, int64_t most, GrnSigSet *set);

/*
 * The rank of a key by an ordered book that is fitted: 32 bits that are in the order of the keys.
 * The upper 8 follow from its byte, the others from where it lies among the byte's keys.  So
 * different keys share a rank only where a byte stands for very many, or far outside the book.
 */
extern uint32_t grn_sig_rank(const GrnSigBook *book, int64_t key);

/* The signature of an array's 64 bits: each of its bits stands for eight of them. */
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
