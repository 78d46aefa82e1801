/*
 * checksum.c - a 64-bit checksum at the speed of memory: four products side by side.
 */
#include "graph/checksum.h"

#include <string.h>

#define FACTOR UINT64_C(0x9E3779B97F4A7C15) /* odd, so that products keep all information */

static inline uint64_t
mix(uint64_t sum, uint64_t word)
{
	sum ^= word;
	sum = (sum << 29 | sum >> 35) * FACTOR;
	return sum ^ sum >> 32;
}

static inline uint64_t
word(const uint8_t *at)
{
	uint64_t	w;

	memcpy(&w, at, sizeof(w));
	return w;
}

/*
 * The four chains are separate variables.  gcc would turn an array into vectors, and vectors
 * have no 64-bit product, so the loop would take twice as long.
 */
uint64_t
grn_checksum(const void *data, size_t bytes)
{
	const uint8_t *at = data;
	uint64_t	a = 1;
	uint64_t	b = 2;
	uint64_t	c = 3;
	uint64_t	d = 4;
	uint64_t	rest[4] = {0};
	uint64_t	sum = bytes;
	size_t		left = bytes;

	for (; left >= sizeof(rest); left -= sizeof(rest), at += sizeof(rest))
	{
		a = mix(a, word(at));
		b = mix(b, word(at + 8));
		c = mix(c, word(at + 16));
		d = mix(d, word(at + 24));
	}
	if (left > 0)
		memcpy(rest, at, left);
	sum = mix(mix(sum, a), rest[0]);
	sum = mix(mix(sum, b), rest[1]);
	sum = mix(mix(sum, c), rest[2]);
	return mix(mix(sum, d), rest[3]);
}
