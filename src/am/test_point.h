/*
 * test_point.h - points at which tests stop a backend, to reproduce races.
 */
#ifndef GRNND_TEST_POINT_H
#define GRNND_TEST_POINT_H

#include "postgres.h"

#ifdef GRNND_TEST_POINTS
extern void grnnd_define_test_point(void);
/* Stops here if a test has named this point.  Must not be called under a content lock. */
extern PGDLLEXPORT void grnnd_test_point(const char *name);
#else
#define grnnd_define_test_point() ((void) 0)
#define grnnd_test_point(name) ((void) 0)
#endif

#endif							/* GRNND_TEST_POINT_H */
