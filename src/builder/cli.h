/*
 * cli.h - the settings that the files of grnnd_build's command line share.
 */
#ifndef GRN_CLI_H
#define GRN_CLI_H

#include "builder/cli_files.h"
#include "builder/gpus.h"

typedef struct GrnCli
{
	const char *vectors;
	const char *graph;
	const GrnMetricInfo *metric;
	uint64_t	rows;			/* 0: all rows of the file */
	uint32_t	threads;
	GrnDeviceChoice choice;
	GrnGraphParams params;
	uint32_t	repeat;
	bool		times;
	bool		fill;
} GrnCli;

/* The functions return exit statuses. */
extern int	grn_command_line(int argc, char **argv);
extern int	grn_build_file(const GrnCli *cli);

#endif							/* GRN_CLI_H */
