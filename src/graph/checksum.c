/*
 * checksum.c - a 64-bit checksum at the speed of memory: four products side by side.
 */
#include "graph/checksum.h"

#include <string.h>

#define LANES 4
#define FACTOR UINT64_C(0x9E3779B97F4A7C15) /* odd, so that a product loses nothing */

static inline uint64_t
mix(uint64_t sum, uint64_t word)
{
	sum ^= word;
	sum = (sum << 29 | sum >> 35) * FACTOR;
	return sum ^ sum >> 32;
}

uint64_t
grn_checksum(const void *data, size_t bytes)
{
	const uint8_t *at = data;
	uint64_t	lanes[LANES] = {1, 2, 3, 4};
	uint64_t	words[LANES];
	uint64_t	sum = bytes;
	size_t		left = bytes;

	for (; left >= sizeof(words); left -= sizeof(words), at += sizeof(words))
	{
		memcpy(words, at, sizeof(words));
		for (int i = 0; i < LANES; i++)
			lanes[i] = mix(lanes[i], words[i]);
	}
	memset(words, 0, sizeof(words));
	if (left > 0)
		memcpy(words, at, left);
	for (int i = 0; i < LANES; i++)
		sum = mix(mix(sum, lanes[i]), words[i]);
	return sum;
}
