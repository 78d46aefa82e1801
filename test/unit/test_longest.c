/*
 * test_longest.c - long entry points: which rows become some, and which entries stay.
 */
#include "space/space.h"
#include "unit.h"

#define ROWS 3000

/* Offers all rows, of which some are entry points before; checks the outcome by counting. */
static void
longest_rows_enter(void)
{
	for (int round = 0; round < 40; round++)
	{
		float		lengths[ROWS];
		uint32_t	row[GRN_MAX_ENTRIES];
		uint32_t	most = round % 4 == 0 ? 0 : 1 + (uint32_t) round % 20;
		GrnEntryLengths e = {.count = round == 1 ? 1 : 2 + (uint32_t) round % (GRN_MAX_ENTRIES - 1)};
		uint32_t	sample[GRN_MAX_ENTRIES];

		for (uint32_t v = 0; v < ROWS; v++)
			lengths[v] = expf(unit_normal());
		for (uint32_t i = 0; i < e.count; i++)
		{
			row[i] = i * (ROWS / GRN_MAX_ENTRIES);
			e.lengths[i] = lengths[row[i]];
		}
		grn_sort_entries(&e, most);
		CHECK(e.nlong == (most < e.count - 1 ? most : e.count - 1), "%u of %u", e.nlong, most);
		for (uint32_t i = e.nlong; i < e.count - 1; i++)
			sample[i] = row[e.order[i]];
		for (uint32_t v = 0; v < ROWS; v++)
		{
			uint32_t	at = grn_shorter_entry(&e, lengths[v]);
			bool		is_entry = false;

			for (uint32_t i = 0; i < e.count; i++)
				is_entry = is_entry || row[i] == v;
			if (at == 0 || is_entry)
				continue;
			CHECK(at < e.count && e.lengths[at] < lengths[v], "%u gives way", at);
			row[at] = v;
			grn_enter_long(&e, lengths[v]);
		}
		/* entries[0] and the sample are what they were */
		CHECK(row[0] == 0, "%u", row[0]);
		for (uint32_t i = e.nlong; i < e.count - 1; i++)
			CHECK(row[e.order[i]] == sample[i], "%u", i);
		/* no row that is left out is longer */
		for (uint32_t i = 0; i < e.nlong; i++)
		{
			uint32_t	longer = 0;

			CHECK(e.lengths[e.order[i]] == lengths[row[e.order[i]]], "%u", i);
			CHECK(i == 0 || e.lengths[e.order[i - 1]] >= e.lengths[e.order[i]], "%u", i);
			for (uint32_t v = 0; v < ROWS; v++)
				longer += v != row[0] && lengths[v] > e.lengths[e.order[i]];
			CHECK(longer <= i, "%u rows are longer than number %u", longer, i);
		}
	}
}

/* With no entry, or only the first, nothing gives way. */
static void
few_entries(void)
{
	for (uint32_t count = 0; count < 2; count++)
	{
		GrnEntryLengths e = {.count = count};

		grn_sort_entries(&e, 16);
		CHECK(e.nlong == 0 && grn_shorter_entry(&e, 1e30f) == 0, "%u", count);
	}
}

/* The length comes back from a place, but for what GRN_SHORTEST makes equal. */
static void
places_tell_lengths(void)
{
	for (float length = 1e-3f; length < 1e12f; length *= 1.7f)
	{
		float		norm = grn_place_norm(length, GRN_USUAL_POWER);
		float		back = grn_placed_length(norm * norm, GRN_USUAL_POWER);

		CHECK(fabsf(back / fmaxf(length, GRN_SHORTEST) - 1) < 1e-5f, "%g: %g", length, back);
	}
	CHECK(grn_placed_length(0, GRN_USUAL_POWER) == 0, "a row of zeroes");
}

int
main(void)
{
	RUN(longest_rows_enter);
	RUN(few_entries);
	RUN(places_tell_lengths);
	UNIT_END();
}
