/*
 * build_server.c - grnnd.build_server: loads the library of the extension grnnd_build_server, which
 * has all else of builds on another host.
 */
#include "am/create/create.h"

#include <unistd.h>

#include "fmgr.h"
#include "miscadmin.h"

char *
grnnd_look_up_build_server(GrnBuildSpec *spec)
{
	char	   *library = psprintf("%s/grnnd_build_server.so", pkglib_path);
	GrnndFindServerFn find;

	if (grnnd_build_server == NULL || grnnd_build_server[0] == '\0' ||
		spec->device == GRN_DEVICE_CPU)
		return NULL;
	if (access(library, F_OK) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FILE),
				 errmsg("a build on another host needs the extension grnnd_build_server"),
				 errdetail("There is no file \"%s\".", library),
				 errhint("Install the extension, or RESET grnnd.build_server.")));
	find = (GrnndFindServerFn) load_external_function("$libdir/grnnd_build_server",
													  "grnnd_find_build_server", true, NULL);
	spec->patience = (uint32) grnnd_build_timeout;
	return find(grnnd_build_server, spec);
}
