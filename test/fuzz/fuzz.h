/*
 * fuzz.h - what the fuzzers share: the input, taken piece by piece.  Where it has ended it
 * goes on with zeros, so that short inputs mean something too.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct Input
{
	const uint8_t *data;
	size_t		size;
} Input;

static inline void
take_bytes(Input *in, void *out, size_t n)
{
	size_t		have = n < in->size ? n : in->size;

	memset(out, 0, n);
	if (have > 0)
		memcpy(out, in->data, have);
	in->data += have;
	in->size -= have;
}

static inline uint32_t
take_number(Input *in, uint32_t least, uint32_t most)
{
	uint32_t	x;

	take_bytes(in, &x, 2);
	x &= 0xFFFF;
	return least + x % (most - least + 1);
}

/* A small number, or an odd one. */
static inline float
take_float(Input *in)
{
	static const float odd[] = {0, -0.0f, 1, -1, 1e-30f, 1e-38f, 1e30f, 3e38f, -3e38f, INFINITY, -INFINITY, NAN};
	uint8_t		kind;
	float		x;

	take_bytes(in, &kind, 1);
	if (kind < sizeof(odd) / sizeof(odd[0]))
		return odd[kind];
	if (kind == 255)
	{
		take_bytes(in, &x, sizeof(x));
		return x;
	}
	return (float) (kind - 128) / 16;
}

/* What fails here is a fault of the code under test. */
#define MUST(cond) \
	do { \
		if (!(cond)) \
		{ \
			fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #cond); \
			abort(); \
		} \
	} while (0)

#endif							/* FUZZ_H */
