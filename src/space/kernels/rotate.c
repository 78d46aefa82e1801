/*
 * rotate.c - a random rotation by signs and Hadamard transforms.
 *
 * A Hadamard transform needs a power of two.  Of n numbers the first p and then the last p are
 * transformed, p being the largest power of two up to n.  Both transforms together cover all
 * numbers.  If the two ranges hardly overlap, they mix little, so a butterfly of the two
 * halves follows.  Random signs come before each transform, and the whole sequence runs twice.
 */
#include "space/kernels/dist.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#define ROUNDS 2
#define LANES 4

typedef float Lanes __attribute__((vector_size(sizeof(float) * LANES), aligned(4), may_alias));
typedef int32_t Words __attribute__((vector_size(sizeof(int32_t) * LANES), aligned(4), may_alias));

/* Returns 64 random bits.  The bits must never change, because stored vectors depend on them. */
static uint64_t
random_bits(uint64_t i)
{
	uint64_t	z = (i + 1) * UINT64_C(0x9E3779B97F4A7C15);

	z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
	return z ^ z >> 31;
}

static void
change_signs(float *x, size_t n, int set)
{
	const		Words one = {1, 2, 4, 8};
	uint64_t	bits = 0;
	size_t		i = 0;

	for (; i + LANES <= n; i += LANES, bits >>= LANES)
	{
		Words		chosen;

		if (i % 64 == 0)
			bits = random_bits((uint64_t) set << 32 | i / 64);
		chosen = one & (int32_t) (bits & 0xF);
		*(Words *) (x + i) ^= (chosen == one) & INT32_MIN;
	}
	for (; i < n; i++, bits >>= 1)
	{
		uint32_t	word;

		if (i % 64 == 0)
			bits = random_bits((uint64_t) set << 32 | i / 64);
		memcpy(&word, x + i, sizeof(word));
		word ^= (uint32_t) (bits & 1) << 31;
		memcpy(x + i, &word, sizeof(word));
	}
}

/* Replaces a and b by their sums and differences, times scale. */
static void
butterfly(float *a, float *b, size_t n, float scale)
{
	size_t		i = 0;

	for (; i + LANES <= n; i += LANES)
	{
		Lanes		x = *(const Lanes *) (a + i);
		Lanes		y = *(const Lanes *) (b + i);

		*(Lanes *) (a + i) = (x + y) * scale;
		*(Lanes *) (b + i) = (x - y) * scale;
	}
	for (; i < n; i++)
	{
		float		x = a[i];

		a[i] = (x + b[i]) * scale;
		b[i] = (x - b[i]) * scale;
	}
}

/* Does the last two steps of a transform.  The partners of these steps are in the same vector. */
static void
butterflies_of_lanes(float *x, size_t n, float scale)
{
	const		Lanes second = {1, 1, -1, -1};
	const		Lanes other = {1, -1, 1, -1};

	for (size_t i = 0; i < n; i += LANES)
	{
		Lanes		a = *(const Lanes *) (x + i);
		Lanes		b = (Lanes) {a[2], a[3], a[0], a[1]} + a * second;

		*(Lanes *) (x + i) = ((Lanes) {b[1], b[0], b[3], b[2]} + b * other) * scale;
	}
}

/* Transforms p numbers, a power of two.  The transform is its own inverse. */
static void
hadamard(float *x, size_t p)
{
	float		scale = 1 / sqrtf((float) p);
	size_t		half = p / 2;

	for (; half >= LANES; half /= 2)
		for (size_t i = 0; i < p; i += 2 * half)
			butterfly(x + i, x + i + half, half, 1);
	if (p >= LANES)
		butterflies_of_lanes(x, p, scale);
	else if (p == 2)
		butterfly(x, x + 1, 1, scale);
}

static size_t
power_below(size_t n)
{
	size_t		p = 1;

	while (2 * p <= n)
		p *= 2;
	return p;
}

void
grn_rotate(float *x, size_t n)
{
	size_t		p = power_below(n);

	for (int round = 0; round < ROUNDS && n > 0; round++)
	{
		change_signs(x, n, 2 * round);
		hadamard(x, p);
		if (p < n)
		{
			change_signs(x, n, 2 * round + 1);
			hadamard(x + n - p, p);
			butterfly(x, x + n / 2, n / 2, sqrtf(0.5f));
		}
	}
}

void
grn_rotate_back(float *x, size_t n)
{
	size_t		p = power_below(n);

	for (int round = ROUNDS; round-- > 0 && n > 0;)
	{
		if (p < n)
		{
			butterfly(x, x + n / 2, n / 2, sqrtf(0.5f));
			hadamard(x + n - p, p);
			change_signs(x, n, 2 * round + 1);
		}
		hadamard(x, p);
		change_signs(x, n, 2 * round);
	}
}
