/*
 * main.c - the program grnnd_build: the builder process of a leader, which starts the program with
 * --serve.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "builder/gpus.h"
#include "builder/pipeline.h"
#include "space/kernels/dist.h"

static const char usage[] =
"Builds grnnd's indexes.  PostgreSQL starts this program for CREATE INDEX.\n"
"\n"
"usage: grnnd_build --devices    lists the GPUs\n";

int
main(int argc, char **argv)
{
	grn_dist_init();

	/*
	 * A single hardware queue instead of eight makes the CUDA context open 0.05 s sooner.  Rounds
	 * and copies do not take longer.
	 */
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 0);
	if (argc == 2 && strcmp(argv[1], "--serve") == 0)
		return grn_builder_process("grnnd_build", NULL);
	if (argc == 2 && strcmp(argv[1], "--devices") == 0)
		return grn_list_gpus();
	printf("%s", usage);
	return argc == 2 && strcmp(argv[1], "--help") == 0 ? 0 : 2;
}
