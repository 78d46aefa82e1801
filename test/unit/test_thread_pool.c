/*
 * test_thread_pool.c - the builder's threads: every item of a loop is done once, whoever comes
 * in time, also where several callers have loops.
 */
#include <pthread.h>
#include <sched.h>

#include "unit.h"

#include "builder/threads.h"

#define ITEMS 3000
#define LOOPS 2000

typedef struct Caller
{
	GrnParallel *parallel;
	size_t		grain;
	uint8_t		done[ITEMS];	/* how often */
	uint32_t	by_others;		/* pieces that another thread than the caller did */
	uint32_t	wrong;
	pthread_t	thread;
} Caller;

static void
count_range(void *arg, int worker, size_t begin, size_t end)
{
	Caller	   *c = arg;

	if (worker < 0 || worker >= c->parallel->nworkers || end - begin > c->grain || end <= begin)
		__atomic_add_fetch(&c->wrong, 1, __ATOMIC_RELAXED);
	if (!pthread_equal(pthread_self(), c->thread))
		__atomic_add_fetch(&c->by_others, 1, __ATOMIC_RELAXED);
	for (size_t i = begin; i < end; i++)
		c->done[i]++;
}

/* Loops of many sizes, each looked through when it is said to be done. */
static void *
call(void *arg)
{
	Caller	   *c = arg;

	c->thread = pthread_self();
	for (size_t loop = 0; loop < LOOPS; loop++)
	{
		size_t		n = loop % 10 == 0 ? ITEMS : loop % 40;

		c->grain = 1 + loop % 7;
		memset(c->done, 0, sizeof(c->done));
		c->parallel->run(c->parallel, n, c->grain, count_range, c);
		for (size_t i = 0; i < ITEMS; i++)
			c->wrong += c->done[i] != (i < n);
	}
	return NULL;
}

static void
test_loops(void)
{
	static const int threads[] = {1, 2, 7};
	Caller	   *callers = calloc(2, sizeof(*callers));

	for (int i = 0; i < 3; i++)
	{
		GrnPool    *pool = grn_pool_start(threads[i]);
		pthread_t	other;

		memset(callers, 0, 2 * sizeof(*callers));
		callers[0].parallel = callers[1].parallel = grn_pool_parallel(pool);
		CHECK(callers[0].parallel->nworkers == threads[i], "%d", callers[0].parallel->nworkers);
		/* on a busy machine the pool's threads may get no turn for long */
		for (int round = 0; round < 50 && callers[0].by_others + callers[1].by_others == 0; round++)
		{
			pthread_create(&other, NULL, call, &callers[1]);
			call(&callers[0]);
			pthread_join(other, NULL);
			if (threads[i] == 1)
				break;
		}
		CHECK(callers[0].wrong + callers[1].wrong == 0, "%d threads: %u and %u wrong", threads[i],
			  callers[0].wrong, callers[1].wrong);
		CHECK((callers[0].by_others + callers[1].by_others > 0) == (threads[i] > 1),
			  "%d threads: %u and %u pieces by others", threads[i], callers[0].by_others,
			  callers[1].by_others);
		grn_pool_stop(pool);
	}
	free(callers);
}

/* Who has many loops takes turns with who has few. */
typedef struct Turns
{
	GrnParallel *parallel;
	unsigned	loops;			/* that have been run */
	bool		stop;
} Turns;

static void
spin_range(void *arg, int worker, size_t begin, size_t end)
{
	volatile unsigned sum = 0;

	for (size_t i = begin; i < end; i++)
		for (unsigned j = 0; j < 100; j++)
			sum += j;
}

static void *
run_many(void *arg)
{
	Turns	   *t = arg;

	while (!__atomic_load_n(&t->stop, __ATOMIC_RELAXED))
	{
		t->parallel->run(t->parallel, 4096, 64, spin_range, t);
		__atomic_add_fetch(&t->loops, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void
test_turns(void)
{
	GrnPool    *pool = grn_pool_start(2);
	Turns		t = {grn_pool_parallel(pool), 0, false};
	pthread_t	other;
	unsigned	before;

	pthread_create(&other, NULL, run_many, &t);
	while (__atomic_load_n(&t.loops, __ATOMIC_RELAXED) == 0)
		sched_yield();
	before = __atomic_load_n(&t.loops, __ATOMIC_RELAXED);
	for (int i = 0; i < 200; i++)
		t.parallel->run(t.parallel, 4096, 64, spin_range, &t);
	/* one for each, and some where this thread was not scheduled between two loops */
	CHECK(__atomic_load_n(&t.loops, __ATOMIC_RELAXED) - before < 5 * 200, "%u loops of the other's in between",
		  t.loops - before);
	__atomic_store_n(&t.stop, true, __ATOMIC_RELAXED);
	pthread_join(other, NULL);
	grn_pool_stop(pool);
}

int
main(void)
{
	RUN(test_loops);
	RUN(test_turns);
	UNIT_END();
}
