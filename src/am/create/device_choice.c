/*
 * device_choice.c - chooses the device of a build with grnnd.build_device = auto.
 */
#include "am/create/create.h"

#include <unistd.h>

#include "access/xact.h"
#include "utils/timestamp.h"

/*
 * A GPU is worth its start from so many estimated seconds of the processor's graph.  The start
 * takes .14 to .29 s, in which cores make codes.  CREATE INDEX with three threads of an H200 host,
 * by a GPU and on cores: 10,000 sentences .49, .58 s, 15,000 rows of 256 dimensions .53, .61 s,
 * 30,000 patches .45, .51 s.  Half the value takes the GPU for 10,000 patches (.38, .20 s), twice
 * the value cores for 19,000 sentences (.60, .85 s).
 */
#define GPU_START_SECONDS 0.2
#define CPU_ALL 2				/* time of graph, codes, connecting and recall together, as a
								 * multiple of the graph's */

/*
 * Figures of this transaction's builds so far.  A transaction may build an index on each of many
 * partitions.  Each partition may be too small to pay for the start of a GPU, but all partitions
 * together share a single start.
 */
static struct
{
	TimestampTz start;			/* identifies the transaction */
	double		cpu_seconds;	/* processor seconds spent on graphs that a GPU might have built */
	bool		no_gpu;			/* no GPU is usable */
}			transaction;

/* Estimated seconds of the processor for a graph of `rows` rows. */
static double
cpu_seconds(const GrnndBuild *build, double rows)
{
	double		cpus = Max(sysconf(_SC_NPROCESSORS_ONLN), 1);

	return grnnd_core_seconds(build, rows) / Min(build->spec.threads, cpus);
}

/* By this rule small builds together lose at most the cost of the GPU's start. */
bool
grnnd_worth_gpu(const GrnndBuild *build, double rows)
{
	if (transaction.start != GetCurrentTransactionStartTimestamp())
	{
		memset(&transaction, 0, sizeof(transaction));
		transaction.start = GetCurrentTransactionStartTimestamp();
	}
	return !transaction.no_gpu &&
		(grnnd_builder_parked(&build->spec) ||
		 transaction.cpu_seconds + cpu_seconds(build, rows) >= GPU_START_SECONDS);
}

void
grnnd_choose_device(GrnndBuild *build, double rows)
{
	if (build->spec.device == GRN_DEVICE_AUTO && !grnnd_worth_gpu(build, rows))
		build->spec.device = GRN_DEVICE_CPU;
}

double
grnnd_graph_seconds(const GrnndBuild *build, double rows)
{
	return build->spec.device == GRN_DEVICE_GPU ? GPU_START_SECONDS : CPU_ALL * cpu_seconds(build, rows);
}

void
grnnd_note_cpu_build(const GrnndBuild *build, double rows)
{
	transaction.cpu_seconds += cpu_seconds(build, rows);
}

void
grnnd_note_no_gpu(void)
{
	transaction.no_gpu = true;
}
