/*
 * two_hop_fill.cu - fills finished lists up to the degree with the nearest of the
 * neighbors' neighbors.
 *
 * An index record has room for `degree` neighbors whether the list is full or not, and a
 * search step estimates the distances of all neighbors from the one page that the step
 * reads.  Edges that the RNG rule refused therefore cost a query almost nothing, and save
 * search steps.  The build on cores fills lists in the same way (src/graph).
 */
#include "row_formats.cuh"

/*
 * Warps of a block: few, because large degrees take much shared memory.  The end of a build of a
 * million SIFT rows, which fills the lists, takes .0084 s, with one warp .0085 s, with four
 * .0092 s.
 */
constexpr int NEAR_WARPS = 2;
/*
 * The nearest SOURCES neighbors give their lists as candidates, as in the build on cores.  With
 * half the same end takes .0059 s and recall@10 is .001 lower, with twice .0197 s and .001 higher.
 */
constexpr uint32_t SOURCES = 6;
/* Rows that a lane loads together.  The same end takes .0078 s, with 4 .0084 s, with 8 .0091 s. */
constexpr int AT_ONCE = 2;

/* Distances of digests.  `lanes` lanes of a warp read a row together. */
template <class Policy> struct DigestRows
{
	Digests				 digests;
	int					 lanes;
	uint4				 own;
	typename Policy::Acc own_norm;

	__device__ inline uint4 part(uint32_t id) const
	{
		return *(const uint4 *) (digests.d_rows + (size_t) id * digests.stride +
								 16 * (lane_id() & (lanes - 1)));
	}
	__device__ inline void load_own(uint32_t v)
	{
		own = part(v);
		own_norm = Policy::from_bits(digests.d_norms[v]);
	}
	/* Returns the ordinal of the distance from the loaded row to row `id`, to all its lanes. */
	__device__ inline uint32_t ordinal(uint32_t id) const
	{
		uint4				 x = part(id);
		typename Policy::Acc dot = Policy::dot(own.x, x.x, 0);

		dot = Policy::dot(own.y, x.y, dot);
		dot = Policy::dot(own.z, x.z, dot);
		dot = Policy::dot(own.w, x.w, dot);
		for (int s = lanes / 2; s > 0; s /= 2)
			dot += __shfl_xor_sync(FULL, dot, s);
		return Policy::ordinal(
			Policy::partial(Policy::from_bits(digests.d_norms[id]), dot) + own_norm);
	}
};

/* Returns the smallest of 32 numbers, one in each lane. */
__device__ inline uint32_t
warp_min(uint32_t x)
{
	return __reduce_min_sync(FULL, x);
}

/* Enters id into a table of 1 << bits slots.  Returns false if the table has the id already. */
__device__ inline bool
insert_id(uint32_t *s_table, int bits, uint32_t id)
{
	uint32_t slot = (id * 0x9E3779B1u) >> (32 - bits);

	for (;;)
	{
		uint32_t old = atomicCAS(&s_table[slot], EMPTY_ID, id);

		if (old == EMPTY_ID || old == id)
			return old == EMPTY_ID;
		slot = (slot + 1) & ((1u << bits) - 1);
	}
}

/* Appends the lanes' new ids to s_key, which has `count` keys.  Returns the new count. */
__device__ inline uint32_t
collect(uint32_t *s_table, int bits, Key *s_key, uint32_t count, uint32_t id)
{
	bool	 fresh = id != EMPTY_ID && insert_id(s_table, bits, id);
	uint32_t mask = __ballot_sync(FULL, fresh);

	if (fresh)
		s_key[count + __popc(mask & ((1u << lane_id()) - 1))] = id;
	return count + __popc(mask);
}

static size_t
near_bytes(uint32_t degree, int bits)
{
	return ((SOURCES + 1) * degree) * sizeof(Key) +
		   sizeof(uint32_t) * ((size_t) 1 << bits);
}

/*
 * Writes the list of v and, up to the degree, the nearest of the vertices in the lists of
 * v's SOURCES nearest neighbors, ordered by distance.  One warp handles one vertex.
 * With d_order the result is the list of row d_order[v], and names rows.  Without d_order
 * the result is the list of v.
 */
template <class Rows>
__global__ void
__launch_bounds__(NEAR_WARPS *WARP)
	near_kernel(Rows rows, uint32_t n, Lists in, uint32_t degree, int bits,
				const uint32_t *d_order, Lists out)
{
	extern __shared__ Key s_all[];
	uint32_t			  v = blockIdx.x * NEAR_WARPS + threadIdx.x / WARP;
	int					  lane = lane_id();

	if (v >= n)
		return;
	uint32_t words = (SOURCES + 1) * degree + (1u << bits) / 2;
	Key		*s_key =
		s_all + (threadIdx.x / WARP) * words; /* the list of v, then candidates */
	Key		 *s_list = s_key + (SOURCES + 1) * degree; /* the result, which overwrites the
												   * table */
	uint32_t *s_table = (uint32_t *) s_list;
	const uint32_t *d_own = in.d_ids + (size_t) v * degree;
	uint32_t		count = in.d_counts[v], row = d_order ? d_order[v] : v;
	uint32_t	   *d_result = out.d_ids + (size_t) row * degree;

	if (count == degree)
	{
		for (uint32_t i = lane; i < degree; i += WARP)
			d_result[i] = d_order ? d_order[d_own[i]] : d_own[i];
		if (lane == 0)
			out.d_counts[row] = (uint8_t) degree;
		return;
	}

	for (uint32_t i = lane; i < 1u << bits; i += WARP)
		s_table[i] = EMPTY_ID;
	__syncwarp();
	if (lane == 0)
		insert_id(s_table, bits, v);
	__syncwarp();
	uint32_t total = 0;

	for (uint32_t i = 0; i < count; i += WARP)
		total = collect(s_table, bits, s_key, total,
						i + lane < count ? d_own[i + lane] : EMPTY_ID);
	for (uint32_t source = 0; source < min(count, SOURCES); source++)
	{
		uint32_t		u = d_own[source];
		uint32_t		theirs = in.d_counts[u];
		const uint32_t *d_list = in.d_ids + (size_t) u * degree;

		for (uint32_t i = 0; i < theirs; i += WARP)
			total = collect(s_table, bits, s_key, total,
							i + lane < theirs ? d_list[i + lane] : EMPTY_ID);
	}
	__syncwarp();

	rows.load_own(v);
	int groups = WARP / rows.lanes, group = lane / rows.lanes;

	for (uint32_t first = 0; first < total; first += AT_ONCE * groups)
	{
		uint32_t at[AT_ONCE], id[AT_ONCE], ordinal[AT_ONCE];

#pragma unroll
		for (int k = 0; k < AT_ONCE; k++)
		{
			at[k] = first + k * groups + group;
			id[k] = at[k] < total ? (uint32_t) s_key[at[k]] : v;
		}
#pragma unroll
		for (int k = 0; k < AT_ONCE; k++)
			ordinal[k] = rows.ordinal(id[k]);
		__syncwarp(); /* One lane of each group replaces the key that all lanes of the
					   * group have read. */
#pragma unroll
		for (int k = 0; k < AT_ONCE; k++)
			if (at[k] < total && (lane & (rows.lanes - 1)) == 0)
				s_key[at[k]] = make_key(ordinal[k], id[k]);
		__syncwarp();
	}

	/* The list of v comes first.  The nearest candidates follow, found one after the other. */
	uint32_t filled = count, position = 0;
	Key		 least = EMPTY_KEY; /* the nearest of the lane's candidates,
								 * s_key[position] */
	auto	 find_least = [&]()
	{
		least = EMPTY_KEY;
		for (uint32_t i = count + lane; i < total; i += WARP)
			if (s_key[i] < least)
			{
				least = s_key[i];
				position = i;
			}
	};

	for (uint32_t i = lane; i < count; i += WARP)
		s_list[i] = s_key[i];
	find_least();
	for (; filled < degree; filled++)
	{
		uint32_t ordinal = warp_min((uint32_t) (least >> 32));
		bool	 mine = least != EMPTY_KEY && (uint32_t) (least >> 32) == ordinal;
		uint32_t id = warp_min(mine ? (uint32_t) least : EMPTY_ID);

		if (id == EMPTY_ID)
			break;
		if (mine && (uint32_t) least == id)
		{
			s_list[filled] = least;
			s_key[position] = EMPTY_KEY;
			find_least();
		}
	}
	__syncwarp();

	for (uint32_t i = lane; i < filled; i += WARP)
	{
		Key		 key = s_list[i];
		uint32_t before = 0;

		for (uint32_t j = 0; j < filled; j++)
			before += s_list[j] < key;
		d_result[before] = d_order ? d_order[(uint32_t) key] : (uint32_t) key;
	}
	end_list(out, row, degree, filled);
}

template <class Rows>
static cudaError_t
launch_near(const Device &device, const Rows &rows, uint32_t n, const Lists &in,
			uint32_t degree, const uint32_t *d_order, const Lists &out)
{
	int bits = 5;

	GRN_REQUIRE(n > 0 && degree > 0 && degree <= GRN_MAX_DEGREE);
	/* The table must remain half empty.  The memory of the table receives the result at the end. */
	while (1u << bits < 2 * ((SOURCES + 1) * degree + 1))
		bits++;
	near_kernel<<<(n + NEAR_WARPS - 1) / NEAR_WARPS, NEAR_WARPS * WARP,
				  NEAR_WARPS * near_bytes(degree, bits), device.stream>>>(
		rows, n, in, degree, bits, d_order, out);
	return cudaGetLastError();
}

cudaError_t
launch_near_digests(const Device &device, const Digests &digests, const Lists &in,
					uint32_t degree, const uint32_t *d_order, const Lists &out)
{
	int lanes = digests.stride / 16;

	GRN_REQUIRE(digests.valid()); /* so a row has at most 32 lanes, a power of 2 */
	return digests.format == ROWS_S8
			   ? launch_near(device, DigestRows<RowsS8> {digests, lanes}, digests.n, in,
							 degree, d_order, out)
		   : digests.format == ROWS_B1
			   ? launch_near(device, DigestRows<RowsB1> {digests, lanes}, digests.n, in,
							 degree, d_order, out)
			   : launch_near(device, DigestRows<RowsF16> {digests, lanes}, digests.n, in,
							 degree, d_order, out);
}
