/*
 * device.cu - times the GPU build through its C interface (cuda/gpu.h), which no file or
 * server stands in the way of.
 *
 *   device [OPTION VALUE]... VECTORS.fbin [GRAPH.ibin]
 *   device [OPTION VALUE]... --jobs FILE VECTORS.fbin
 *
 * Each line of FILE is a build of its own, "NAME GRAPH.ibin [OPTION VALUE]..."; "-" writes no
 * graph.
 *
 * --from device|pinned|pageable says where the rows are: on the device, and the graph
 * stays there; or in host memory, and the graph goes back to it.  With --metric ip rows are
 * taken to their places in the graph's space (src/space/space.h) first, untimed.  Prints one line
 * of JSON: seconds of the fastest of --repeat builds after a first one, workspace
 * allocated within that time; what CUDA events say of the same build's kernels; and the
 * device memory taken beyond the rows, as the driver reports it during a build.  --repeat 0
 * takes all of it from the first build.
 */
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "cuda/gpu.h"
#include "space/space.h"

enum Source { DEVICE, PINNED, PAGEABLE };

struct Job
{
	GrnGraphParams params = {};
	GrnGpuOptions options = {};
	Source		source = DEVICE;
	bool		places = false;
	uint32_t	rows = UINT32_MAX;
	int			repeat = 2;
	std::string jobs;
	std::string vectors;
	std::string graph;			/* empty: is not written */
	std::string name;
};

static void
stop(const char *name, const char *what)
{
	fprintf(stderr, "%s: %s\n", name, what);
	exit(1);
}

static int
word(const char *option, const char *value, std::vector<const char *> words)
{
	for (size_t i = 0; i < words.size(); i++)
		if (strcmp(value, words[i]) == 0)
			return (int) i;
	stop(option, "no such value");
	return 0;
}

/* Takes options from argv[i] on; returns where they end. */
static int
parse(Job &job, int i, int argc, const char *const *argv)
{
	for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2)
	{
		std::string o = argv[i] + 2;
		const char *v = argv[i + 1];
		uint32_t	n = (uint32_t) atoi(v);

		if (o == "from")
			job.source = (Source) word(argv[i], v, {"device", "pinned", "pageable"});
		else if (o == "metric")
			job.places = job.options.few_directions = word(argv[i], v, {"l2", "ip"}) == 1;
		else if (o == "jobs")
			job.jobs = v;
		else if (o == "rows")
			job.rows = n;
		else if (o == "repeat")
			job.repeat = (int) n;
		else if (o == "degree")
			job.params.degree = n;
		else if (o == "r")
			job.params.r = n;
		else if (o == "s")
			job.params.s = n;
		else if (o == "t1")
			job.params.t1 = n;
		else if (o == "t2")
			job.params.t2 = n;
		else if (o == "rho")
			job.params.rho = strtof(v, nullptr);
		else if (o == "seed")
			job.params.seed = n;
		else
			stop(argv[i], "no such option");
	}
	return i;
}

static Job
parse_all(int argc, char **argv)
{
	Job			job;
	int			i = parse(job, 1, argc, argv);

	if (i != argc - 1 && i != argc - 2)
		stop("device", "usage: device [OPTION VALUE]... VECTORS.fbin [GRAPH.ibin]");
	job.vectors = argv[i];
	job.graph = i + 1 < argc ? argv[i + 1] : "";
	return job;
}

/* The jobs of a file, with the options of the command line where a line gives none. */
static std::vector<Job>
read_jobs(const Job &common)
{
	std::ifstream file(common.jobs);
	std::string line;
	std::vector<Job> jobs;

	if (!file)
		stop(common.jobs.c_str(), "cannot read");
	while (std::getline(file, line))
	{
		std::istringstream in(line);
		std::vector<std::string> words;
		std::vector<const char *> argv;

		for (std::string word; in >> word;)
			words.push_back(word);
		if (words.size() < 2)
			stop(line.c_str(), "is no job");
		for (const std::string &word : words)
			argv.push_back(word.c_str());
		jobs.push_back(common);
		jobs.back().name = words[0];
		jobs.back().graph = words[1] == "-" ? "" : words[1];
		if (parse(jobs.back(), 2, (int) argv.size(), argv.data()) != (int) argv.size())
			stop(line.c_str(), "is no job");
	}
	return jobs;
}

static void
must(GrnGpuStatus status, const GrnGpuError &err)
{
	if (status != GRN_GPU_OK)
		stop("build", err.text);
}

static void
must(cudaError_t rc)
{
	if (rc != cudaSuccess)
		stop("CUDA", cudaGetErrorString(rc));
}

/* Host memory, page-locked where the rows are to come from such. */
template <class T> static T *
host_array(size_t count, Source source)
{
	T		   *p;

	if (source == PINNED)
		must(cudaHostAlloc((void **) &p, count * sizeof(T), cudaHostAllocDefault));
	else if (!(p = (T *) calloc(count, sizeof(T))))
		stop("device", "out of memory");
	return p;
}

static size_t
used_bytes()
{
	size_t		free_bytes,
				total_bytes;

	must(cudaMemGetInfo(&free_bytes, &total_bytes));
	return total_bytes - free_bytes;
}

static bool
watch(void *ctx, uint64_t, uint64_t)
{
	size_t	   *most = (size_t *) ctx;

	*most = std::max(*most, used_bytes());
	return true;
}

struct Bench
{
	Job			job;
	GrnGpu	   *gpu;
	uint32_t	n,
				dim;
	float	   *h_rows;			/* [n][dim] */
	float	   *d_rows;			/* the same, where they are on the device */
	uint32_t   *ids;
	uint8_t    *counts;
};

/* One build; seconds of wall time.  most: NULL, or the device memory in use at its peak. */
static double
build(Bench &b, bool fetch, size_t *most, GrnGpuTimes *times)
{
	GrnGpuError err = {};
	auto		start = std::chrono::steady_clock::now();

	must(grn_gpu_begin(b.gpu, b.n, b.dim, &b.job.options, &b.job.params, &err), err);
	if (b.job.source == DEVICE)
		must(grn_gpu_device_rows(b.gpu, b.d_rows, &err), err);
	else
		must(grn_gpu_rows(b.gpu, 0, b.n, b.h_rows, b.dim, &err), err);
	must(grn_gpu_build(b.gpu, fetch ? b.ids : nullptr, fetch ? b.counts : nullptr,
					   most ? watch : nullptr, most, times, &err), err);
	must(cudaDeviceSynchronize());
	double		wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

	grn_gpu_end(b.gpu);
	return wall;
}

/* Takes rows to where inner product's graph is built; the median norm is the unit. */
static void
place_rows(Bench &b)
{
	std::vector<double> norm2(b.n);

	for (size_t i = 0; i < b.n; i++)
		norm2[i] = grn_norm2(b.h_rows + i * b.dim, b.dim);
	std::nth_element(norm2.begin(), norm2.begin() + b.n / 2, norm2.end());

	double		unit = sqrt(norm2[b.n / 2]);

	for (size_t i = 0; i < b.n; i++)
		grn_place(b.h_rows + i * b.dim, b.dim, unit, GRN_USUAL_POWER);
}

static void
read_rows(Bench &b)
{
	const char *name = b.job.vectors.c_str();
	FILE	   *f = fopen(name, "rb");
	uint32_t	head[2];

	if (!f || fread(head, 4, 2, f) != 2)
		stop(name, "cannot read");
	b.n = std::min(head[0], b.job.rows);
	b.dim = head[1];

	size_t		count = (size_t) b.n * b.dim;

	b.h_rows = host_array<float>(count, b.job.source);
	if (fread(b.h_rows, 4, count, f) != count)
		stop(name, "cut short");
	fclose(f);
	if (b.job.places && b.n > 0)
		place_rows(b);
	if (b.job.source == DEVICE)
	{
		must(cudaMalloc((void **) &b.d_rows, count * 4));
		must(cudaMemcpy(b.d_rows, b.h_rows, count * 4, cudaMemcpyHostToDevice));
	}
}

static void
write_graph(const Bench &b)
{
	const char *name = b.job.graph.c_str();
	FILE	   *f = fopen(name, "wb");
	uint32_t	head[2] = {b.n, b.job.params.degree};

	if (!f || fwrite(head, 4, 2, f) != 2)
		stop(name, "cannot write");
	for (size_t v = 0; v < b.n; v++)
	{
		uint32_t   *list = b.ids + v * head[1];

		std::fill(list + b.counts[v], list + head[1], UINT32_MAX);
		if (fwrite(list, 4, head[1], f) != head[1])
			stop(name, "cannot write");
	}
	if (fclose(f) != 0)
		stop(name, "cannot write");
}

template <class T> static void
free_array(T *p, Source source)
{
	if (source == PINNED)
		must(cudaFreeHost(p));
	else
		free(p);
}

/* Does one job and prints its line. */
static void
measure(Bench &b)
{
	GrnGpuTimes times = {},
				best = {};
	double		seconds = 1e9,
				kernels = 1e9,
				first;
	size_t		most = 0,
				before;

	grn_gpu_default_params(&b.job.params, b.dim);
	b.ids = host_array<uint32_t>((size_t) b.n * b.job.params.degree, b.job.source);
	b.counts = host_array<uint8_t>(b.n, b.job.source);

	/* the first build loads the kernels: it measures memory instead of time */
	before = used_bytes();
	first = build(b, true, &most, &best);
	for (int i = 0; i < b.job.repeat; i++)
	{
		double		wall = build(b, b.job.source != DEVICE, nullptr, &times);

		kernels = std::min(kernels, (double) times.convert + times.descent + times.finish);
		if (wall < seconds)
			seconds = wall, best = times;
	}
	if (b.job.repeat == 0)
	{
		seconds = first - best.download;
		kernels = (double) best.convert + best.descent + best.finish;
	}

	size_t		own = b.job.source == DEVICE ? 0 : (size_t) b.n * b.dim * 4;
	const GrnGraphParams &p = b.job.params;

	if (b.job.name.empty())
		printf("{");
	else
		printf("{\"name\": \"%s\", ", b.job.name.c_str());
	printf("\"rows\": %u, \"dim\": %u, \"seconds\": %.6f, \"kernels\": %.6f, \"convert\": %.6f, "
		   "\"descent\": %.6f, \"finish\": %.6f, \"upload\": %.6f, \"download\": %.6f, \"first\": %.4f, "
		   "\"device_mb\": %.1f, \"degree\": %u, \"r\": %u, \"s\": %u, \"t1\": %u, \"t2\": %u, \"rho\": %g}\n",
		   b.n, b.dim, seconds, kernels, best.convert, best.descent, best.finish, best.upload,
		   best.download, first, ((double) most - (double) before - (double) own) / 1e6, p.degree, p.r,
		   p.s, p.t1, p.t2, p.rho);
	fflush(stdout);
	if (!b.job.graph.empty())
		write_graph(b);
	free_array(b.ids, b.job.source);
	free_array(b.counts, b.job.source);
}

int
main(int argc, char **argv)
{
	Bench		b = {};
	GrnGpuError err = {};

	b.job = parse_all(argc, argv);

	std::vector<Job> jobs = b.job.jobs.empty() ? std::vector<Job>{b.job} : read_jobs(b.job);

	must(grn_gpu_open(0, &b.gpu, &err), err);
	read_rows(b);
	for (const Job &job : jobs)
	{
		b.job = job;
		measure(b);
	}
	grn_gpu_close(b.gpu);
	return 0;
}
