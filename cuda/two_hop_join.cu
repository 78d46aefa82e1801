/*
 * two_hop_join.cu - finds the nearest of each vertex's neighbors' neighbors.  The
 * vertex is compared with all of them.  The result gives the choice of edges better
 * candidates than pools alone.
 *
 * A descent keeps only neighbors that survive the prune, so a pool has few of the
 * vertices nearest to its own vertex.  One join of the finished lists finds most of the
 * nearest vertices.
 */
#include "row_formats.cuh"

constexpr int	   JOIN_WARPS = 4;	/* warps of a block */
constexpr int	   JOIN_LIST = 32;	/* neighbors of a list that a join reads, one in each
							   * lane */
constexpr int	   JOIN_KEPT = 64;	/* sorted keys that a warp holds, two in each lane */
constexpr int	   ROWS_A_LANE = 8; /* rows that a lane helps to compare at a time */
constexpr uint32_t SEEN = 2048;		/* slots of a warp's table of ids, a power of 2 */
constexpr int	   PROBES = 8;		/* slots of the table that a search for an id tries */

struct JoinArgs
{
	Digests			digests;
	const uint32_t *d_lists; /* [n][JOIN_LIST], EMPTY_ID after the last neighbor */
	uint32_t	   *d_next;	 /* [n][JOIN_LIST] receives the nearest ids; NULL: d_keys
					    * receives keys */
	Key			   *d_keys;	 /* [n][inbox] */
	uint32_t *d_count; /* [n] number of keys; a tile must hold these keys and the pool */
	const uint8_t *d_pool_count; /* [n] */
	uint32_t	   inbox;		 /* capacity of an inbox */
};

/* Shared memory of a warp. */
struct JoinShared
{
	uint32_t seen[SEEN];
	uint32_t queue[2 * WARP];		   /* ids whose distances must be computed */
	uint32_t id[JOIN_KEPT + WARP * 2]; /* [slot] ids of kept keys, then of pending keys */
	uint32_t ordinal[WARP * 2];		   /* ordinals of pending keys */
};

/*
 * The nearest vertices so far: two sort keys in each lane, sorted over the warp.  Slots
 * of keys are positions in JoinShared.id.
 */
struct NearestVertices
{
	uint32_t lo, hi;
	uint32_t limit; /* ordinals from this limit on are too far */
	int		 pending;
};

/*
 * Returns true if the table does not have the id yet.  If the PROBES slots are taken, the
 * function may return true for a known id; the tile then drops the duplicate.
 */
__device__ inline bool
insert_id(uint32_t *s_seen, uint32_t id)
{
	uint32_t slot = (id * 2654435761u) / (uint32_t) (0x100000000ull / SEEN);

	for (int probe = 0; probe < PROBES; probe++)
	{
		uint32_t before = atomicCAS(&s_seen[slot], EMPTY_ID, id);

		if (before == EMPTY_ID)
			return true;
		if (before == id)
			return false;
		slot = (slot + 1) % SEEN;
	}
	return true;
}

/*
 * Returns to each lane the ordinal of the distance between v and the lane's id.  A lane
 * without an id passes v.  Eight lanes read a row together; each group of eight reads the
 * rows of its own lanes, all at once.
 */
template <class P>
__device__ inline uint32_t
ordinal_of(const Digests &digests, uint32_t v, typename P::Acc norm_v, uint32_t id,
		   int lane)
{
	typedef typename P::Acc Acc;
	uint32_t				other[ROWS_A_LANE];
	Acc						sum[ROWS_A_LANE] = {};
	const uint8_t		   *d_own = digests.d_rows + (size_t) v * digests.stride;

#pragma unroll
	for (int k = 0; k < ROWS_A_LANE; k++)
		other[k] = __shfl_sync(FULL, id, (lane & ~7) + k);
	for (uint32_t at = 16 * (lane & 7); at < digests.stride; at += 16 * ROWS_A_LANE)
	{
		uint4 x = *(const uint4 *) (d_own + at), y[ROWS_A_LANE];

#pragma unroll
		for (int k = 0; k < ROWS_A_LANE; k++)
			y[k] = *(const uint4 *) (digests.d_rows + (size_t) other[k] * digests.stride +
									 at);
#pragma unroll
		for (int k = 0; k < ROWS_A_LANE; k++)
			sum[k] = P::dot(
				x.w, y[k].w,
				P::dot(x.z, y[k].z, P::dot(x.y, y[k].y, P::dot(x.x, y[k].x, sum[k]))));
	}
	/* Lane k of eight gets the sum of sum[k] over the eight lanes. */
#pragma unroll
	for (int half = ROWS_A_LANE / 2; half > 0; half /= 2)
	{
		bool upper = (lane & half) != 0;

#pragma unroll
		for (int k = 0; k < half; k++)
		{
			Acc mine = upper ? sum[k + half] : sum[k];

			sum[k] = mine + __shfl_xor_sync(FULL, upper ? sum[k] : sum[k + half], half);
		}
	}
	return P::ordinal(P::partial(P::from_bits(digests.d_norms[id]), sum[0]) + norm_v);
}

/*
 * Merges up to 32 of the pending keys into the nearest keys, and sets nearest.limit to
 * the distance of the key number `want`.
 */
__device__ inline void
merge_pending(JoinShared &s, NearestVertices &nearest, int want, int lane)
{
	constexpr uint32_t SLOT_MASK = (1u << SLOT_BITS) - 1;
	int				   rest = nearest.pending - WARP;
	uint32_t		   key = lane < nearest.pending
								 ? s.ordinal[lane] << SLOT_BITS | (uint32_t) (JOIN_KEPT + lane)
								 : FULL;

	key = sort32(key, lane);
	/* The nearer half of hi and the new keys is merged with lo. */
	nearest.hi = merge32(min(nearest.hi, __shfl_sync(FULL, key, 31 - lane)), lane);
	merge64(nearest.lo, nearest.hi, lane);

	uint32_t lo_id = nearest.lo == FULL ? EMPTY_ID : s.id[nearest.lo & SLOT_MASK],
			 hi_id = nearest.hi == FULL ? EMPTY_ID : s.id[nearest.hi & SLOT_MASK],
			 next_id = s.id[JOIN_KEPT + WARP + lane],
			 next_ordinal = s.ordinal[WARP + lane];

	__syncwarp();
	s.id[lane] = lo_id;
	s.id[WARP + lane] = hi_id;
	if (nearest.lo != FULL)
		nearest.lo = (nearest.lo & ~SLOT_MASK) | (uint32_t) lane;
	if (nearest.hi != FULL)
		nearest.hi = (nearest.hi & ~SLOT_MASK) | (uint32_t) (WARP + lane);
	if (lane < rest)
	{
		s.id[JOIN_KEPT + lane] = next_id;
		s.ordinal[lane] = next_ordinal;
	}
	__syncwarp();
	nearest.pending = max(rest, 0);
	nearest.limit =
		__shfl_sync(FULL, want > WARP ? nearest.hi : nearest.lo, (want - 1) & 31) >>
		SLOT_BITS;
}

/* Computes the distances of the queue's first count <= 32 ids.  Near ids become pending. */
template <class P>
__device__ inline void
offer_queue(const JoinArgs &a, JoinShared &s, NearestVertices &nearest, uint32_t v,
			typename P::Acc norm_v, int count, int want, int lane)
{
	uint32_t id = lane < count ? s.queue[lane] : v,
			 ordinal = ordinal_of<P>(a.digests, v, norm_v, id, lane);
	bool	 near = lane < count && ordinal < nearest.limit;
	uint32_t mask = __ballot_sync(FULL, near);
	int		 position = nearest.pending + __popc(mask & ((1u << lane) - 1));

	if (near)
	{
		s.id[JOIN_KEPT + position] = id;
		s.ordinal[position] = ordinal;
	}
	nearest.pending += __popc(mask);
	__syncwarp();
	if (nearest.pending >= WARP)
		merge_pending(s, nearest, want, lane);
}

/* Finds the nearest vertices of a vertex's list and its neighbors' lists; one warp each. */
template <class P>
__global__ void
__launch_bounds__(JOIN_WARPS *WARP, 6) join_kernel(const JoinArgs a)
{
	__shared__ JoinShared s_all[JOIN_WARPS];
	JoinShared			 &s = s_all[threadIdx.x / WARP];
	uint32_t			  v = blockIdx.x * JOIN_WARPS + threadIdx.x / WARP;
	int					  lane = lane_id();

	if (v >= a.digests.n)
		return;
	int				want = a.d_next ? JOIN_LIST
									: min((int) a.inbox, max(JOIN_KEPT - a.d_pool_count[v], WARP));
	typename P::Acc norm_v = P::from_bits(a.digests.d_norms[v]);
	NearestVertices nearest = {FULL, FULL, FULL >> SLOT_BITS, 0};
	uint32_t		own = a.d_lists[(size_t) v * JOIN_LIST + lane], list = own;
	int				queued = 0, sources = __popc(__ballot_sync(FULL, own != EMPTY_ID));

	for (uint32_t i = lane; i < SEEN; i += WARP)
		s.seen[i] = EMPTY_ID;
	__syncwarp();
	if (lane == 0)
		insert_id(s.seen, v);
	__syncwarp();
	for (int i = 0; i <= sources; i++)
	{
		/*
		 * The vertex's own list comes first, then its neighbors' lists.  The next list
		 * is loaded during the work on the current list.
		 */
		uint32_t id = list, source = __shfl_sync(FULL, own, i & 31);

		if (i < sources)
			list = a.d_lists[(size_t) source * JOIN_LIST + lane];
		bool	 fresh = id != EMPTY_ID && insert_id(s.seen, id);
		uint32_t mask = __ballot_sync(FULL, fresh);

		if (fresh)
			s.queue[queued + __popc(mask & ((1u << lane) - 1))] = id;
		queued += __popc(mask);
		__syncwarp();
		if (queued >= WARP)
		{
			offer_queue<P>(a, s, nearest, v, norm_v, WARP, want, lane);
			queued -= WARP;
			id = s.queue[WARP + lane];
			__syncwarp();
			s.queue[lane] = id;
			__syncwarp();
		}
	}
	if (queued > 0)
		offer_queue<P>(a, s, nearest, v, norm_v, queued, want, lane);
	if (nearest.pending > 0)
		merge_pending(s, nearest, want, lane);

	if (a.d_next)
	{
		a.d_next[(size_t) v * JOIN_LIST + lane] =
			nearest.lo == FULL ? EMPTY_ID : s.id[lane];
		return;
	}
	Key *d_keys = a.d_keys + (size_t) v * a.inbox;
	int	 found = __popc(__ballot_sync(FULL, nearest.lo != FULL)) +
				__popc(__ballot_sync(FULL, nearest.hi != FULL));

	if (lane < min(found, want))
		d_keys[lane] = make_key(nearest.lo >> SLOT_BITS, s.id[lane]);
	if (WARP + lane < min(found, want))
		d_keys[WARP + lane] = make_key(nearest.hi >> SLOT_BITS, s.id[WARP + lane]);
	if (lane == 0)
		a.d_count[v] = min(found, want);
}

template <class P, int SEG>
static cudaError_t
launch_join_of(const Device &device, const JoinArgs &args)
{
	join_kernel<P><<<(args.digests.n + JOIN_WARPS - 1) / JOIN_WARPS, JOIN_WARPS * WARP, 0,
					 device.stream>>>(args);
	return cudaGetLastError();
}

cudaError_t
launch_joins(const Device &device, const Digests &digests, TileGraph &graph,
			 uint32_t joins, uint8_t *d_counts)
{
	/* An inbox of 32 keys has room for two lists of a vertex. */
	uint32_t *d_lists = (uint32_t *) graph.d_inbox[1 - graph.side],
			 *d_other = d_lists + (size_t) graph.n * JOIN_LIST;
	JoinArgs args = {};

	GRN_REQUIRE(digests.valid() && graph.valid() && digests.n == graph.n);
	GRN_REQUIRE(joins > 0 && graph.inbox >= JOIN_LIST && graph.inbox <= JOIN_KEPT);
	GRN_TRY(cudaMemsetAsync(
		d_lists, 0xff, (size_t) graph.n * JOIN_LIST * sizeof(*d_lists), device.stream));
	GRN_TRY(launch_fill(device, graph, NULL, JOIN_LIST, JOIN_LIST,
						Lists {d_lists, d_counts}));
	args.digests = digests;
	args.d_keys = graph.d_inbox[graph.side];
	args.d_count = graph.d_inbox_count[graph.side];
	args.d_pool_count = graph.d_pool_count;
	args.inbox = graph.inbox;
	for (uint32_t i = 0; i < joins; i++)
	{
		args.d_lists = i % 2 == 0 ? d_lists : d_other;
		args.d_next = i + 1 == joins ? NULL : i % 2 == 0 ? d_other : d_lists;
		GRN_TRY(GRN_DISPATCH_ROWS(digests, launch_join_of, device, args));
	}
	return cudaSuccess;
}
