/*
 * host.c - failures of a build, and clocks.
 */
#include "builder/host.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

bool
grn_fail(GrnFailure *failure, const char *sqlstate, const char *hint,
		 const char *format,...)
{
	va_list		args;

	memset(failure, 0, sizeof(*failure));
	snprintf(failure->sqlstate, sizeof(failure->sqlstate), "%s", sqlstate);
	snprintf(failure->hint, sizeof(failure->hint), "%s", hint);
	va_start(args, format);
	vsnprintf(failure->text, sizeof(failure->text), format, args);
	va_end(args);
	return false;
}

double
grn_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

double
grn_processor_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

double
grn_lap(double *since)
{
	double		start = *since;

	*since = grn_seconds();
	return *since - start;
}
