/*
 * export.h - for the libraries of the other extensions, which call functions of grnnd's library.
 * Those functions are declared with PGDLLEXPORT, in plain C with GRN_EXPORT.
 */
#ifndef GRNND_EXPORT_H
#define GRNND_EXPORT_H

#include "postgres.h"

#include "fmgr.h"

extern PGDLLEXPORT Datum grnnd_internal_handler(PG_FUNCTION_ARGS);

/*
 * For _PG_init().  The dynamic linker has loaded grnnd.so as a dependency.  PostgreSQL still has to
 * load the library, which defines the settings.  Error: 55000 if the session runs an older grnnd.so
 * than the one on disk.
 */
static inline void
grnnd_load_library(void)
{
	if (load_external_function("$libdir/grnnd", "grnnd_internal_handler", true, NULL) != grnnd_internal_handler)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the library of grnnd has been replaced since this session began"),
				 errhint("Connect again.")));
}

#endif							/* GRNND_EXPORT_H */
