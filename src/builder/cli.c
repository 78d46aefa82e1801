/*
 * cli.c - grnnd_build as a tool: vectors file in, graph file out; --evaluate.
 */
#include "builder/cli.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The metrics' names stand between the two parts. */
static const char help_files[] =
"Builds a nearest-neighbour graph of vectors, or evaluates one.\n"
"\n"
"usage: grnnd_build [options] VECTORS GRAPH.ibin\n"
"       grnnd_build --evaluate GRAPH.ibin --query FILE --truth FILE.ibin [options] VECTORS\n"
"\n"
"VECTORS and --query: .fvecs .bvecs (an int32 count before each row) or .fbin .u8bin\n"
"(int32 rows, int32 columns, then the rows).  A graph is .ibin: int32 rows, int32\n"
"columns (the degree), then each row's neighbours, nearest first, -1 after the last.\n"
"\n"
"  --metric NAME           distance: ";

static const char help_options[] =
" (default l2)\n"
"  --rows N                take the first N rows only\n"
"  --threads N             threads (default: all processors)\n"
"\n"
"build:\n"
"  --device auto|gpu|cpu   where to build (default auto)\n"
"  --gpu N[,N...]          numbers of the GPUs (default 0)\n"
"  --memory-limit MB       memory to stay under, the GPU's or the processor's workspace\n"
"                          (default: what is free); larger builds are done in parts\n"
"  --overlap X             share of rows in two parts, up to 1 (default 0.3 to 0.9)\n"
"  --degree N              largest out-degree (default 27 to 34, by dimensions)\n"
"  --r N                   pool capacity during descent\n"
"  --s N                   random neighbours at the start\n"
"  --t1 N  --t2 N          outer and inner iterations\n"
"  --rho X                 share of reverse edges taken, up to 1\n"
"  --seed N                seed of all random numbers (default 0)\n"
"  --joins N               GPU: searches among neighbours' neighbours, for better graphs (default 0)\n"
"  --mode tile|paper       GPU: whole pools pruned at once, or as the GRNND paper has it;\n"
"                          the paper's mode has other defaults (r 32, s 20, t1 4, t2 8, rho 0.6,\n"
"                          degree r), and options of its own:\n"
"  --order disordered|ascending|descending   order in which pairs of a pool are compared\n"
"  --pairs all|N           pairs a vertex and round (default all)\n"
"  --reverse slots|nearest which share rho of a pool gets reverse edges (default slots)\n"
"  --prune                 prune lists by the RNG rule in the end\n"
"  --fill                  fill lists up to the degree with neighbours of neighbours\n"
"  --repeat N              build N times (the times of each are printed)\n"
"  --times                 print seconds of each phase\n"
"\n"
"evaluate (several graphs of the same vectors, where --evaluate is given several times):\n"
"  --beam L[,L...]         beam widths (default 32,64,128)\n"
"  --queries N             the first N queries (default 3000)\n"
"\n"
"Exit status: 0, 1 where data or the build failed, 2 for a mistake on the command line.\n";

typedef enum Option
{
	OPT_WRONG = '?',			/* what getopt_long() returns of a word that is none */
	OPT_METRIC = 256, OPT_ROWS, OPT_THREADS, OPT_DEVICE, OPT_GPU, OPT_MEMORY, OPT_DEGREE,
	OPT_R, OPT_S, OPT_T1, OPT_T2, OPT_RHO, OPT_SEED, OPT_MODE, OPT_ORDER, OPT_PAIRS, OPT_REVERSE, OPT_PRUNE,
	OPT_REPEAT, OPT_TIMES, OPT_EVALUATE, OPT_QUERY, OPT_TRUTH, OPT_BEAM, OPT_QUERIES,
	OPT_FILL, OPT_OVERLAP, OPT_JOINS, OPT_HELP
} Option;

static const struct option options[] = {
	{"metric", required_argument, NULL, OPT_METRIC},
	{"rows", required_argument, NULL, OPT_ROWS},
	{"threads", required_argument, NULL, OPT_THREADS},
	{"device", required_argument, NULL, OPT_DEVICE},
	{"gpu", required_argument, NULL, OPT_GPU},
	{"memory-limit", required_argument, NULL, OPT_MEMORY},
	{"overlap", required_argument, NULL, OPT_OVERLAP},
	{"degree", required_argument, NULL, OPT_DEGREE},
	{"r", required_argument, NULL, OPT_R},
	{"s", required_argument, NULL, OPT_S},
	{"t1", required_argument, NULL, OPT_T1},
	{"t2", required_argument, NULL, OPT_T2},
	{"rho", required_argument, NULL, OPT_RHO},
	{"seed", required_argument, NULL, OPT_SEED},
	{"joins", required_argument, NULL, OPT_JOINS},
	{"mode", required_argument, NULL, OPT_MODE},
	{"order", required_argument, NULL, OPT_ORDER},
	{"pairs", required_argument, NULL, OPT_PAIRS},
	{"reverse", required_argument, NULL, OPT_REVERSE},
	{"prune", no_argument, NULL, OPT_PRUNE},
	{"repeat", required_argument, NULL, OPT_REPEAT},
	{"times", no_argument, NULL, OPT_TIMES},
	{"fill", no_argument, NULL, OPT_FILL},
	{"evaluate", required_argument, NULL, OPT_EVALUATE},
	{"query", required_argument, NULL, OPT_QUERY},
	{"truth", required_argument, NULL, OPT_TRUTH},
	{"beam", required_argument, NULL, OPT_BEAM},
	{"queries", required_argument, NULL, OPT_QUERIES},
	{"help", no_argument, NULL, OPT_HELP},
	{NULL, 0, NULL, 0}
};

void
grn_cli_error(const char *format,...)
{
	va_list		args;

	fprintf(stderr, "grnnd_build: ");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n");
}

static bool
whole_number(const char *option, const char *text, uint64_t low, uint64_t high,
			 uint64_t *out)
{
	char	   *end;

	errno = 0;
	*out = strtoull(text, &end, 10);
	if (errno == 0 && end != text && *end == '\0' && text[0] != '-' &&
		*out >= low && *out <= high)
		return true;
	grn_cli_error("--%s must be a whole number from %llu to %llu, not \"%s\"", option,
				  (unsigned long long) low, (unsigned long long) high, text);
	return false;
}

static bool
small_number(const char *option, const char *text, uint32_t low, uint32_t high,
			 uint32_t *out)
{
	uint64_t	value;

	if (!whole_number(option, text, low, high, &value))
		return false;
	*out = (uint32_t) value;
	return true;
}

/* The position of text in a NULL-ended list of words. */
static bool
word(const char *option, const char *text, const char *const *words, uint32_t *out)
{
	for (uint32_t i = 0; words[i]; i++)
		if (strcmp(text, words[i]) == 0)
		{
			*out = i;
			return true;
		}
	grn_cli_error("--%s cannot be \"%s\" (see --help)", option, text);
	return false;
}

static bool
beams(const char *text, GrnCli *cli)
{
	const char *at = text;

	cli->nbeams = 0;
	for (;;)
	{
		char	   *end;
		long		value = strtol(at, &end, 10);

		if (end == at || value < 10 || value > 65536 || (*end != ',' && *end != '\0') ||
			cli->nbeams == GRN_MAX_BEAMS)
		{
			grn_cli_error("--beam must be up to %d numbers of 10 to 65536 separated by commas, not \"%s\"",
						  GRN_MAX_BEAMS, text);
			return false;
		}
		cli->beams[cli->nbeams++] = (uint32_t) value;
		if (*end == '\0')
			return true;
		at = end + 1;
	}
}

static bool
take_option(Option option, const char *arg, GrnCli *cli)
{
	static const char *const devices[] = {"auto", "gpu", "cpu", NULL};
	static const char *const modes[] = {"tile", "paper", NULL};
	static const char *const orders[] = {"disordered", "ascending", "descending", NULL};
	static const char *const reverses[] = {"slots", "nearest", NULL};
	GrnGraphParams *p = &cli->params;
	uint64_t	big;
	uint32_t	choice;
	char	   *end;

	switch (option)
	{
		case OPT_METRIC:
			cli->metric = grn_metric_named(arg);
			if (cli->metric == NULL)
			{
				grn_cli_error("--metric cannot be \"%s\" (see --help)", arg);
				return false;
			}
			return true;
		case OPT_ROWS:
			if (!whole_number("rows", arg, 1, GRN_MAX_NODES - 1, &big))
				return false;
			cli->rows = (size_t) big;
			return true;
		case OPT_THREADS:
			return small_number("threads", arg, 1, 1024, &cli->threads);
		case OPT_DEVICE:
			return word("device", arg, devices, &cli->choice.device);
		case OPT_GPU:
			cli->choice.gpu_devices = arg;
			return true;
		case OPT_MEMORY:
			if (!whole_number("memory-limit", arg, 1, UINT64_C(1) << 30, &big))
				return false;
			cli->choice.options.memory_limit = cli->choice.work_limit = big << 20;
			return true;
		case OPT_OVERLAP:
			cli->choice.overlap = strtof(arg, &end);
			if (end != arg && *end == '\0' && cli->choice.overlap > 0 && cli->choice.overlap <= 1)
				return true;
			grn_cli_error("--overlap must be over 0 and at most 1, not \"%s\"", arg);
			return false;
		case OPT_DEGREE:
			return small_number("degree", arg, GRN_MIN_DEGREE, GRN_MAX_DEGREE, &p->degree);
		case OPT_R:
			return small_number("r", arg, 4, GRN_MAX_DEGREE, &p->r);
		case OPT_S:
			return small_number("s", arg, 2, GRN_MAX_DEGREE, &p->s);
		case OPT_T1:
			return small_number("t1", arg, 1, 100, &p->t1);
		case OPT_T2:
			return small_number("t2", arg, 1, 100, &p->t2);
		case OPT_RHO:
			p->rho = strtof(arg, &end);
			if (end != arg && *end == '\0' && p->rho > 0 && p->rho <= 1)
				return true;
			grn_cli_error("--rho must be over 0 and at most 1, not \"%s\"", arg);
			return false;
		case OPT_SEED:
			return whole_number("seed", arg, 0, UINT64_MAX, &p->seed);
		case OPT_JOINS:
			return small_number("joins", arg, 0, 10, &cli->choice.options.joins);
		case OPT_MODE:
			if (!word("mode", arg, modes, &choice))
				return false;
			cli->choice.options.mode = (GrnGpuMode) choice;
			return true;
		case OPT_ORDER:
			if (!word("order", arg, orders, &choice))
				return false;
			cli->choice.options.order = (GrnPairOrder) choice;
			cli->of_paper = "order";
			return true;
		case OPT_PAIRS:
			cli->of_paper = "pairs";
			cli->choice.options.pairs = 0;
			return strcmp(arg, "all") == 0 ||
				small_number("pairs", arg, 1, 100000, &cli->choice.options.pairs);
		case OPT_REVERSE:
			if (!word("reverse", arg, reverses, &choice))
				return false;
			cli->choice.options.reverse = (GrnReverse) choice;
			cli->of_paper = "reverse";
			return true;
		case OPT_PRUNE:
			cli->choice.options.prune = true;
			cli->of_paper = "prune";
			return true;
		case OPT_REPEAT:
			return small_number("repeat", arg, 1, 1000, &cli->repeat);
		case OPT_TIMES:
			cli->times = true;
			return true;
		case OPT_FILL:
			cli->fill = true;
			return true;
		case OPT_EVALUATE:
			if (cli->ngraphs == GRN_MAX_GRAPHS)
			{
				grn_cli_error("--evaluate can be given %d times at most", GRN_MAX_GRAPHS);
				return false;
			}
			cli->evaluate[cli->ngraphs++] = arg;
			return true;
		case OPT_QUERY:
			cli->query = arg;
			return true;
		case OPT_TRUTH:
			cli->truth = arg;
			return true;
		case OPT_BEAM:
			return beams(arg, cli);
		case OPT_QUERIES:
			return small_number("queries", arg, 1, 100000000, &cli->queries);
		case OPT_WRONG:
		case OPT_HELP:
			break;
	}
	fprintf(stderr, "Try \"grnnd_build --help\".\n");
	return false;
}

/* The paper's mode is for GPUs, and some options are for that mode. */
static bool
mode_fits(GrnCli *cli)
{
	bool		paper = cli->choice.options.mode == GRN_GPU_PAPER;

	if (cli->of_paper && !paper)
		grn_cli_error("--%s is for --mode paper", cli->of_paper);
	else if (paper && cli->choice.device == GRN_DEVICE_CPU)
		grn_cli_error("--mode paper is for a GPU");
	else if (paper && cli->choice.options.joins > 0)
		grn_cli_error("--joins is not for --mode paper");
	else
	{
		/* cores would build another graph */
		if (paper)
			cli->choice.device = GRN_DEVICE_GPU;
		return true;
	}
	return false;
}

int
grn_command_line(int argc, char **argv)
{
	GrnCli		cli = {0};
	int			option;
	long		processors = sysconf(_SC_NPROCESSORS_ONLN);
	char		names[256];

	cli.metric = grn_metric_named("l2");
	cli.threads = processors > 0 ? (uint32_t) processors : 1;
	cli.repeat = 1;
	cli.queries = 3000;
	cli.beams[0] = 32;
	cli.beams[1] = 64;
	cli.beams[2] = 128;
	cli.nbeams = 3;
	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1)
	{
		if (option == OPT_HELP || option == 'h')
		{
			printf("%s%s%s", help_files, grn_metric_names(", ", names, sizeof(names)), help_options);
			return 0;
		}
		if (!take_option((Option) option, optarg, &cli))
			return 2;
	}
	if (cli.ngraphs > 0)
	{
		if (!cli.query || !cli.truth)
		{
			grn_cli_error("--evaluate needs --query and --truth");
			return 2;
		}
		if (argc - optind != 1)
		{
			grn_cli_error("--evaluate needs the file of vectors, and nothing else");
			return 2;
		}
		cli.vectors = argv[optind];
		return grn_evaluate(&cli);
	}
	if (!mode_fits(&cli))
		return 2;
	if (argc - optind != 2)
	{
		grn_cli_error("a file of vectors and a file for the graph are needed (see --help)");
		return 2;
	}
	cli.vectors = argv[optind];
	cli.graph = argv[optind + 1];
	return grn_build_file(&cli);
}
