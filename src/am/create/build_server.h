/*
 * build_server.h - grnnd.build_server: the PostgreSQL on another host that builds.
 */
#ifndef GRNND_BUILD_SERVER_H
#define GRNND_BUILD_SERVER_H

#include "am/create/launch.h"

typedef struct GrnndServer GrnndServer;

/*
 * The server that is to build, which *spec then says; NULL where this host does.  Errors: 42704
 * where there is no such server or user mapping, 2F003 where the mapping lacks a password.
 */
extern GrnndServer *grnnd_find_build_server(GrnBuildSpec *spec);
/* Tells a builder that has just started how to connect to it. */
extern void grnnd_tell_build_server(GrnndBuilder *builder, const GrnndServer *server);

#endif							/* GRNND_BUILD_SERVER_H */
