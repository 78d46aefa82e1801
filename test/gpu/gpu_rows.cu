/*
 * gpu_rows.cu - tests of how rows become digests (cuda/project.cu): integers, projections
 * and what share of the variance those hold.
 */
#include "gpu_check.h"

#include <cuda_fp16.h>

static void
test_integers()
{
	uint32_t	n = 1000,
				dim = 37,
				stride = 64;
	Both<float> rows((size_t) n * dim);
	Both<uint8_t> digests((size_t) n * stride, 0xee);
	Both<int>	other(1);

	for (size_t i = 0; i < rows.h.size(); i++)
		rows.h[i] = (float) rnd(1, i, 256);
	rows.push();
	must(launch_integers(device, rows.d, n, dim, stride, digests.d, other.d), "launch_integers");
	digests.pull();
	other.pull();
	bool		same = other.h[0] == 0;

	for (uint32_t i = 0; i < n; i++)
		for (uint32_t d = 0; d < stride; d++)
			same &= digests.h[(size_t) i * stride + d] ==
				(d < dim ? (uint8_t) ((int) rows.h[(size_t) i * dim + d] - 128) : 0);
	report("integers are taken as they are", same);
	for (float odd : {0.5f, -1.0f, 256.0f, (float) NAN})
	{
		rows.h[n * dim - 1] = odd;
		rows.push();
		must(launch_integers(device, rows.d, n, dim, stride, digests.d, other.d), "launch_integers");
		other.pull();
		report("a value of " + std::to_string(odd) + " is noticed", other.h[0] == 1);
	}
}

/* Projections keep distances up to one common factor. */
static void
test_project(uint32_t dim, uint32_t rank, uint32_t digest_dims, RowFormat format, float tolerance)
{
	uint32_t	n = 3001;
	uint32_t	stride = digest_dims * (format == ROWS_F16 ? 2 : 1);
	Both<float> rows((size_t) n * dim);
	Both<uint8_t> digests((size_t) n * stride),
				space(project_bytes(n, dim, digest_dims));
	std::vector<float> basis((size_t) rank * dim);

	for (size_t i = 0; i < basis.size(); i++)
		basis[i] = gaussian(2, i);
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t r = 0; r < rank; r++)
		{
			float		x = gaussian(3, (uint64_t) i * rank + r);

			for (uint32_t d = 0; d < dim; d++)
				rows.h[(size_t) i * dim + d] += x * (rank == dim ? d == r : basis[(size_t) r * dim + d]);
		}
	for (size_t i = 0; i < rows.h.size(); i++)
		rows.h[i] += 100;		/* a mean far from 0 */
	rows.push();
	Projection	projection;

	must(launch_fit(device, FitArgs{rows.d, n, dim, digest_dims, format, 7, space.d}, &projection), "launch_fit");
	must(launch_apply(device, projection, rows.d, n, format, stride, digests.d), "launch_apply");
	digests.pull();
	double		num = 0,
				den = 0,
				worst = 0;
	std::vector<double> ratio;

	for (uint32_t i = 0; i < 2000; i++)
	{
		uint32_t	a = rnd(4, i, n),
					b = rnd(5, i, n);
		double		got = 0;

		if (a == b)
			continue;
		for (uint32_t d = 0; d < digest_dims; d++)
		{
			double		x,
						y;

			if (format == ROWS_S8)
			{
				x = (int8_t) digests.h[(size_t) a * stride + d];
				y = (int8_t) digests.h[(size_t) b * stride + d];
			}
			else
			{
				x = (float) ((__half *) &digests.h[(size_t) a * stride])[d];
				y = (float) ((__half *) &digests.h[(size_t) b * stride])[d];
			}
			got += (x - y) * (x - y);
		}
		double		want = l2(&rows.h[(size_t) a * dim], &rows.h[(size_t) b * dim], dim);

		ratio.push_back(sqrt(got / want));
		num += sqrt(got * want);
		den += want;
	}
	for (double r : ratio)
		worst = std::max(worst, fabs(r / (num / den) - 1));
	char		text[64];

	snprintf(text, sizeof(text), "largest deviation %.4f", worst);
	report("projection " + std::to_string(dim) + " (rank " + std::to_string(rank) + ") to " +
		   std::to_string(digest_dims) + (format == ROWS_S8 ? " s8" : " f16") + " keeps distances",
		   worst < tolerance, text);
}

/*
 * Of directions alike each holds the same share of the variance, and those fitted to a
 * sample a little more; all of them hold all of it.
 */
static void
test_share(uint32_t dim, uint32_t digest_dims, float least, float most)
{
	uint32_t	n = 16384;
	Both<float> rows((size_t) n * dim);
	Both<uint8_t> space(project_bytes(n, dim, digest_dims));
	Projection	projection;
	float		share;

	for (size_t i = 0; i < rows.h.size(); i++)
		rows.h[i] = 100 + gaussian(6, i);
	rows.push();
	must(launch_fit(device, FitArgs{rows.d, n, dim, digest_dims, ROWS_S8, 7, space.d}, &projection), "launch_fit");
	must(fitted_share(device, projection, &share), "fitted_share");
	report("the share that " + std::to_string(digest_dims) + " of " + std::to_string(dim) + " directions hold",
		   share >= least && share <= most, std::to_string(share));
}

void
test_rows()
{
	test_integers();
	test_project(20, 20, 32, ROWS_S8, 0.06f);
	test_project(100, 100, 128, ROWS_S8, 0.03f);
	test_project(100, 100, 128, ROWS_F16, 0.004f);
	test_project(301, 40, 128, ROWS_S8, 0.04f);
	test_project(960, 60, 128, ROWS_F16, 0.01f);
	test_project(700, 100, 256, ROWS_S8, 0.03f);
	test_project(200, 200, 256, ROWS_S8, 0.03f);
	test_share(512, 128, 0.25f, 0.4f);
	test_share(512, 256, 0.5f, 0.65f);
	test_share(200, 256, 0.99f, 1.01f);
}
