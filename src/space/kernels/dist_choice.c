/*
 * dist_choice.c - the choice of the fastest version of the kernels for the processor.
 */
#include "space/kernels/dist_impl.h"

#include <stdlib.h>
#include <string.h>

#include "space/kernels/dist.h"

#if defined(__x86_64__)
#include <cpuid.h>

#include "space/kernels/dist_x86.h"
#endif

#define MAX_VERSIONS 4

#if defined(__x86_64__)

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

#endif

int
grn_dist_versions(const GrnDistTable **out, int max)
{
	int			n = 0;

	if (n < max)
		out[n++] = &grn_dist_plain;
#if defined(__x86_64__)
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
#elif defined(__aarch64__)
	if (n < max)
		out[n++] = &grn_dist_neon;
#endif
	return n;
}

void
grn_dist_init(void)
{
	static bool done = false;
	const GrnDistTable *versions[MAX_VERSIONS];
	const char *wish;
	int			n;

	if (done)
		return;
	n = grn_dist_versions(versions, MAX_VERSIONS);
	grn_dist = versions[n - 1];
	wish = getenv("GRN_SIMD");
	if (wish != NULL)
		for (int i = 0; i < n; i++)
			if (strcmp(versions[i]->name, wish) == 0)
				grn_dist = versions[i];
	grn_pairs = grn_pairs_of(grn_dist);
	done = true;
}
