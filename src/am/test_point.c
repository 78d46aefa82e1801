/*
 * test_point.c - points at which tests stop a backend, to reproduce races.  Compiled only with
 * -DGRNND_TEST_POINTS.
 *
 * A session names its points in grnnd.test_point, separated by spaces: NAME[:ARRIVAL][@GATE].  The
 * session waits at a point while another session holds the point's gate exclusively.  A gate is an
 * advisory lock with the key TEST_POINT_LOCK + GATE; the default gate is 0.  ARRIVAL: the session
 * waits from this arrival on.  Gates are locks, so isolationtester detects waiting sessions.  No
 * point is under a content lock.
 *
 * grnnd.test_delay is a percentage of all arrivals.  The backend sleeps after such an arrival, so
 * sessions meet in orders that are rare on an idle machine.
 */
#include "am/test_point.h"

#ifdef GRNND_TEST_POINTS
#include "common/pg_prng.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"

#define TEST_POINT_LOCK INT64CONST(0x67726E)	/* 6779502 */

#define MOST_DELAY_US 40000

static char *test_point;
static int	test_delay;

/* number of arrivals at each point since test_point was set */
#define MAX_POINTS 8
static uint64 arrivals[MAX_POINTS];

static void
assign_test_point(const char *newval, void *extra)
{
	memset(arrivals, 0, sizeof(arrivals));
}

void
grnnd_define_test_point(void)
{
	DefineCustomStringVariable("grnnd.test_point",
							   "Where this session waits for the tests' advisory locks.",
							   NULL,
							   &test_point, "",
							   PGC_USERSET, GUC_NO_SHOW_ALL | GUC_NOT_IN_SAMPLE,
							   NULL, assign_test_point, NULL);
	DefineCustomIntVariable("grnnd.test_delay",
							"Percent of the arrivals at tests' points that are followed by a sleep.",
							NULL,
							&test_delay, 0, 0, 100,
							PGC_USERSET, GUC_NO_SHOW_ALL | GUC_NOT_IN_SAMPLE,
							NULL, NULL, NULL);
}

/* Waits until no session holds the gate exclusively. */
static void
wait_at_gate(uint64 gate)
{
	Datum		key = Int64GetDatum(TEST_POINT_LOCK + (int64) gate);

	DirectFunctionCall1(pg_advisory_lock_shared_int8, key);
	DirectFunctionCall1(pg_advisory_unlock_shared_int8, key);
}

void
grnnd_test_point(const char *name)
{
	const char *word = test_point;
	size_t		n = strlen(name);

	if (test_delay > 0 &&
		pg_prng_uint64_range(&pg_global_prng_state, 0, 99) < (uint64) test_delay)
	{
		double		share = pg_prng_double(&pg_global_prng_state);

		/* many short sleeps, and a few that are longer than the other sessions' work */
		pg_usleep((long) (share * share * share * MOST_DELAY_US));
		CHECK_FOR_INTERRUPTS();
	}
	for (int i = 0; i < MAX_POINTS && *word != '\0'; i++)
	{
		size_t		length = strcspn(word, " ");
		char	   *at = (char *) word + n;

		if (length >= n && strncmp(word, name, n) == 0 && strchr(" :@", *at) != NULL)
		{
			uint64		first = *at == ':' ? strtoul(at + 1, &at, 10) : 1;
			uint64		gate = *at == '@' ? strtoul(at + 1, &at, 10) : 0;

			if (++arrivals[i] >= first)
				wait_at_gate(gate);
			return;
		}
		word += length + strspn(word + length, " ");
	}
}
#endif
