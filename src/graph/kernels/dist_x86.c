/*
 * dist_x86.c - the choice of a version of the kernels on x86-64.
 */
#include "graph/kernels/dist_impl.h"

#if defined(__x86_64__)

#include "graph/kernels/dist_x86.h"

#include <cpuid.h>

/* clang's __builtin_cpu_supports() does not know the name "f16c". */
static bool
has_f16c(void)
{
	unsigned	a,
				b,
				c,
				d;

	return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

int
grn_dist_x86(const GrnDistTable **out, int max)
{
	int			n = 0;

	__builtin_cpu_init();
	if (n < max && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
		has_f16c())
	{
		out[n++] = &grn_dist_avx2;
		if (n < max && __builtin_cpu_supports("avx512f") &&
			__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
			__builtin_cpu_supports("avx512dq"))
		{
			out[n++] = &grn_dist_avx512;
			if (n < max && __builtin_cpu_supports("avx512vnni"))
				out[n++] = &grn_dist_vnni;
		}
	}
	return n;
}

#else

int
grn_dist_x86(const GrnDistTable **out, int max)
{
	(void) out;
	(void) max;
	return 0;
}

#endif
