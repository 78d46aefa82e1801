/*
 * space.c - the norm unit of scaled rows.
 */
#include "graph/space.h"

#include <float.h>

#define OCTAVE_ONE 128			/* octave of norms from 1/2 to 1 */

int
grn_octave(double norm2)
{
	double		norm = sqrt(norm2);
	int			exponent;

	if (!(norm > GRN_LEAST_NORM && norm2 <= FLT_MAX))
		return GRN_NO_OCTAVE;
	(void) frexp(norm, &exponent);
	return OCTAVE_ONE + exponent;
}

double
grn_norm_unit(const uint32_t *counts)
{
	uint64_t	rows = 0;
	uint64_t	below = 0;
	int			i;

	for (i = 0; i < GRN_OCTAVES; i++)
		rows += counts[i];
	if (rows == 0)
		return 1;
	for (i = 0; 2 * (below + counts[i]) < rows; i++)
		below += counts[i];
	return ldexp(1, i - OCTAVE_ONE);
}
