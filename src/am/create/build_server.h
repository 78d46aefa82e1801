/*
 * build_server.h - grnnd.build_server: the PostgreSQL on another host that builds.
 */
#ifndef GRNND_BUILD_SERVER_H
#define GRNND_BUILD_SERVER_H

#include "am/grnnd.h"

/*
 * grnnd_find_build_server() of the library of grnnd_build_server.  Sets spec->remote and returns a
 * connection string of libpq.  Errors: 42704 if there is no such server or user mapping, 2F003 if
 * the mapping lacks a password.
 */
typedef char *(*GrnndFindServerFn) (const char *name, GrnBuildSpec *spec);

/*
 * Calls that function, and sets spec->patience.  Returns NULL if this host builds.  Further error:
 * 58P01 if the library is not installed.
 */
extern char *grnnd_look_up_build_server(GrnBuildSpec *spec);

#endif							/* GRNND_BUILD_SERVER_H */
