/*
 * cli.c - grnnd_build as a command-line tool: reads a file of vectors and writes a file of the
 * graph.
 */
#include "builder/cli.h"

#include <stdio.h>
#include <unistd.h>

#include "builder/cli_options.h"

#define MOST_MEGABYTES (UINT64_C(1) << 30)

/* The names of the metrics stand between the two parts. */
static const char help_files[] =
"Builds a nearest-neighbor graph of vectors.\n"
"\n"
"usage: grnnd_build [options] VECTORS GRAPH.ibin\n"
"       grnnd_build --devices    lists the GPUs\n"
"\n"
GRN_HELP_FILES
"\n"
"  --metric NAME           distance: ";

static const char help_options[] =
" (default l2)\n"
"  --rows N                take the first N rows only\n"
"  --threads N             threads (default: all processors)\n"
"  --device auto|gpu|cpu   where to build (default auto)\n"
"  --gpu N[,N...]          numbers of the GPUs (default 0)\n"
"  --memory-limit MB       memory to stay under, the GPU's or the processor's workspace\n"
"                          (default: what is free); larger builds are done in parts\n"
"  --overlap X             share of rows in two parts, up to 1 (default 0.3 to 0.9)\n"
"  --degree N              largest out-degree (default 27 to 34, by dimensions)\n"
"  --r N                   pool capacity during descent\n"
"  --s N                   random neighbors at the start\n"
"  --t1 N  --t2 N          outer and inner iterations\n"
"  --rho X                 share of reverse edges taken, up to 1\n"
"  --seed N                seed of all random numbers (default 0)\n"
"  --joins N               GPU: searches among neighbors' neighbors, for better graphs (default 0)\n"
"  --fill                  fill lists up to the degree with neighbors of neighbors\n"
"  --repeat N              build N times (the times of each are printed)\n"
"  --times                 print seconds of each phase\n"
"\n"
"Exit status: 0, 1 where data or the build failed, 2 for a mistake on the command line.\n"
"grnnd_paper, beside this program, builds as the GRNND paper does, and evaluates graphs.\n";

static const char *const devices[] = {"auto", "gpu", "cpu", NULL};

int
grn_command_line(int argc, char **argv)
{
	long		processors = sysconf(_SC_NPROCESSORS_ONLN);
	GrnCli		cli = {.metric = grn_metric_named("l2"), .threads = processors > 0 ? (uint32_t) processors : 1, .repeat = 1};
	GrnGraphParams *p = &cli.params;
	uint64_t	megabytes = 0;
	const GrnOption table[] = {
		GRN_OTHER("metric", &cli.metric, grn_take_metric),
		GRN_LARGE("rows", &cli.rows, 1, GRN_MAX_NODES - 1),
		GRN_NUMBER("threads", &cli.threads, 1, 1024),
		GRN_WORD("device", &cli.choice.device, devices),
		GRN_TEXT("gpu", &cli.choice.gpu_devices),
		GRN_LARGE("memory-limit", &megabytes, 1, MOST_MEGABYTES),
		GRN_SHARE("overlap", &cli.choice.overlap),
		GRN_NUMBER("degree", &p->degree, GRN_MIN_DEGREE, GRN_MAX_DEGREE),
		GRN_NUMBER("r", &p->r, 4, GRN_MAX_DEGREE),
		GRN_NUMBER("s", &p->s, 2, GRN_MAX_DEGREE),
		GRN_NUMBER("t1", &p->t1, 1, 100),
		GRN_NUMBER("t2", &p->t2, 1, 100),
		GRN_SHARE("rho", &p->rho),
		GRN_LARGE("seed", &p->seed, 0, UINT64_MAX),
		GRN_NUMBER("joins", &cli.choice.options.joins, 0, 10),
		GRN_NUMBER("repeat", &cli.repeat, 1, 1000),
		GRN_FLAG("times", &cli.times),
		GRN_FLAG("fill", &cli.fill),
		GRN_LAST_OPTION
	};
	int			at = grn_take_options(argc, argv, table);
	char		names[256];

	if (at == GRN_OPTIONS_HELP)
	{
		printf("%s%s%s", help_files, grn_metric_names(", ", names, sizeof(names)), help_options);
		return 0;
	}
	if (at == GRN_OPTIONS_WRONG)
		return 2;
	if (argc - at != 2)
	{
		grn_cli_error("a file of vectors and a file for the graph are needed (see --help)");
		return 2;
	}
	cli.choice.options.memory_limit = cli.choice.work_limit = megabytes << 20;
	cli.vectors = argv[at];
	cli.graph = argv[at + 1];
	return grn_build_file(&cli);
}
