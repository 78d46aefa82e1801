/*
 * write_slots.c - gets the pages of records from the builder, by slots (builder/slots.h).  In a
 * build without a builder process the leader forms the pages itself.
 */
#include "postgres.h"

#include <time.h>

#include "miscadmin.h"
#include "utils/wait_event.h"

#include "am/create/write_index_impl.h"
#include "am/filter/filter.h"

/* Milliseconds until a process that waits for pages notices a cancel, or the builder's end. */
#define PATIENCE_MS 20

/* Room for slots in segment PAGES, where the builder finds them too. */
static GrnSlots *
make_slots(GrnndMapping *map, uint32 n)
{
	GrnSlots   *all;

	grnnd_mapping_grow(map, GRN_SEG_PAGES, grn_slot_at(n, BLCKSZ));
	grnnd_mapping_populate(map, GRN_SEG_PAGES, 0, grn_slot_at(n, BLCKSZ));
	all = (GrnSlots *) map->base[GRN_SEG_PAGES];
	memset(all, 0, sizeof(*all));
	all->n = n;
	if (sem_init(&all->wanted, 1, 0) != 0)
		elog(ERROR, "could not initialize a semaphore: %m");
	for (uint32 i = 0; i < n; i++)
		if (sem_init(&all->slots[i].formed, 1, 0) != 0)
			elog(ERROR, "could not initialize a semaphore: %m");
	return all;
}

/* While a thread works for each slot but one, a process writes the pages of that slot. */
uint32
grnnd_slots_of_process(uint32 threads, uint32 processes)
{
	uint32		slots = (threads + processes - 1) / processes + 1;

	return Max(Min(slots, GRN_MOST_SLOTS / processes), 1);
}

/* The columns whose values have lists. */
static uint32
listed_columns(const GrnndAttrs *columns)
{
	uint32		bits = 0;

	for (uint32 c = 0; c < columns->n; c++)
		if (grnnd_has_list(&columns->attr[c]))
			bits |= UINT32_C(1) << c;
	return bits;
}

void
grnnd_begin_pages(GrnndNewIndex *new, GrnndBuild *build, uint32 processes)
{
	GrnndMeta  *meta = &new->plan.meta;
	GrnListSizes *sizes = &build->builder.sizes;

	/* Without codes signatures and lists are of no use, and a later fit will know more rows. */
	if (new->built.codes == NULL)
		grnnd_make_values(build, false);
	else if (new->layout.sig_bytes > 0)
	{
		meta->list_buckets = grnnd_list_buckets(&new->layout, new->nodes);
		if (build->books == NULL)
			grnnd_make_values(build, true);
	}
	new->books = build->books;
	new->plan.form = (GrnFormSpec) {.shape = meta->shape, .form = meta->form, .coded = new->built.codes != NULL,
									.buckets = meta->list_buckets, .listed = listed_columns(new->columns), .least_records = GRNND_LEAST_GROUPS,
									.first_list = new->plan.records, .page_bytes = BLCKSZ, .payload_at = MAXALIGN(SizeOfPageHeaderData)};
	new->plan.slots = grnnd_slots_of_process(build->spec.threads, processes);
	make_slots(build->map, new->plan.slots * processes);
	if (build->builder.pid != 0)
		grnnd_builder_form(&build->builder, &new->plan.form);
	else
	{
		new->forming = grnnd_form_in_backend(build, &new->plan.form);
		*sizes = new->forming->sizes;
	}
	if (sizes->records >= GRN_MAX_NODES || sizes->groups >= GRN_MAX_NODES || sizes->guides >= GRN_MAX_NODES)
		grnnd_check_records(GRN_MAX_NODES);
	new->lists = grn_place_lists(&new->layout, new->plan.records, sizes);
	grnnd_check_records(new->lists.end);
	new->plan.records = new->lists.end;
	if (new->layout.sig_bytes == 0)
		return;
	new->new_lists = grn_place_new_lists(&new->layout, new->nodes, meta->list_buckets * meta->ncolumns, NULL,
										 build->map->base[GRN_SEG_LISTS]);
	if (new->new_lists.bytes > build->map->size[GRN_SEG_LISTS])
		grnnd_bad_result("an array lies outside its segment");
}

void
grnnd_slots_begin(GrnndSlots *slots, GrnndNewIndex *new, const GrnndMapping *map, GrnndBuilder *builder,
				  uint32 number)
{
	uint32		n = new->plan.slots;

	*slots = (GrnndSlots) {.new = new, .all = (GrnSlots *) map->base[GRN_SEG_PAGES], .builder = builder,
						   .begin = number * n, .end = (number + 1) * n, .next = number * n};
	if (new->forming != NULL)
		(void) grn_form_room_begin(&slots->room, new->forming);
}

bool
grnnd_ask_pages(GrnndSlots *slots, uint64 first, uint32 n)
{
	GrnSlot    *slot = &slots->all->slots[slots->next];

	if (slots->asked == slots->end - slots->begin)
		return false;
	slot->first = first;
	slot->n = n;
	__atomic_store_n(&slot->state, GRN_SLOT_WANTED, __ATOMIC_RELEASE);
	if (slots->new->forming == NULL)
		(void) sem_post(&slots->all->wanted);
	slots->asked++;
	slots->next = slots->next + 1 < slots->end ? slots->next + 1 : slots->begin;
	return true;
}

/* Waits until the builder has formed the pages of a slot. */
static void
await_slot(GrnndSlots *slots, GrnSlot *slot)
{
	while (__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) != GRN_SLOT_FORMED)
	{
		struct timespec end;

		clock_gettime(CLOCK_REALTIME, &end);
		end.tv_nsec += PATIENCE_MS * 1000000L;
		end.tv_sec += end.tv_nsec / 1000000000L;
		end.tv_nsec %= 1000000000L;
		pgstat_report_wait_start(PG_WAIT_EXTENSION);
		(void) sem_timedwait(&slot->formed, &end);
		pgstat_report_wait_end();
		CHECK_FOR_INTERRUPTS();
		if (slots->builder != NULL)
			grnnd_builder_poll(slots->builder);
	}
	while (sem_trywait(&slot->formed) == 0)
		;
}

/* Forms the pages of a slot, in a build without a builder process. */
static void
form_slot(GrnndSlots *slots, GrnSlot *slot, char *pages)
{
	GrnForming *f = slots->new->forming;
	GrnFailure	failure = {0};

	while (!grn_are_of_nodes(f, slot->first + slot->n) && grn_forming_group(f, &failure))
		CHECK_FOR_INTERRUPTS();
	grn_form_pages(f, &slots->room, slot->first, slot->n, pages);
}

char *
grnnd_take_pages(GrnndSlots *slots, uint64 *first, uint32 *n)
{
	uint32		size = slots->end - slots->begin;
	uint32		number = slots->begin + (slots->next - slots->begin + size - slots->asked) % size;
	GrnSlot    *slot = &slots->all->slots[number];
	char	   *pages = (char *) slots->all + grn_slot_at(number, BLCKSZ);

	if (slots->asked == 0)
		return NULL;
	if (slots->new->forming != NULL)
		form_slot(slots, slot, pages);
	else
		await_slot(slots, slot);
	slots->asked--;
	*first = slot->first;
	*n = slot->n;
	return pages;
}
