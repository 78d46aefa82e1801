/*
 * libpq.c - loads PostgreSQL's client library: that beside the server for which the builder was
 * made, else the system's.
 */
#include "builder/libpq.h"

#include <dlfcn.h>

/* The Makefile says where that server has its libraries. */
#ifdef GRN_LIBPQ_FOLDER
#define BESIDE GRN_LIBPQ_FOLDER "/libpq.so.5"
#else
#define BESIDE "libpq.so.5"
#endif

/* NULL: there is none.  A static program loads none. */
static void *
load(const char *name)
{
#ifdef GRN_STATIC
	return NULL;
#else
	return dlopen(name, RTLD_NOW | RTLD_LOCAL);
#endif
}

const GrnLibpq *
grn_libpq(GrnFailure *failure)
{
	static GrnLibpq pq;
	static bool loaded = false;
	void	   *library;
	const char *missing = NULL;

	if (loaded)
		return &pq;
	library = load(BESIDE);
	if (!library)
		library = load("libpq.so.5");
	if (!library)
	{
		grn_fail(failure, "0A000", "Install PostgreSQL's client library (Debian: libpq5), or reset grnnd.build_server.",
				 "a build on another host needs libpq: %s", dlerror());
		return NULL;
	}
#define LOAD(name, type, arguments) \
	if (!(*(void **) &pq.name = dlsym(library, #name)) && !missing) \
		missing = #name;
	GRN_PQ_FUNCTIONS(LOAD)
#undef LOAD
		if (missing)
	{
		dlclose(library);
		grn_fail(failure, "0A000", "Install that of PostgreSQL 15 or later, or reset grnnd.build_server.",
				 "libpq is too old: it has no %s()", missing);
		return NULL;
	}
	loaded = true;
	return &pq;
}
