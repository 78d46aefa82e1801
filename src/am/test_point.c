/*
 * test_point.c - places where tests stop a backend, to meet a race on purpose.
 *
 * Compiled with -DGRNND_TEST_POINTS only.  A session that has set
 * grnnd.test_point to a place's name waits there while another session
 * holds the advisory lock TEST_POINT_LOCK exclusively; "name:3" waits at the third
 * arrival and at later ones.  A lock, so that isolationtester sees who waits.
 * No place is under a content lock.
 */
#include "am/test_point.h"

#ifdef GRNND_TEST_POINTS
#include "fmgr.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"

#define TEST_POINT_LOCK INT64CONST(0x67726E)	/* 6779502 */

static char *test_point;
static uint64 arrivals;			/* since test_point was set */

static void
assign_test_point(const char *newval, void *extra)
{
	arrivals = 0;
}

void
grnnd_define_test_point(void)
{
	DefineCustomStringVariable("grnnd.test_point",
							   "Where this session waits for the tests' advisory lock.",
							   NULL,
							   &test_point, "",
							   PGC_USERSET, GUC_NO_SHOW_ALL | GUC_NOT_IN_SAMPLE,
							   NULL, assign_test_point, NULL);
}

void
grnnd_test_point(const char *name)
{
	size_t		n = strlen(name);
	Datum		key = Int64GetDatum(TEST_POINT_LOCK);

	if (strncmp(test_point, name, n) != 0 || (test_point[n] != '\0' && test_point[n] != ':'))
		return;
	if (test_point[n] == ':' && ++arrivals < strtoul(test_point + n + 1, NULL, 10))
		return;
	DirectFunctionCall1(pg_advisory_lock_shared_int8, key);
	DirectFunctionCall1(pg_advisory_unlock_shared_int8, key);
}
#endif
