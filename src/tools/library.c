/*
 * library.c - what PostgreSQL does when it loads the library of grnnd_tools.
 */
#include "am/export.h"

#ifdef PG_MODULE_MAGIC_EXT
PG_MODULE_MAGIC_EXT(.name = "grnnd_tools", .version = "0.1.0");
#else
PG_MODULE_MAGIC;
#endif

extern PGDLLEXPORT void _PG_init(void);

void
_PG_init(void)
{
	grnnd_load_library();
}
