/*
 * device_choice.c - which device builds an index where grnnd.build_device = auto.
 */
#include "am/create/device_choice.h"

#include <unistd.h>

#include "access/xact.h"
#include "utils/timestamp.h"

/*
 * What grnnd.build_device = auto weighs against each other: the start of a GPU, and
 * the processor's time for a graph.  Measured: see README, "Which device".
 */
#define GPU_START_SECONDS 0.35
#define CPU_SECONDS_PER_ROW 40e-6
#define CPU_SECONDS_PER_FLOAT 0.03e-6
#define CPU_ALL 2				/* times the graph's, with codes, connecting and recall */
#define CPU_SECONDS_PER_DIM_SQUARED 0.5e-6	/* once, on one core: the projection */

/*
 * What this transaction's builds have been so far, for those of many partitions: each
 * may be too small for the start of a GPU, which serves them all.
 */
static struct
{
	TimestampTz start;			/* names the transaction */
	double		cpu_seconds;	/* spent where a GPU might have helped */
	bool		no_gpu;			/* there is none */
}			transaction;

/* Seconds that the processor takes for a graph of so many rows. */
static double
cpu_seconds(const GrnndBuild *build, double rows)
{
	double		cpus = Max(sysconf(_SC_NPROCESSORS_ONLN), 1);

	return CPU_SECONDS_PER_DIM_SQUARED * build->dim * build->dim +
		rows * (CPU_SECONDS_PER_ROW + CPU_SECONDS_PER_FLOAT * build->dim) /
		Min(build->spec.threads, cpus);
}

/* Together, small builds lose by this rule at most what the GPU's start costs. */
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
