/*
 * filter.h - conditions on further columns, as a search of the graph tests them.
 *
 * A signature is a byte for each filter column, beside every code.  It says which rows cannot
 * pass: a row whose signature is not in the set of its column need not be read.  What passes is
 * known from the values beside a record's heap TIDs.
 */
#ifndef GRN_FILTER_H
#define GRN_FILTER_H

#include "graph/stored/record.h"

#define GRN_SIG_ANY 0			/* of rows that differ: every filter lets it pass */
#define GRN_SIG_NULL 255		/* of NULL */

/* Signatures of one byte that may pass. */
typedef struct GrnSigSet
{
	uint32_t	at;				/* the byte of a signature that it is for */
	bool		passes[256];	/* may a row with this byte pass? */
} GrnSigSet;

typedef struct GrnFilter
{
	const GrnSigSet *sets;		/* [nsets]; all of them must let a signature pass */
	uint32_t	nsets;
	/* Does the row with these values [attr_bytes] pass?  Called under a page's lock. */
	bool		(*passes) (const struct GrnFilter *self, const uint8_t *attrs);
} GrnFilter;

/* May a row with this signature pass? */
static inline bool
grn_sig_passes(const GrnFilter *f, const uint8_t *sig)
{
	bool		pass = true;

	for (uint32_t i = 0; i < f->nsets; i++)
		pass &= f->sets[i].passes[sig[f->sets[i].at]];
	return pass;
}

/* The same of count signatures, which lie `bytes` apart.  One set after the other. */
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
