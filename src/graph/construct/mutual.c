/*
 * mutual.c - lists where there is room for fewer edges than the RNG rule leaves: edges that
 * both ends keep.
 *
 * The nearest survivors of each vertex alone make a graph that is hard to search: many edges lead
 * to a vertex that has none back.  So edges are matched.  Each vertex proposes to the nearest of
 * its candidates, as many as it has room for, and where two propose to each other both take the
 * edge; after some rounds of that hardly a list has room.  It comes near to taking the edges by
 * their length, each while there is room at both ends: a greedy b-matching, which Hoepman
 * (arXiv:cs/0410047) makes by messages likewise.
 *
 * Edges that both ends have chosen in the descent are matched first, since the RNG rule wants them
 * at both.  Those that one of them has chosen are next, and room that is left then is for what the
 * vertex has chosen itself, whatever the other end says.
 *
 * Of 161,000 sentences (384 dimensions, ten edges, layout compact) searches find .953 of the ten
 * nearest at ef 225 instead of 250, and .95 of a million at 325 instead of 400.  Where there is
 * room for all survivors there is nothing to choose.  Rows of independent normal numbers lose at
 * small ef and gain at large ones, as matched lists have no hubs (test/bench/decisions.md).
 * (The GPU matches by the same rule.)
 */
#include "graph/construct/descent_impl.h"

#include <string.h>

/* Rounds of edges that both have chosen, and again of all. */
#define ROUNDS 4
#define MOST 112				/* candidates of a vertex, at most */
#define WORDS 2

/* Candidates of a position, in the memory of an inbox that is not needed any more. */
typedef struct Choice
{
	uint64_t	taken[WORDS];	/* bits of ids */
	uint64_t	proposed[WORDS];
	uint8_t		count;
	uint8_t		mutual;			/* so many of them, the first, chose this vertex as well */
	uint8_t		unused[2];
	uint32_t	ids[MOST];
} Choice;

typedef struct Matching
{
	Descent    *d;
	bool		all;			/* not mutual ones alone */
} Matching;

_Static_assert(sizeof(Inbox) >= sizeof(Choice), "candidates fit an inbox");
_Static_assert(MOST <= 64 * WORDS, "they have a bit each");
_Static_assert(MAX_POOL + INBOX <= UINT8_MAX, "they are counted in a byte");

static Choice *
choice_of(const Descent *d, size_t v)
{
	return (Choice *) &d->write[v];
}

static bool
has_bit(const uint64_t *words, uint32_t i)
{
	return words[i / 64] >> i % 64 & 1;
}

static uint32_t
room_of(const Descent *d, const Choice *c)
{
	return d->graph->degree - (uint32_t) __builtin_popcountll(c->taken[0]) -
		(uint32_t) __builtin_popcountll(c->taken[1]);
}

/*
 * The candidates of a position whose inbox is sorted: those of its pool that have chosen it, too,
 * then all others of both, each nearest first.  Returns how many; keys: [MAX_POOL + INBOX].
 */
static uint32_t
find_candidates(const Descent *d, size_t v, uint64_t *keys, uint32_t *mutual)
{
	const uint64_t *pool = d->pools + v * d->params.r;
	const Inbox *inbox = &d->read[v];
	uint64_t	others[MAX_POOL + INBOX];
	uint32_t	n = 0;
	uint32_t	nothers = 0;
	uint32_t	i = 0;
	uint32_t	j = 0;

	while (i < d->counts[v] || j < inbox->count)
	{
		uint64_t	own = i < d->counts[v] ? pool[i] | KEY_NEW : UINT64_MAX;
		uint64_t	sent = j < inbox->count ? inbox->keys[j] : UINT64_MAX;

		if (own == sent)
			keys[n++] = own;
		else
			others[nothers++] = own < sent ? own : sent;
		i += own <= sent;
		j += sent <= own;
	}
	*mutual = n;
	memcpy(keys + n, others, nothers * sizeof(uint64_t));
	return n + nothers;
}

static void
begin_range(void *arg, int worker, size_t begin, size_t end)
{
	Descent    *d = ((Matching *) arg)->d;

	(void) worker;
	for (size_t v = begin; v < end; v++)
	{
		Choice	   *c = choice_of(d, v);
		uint64_t	keys[MAX_POOL + INBOX];
		uint32_t	mutual;
		uint32_t	count;

		d->read[v].count = (uint8_t) grn_sort_distinct(d->read[v].keys, d->read[v].count);
		count = find_candidates(d, v, keys, &mutual);
		memset(c, 0, offsetof(Choice, ids));
		c->count = (uint8_t) (count < MOST ? count : MOST);
		c->mutual = (uint8_t) (mutual < MOST ? mutual : MOST);
		for (uint32_t i = 0; i < c->count; i++)
			c->ids[i] = KEY_ID(keys[i]);
	}
}

/* Proposes to the nearest that have room, too. */
static void
propose_range(void *arg, int worker, size_t begin, size_t end)
{
	Matching   *m = arg;

	(void) worker;
	for (size_t v = begin; v < end; v++)
	{
		Choice	   *c = choice_of(m->d, v);
		uint32_t	room = room_of(m->d, c);
		uint32_t	count = m->all ? c->count : c->mutual;

		memset(c->proposed, 0, sizeof(c->proposed));
		for (uint32_t i = 0; i < count && room > 0; i++)
			if (!has_bit(c->taken, i) && room_of(m->d, choice_of(m->d, c->ids[i])) > 0)
			{
				c->proposed[i / 64] |= UINT64_C(1) << i % 64;
				room--;
			}
	}
}

/* Does a position propose to v? */
static bool
proposes(const Choice *c, uint32_t v)
{
	for (uint32_t w = 0; w < WORDS; w++)
		for (uint64_t left = c->proposed[w]; left != 0; left &= left - 1)
			if (c->ids[64 * w + (uint32_t) __builtin_ctzll(left)] == v)
				return true;
	return false;
}

static void
take_range(void *arg, int worker, size_t begin, size_t end)
{
	Matching   *m = arg;

	(void) worker;
	for (size_t v = begin; v < end; v++)
	{
		Choice	   *c = choice_of(m->d, v);

		for (uint32_t w = 0; w < WORDS; w++)
			for (uint64_t left = c->proposed[w]; left != 0; left &= left - 1)
			{
				uint32_t	i = 64 * w + (uint32_t) __builtin_ctzll(left);

				if (proposes(choice_of(m->d, c->ids[i]), (uint32_t) v))
					c->taken[w] |= left & -left;
			}
	}
}

/* Writes what was taken, and into room that is left the nearest of the pool, then of the inbox. */
static void
end_range(void *arg, int worker, size_t begin, size_t end)
{
	Descent    *d = ((Matching *) arg)->d;
	uint32_t	degree = d->graph->degree;

	(void) worker;
	for (size_t v = begin; v < end; v++)
	{
		const uint64_t *pool = d->pools + v * d->params.r;
		const Choice *c = choice_of(d, v);
		uint64_t	keys[MAX_POOL + INBOX];
		uint64_t	list[MAX_POOL];
		uint32_t	mutual;
		uint32_t	count = find_candidates(d, v, keys, &mutual);
		uint32_t	n = 0;

		for (uint32_t i = 0; i < c->count; i++)
			if (has_bit(c->taken, i))
				list[n++] = keys[i];
		for (int sent = 0; sent < 2; sent++)
		{
			const uint64_t *from = sent ? keys + mutual : pool;
			uint32_t	nfrom = sent ? count - mutual : d->counts[v];

			for (uint32_t i = 0; i < nfrom && n < degree; i++)
			{
				uint64_t	key = from[i] | KEY_NEW;
				bool		known = false;

				for (uint32_t j = 0; j < n && !known; j++)
					known = list[j] == key;
				if (!known)
					list[n++] = key;
			}
		}
		grn_sort_few_keys(list, n);
		grn_put_list(d, v, list, n);
	}
}

void
grn_match_edges(Descent *d, GrnParallel *parallel)
{
	Matching	m = {.d = d};
	size_t		n = d->rows.n;

	parallel->run(parallel, n, GRAIN, begin_range, &m);
	for (int round = 0; round < 2 * ROUNDS; round++)
	{
		m.all = round >= ROUNDS;
		parallel->run(parallel, n, GRAIN, propose_range, &m);
		parallel->run(parallel, n, GRAIN, take_range, &m);
	}
	parallel->run(parallel, n, GRAIN, end_range, &m);
}
