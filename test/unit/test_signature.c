/*
 * test_signature.c - signatures of filter columns: no key is missed by a set made for it,
 * bytes keep the order of keys, and few keys share the byte of a frequent one.
 */
#include "store/filter.h"
#include "unit.h"

#define N 20000

static int64_t keys[N];

static bool
has(const GrnSigSet *set, uint8_t byte)
{
	GrnFilter	f = {.sets = set, .nsets = 1};

	return grn_sig_passes(&f, &byte);
}

/* What a set must hold: the bytes of all keys of its range. */
static void
check_sets(const GrnSigBook *book, const int64_t *k, uint32_t n)
{
	CHECK(grn_sig_check(book) == NULL, "%s", grn_sig_check(book));
	for (uint32_t i = 0; i < 500; i++)
	{
		int64_t		a = k[unit_below(n)];
		int64_t		b = k[unit_below(n)];
		GrnSigSet	one = {0};
		GrnSigSet	range = {0};

		grn_sig_add(book, a, a, &one);
		grn_sig_add(book, a, b, &range);
		CHECK(has(&one, grn_sig_byte(book, a)), "key %lld", (long long) a);
		for (uint32_t j = 0; j < 50; j++)
		{
			int64_t		x = k[unit_below(n)];
			uint8_t		byte = grn_sig_byte(book, x);

			CHECK(byte >= 1 && byte <= GRN_SIG_CODES, "byte %u", byte);
			CHECK(x < a || x > b || has(&range, byte), "%lld in %lld to %lld", (long long) x,
				  (long long) a, (long long) b);
			CHECK(book->ordered != GRN_BOOK_ORDERED || book->count == 0 ||
				  (x < a) <= (byte <= grn_sig_byte(book, a)), "order");
		}
	}
}

static void
test_sets(void)
{
	for (int kind = 0; kind < 6; kind++)
		for (int ordered = 0; ordered < 2; ordered++)
		{
			static int64_t sample[N];
			GrnSigBook	book;
			uint32_t	n = kind == 5 ? 7 : N;

			for (uint32_t i = 0; i < n; i++)
			{
				int64_t		r = (int64_t) unit_random();

				keys[i] = kind == 0 ? r : kind == 1 ? r % 10 : kind == 2 ? (int64_t) i * 1000000
					: kind == 3 ? (unit_below(2) ? 5 : r % 100000)
					: kind == 4 ? (unit_below(2) ? INT64_MAX - unit_below(3) : INT64_MIN + unit_below(300))
					: 3;
				sample[i] = keys[i];
			}
			grn_sig_fit(&book, ordered, sample, n / 2);
			check_sets(&book, keys, n);
			/* signatures are by such a book as by none */
			if (ordered)
			{
				GrnSigBook	none = {0};

				book.ordered = GRN_BOOK_RANKS;
				check_sets(&book, keys, n);
				for (uint32_t i = 0; i < n; i++)
					CHECK(grn_sig_byte(&book, keys[i]) == grn_sig_byte(&none, keys[i]), "a hash");
			}
			memset(&book, 0, sizeof(book));
			check_sets(&book, keys, n);
		}
}

/* Ranks are in the order of keys, and those of keys that lie apart differ. */
static void
test_ranks(void)
{
	for (int kind = 0; kind < 5; kind++)
	{
		static int64_t sample[N];
		GrnSigBook	book;
		uint32_t	n = kind == 3 ? 1 : kind == 4 ? 2 : N;
		uint32_t	same = 0;

		for (uint32_t i = 0; i < N; i++)
		{
			keys[i] = kind == 0 ? (int64_t) unit_random() : kind == 1 ? (int64_t) unit_below(1000000)
				: kind == 2 ? (unit_below(2) ? (unit_below(2) ? INT64_MAX : INT64_MIN) : unit_below(3))
				: (int64_t) unit_random() >> 8;
			sample[i] = keys[i];
		}
		grn_sig_fit(&book, true, sample, n);
		for (uint32_t i = 0; i + 1 < N; i++)
		{
			int64_t		a = keys[i];
			int64_t		b = keys[i + 1];

			CHECK(a == b || (a < b) == (grn_sig_rank(&book, a) < grn_sig_rank(&book, b)) ||
				  grn_sig_rank(&book, a) == grn_sig_rank(&book, b), "kind %d: %lld, %lld", kind,
				  (long long) a, (long long) b);
			CHECK(a != b || grn_sig_rank(&book, a) == grn_sig_rank(&book, b), "one key");
			CHECK(grn_sig_rank(&book, a) < UINT32_C(255) << 24 || book.count == GRN_SIG_CODES,
				  "the rank of NULL");
			same += a != b && grn_sig_rank(&book, a) == grn_sig_rank(&book, b);
		}
		CHECK(kind > 2 || same < 10, "kind %d: %u pairs have the same rank", kind, same);
	}
	/* neighbors, inside and just outside */
	for (uint32_t i = 0; i < N; i++)
		keys[i] = (int64_t) i * 7;
	{
		GrnSigBook	book;

		grn_sig_fit(&book, true, keys, N);
		for (int64_t k = -200000; k < 7 * N + 100000; k++)
			CHECK(grn_sig_rank(&book, k) < grn_sig_rank(&book, k + 1), "%lld", (long long) k);
	}
}

/* Signatures of several columns pass if all sets let them, one by one and many at once. */
static void
test_several_sets(void)
{
	enum
	{
		COLUMNS = 3,
		COUNT = 96
	};
	static uint8_t sigs[COUNT * COLUMNS];
	GrnSigSet	sets[2] = {{.at = 2}, {.at = 0}};
	bool		pass[COUNT];

	for (uint32_t i = 0; i < sizeof(sigs); i++)
		sigs[i] = (uint8_t) (unit_random() % 4);
	grn_sig_add_byte(&sets[0], 1);
	grn_sig_add_byte(&sets[0], 3);
	grn_sig_add_byte(&sets[1], 2);
	for (uint32_t nsets = 0; nsets <= 2; nsets++)
	{
		GrnFilter	f = {.sets = sets, .nsets = nsets};

		grn_sigs_pass(&f, sigs, COLUMNS, COUNT, pass);
		for (uint32_t i = 0; i < COUNT; i++)
		{
			const uint8_t *sig = sigs + i * COLUMNS;
			bool		right = (nsets < 1 || sig[2] % 2 == 1) && (nsets < 2 || sig[0] == 2);

			CHECK(pass[i] == right && grn_sig_passes(&f, sig) == right, "%u of %u sets", i, nsets);
		}
	}
}

/* Share of the keys whose byte is in the set of one key. */
static double
share(const GrnSigBook *book, const int64_t *k, uint32_t n, int64_t key)
{
	GrnSigSet	set = {0};
	uint32_t	pass = 0;

	grn_sig_add(book, key, key, &set);
	for (uint32_t i = 0; i < n; i++)
		pass += has(&set, grn_sig_byte(book, k[i]));
	return (double) pass / n;
}

static void
test_precision(void)
{
	static int64_t sample[N];
	GrnSigBook	book;

	/* few keys share no byte, whatever the book */
	for (int ordered = 0; ordered < 2; ordered++)
	{
		for (uint32_t i = 0; i < N; i++)
			sample[i] = keys[i] = (int64_t) (i % 100) * 77;
		grn_sig_fit(&book, ordered, sample, N);
		for (int64_t k = 0; k < 100; k++)
			CHECK(share(&book, keys, N, k * 77) == 0.01, "key %lld", (long long) k);
	}
	/* a frequent key is alone, and the many others are spread */
	for (int ordered = 0; ordered < 2; ordered++)
	{
		for (uint32_t i = 0; i < N; i++)
			sample[i] = keys[i] = i % 3 == 0 ? 4000000 : (int64_t) (unit_random() % 10000000);
		grn_sig_fit(&book, ordered, sample, N / 2);
		CHECK(share(&book, keys, N, 4000000) < (ordered ? 0.335 : 0.35), "frequent key");
		for (uint32_t i = 1; i < 200; i += 3)
			CHECK(share(&book, keys, N, keys[i]) < 0.02, "share %f", share(&book, keys, N, keys[i]));
	}
	/* keys that grow past the sample still have bytes of their own */
	for (uint32_t i = 0; i < N; i++)
		sample[i] = (int64_t) i * 1000;
	grn_sig_fit(&book, true, sample, N);
	for (uint32_t i = 0; i < N; i++)
		keys[i] = (int64_t) (N + i) * 1000;
	for (uint32_t i = 0; i < N; i += 997)
		CHECK(share(&book, keys, N, keys[i]) < 0.15, "later key, share %f",
			  share(&book, keys, N, keys[i]));
}

static void
test_damaged(void)
{
	GrnSigBook	book;

	for (uint32_t i = 0; i < N; i++)
		keys[i] = (int64_t) i;
	grn_sig_fit(&book, true, keys, N);
	CHECK(grn_sig_check(&book) == NULL, "sound");
	book.keys[3] = book.keys[2];
	CHECK(grn_sig_check(&book) != NULL, "out of order");
	book.count = GRN_SIG_CODES + 1;
	CHECK(grn_sig_check(&book) != NULL, "too many");
}

int
main(void)
{
	RUN(test_sets);
	RUN(test_ranks);
	RUN(test_several_sets);
	RUN(test_precision);
	RUN(test_damaged);
	UNIT_END();
}
