/*
 * test_builder_pages.c - pages of records with lists of values, as grnnd_build's leader (leader.h)
 * gets them.
 *
 * The program is $GRNND_BUILD, or grnnd_build in the current directory or two above.
 */
#define _GNU_SOURCE
#include "builder/slots.h"
#include "leader.h"

#include <pthread.h>

#define NODES 3000
#define SLOTS 5
#define BUCKETS 4
#define PAGE_BYTES 8192
#define PAGE_HEAD 24
#define LEAST_RECORDS 2
#define MOST_EXTENTS 20000

/* Half of the rows have the first rank, a few the last, whose list has no groups. */
static uint32_t
rank_of(uint32_t row)
{
	return row % 2 == 0 ? 7 : row % 100 == 1 ? UINT32_MAX : 1200000000;
}

static uint8_t
sig_of(uint32_t row)
{
	return (uint8_t) (1 + row % 200);
}

/* A build of rows with a filter column, and slots behind it. */
static GrnFormSpec
begin_pages(Leader *l)
{
	GrnBuildResult *r = &l->last.u.result;
	GrnFormSpec form;
	GrnSlots   *slots;

	start_builder(l);
	l->spec.attr_bytes = 8;
	l->spec.sig_bytes = 1;
	build(l, NODES, 24, fill_normal);
	CHECK(l->last.type == GRN_MSG_DONE, "type %u", l->last.type);
	/* the leader trusts the result once it has checked it */
	CHECK(bytes_mapped(l->pid, true) == 0 && bytes_mapped(l->pid, false) > 0, "%llu bytes may be written",
		  (unsigned long long) bytes_mapped(l->pid, true));
	grow(l, GRN_SEG_VALUES, NODES * GRN_VALUE_BYTES);
	for (uint32_t row = 0; row < NODES; row++)
	{
		uint8_t    *value = grn_value(l->base[GRN_SEG_VALUES], 1, row, 0);
		uint32_t	rank = rank_of(row);

		memcpy(value, &rank, sizeof(rank));
		value[sizeof(rank)] = sig_of(row);
	}
	grow(l, GRN_SEG_PAGES, grn_slot_at(SLOTS, PAGE_BYTES));
	slots = (GrnSlots *) l->base[GRN_SEG_PAGES];
	slots->n = SLOTS;
	sem_init(&slots->wanted, 1, 0);
	for (int i = 0; i < SLOTS; i++)
		sem_init(&slots->slots[i].formed, 1, 0);
	form = (GrnFormSpec) {.shape = r->shape, .form = r->form, .coded = 1, .buckets = BUCKETS, .listed = 1,
						  .least_records = LEAST_RECORDS, .first_list = r->nodes, .page_bytes = PAGE_BYTES, .payload_at = PAGE_HEAD};
	return form;
}

static bool
say_form(Leader *l, const GrnFormSpec *form)
{
	GrnMsg		msg = {.type = GRN_MSG_FORM, .u.form = *form};

	memset(&l->last, 0, sizeof(l->last));
	say_with(l, &msg, -1);
	return converse(l, LIMIT_MS);
}

static char *
wait_for(GrnSlots *slots, uint32_t i)
{
	while (__atomic_load_n(&slots->slots[i].state, __ATOMIC_ACQUIRE) != GRN_SLOT_FORMED)
		sem_wait(&slots->slots[i].formed);
	slots->slots[i].state = GRN_SLOT_IDLE;
	return (char *) slots + grn_slot_at(i, PAGE_BYTES);
}

/* Counts the rows of a record of a list, each of which must be as its node is. */
static void
count_rows(const Leader *l, const GrnLayout *layout, const GrnRecord *rec, const uint32_t *row_of_node, uint8_t *seen)
{
	uint16_t	generation;
	uint32_t	bucket = grn_tids_owner(rec, &generation);

	for (uint32_t i = 0; i < rec->ntids16; i++)
	{
		GrnListRow	row = grn_list_row(layout, rec, i);

		CHECK(row.id < NODES && row.rank == rank_of(row_of_node[row.id]) && *row.sig == sig_of(row_of_node[row.id]) &&
			  grn_list_bucket(BUCKETS, 0, row.rank) == bucket, "row %u of bucket %u", row.id, bucket);
		if (row.id < NODES)
			seen[row.id]++;
	}
	(void) l;
}

/* Every node has its record with its neighbors, and is in a chain or a group once. */
static void
test_pages_have_all_records(void)
{
	Leader		l;
	GrnFormSpec form = begin_pages(&l);
	GrnBuildResult r = l.last.u.result;
	GrnResultArrays at = grn_result_arrays(&r, NODES, l.spec.dim, false, l.base[GRN_SEG_RESULT]);
	GrnSlots   *slots = (GrnSlots *) l.base[GRN_SEG_PAGES];
	GrnLayout	layout;
	GrnListSizes sizes;
	uint64_t	records;
	uint64_t	pages;
	uint8_t		seen[NODES] = {0};
	uint32_t	groups = 0;

	CHECK(say_form(&l, &form) && l.last.type == GRN_MSG_LISTED, "type %u", l.last.type);
	sizes = (GrnListSizes) {.records = l.last.arg[0], .groups = l.last.arg[1], .guides = l.last.arg[2]};
	CHECK(grn_result_layout(&layout, &l.spec, &r) && layout.span == 1, "no layout");
	CHECK(sizes.groups > 0 && sizes.records > 0 && sizes.guides > 0, "%d groups", (int) sizes.groups);
	records = form.first_list + sizes.records + sizes.groups * layout.per_page + sizes.guides + layout.per_page;
	pages = records / layout.per_page + 1;
	for (uint64_t first = 0; first < pages; first += SLOTS)
	{
		for (uint32_t i = 0; i < SLOTS; i++)
		{
			slots->slots[i].first = first + i;
			slots->slots[i].n = 1;
			__atomic_store_n(&slots->slots[i].state, GRN_SLOT_WANTED, __ATOMIC_RELEASE);
			sem_post(&slots->wanted);
		}
		for (uint32_t i = 0; i < SLOTS; i++)
		{
			const char *payload = wait_for(slots, i) + PAGE_HEAD;

			for (uint32_t slot = 0; slot < layout.per_page; slot++)
			{
				uint64_t	id = (first + i) * layout.per_page + slot;
				const GrnRecord *rec = (const GrnRecord *) (payload + slot * layout.record_bytes);

				CHECK(grn_record_check(&layout, rec, (uint32_t) id, (uint32_t) records) == NULL, "record %d", (int) id);
				if (id < NODES)
					CHECK(rec->state == GRN_NODE && rec->count == at.counts[id] &&
						  memcmp(grn_rec_ids(&layout, rec), at.ids + id * r.degree, 4u * rec->count) == 0 &&
						  *GRN_REC_PTR(rec, layout.off_sig) == sig_of(at.rows[id]), "node %d", (int) id);
				else if (rec->state == GRN_LIST && (rec->flags & GRN_GUIDE) == 0)
					count_rows(&l, &layout, rec, at.rows, seen);
				groups += rec->state == GRN_LIST && (rec->flags & GRN_GROUP) != 0;
			}
		}
	}
	for (uint32_t node = 0; node < NODES; node++)
		CHECK(seen[node] == 1, "node %u is in lists %d times", node, seen[node]);
	CHECK(groups >= sizes.groups, "%u records of groups", groups);
	say(&l, GRN_MSG_RELEASE, 0, 0);
	CHECK(converse(&l, LIMIT_MS), "no RELEASED");
	end_builder(&l);
	CHECK(WIFEXITED(l.status) && WEXITSTATUS(l.status) == 0, "status %x", l.status);
}

/* FORMs that cannot be, and one before there is a result. */
static void
test_forms_make_sense(void)
{
	for (int wrong = 0; wrong < 10; wrong++)
	{
		Leader		l;
		GrnFormSpec form = begin_pages(&l);

		switch (wrong)
		{
			case 0:
				form.shape.dims[0]++;
				break;
			case 1:
				form.form = 99;
				break;
			case 2:
				form.coded = 0;
				break;
			case 3:
				form.least_records = 0;
				break;
			case 4:
				form.page_bytes = PAYLOAD;
				break;
			case 5:
				form.payload_at = PAGE_BYTES;
				break;
			case 6:
				((GrnSlots *) l.base[GRN_SEG_PAGES])->n = GRN_MOST_SLOTS;
				break;
			case 7:
				say(&l, GRN_MSG_RELEASE, 0, 0);
				CHECK(converse(&l, LIMIT_MS), "no RELEASED");
				break;
			case 8:
				CHECK(say_form(&l, &form) && l.last.type == GRN_MSG_LISTED, "type %u", l.last.type);
				break;
			case 9:
				form.buckets = GRN_MOST_BUCKETS + 1;
				break;
		}
		CHECK(say_form(&l, &form) && l.last.type == GRN_MSG_FAILED && strcmp(l.last.sqlstate, "08P01") == 0,
			  "wrong %d: type %u", wrong, l.last.type);
		end_builder(&l);
	}
}

/* A slot that wants more pages than it has room for ends the build. */
static void
test_slots_have_an_end(void)
{
	Leader		l;
	GrnFormSpec form = begin_pages(&l);
	GrnSlots   *slots = (GrnSlots *) l.base[GRN_SEG_PAGES];

	CHECK(say_form(&l, &form) && l.last.type == GRN_MSG_LISTED, "type %u", l.last.type);
	slots->slots[1].n = GRN_SLOT_PAGES + 1;
	__atomic_store_n(&slots->slots[1].state, GRN_SLOT_WANTED, __ATOMIC_RELEASE);
	sem_post(&slots->wanted);
	memset(&l.last, 0, sizeof(l.last));
	CHECK(converse(&l, LIMIT_MS) && l.last.type == GRN_MSG_FAILED && strcmp(l.last.sqlstate, "XX000") == 0,
		  "type %u", l.last.type);
	end_builder(&l);
}

/* Pages are of nodes alone if no record of a list begins on or before the last. */
static void
test_pages_of_lists_are_known(void)
{
	GrnForming	f = {.layout = {.per_page = 1, .span = 3}, .form = {.first_list = 10}};

	CHECK(grn_are_of_nodes(&f, 30) && !grn_are_of_nodes(&f, 31) && !grn_are_of_nodes(&f, 32), "three pages a record");
	f.layout = (GrnLayout) {.per_page = 4, .span = 1};
	CHECK(grn_are_of_nodes(&f, 2) && !grn_are_of_nodes(&f, 3), "four records a page");
}

static bool ended;

/* A thread that grows VALUES until `ended`, in pieces that the kernel keeps apart. */
static void *
grow_values(void *leader)
{
	Leader	   *l = leader;
	int			file = memfd_create("test", MFD_CLOEXEC);

	if (file < 0 || ftruncate(file, MOST_EXTENTS * 4096) != 0)
		abort();
	while (!__atomic_load_n(&ended, __ATOMIC_RELAXED) && l->mapped[GRN_SEG_VALUES] < MOST_EXTENTS * 4096)
	{
		GrnMsg		msg = {.type = GRN_MSG_EXTENT,
			.arg = {GRN_SEG_VALUES, l->mapped[GRN_SEG_VALUES], MOST_EXTENTS * 4096 - 4096 - l->mapped[GRN_SEG_VALUES], 4096}};

		say_with(l, &msg, file);
		l->mapped[GRN_SEG_VALUES] += 4096;
	}
	close(file);
	return NULL;
}

/* Memory that comes while a build ends is the builder's, too. */
static void
test_memory_at_the_end(void)
{
	for (int i = 0; i < 20; i++)
	{
		Leader		l;
		pthread_t	thread;
		uint64_t	others;
		uint64_t	end;

		start_builder(&l);
		l.spec.skip_recall = 1;
		send_rows(&l, 300, 8, fill_normal, 7);
		ended = false;
		if (pthread_create(&thread, NULL, grow_values, &l) != 0)
			abort();
		CHECK(converse(&l, LIMIT_MS) && l.last.type == GRN_MSG_DONE, "type %u", l.last.type);
		__atomic_store_n(&ended, true, __ATOMIC_RELAXED);
		pthread_join(thread, NULL);
		others = l.mapped[GRN_SEG_VECTORS] + l.mapped[GRN_SEG_ORDER] + l.mapped[GRN_SEG_RESULT] + l.mapped[GRN_SEG_WORK];
		for (end = now_ms() + 2000; bytes_mapped(l.pid, false) != others + l.mapped[GRN_SEG_VALUES] && now_ms() < end;)
			usleep(1000);
		CHECK(bytes_mapped(l.pid, false) == others + l.mapped[GRN_SEG_VALUES], "%d of %d bytes",
			  (int) (bytes_mapped(l.pid, false) - others), (int) l.mapped[GRN_SEG_VALUES]);
		end_builder(&l);
	}
}

int
main(void)
{
	if (!find_builder("test_builder_pages"))
		return 1;
	grn_dist_init();
	RUN(test_pages_have_all_records);
	RUN(test_forms_make_sense);
	RUN(test_slots_have_an_end);
	RUN(test_pages_of_lists_are_known);
	RUN(test_memory_at_the_end);
	UNIT_END();
}
