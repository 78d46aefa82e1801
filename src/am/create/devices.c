/*
 * devices.c - grnnd_devices(): lists the GPUs that the builder program finds.  A separate program
 * lists the GPUs, because no PostgreSQL process loads a GPU driver.
 */
#include "am/create/launch.h"
#include "am/grnnd.h"

#include "fmgr.h"
#include "funcapi.h"
#include "storage/fd.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

#define NCOLUMNS 6				/* device, name, capability, memory, free, problem */
#define PROBLEM (NCOLUMNS - 1)
#define MAX_LINE 1024

/* Returns the shell command: path in quotes, with any quotes in path escaped, and --devices. */
static char *
command_of(const char *path)
{
	StringInfoData s;

	initStringInfo(&s);
	appendStringInfoChar(&s, '\'');
	for (; *path; path++)
	{
		if (*path == '\'')
			appendStringInfoString(&s, "'\\''");
		else
			appendStringInfoChar(&s, *path);
	}
	appendStringInfoString(&s, "' --devices");
	return s.data;
}

/* Stores a line of src/builder/list_gpus.c as a row.  Returns false if the line is malformed. */
static bool
put_line(char *line, ReturnSetInfo *result)
{
	char	   *fields[NCOLUMNS];
	Datum		values[NCOLUMNS] = {0};
	bool		nulls[NCOLUMNS];
	int			n = 0;

	memset(nulls, true, sizeof(nulls));
	line[strcspn(line, "\n")] = '\0';
	for (char *p = line; p != NULL && n < NCOLUMNS; n++)
		fields[n] = strsep(&p, "\t");

	if (n == 2 && fields[1][0] == '!')
	{
		values[PROBLEM] = CStringGetTextDatum(fields[1] + 1);
		nulls[PROBLEM] = false;
	}
	else if (n == PROBLEM)
	{
		values[1] = CStringGetTextDatum(fields[1]);
		values[2] = CStringGetTextDatum(fields[2]);
		values[3] = Int64GetDatum(strtoll(fields[3], NULL, 10));
		values[4] = Int64GetDatum(strtoll(fields[4], NULL, 10));
		memset(nulls + 1, false, 4);
	}
	else
		return false;
	if (strcmp(fields[0], "-") != 0)
	{
		values[0] = Int32GetDatum(atoi(fields[0]));
		nulls[0] = false;
	}
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	return true;
}

PG_FUNCTION_INFO_V1(grnnd_devices);
Datum
grnnd_devices(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	char	   *path = grnnd_builder_program(false);
	char		line[MAX_LINE];
	bool		good = true;
	bool		any = false;
	FILE	   *pipe;
	int			status;

	InitMaterializedSRF(fcinfo, 0);
	grnnd_guard_descriptors();
	pipe = OpenPipeStream(command_of(path), "r");
	if (pipe == NULL)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not run the index builder \"%s\": %m", path)));
	while (good && fgets(line, sizeof(line), pipe) != NULL)
		any = good = put_line(line, result);
	status = ClosePipeStream(pipe);
	if (status != 0 || !any)
		ereport(ERROR,
				(errcode(ERRCODE_EXTERNAL_ROUTINE_EXCEPTION),
				 errmsg("the index builder \"%s\" could not list its devices", path),
				 status > 0 ? errdetail("Result of the program: %s.", wait_result_to_str(status)) : 0,
				 errhint("Check grnnd.builder_path, and the program's output in the server log.")));
	return (Datum) 0;
}
