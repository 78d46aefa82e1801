/*
 * main.c - grnnd_paper: builds the graph of a file of vectors, by the GRNND paper's algorithm on a
 * GPU or as CREATE INDEX builds graphs, and evaluates graphs that any program has built.  The
 * program serves measurements (test/bench/graph).  Indexes do not use this program.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda/paper/paper.h"
#include "space/kernels/dist.h"
#include "paper/evaluate.h"
#include "paper/index_build.h"
#include "paper/options.h"

#define MOST_MEGABYTES (UINT64_C(1) << 30)

/* The help text has two parts because main() prints the names of the metrics between them. */
static const char help_files[] =
"Builds a nearest-neighbor graph of vectors, or evaluates graphs.\n"
"\n"
"usage: grnnd_paper [options] VECTORS GRAPH.ibin           as the GRNND paper does, on a GPU\n"
"       grnnd_paper --index [options] VECTORS GRAPH.ibin   as CREATE INDEX does\n"
"       grnnd_paper --evaluate GRAPH.ibin --query FILE --truth FILE.ibin [options] VECTORS\n"
"\n"
GRN_HELP_FILES
"\n"
"  --rows N                take the first N rows only\n"
"  --degree N              longest list (default r; with --index 27 to 34, by dimensions)\n"
"  --threads N             threads (default: all processors)\n"
"\n"
"build as the paper does (the paper's symbols; rows are compared as they are):\n"
"  --r N  --s N            capacity of a pool (default 32), random neighbors (20)\n"
"  --t1 N  --t2 N          outer (4) and inner iterations (8)\n"
"  --rho X                 share of a pool that gets reverse edges (0.6)\n"
"  --order disordered|ascending|descending   in which the pairs of a pool are compared\n"
"  --pairs N               pairs a vertex and round (all)\n"
"  --reverse slots|nearest which share rho of a pool gets reverse edges (slots)\n"
"  --prune                 prune lists by the RNG rule in the end\n"
"\n"
"build with --index:\n"
"  --device auto|gpu|cpu   where to build (default auto)\n"
"  --gpu N[,N...]          numbers of the GPUs (default 0)\n"
"  --memory-limit MB       memory to stay under, the GPU's or the processor's workspace\n"
"                          (default: what is free); larger builds are done in parts\n"
"  --overlap X             share of rows in two parts, up to 1 (default 0.3 to 0.9)\n"
"  --fill                  fill lists up to the degree with neighbors of neighbors\n"
"  --repeat N              build N times (the times of each are printed)\n"
"  --times                 print seconds of each phase\n"
"  --metric NAME           distance: ";

static const char help_options[] =
" (default l2)\n"
"\n"
"evaluate (--evaluate may be given for each of several graphs of the same vectors; also --metric):\n"
"  --beam L[,L...]         beam widths (default 32,64,128)\n"
"  --queries N             the first N queries (default 3000)\n"
"\n"
"Exit status: 0, 1 where data or the build failed, 2 for a mistake on the command line.\n";

static const char *const devices[] = {"auto", "gpu", "cpu", NULL};
static const char *const orders[] = {"disordered", "ascending", "descending", NULL};
static const char *const reverses[] = {"slots", "nearest", NULL};

static bool
take_beams(void *target, const char *text)
{
	GrnEvaluation *e = target;
	const char *at = text;

	e->nbeams = 0;
	for (;;)
	{
		char	   *end;
		long		value = strtol(at, &end, 10);

		if (end == at || value < 10 || value > 65536 || (*end != ',' && *end != '\0') ||
			e->nbeams == GRN_MAX_BEAMS)
		{
			grn_cli_error("--beam must be up to %d numbers of 10 to 65536 separated by commas, not \"%s\"",
						  GRN_MAX_BEAMS, text);
			return false;
		}
		e->beams[e->nbeams++] = (uint32_t) value;
		if (*end == '\0')
			return true;
		at = end + 1;
	}
}

static bool
take_graph(void *target, const char *path)
{
	GrnEvaluation *e = target;

	if (e->ngraphs == GRN_MAX_GRAPHS)
	{
		grn_cli_error("--evaluate can be given %d times at most", GRN_MAX_GRAPHS);
		return false;
	}
	e->graphs[e->ngraphs++] = path;
	return true;
}

static bool
build_as_paper(const char *vectors, const char *path, size_t rows, GrnPaperOptions * options)
{
	GrnGraph	graph = {0};
	GrnVectors	v;
	double		seconds;
	char		error[256];
	bool		fine = false;

	if (!grn_read_vectors(vectors, grn_metric_named("l2"), rows, &v))
		return false;
	grn_paper_defaults(&options->params);
	graph.n = (uint32_t) v.n;
	graph.degree = options->params.degree;
	graph.ids = malloc(v.n * graph.degree * sizeof(uint32_t));
	graph.counts = malloc(v.n);
	if (!graph.ids || !graph.counts)
		grn_cli_error("out of memory for the graph of %zu rows", v.n);
	else if (!grn_paper_build(0, v.base, graph.n, v.dim, v.stride, options, graph.ids, graph.counts,
							  &seconds, error, sizeof(error)))
		grn_cli_error("%s", error);
	else if (grn_write_graph(path, &graph))
	{
		const GrnGraphParams *p = &options->params;

		printf("%s: %u rows of %u dimensions, degree %u r %u s %u t1 %u t2 %u rho %g, kernels %.6f s\n",
			   vectors, graph.n, v.dim, p->degree, p->r, p->s, p->t1, p->t2, p->rho, seconds);
		fine = true;
	}
	free(graph.ids);
	free(graph.counts);
	grn_free_vectors(&v);
	return fine;
}

int
main(int argc, char **argv)
{
	long		processors = sysconf(_SC_NPROCESSORS_ONLN);
	GrnEvaluation e = {.metric = grn_metric_named("l2"), .threads = processors > 0 ? (uint32_t) processors : 1,
		.beams = {32, 64, 128}, .nbeams = 3, .queries = 3000};
	GrnIndexBuild index = {.repeat = 1};
	GrnPaperOptions options = {0};
	GrnGraphParams *p = &options.params;
	uint32_t	order = 0,
				reverse = 0;
	uint64_t	megabytes = 0;
	bool		as_index = false;
	const GrnOption table[] = {
		GRN_FLAG("index", &as_index),
		GRN_LARGE("rows", &index.rows, 1, GRN_MAX_NODES - 1),
		GRN_NUMBER("r", &p->r, 4, GRN_PAPER_MOST_R),
		GRN_NUMBER("s", &p->s, 2, GRN_MAX_DEGREE),
		GRN_NUMBER("t1", &p->t1, 1, 100),
		GRN_NUMBER("t2", &p->t2, 1, 100),
		GRN_SHARE("rho", &p->rho),
		GRN_NUMBER("degree", &p->degree, GRN_MIN_DEGREE, GRN_MAX_DEGREE),
		GRN_WORD("order", &order, orders),
		GRN_NUMBER("pairs", &options.pairs, 1, 100000),
		GRN_WORD("reverse", &reverse, reverses),
		GRN_FLAG("prune", &options.prune),
		GRN_WORD("device", &index.choice.device, devices),
		GRN_TEXT("gpu", &index.choice.gpu_devices),
		GRN_LARGE("memory-limit", &megabytes, 1, MOST_MEGABYTES),
		GRN_SHARE("overlap", &index.choice.overlap),
		GRN_FLAG("fill", &index.fill),
		GRN_NUMBER("repeat", &index.repeat, 1, 1000),
		GRN_FLAG("times", &index.times),
		GRN_OTHER("evaluate", &e, take_graph),
		GRN_TEXT("query", &e.query),
		GRN_TEXT("truth", &e.truth),
		GRN_OTHER("metric", &e.metric, grn_take_metric),
		GRN_NUMBER("threads", &e.threads, 1, 1024),
		GRN_OTHER("beam", &e, take_beams),
		GRN_NUMBER("queries", &e.queries, 1, 100000000),
		GRN_LAST_OPTION
	};
	int			at = grn_take_options(argc, argv, table);
	char		names[256];

	grn_dist_init();
	if (at == GRN_OPTIONS_HELP)
	{
		printf("%s%s%s", help_files, grn_metric_names(", ", names, sizeof(names)), help_options);
		return 0;
	}
	if (at == GRN_OPTIONS_WRONG)
		return 2;
	if (e.ngraphs > 0 && (!e.query || !e.truth || argc - at != 1))
	{
		grn_cli_error("--evaluate needs --query, --truth and the file of vectors, and nothing else");
		return 2;
	}
	if (e.ngraphs == 0 && argc - at != 2)
	{
		grn_cli_error("a file of vectors and a file for the graph are needed (see --help)");
		return 2;
	}
	if (e.ngraphs > 0)
	{
		e.vectors = argv[at];
		e.rows = index.rows;
		return grn_evaluate(&e) ? 0 : 1;
	}
	if (as_index)
	{
		/* as in src/builder/main.c, so that times are those of index builds */
		setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 0);
		index.vectors = argv[at];
		index.graph = argv[at + 1];
		index.metric = e.metric;
		index.threads = e.threads;
		index.degree = p->degree;
		index.choice.options.memory_limit = index.choice.work_limit = megabytes << 20;
		return grn_build_as_index(&index) ? 0 : 1;
	}
	options.order = (GrnPairOrder) order;
	options.reverse = (GrnReverse) reverse;
	return build_as_paper(argv[at], argv[at + 1], index.rows, &options) ? 0 : 1;
}
