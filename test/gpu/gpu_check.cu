/*
 * gpu_check.cu - runs the tests of the kernels (gpu_rows.cu, gpu_descent.cu, gpu_lists.cu,
 * gpu_paper.cu:
 * each against plain C on the host), then those of whole builds (gpu_builds.cu).  Prints
 * "ok NAME" or "not ok NAME" lines; exits 1 when one failed, 77 with a reason when there
 * is no usable GPU.
 *
 *   gpu_check [rows|descent|lists|paper|digested|builds|order|short]...   all without any
 */
#include "gpu_check.h"

Device		device;
static int	failures;

void
report(const std::string &name, bool good, const std::string &why)
{
	printf("%s %s%s%s\n", good ? "ok" : "not ok", name.c_str(), why.empty() ? "" : " # ",
		   why.c_str());
	fflush(stdout);
	failures += !good;
}

void
must(cudaError_t rc, const char *what)
{
	if (rc != cudaSuccess)
	{
		printf("not ok %s # %s\n", what, cudaGetErrorString(rc));
		exit(1);
	}
}

int
main(int argc, char **argv)
{
	GrnGpuError err = {};
	GrnGpu	   *gpu;
	GrnGpuStatus status = grn_gpu_open(0, &gpu, &err);

	if (status == GRN_GPU_ABSENT || status == GRN_GPU_TOO_OLD)
	{
		printf("# the GPU tests did not run: %s\n", err.text);
		return 77;
	}
	if (status != GRN_GPU_OK)
	{
		printf("not ok open # %s\n", err.text);
		return 1;
	}
	must(cudaDeviceGetAttribute(&device.sms, cudaDevAttrMultiProcessorCount, 0), "device");
	must(cudaStreamCreate(&device.stream), "stream");
	must(cudaEventCreate(&device.fork), "event");
	for (int i = 0; i < NCLASSES; i++)
	{
		must(cudaStreamCreate(&device.side[i]), "stream");
		must(cudaEventCreate(&device.join[i]), "event");
	}
	auto		wanted = [&](const char *name) {
		bool		named = argc == 1;

		for (int i = 1; i < argc; i++)
			named |= strcmp(argv[i], name) == 0;
		return named;
	};

	if (wanted("rows"))
		test_rows();
	if (wanted("descent"))
		test_descent();
	if (wanted("lists"))
		test_lists();
	if (wanted("paper"))
	{
		test_paper();
		test_paper_builds();
	}
	if (wanted("digested"))
		test_digested_builds(gpu);
	if (wanted("builds"))
		test_builds(gpu);
	if (wanted("order"))
		test_orders(gpu);
	if (wanted("short"))
		test_short_rows(gpu);
	grn_gpu_close(gpu);
	printf("# %d failed\n", failures);
	return failures != 0;
}
