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

#endif							/* GRN_FILTER_H */
