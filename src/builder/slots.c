/*
 * slots.c - serves the slots in which an index's writers want pages; see slots.h.
 */
#include "builder/slots.h"

#include <pthread.h>

typedef struct Service
{
	GrnSlots   *slots;
	GrnForming *f;
	pthread_mutex_t mutex;		/* of the next three */
	pthread_cond_t grouped;		/* a thread has made the groups of a list, or makes no more */
	bool		failed;
	GrnFailure	failure;
} Service;

static bool
stopped(const GrnSlots *slots)
{
	return __atomic_load_n(&slots->stop, __ATOMIC_ACQUIRE) != 0;
}

static void
fail(Service *s, const GrnFailure *failure)
{
	pthread_mutex_lock(&s->mutex);
	if (!s->failed)
		s->failure = *failure;
	s->failed = true;
	pthread_mutex_unlock(&s->mutex);
	grn_slots_stop(s->slots, (uint32_t) s->f->parallel->nworkers);
}

/* Puts the rows of lists into groups until no list is left, or another thread stops. */
static void
group(Service *s)
{
	GrnFailure	failure = {0};
	bool		more;

	do
	{
		more = !stopped(s->slots) && grn_forming_group(s->f, &failure);
		if (failure.sqlstate[0] != '\0')
			fail(s, &failure);
		pthread_mutex_lock(&s->mutex);
		pthread_cond_broadcast(&s->grouped);
		pthread_mutex_unlock(&s->mutex);
	} while (more);
}

/* Waits for the groups of lists that other threads make. */
static void
await_groups(Service *s)
{
	group(s);
	pthread_mutex_lock(&s->mutex);
	while (!stopped(s->slots) && __atomic_load_n(&s->f->grouped, __ATOMIC_ACQUIRE) < s->f->sizes.lists)
		pthread_cond_wait(&s->grouped, &s->mutex);
	pthread_mutex_unlock(&s->mutex);
}

/* A slot that is wanted, which is the caller's now; NULL: none. */
static GrnSlot *
take_slot(GrnSlots *slots)
{
	for (uint32_t i = 0; i < slots->n && i < GRN_MOST_SLOTS; i++)
	{
		uint32_t	state = GRN_SLOT_WANTED;

		if (__atomic_load_n(&slots->slots[i].state, __ATOMIC_RELAXED) == GRN_SLOT_WANTED &&
			__atomic_compare_exchange_n(&slots->slots[i].state, &state, GRN_SLOT_TAKEN, false,
										__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return &slots->slots[i];
	}
	return NULL;
}

static void
serve(Service *s, GrnFormRoom *room)
{
	const GrnForming *f = s->f;
	GrnFailure	failure;

	while (!stopped(s->slots))
	{
		GrnSlot    *slot;

		if (sem_wait(&s->slots->wanted) != 0 || stopped(s->slots) || (slot = take_slot(s->slots)) == NULL)
			continue;
		if (slot->n > GRN_SLOT_PAGES)
		{
			grn_fail(&failure, "XX000", "Please report this as a bug of grnnd.",
					 "the index builder was asked for more pages than a slot has");
			fail(s, &failure);
		}
		else if (!grn_are_of_nodes(f, slot->first + slot->n))
			await_groups(s);
		if (stopped(s->slots))
			return;
		grn_form_pages(f, room, slot->first, slot->n,
					   (char *) s->slots + grn_slot_at((uint32_t) (slot - s->slots->slots), f->form.page_bytes));
		__atomic_store_n(&slot->state, GRN_SLOT_FORMED, __ATOMIC_RELEASE);
		sem_post(&slot->formed);
	}
}

/* A GrnRangeFn over threads.  Every other thread first makes groups. */
static void
serve_range(void *arg, int worker, size_t begin, size_t end)
{
	Service    *s = arg;
	GrnFormRoom room;
	GrnFailure	failure;

	(void) begin;
	(void) end;
	if (worker % 2 == 1)
		group(s);
	if (grn_form_room_begin(&room, s->f))
		serve(s, &room);
	else
	{
		grn_fail(&failure, "53200", "", "the builder process is out of memory");
		fail(s, &failure);
	}
	grn_form_room_end(&room);
}

bool
grn_slots_serve(GrnSlots *slots, GrnForming *f, GrnFailure *failure)
{
	Service		s = {.slots = slots, .f = f};

	pthread_mutex_init(&s.mutex, NULL);
	pthread_cond_init(&s.grouped, NULL);
	f->parallel->run(f->parallel, (size_t) f->parallel->nworkers, 1, serve_range, &s);
	pthread_cond_destroy(&s.grouped);
	pthread_mutex_destroy(&s.mutex);
	*failure = s.failure;
	return !s.failed;
}
