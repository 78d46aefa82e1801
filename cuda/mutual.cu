/*
 * mutual.cu - lists where there is room for fewer edges than the RNG rule leaves: edges that
 * both ends keep.  src/graph/construct/mutual.c has the rule and says why.
 *
 * Candidates of a vertex are the keys of its pool and of its inbox.  They are named by slots,
 * those of the inbox behind those of the largest pool, and are in the order in which they are
 * proposed to: at first those that are in each other's pools.
 */
#include "common.cuh"

constexpr int MATCH_THREADS = 256, MATCH_WARPS = MATCH_THREADS / WARP;
/* Rounds of edges that both ends have chosen, and again of all; as in mutual.c. */
constexpr int ROUNDS = 4;
/* Candidates of a vertex, at most: a lane has two, and each has a bit. */
constexpr int MOST = 2 * WARP;
constexpr int SLOTS = MAX_POOL + MAX_INBOX, HELD = SLOTS / WARP;
/* Those that one end alone has chosen come behind the others. */
constexpr Key ONE_SIDED = 1ull << 63;

static_assert(GRN_FEW_EDGES <= WARP, "a lane reads one proposal of a vertex");

/* What the rounds know, in device memory. */
struct Matching
{
	const Key	   *d_pool, *d_inbox; /* [n][pool] and [n][inbox], as in TileGraph */
	const uint8_t  *d_pool_count;	  /* [n] */
	const uint32_t *d_inbox_count;	  /* [n] */
	uint32_t		n, pool, inbox, degree;
	uint64_t	   *d_taken; /* [n] bits of candidates */
	uint64_t	   *d_asked; /* [n] */
	uint32_t *
		d_proposed; /* [n][degree] the vertices that are asked, EMPTY_ID after the last */
	uint8_t *d_slots;  /* [n][MOST] of candidates */
	uint8_t *d_count;  /* [n] of them, */
	uint8_t *d_mutual; /* [n] and those in front that both ends have chosen */
	size_t	 bytes;

	Matching(uint8_t *d_base, uint32_t n, uint32_t degree) : n(n), degree(degree)
	{
		Layout space;

		space.d_base = d_base;
		d_taken = space.take<uint64_t>(n);
		d_asked = space.take<uint64_t>(n);
		d_proposed = space.take<uint32_t>((size_t) n * degree);
		d_slots = space.take<uint8_t>((size_t) n * MOST);
		d_count = space.take<uint8_t>(n);
		d_mutual = space.take<uint8_t>(n);
		bytes = space.bytes;
	}
};

__device__ inline Key
key_of(const Matching &m, uint32_t v, uint32_t slot)
{
	return slot < MAX_POOL ? m.d_pool[(size_t) v * m.pool + slot]
						   : m.d_inbox[(size_t) v * m.inbox + slot - MAX_POOL];
}

/* The vertex of a warp; n and more: none. */
__device__ inline uint32_t
vertex_of_warp()
{
	return blockIdx.x * MATCH_WARPS + threadIdx.x / WARP;
}

/* Is v in the pool of u?  Asked by a warp. */
__device__ inline bool
is_in_pool(const Matching &m, uint32_t u, uint32_t v)
{
	bool found = false;

	for (uint32_t slot = lane_id(); slot < m.d_pool_count[u]; slot += WARP)
		found |= (uint32_t) m.d_pool[(size_t) u * m.pool + slot] == v;
	return __any_sync(FULL, found);
}

/* Puts the candidates of each vertex in order; one warp a vertex. */
__global__ void
__launch_bounds__(MATCH_THREADS) candidates_kernel(const Matching m)
{
	__shared__ Key s_all[MATCH_WARPS][SLOTS];
	Key			  *s_key = s_all[threadIdx.x / WARP];
	uint32_t	   v = vertex_of_warp(), count = 0, mutual = 0;
	int			   lane = lane_id();

	if (v >= m.n)
		return;

	uint32_t npool = m.d_pool_count[v], ninbox = min(m.d_inbox_count[v], m.inbox);
	Key		 key[HELD];
	uint32_t rank[HELD] = {};

#pragma unroll
	for (int h = 0; h < HELD; h++)
	{
		uint32_t slot = lane + WARP * h;

		key[h] = (slot < MAX_POOL ? slot < npool : slot - MAX_POOL < ninbox)
					 ? key_of(m, v, slot)
					 : EMPTY_KEY;
		s_key[slot] = key[h];
	}
	__syncwarp();
	/* Of keys of the same vertex the first one counts. */
	for (uint32_t slot = 0; slot < MAX_POOL + ninbox;
		 slot = slot + 1 == npool ? MAX_POOL : slot + 1)
	{
		uint32_t id = (uint32_t) s_key[slot];

#pragma unroll
		for (int h = 0; h < HELD; h++)
			if (id == (uint32_t) key[h] && slot < lane + WARP * h)
				key[h] = EMPTY_KEY;
	}
	for (uint32_t slot = 0; slot < npool; slot++)
	{
		bool both = is_in_pool(m, (uint32_t) s_key[slot], v);

#pragma unroll
		for (int h = 0; h < MAX_POOL / WARP; h++)
			if (slot == lane + WARP * h && key[h] != EMPTY_KEY && !both)
				key[h] |= ONE_SIDED;
	}
	__syncwarp();
#pragma unroll
	for (int h = 0; h < HELD; h++)
	{
		if (h >= MAX_POOL / WARP)
			key[h] |= ONE_SIDED;
		s_key[lane + WARP * h] = key[h];
		count += __popc(__ballot_sync(FULL, key[h] != EMPTY_KEY));
		mutual += __popc(__ballot_sync(FULL, !(key[h] & ONE_SIDED)));
	}
	__syncwarp();
	for (uint32_t slot = 0; slot < MAX_POOL + ninbox;
		 slot = slot + 1 == npool ? MAX_POOL : slot + 1)
	{
		Key other = s_key[slot];

#pragma unroll
		for (int h = 0; h < HELD; h++)
			rank[h] += other < key[h];
	}
#pragma unroll
	for (int h = 0; h < HELD; h++)
		if (key[h] != EMPTY_KEY && rank[h] < MOST)
			m.d_slots[(size_t) v * MOST + rank[h]] = (uint8_t) (lane + WARP * h);
	if (lane == 0)
	{
		m.d_count[v] = (uint8_t) min(count, (uint32_t) MOST);
		m.d_mutual[v] = (uint8_t) min(mutual, (uint32_t) MOST);
		m.d_taken[v] = 0;
	}
}

/* The bits of a warp's lanes, of the first half of what they hold and of the second. */
__device__ inline uint64_t
ballot64(const bool (&bits)[2])
{
	uint64_t low = __ballot_sync(FULL, bits[0]);

	return low | (uint64_t) __ballot_sync(FULL, bits[1]) << WARP;
}

__device__ inline uint32_t
bits_before(uint64_t bits, uint32_t i)
{
	return __popcll(bits & ((1ull << i) - 1));
}

/* Proposes to the nearest that have room, too; one warp a vertex. */
__global__ void
__launch_bounds__(MATCH_THREADS) propose_kernel(const Matching m, bool all)
{
	uint32_t v = vertex_of_warp();
	int		 lane = lane_id();

	if (v >= m.n)
		return;

	uint64_t taken = m.d_taken[v], asked = 0;
	uint32_t room = m.degree - __popcll(taken), n = all ? m.d_count[v] : m.d_mutual[v];
	uint32_t id[2];
	bool	 open[2];

#pragma unroll
	for (int h = 0; h < 2; h++)
	{
		uint32_t i = lane + WARP * h;

		open[h] = i < n && !(taken >> i & 1);
		id[h] = open[h] ? (uint32_t) key_of(m, v, m.d_slots[(size_t) v * MOST + i]) : 0;
		open[h] = open[h] && __popcll(m.d_taken[id[h]]) < m.degree;
	}
	asked = ballot64(open);
#pragma unroll
	for (int h = 0; h < 2; h++)
	{
		uint32_t before = bits_before(asked, lane + WARP * h);

		open[h] = open[h] && before < room;
		if (open[h])
			m.d_proposed[(size_t) v * m.degree + before] = id[h];
	}
	asked = ballot64(open);
	for (uint32_t slot = __popcll(asked) + lane; slot < m.degree; slot += WARP)
		m.d_proposed[(size_t) v * m.degree + slot] = EMPTY_ID;
	if (lane == 0)
		m.d_asked[v] = asked;
}

/* Takes the edges that both ends have proposed; one warp a vertex. */
__global__ void
__launch_bounds__(MATCH_THREADS) take_kernel(const Matching m)
{
	uint32_t v = vertex_of_warp(), agreed = 0;
	int		 lane = lane_id();

	if (v >= m.n)
		return;

	uint64_t asked = m.d_asked[v];
	bool	 took[2];

	for (uint32_t i = 0; i < __popcll(asked); i++)
	{
		uint32_t u = m.d_proposed[(size_t) v * m.degree + i];
		bool back = lane < m.degree && m.d_proposed[(size_t) u * m.degree + lane] == v;

		agreed |= __any_sync(FULL, back) << i;
	}
#pragma unroll
	for (int h = 0; h < 2; h++)
	{
		uint32_t i = lane + WARP * h;

		took[h] = (asked >> i & 1) && (agreed >> bits_before(asked, i) & 1);
	}
	asked = ballot64(took);
	if (lane == 0)
		m.d_taken[v] |= asked;
}

/* How many of the keys of a warp's lanes, two each, are less than the lane's own. */
__device__ inline void
rank_keys(const Key (&key)[2], uint32_t n, uint32_t (&rank)[2])
{
	rank[0] = rank[1] = 0;
#pragma unroll
	for (int h = 0; h < 2; h++)
		for (uint32_t l = 0; l < WARP && WARP * h + l < n; l++)
		{
			Key other = __shfl_sync(FULL, key[h], l);

			rank[0] += other < key[0];
			rank[1] += other < key[1];
		}
}

/*
 * Writes what was taken and, into room that is left, the nearest of the pool, then of the inbox;
 * one warp a vertex.  d_order as for launch_fill().
 */
__global__ void
__launch_bounds__(MATCH_THREADS)
	write_kernel(const Matching m, const uint32_t *d_order, Lists lists)
{
	uint32_t v = vertex_of_warp();
	int		 lane = lane_id();

	if (v >= m.n)
		return;

	uint64_t taken = m.d_taken[v];
	uint32_t n = m.d_count[v], rank[2], row = d_order ? d_order[v] : v;
	Key		 key[2], more[2]; /* more: what may fill the room */
	bool	 chosen[2];

#pragma unroll
	for (int h = 0; h < 2; h++)
	{
		uint32_t i = lane + WARP * h, slot = i < n ? m.d_slots[(size_t) v * MOST + i] : 0;

		key[h] = more[h] = i < n ? key_of(m, v, slot) : EMPTY_KEY;
		chosen[h] = i < n && taken >> i & 1;
		if (chosen[h])
			more[h] = EMPTY_KEY;
		else if (slot >= MAX_POOL)
			more[h] |= ONE_SIDED;
	}
	rank_keys(more, n, rank);
#pragma unroll
	for (int h = 0; h < 2; h++)
		if (!chosen[h])
		{
			chosen[h] = more[h] != EMPTY_KEY && rank[h] < m.degree - __popcll(taken);
			if (!chosen[h])
				key[h] = EMPTY_KEY;
		}
	rank_keys(key, n, rank);
#pragma unroll
	for (int h = 0; h < 2; h++)
		if (chosen[h])
			lists.d_ids[(size_t) row * m.degree + rank[h]] =
				d_order ? d_order[(uint32_t) key[h]] : (uint32_t) key[h];
	end_list(lists, row, m.degree, __popcll(ballot64(chosen)));
}

size_t
match_bytes(uint32_t n, uint32_t degree)
{
	return Matching(NULL, n, degree).bytes;
}

cudaError_t
launch_match(const Device &device, const TileGraph &graph, const uint32_t *d_order,
			 uint32_t degree, uint8_t *d_work, const Lists &out)
{
	Matching m(d_work, graph.n, degree);
	uint32_t blocks = (graph.n + MATCH_WARPS - 1) / MATCH_WARPS;

	GRN_REQUIRE(graph.valid() && degree > 0 && degree <= GRN_FEW_EDGES);
	m.d_pool = graph.d_pool;
	m.d_pool_count = graph.d_pool_count;
	m.d_inbox = graph.d_inbox[graph.side];
	m.d_inbox_count = graph.d_inbox_count[graph.side];
	m.pool = graph.pool;
	m.inbox = graph.inbox;
	candidates_kernel<<<blocks, MATCH_THREADS, 0, device.stream>>>(m);
	GRN_TRY(cudaGetLastError());
	for (int round = 0; round < 2 * ROUNDS; round++)
	{
		propose_kernel<<<blocks, MATCH_THREADS, 0, device.stream>>>(m, round >= ROUNDS);
		GRN_TRY(cudaGetLastError());
		take_kernel<<<blocks, MATCH_THREADS, 0, device.stream>>>(m);
		GRN_TRY(cudaGetLastError());
	}
	write_kernel<<<blocks, MATCH_THREADS, 0, device.stream>>>(m, d_order, out);
	return cudaGetLastError();
}
