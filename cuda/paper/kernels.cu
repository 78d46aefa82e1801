/*
 * kernels.cu - the kernels of Algorithms 3 to 6 of the GRNND paper.
 *
 * One warp works on one vertex.  The warp compares pairs of neighbors from the vertex's
 * read pool: all pairs, or at most as many as the caller allows, in a random or a fixed
 * order.  A redirected neighbor is inserted into the write pool of the nearer neighbor of
 * its pair.  The remaining neighbors are inserted into the vertex's own write pool.  The
 * two pools are swapped after each round.  Between outer iterations the nearest neighbors
 * of each pool, a share rho, get reverse edges.
 *
 * Three changes make the kernels faster than the paper's, with the same result:
 * - An entry of a pool carries the neighbor's distance to the vertex beside the id.
 *   WARP_INSERT therefore finds the farthest entry without computing R distances.
 * - If all pairs are compared, the kernel first computes all distances, 32 columns at a
 *   time.  The kernel then applies the pairs in their order.  The order decides only
 *   whether both slots of a pair are still filled when the pair's turn comes, not whether
 *   the pair redirects.
 * - Two neighbors that both remained after a round need no comparison in the next round.
 *   Their entries are marked as old.
 */
#include <utility>

#include "cuda/paper/kernels.cuh"
#include "cuda/paper/pair_order.h"
#include "cuda/paper/pools.cuh"

constexpr int PAPER_WARPS = 4;
constexpr int PAPER_THREADS = PAPER_WARPS * WARP;
/* Floats of each row that shared memory holds at a time. */
constexpr uint32_t CHUNK = 32;
/*
 * Words between the starts of two rows in shared memory.  With 4 words of padding, eight
 * lanes that read 16 bytes each use 32 different banks.
 */
constexpr uint32_t CHUNK_STRIDE = CHUNK + 4;
/* Distances that a lane sums up at a time for each of its columns. */
constexpr int SUMS = 32;

__global__ void
__launch_bounds__(PAPER_THREADS)
	paper_init_kernel(const float *d_rows, uint32_t n, uint32_t dim, Key *d_pool,
					  uint32_t *d_count, uint32_t r, uint32_t s, uint64_t seed)
{
	uint32_t v = blockIdx.x * PAPER_WARPS + threadIdx.x / WARP;
	int		 lane = lane_id();

	if (v >= n)
		return;
	bool	 all = n - 1 <= s;
	uint32_t picks = all ? n - 1 : s;

	for (uint32_t i = 0; i < picks; i++)
	{
		uint32_t id = all ? i : random_below(random64(seed, 2 + (uint64_t) v, i), n - 1);

		id += id >= v;
		warp_insert(d_pool + (size_t) v * r, &d_count[v], r,
					make_entry(warp_distance(d_rows, dim, v, id, lane), id), lane);
	}
}

/* Shared memory of one warp, for pools of up to W * WARP entries. */
template <int W, bool ALL> struct __align__(16) PaperShared
{
	static constexpr int ROWS = W * WARP;

	/*
	 * Used only if all pairs are compared.  row has CHUNK floats of each neighbor, new
	 * neighbors first.  redirects has, for each new neighbor (by position), a bit for
	 * every position that the new neighbor would redirect or be redirected to.
	 */
	float	 row[ALL ? ROWS : 1][CHUNK_STRIDE];
	uint32_t redirects[ALL ? ROWS : 1][W];
	Key		 entry[ROWS];
	uint32_t filled[W];				 /* bit i % WARP of word i / WARP: slot i is still
									  * filled */
	uint8_t	 position[ROWS];		 /* [slot] position of the slot's neighbor among
									  * the rows */
	uint8_t	 slot[ROWS];			 /* [position] slot, the inverse of position[] */
	uint8_t	 close[ROWS], far[ROWS]; /* [redirected pair] slots of the nearer and the
									  * farther neighbor */
};

template <int W, bool ALL>
__device__ inline bool
is_filled(const PaperShared<W, ALL> &s, uint32_t slot)
{
	return s.filled[slot / WARP] >> slot % WARP & 1;
}

/* Copies floats [first, first + CHUNK) of the rows of count neighbors to shared memory. */
template <int W>
__device__ inline void
load_chunk(PaperShared<W, true> &s, const float *d_rows, uint32_t dim, uint32_t first,
		   uint32_t count, int lane)
{
	constexpr int AT_ONCE = 4;

	if (dim % 4 == 0)
	{
		constexpr uint32_t LANES = CHUNK / 4; /* lanes that copy one row */
		uint32_t		   at = 4 * (lane % LANES);

		for (uint32_t base = 0; base < count; base += AT_ONCE * WARP / LANES)
		{
			float4 x[AT_ONCE];

#pragma unroll
			for (int i = 0; i < AT_ONCE; i++)
			{
				uint32_t row = base + i * WARP / LANES + lane / LANES;

				x[i] = make_float4(0, 0, 0, 0);
				if (row < count && first + at < dim)
					x[i] =
						*(const float4 *) (d_rows +
										   (size_t) entry_id(s.entry[s.slot[row]]) * dim +
										   first + at);
			}
#pragma unroll
			for (int i = 0; i < AT_ONCE; i++)
				*(float4 *) &s.row[base + i * WARP / LANES + lane / LANES][at] = x[i];
		}
	}
	else
		for (uint32_t base = 0; base < count; base += AT_ONCE)
		{
			float x[AT_ONCE];

#pragma unroll
			for (int i = 0; i < AT_ONCE; i++)
				x[i] = base + i < count && first + lane < dim
						   ? d_rows[(size_t) entry_id(s.entry[s.slot[base + i]]) * dim +
									first + lane]
						   : 0;
#pragma unroll
			for (int i = 0; i < AT_ONCE; i++)
				s.row[base + i][lane] = x[i];
		}
}

/*
 * Finds the pairs that would redirect and marks them in s.redirects.  There are count neighbors;
 * the first `fresh` positions are new.  Returns whether any pair would redirect.
 */
template <int W>
__device__ inline bool
compare_all(PaperShared<W, true> &s, const float *d_rows, uint32_t dim, uint32_t count,
			uint32_t fresh, int lane)
{
	float	 own[W]; /* distances from the vertex to the neighbors of the lane's
					  * columns */
	uint32_t found = 0;

#pragma unroll
	for (int w = 0; w < W; w++)
		own[w] = lane + WARP * w < count
					 ? entry_distance(s.entry[s.slot[lane + WARP * w]])
					 : 0;
	for (uint32_t base = 0; base < fresh; base += SUMS)
	{
		float sum[SUMS][W];

#pragma unroll
		for (int i = 0; i < SUMS; i++)
#pragma unroll
			for (int w = 0; w < W; w++)
				sum[i][w] = 0;
		for (uint32_t first = 0; first < dim; first += CHUNK)
		{
			__syncwarp();
			load_chunk(s, d_rows, dim, first, count, lane);
			__syncwarp();
#pragma unroll 1
			for (uint32_t d = 0; d < CHUNK; d += 4)
			{
				float4 y[W];

#pragma unroll
				for (int w = 0; w < W; w++)
					y[w] = *(const float4 *) &s.row[lane + WARP * w][d];
#pragma unroll
				for (int eight = 0; eight < SUMS; eight += 8)
					if (base + eight < fresh)
#pragma unroll
						for (int i = eight; i < eight + 8; i++)
						{
							float4 x = *(const float4 *) &s.row[base + i][d];

#pragma unroll
							for (int w = 0; w < W; w++)
							{
								float a = x.x - y[w].x, b = x.y - y[w].y,
									  c = x.z - y[w].z, e = x.w - y[w].w;

								sum[i][w] = fmaf(a, a, sum[i][w]);
								sum[i][w] = fmaf(b, b, sum[i][w]);
								sum[i][w] = fmaf(c, c, sum[i][w]);
								sum[i][w] = fmaf(e, e, sum[i][w]);
							}
						}
			}
		}
#pragma unroll
		for (int i = 0; i < SUMS; i++)
			if (base + i < fresh)
			{
				float other = entry_distance(s.entry[s.slot[base + i]]);

#pragma unroll
				for (int w = 0; w < W; w++)
				{
					uint32_t position = lane + WARP * w;
					uint32_t mask =
						__ballot_sync(FULL, position < count && position != base + i &&
												sum[i][w] < fmaxf(other, own[w]));

					if (lane == 0)
						s.redirects[base + i][w] = mask;
					found |= mask;
				}
			}
	}
	__syncwarp();
	return found != 0;
}

/*
 * The first loop of Algorithm 4: compares pairs of count neighbors, at most `pairs` of
 * them, and skips a pair if one of its slots is empty.  Without ALL the function computes
 * each distance at the pair's turn.  Writes the slots of redirected neighbors to s.close
 * and s.far, and returns the number of redirected neighbors.
 */
template <int W, bool ALL>
__device__ inline uint32_t
compare_pairs(PaperShared<W, ALL> &s, const float *d_rows, uint32_t dim, uint32_t count,
			  uint32_t fresh, GrnPairOrder order, uint32_t pairs, uint64_t factors,
			  uint64_t terms, int lane)
{
	uint32_t possible = count * (count - 1) / 2, bits = grn_pair_bits(possible), gone = 0;
	uint32_t numbers = order == GRN_ORDER_DISORDERED ? 1u << bits : possible;

	for (uint32_t base = 0; base < numbers && pairs > 0; base += WARP)
	{
		uint32_t number = base + lane, i = 0, j = 0, last = 0;

		if (order == GRN_ORDER_DISORDERED && number < numbers)
			number = grn_pair_permuted(number, bits, factors, terms);
		bool may = base + lane < numbers && number < possible;

		if (may)
			grn_pair_slots(order == GRN_ORDER_DESCENDING ? possible - 1 - number : number,
						   &i, &j);
		bool	 j_far = s.entry[j] > s.entry[i];
		uint32_t close = j_far ? i : j, far = j_far ? j : i;

		if constexpr (ALL)
		{
			uint32_t low = min(s.position[i], s.position[j]),
					 high = max(s.position[i], s.position[j]);

			may =
				may && low < fresh && (s.redirects[low][high / WARP] >> high % WARP & 1);
		}
		/* The pairs of this batch take effect in their order. */
		for (;;)
		{
			uint32_t turns = __ballot_sync(FULL, may && lane >= last && is_filled(s, i) &&
													 is_filled(s, j));

			if (turns == 0 || pairs == 0)
				break;
			int		 turn = __ffs(turns) - 1;
			uint32_t to = __shfl_sync(FULL, close, turn);
			uint32_t moved = __shfl_sync(FULL, far, turn);
			bool	 redirects = true;

			last = turn + 1;
			if constexpr (!ALL)
			{
				pairs--;
				redirects = warp_distance(d_rows, dim, entry_id(s.entry[to]),
										  entry_id(s.entry[moved]),
										  lane) < entry_distance(s.entry[moved]);
			}
			if (redirects)
			{
				__syncwarp();
				if (lane == 0)
				{
					s.filled[moved / WARP] &= ~(1u << moved % WARP);
					s.close[gone] = (uint8_t) to;
					s.far[gone] = (uint8_t) moved;
				}
				gone++;
				__syncwarp();
			}
		}
	}
	__syncwarp();
	return gone;
}

struct UpdateArgs
{
	const float	   *d_rows;		   /* [n][dim] */
	const Key	   *d_read;		   /* [n][r] */
	const uint32_t *d_read_count;  /* [n] */
	Key			   *d_write;	   /* [n][r] */
	uint32_t	   *d_write_count; /* [n] */
	uint32_t		n, dim, r;
	GrnPairOrder	order;
	uint32_t		pairs; /* pairs that a vertex compares in a round; unused with ALL */
	uint32_t		round;
	uint64_t		seed;
};

/* One round of Algorithm 4.  With ALL each vertex compares all pairs, otherwise a.pairs. */
template <int W, bool ALL, int WARPS>
__global__ void
__launch_bounds__(WARPS *WARP) paper_update_kernel(UpdateArgs a)
{
	__shared__ PaperShared<W, ALL> s_all[WARPS];
	PaperShared<W, ALL>			  &s = s_all[threadIdx.x / WARP];
	uint32_t					   v = blockIdx.x * WARPS + threadIdx.x / WARP;
	int							   lane = lane_id();

	if (v >= a.n)
		return;
	uint32_t count = min(a.d_read_count[v], a.r), below = (1u << lane) - 1;
	uint32_t gone = 0, fresh = 0;
	bool	 old[W];
	Key		 mine[W];

	load_entries(a.d_read, v, a.r, count, s.entry, lane);
	count = drop_repeated<W>(s.entry, count, lane);
	if (a.order != GRN_ORDER_DISORDERED)
		sort_entries<W>(s.entry, count, lane);
#pragma unroll
	for (int w = 0; w < W; w++)
	{
		uint32_t slot = lane + WARP * w;

		old[w] = ALL && slot < count && entry_old(s.entry[slot]);

		uint32_t mask = __ballot_sync(FULL, slot < count && !old[w]);

		if (slot < count && !old[w])
			s.position[slot] = (uint8_t) (fresh + __popc(mask & below));
		fresh += __popc(mask);
		if (lane == 0)
			s.filled[w] = count >= WARP * (w + 1) ? FULL
						  : count > WARP * w	  ? (1u << (count - WARP * w)) - 1
												  : 0;
	}
	if constexpr (ALL)
	{
		uint32_t before = fresh;

#pragma unroll
		for (int w = 0; w < W; w++)
		{
			uint32_t slot = lane + WARP * w, mask = __ballot_sync(FULL, old[w]);

			if (old[w])
				s.position[slot] = (uint8_t) (before + __popc(mask & below));
			before += __popc(mask);
			if (slot < count)
				s.slot[s.position[slot]] = (uint8_t) slot;
		}
	}
	__syncwarp();
	if (count > 1 && fresh > 0)
	{
		uint64_t stream = ((uint64_t) a.round << 32 | v) + 1000;
		bool	 any = true;

		if constexpr (ALL)
			any = compare_all(s, a.d_rows, a.dim, count, fresh, lane);
		if (any)
			gone = compare_pairs(s, a.d_rows, a.dim, count, fresh, a.order,
								 ALL ? FULL : a.pairs, random64(a.seed, stream, 0),
								 random64(a.seed, stream, 1), lane);
	}
	for (uint32_t i = 0; i < gone; i++)
	{
		uint32_t target = entry_id(s.entry[s.close[i]]),
				 far = entry_id(s.entry[s.far[i]]);

		warp_insert(a.d_write + (size_t) target * a.r, &a.d_write_count[target], a.r,
					make_entry(warp_distance(a.d_rows, a.dim, target, far, lane), far),
					lane);
	}
#pragma unroll
	for (int w = 0; w < W; w++)
	{
		uint32_t slot = lane + WARP * w;

		mine[w] = slot < count && is_filled(s, slot) ? s.entry[slot] | ALL : EMPTY_KEY;
	}
	warp_insert_all(a.d_write + (size_t) v * a.r, &a.d_write_count[v], a.r, mine, lane);
}

/* Section 3.6: inserts reverse edges for rho * count entries, the nearest or the first slots. */
__global__ void
__launch_bounds__(PAPER_THREADS)
	paper_reverse_kernel(const Key *d_from, const uint32_t *d_from_count, uint32_t n,
						 Key *d_pool, uint32_t *d_count, uint32_t r, float rho,
						 GrnReverse selection)
{
	__shared__ Key s_all[PAPER_WARPS][GRN_PAPER_MOST_R];
	Key			  *s_entry = s_all[threadIdx.x / WARP];
	uint32_t	   v = blockIdx.x * PAPER_WARPS + threadIdx.x / WARP;
	int			   lane = lane_id();

	if (v >= n)
		return;
	uint32_t count = min(d_from_count[v], r);

	load_entries(d_from, v, r, count, s_entry, lane);
	count = drop_repeated(s_entry, count, lane);
	if (selection == GRN_REVERSE_NEAREST)
		sort_entries(s_entry, count, lane);
	for (uint32_t i = 0; i < min((uint32_t) ceilf(rho * count), count); i++)
	{
		uint32_t target = entry_id(s_entry[i]);

		warp_insert(d_pool + (size_t) target * r, &d_count[target], r,
					make_entry(entry_distance(s_entry[i]), v), lane);
	}
}

/*
 * Makes the final lists: each pool becomes a list of at most `degree` neighbors, nearest
 * first.  With `prune`, an option that the paper does not have, the list keeps only the
 * neighbors that pass the RNG rule.
 */
__global__ void
__launch_bounds__(PAPER_THREADS)
	paper_lists_kernel(const float *d_rows, uint32_t n, uint32_t dim, const Key *d_pool,
					   const uint32_t *d_count, uint32_t r, uint32_t degree, bool prune,
					   Lists lists)
{
	__shared__ Key s_all[PAPER_WARPS][GRN_PAPER_MOST_R];
	Key			  *s_entry = s_all[threadIdx.x / WARP];
	uint32_t	   v = blockIdx.x * PAPER_WARPS + threadIdx.x / WARP;
	int			   lane = lane_id();

	if (v >= n)
		return;
	uint32_t count = min(d_count[v], r), kept = 0;

	load_entries(d_pool, v, r, count, s_entry, lane);
	count = drop_repeated(s_entry, count, lane);
	sort_entries(s_entry, count, lane);
	for (uint32_t i = 0; i < count && kept < degree; i++)
	{
		Key	 x = s_entry[i];
		bool keep = true;

		/* s_entry[0, kept) has the neighbors kept so far. */
		for (uint32_t k = 0; prune && k < kept && keep; k++)
			keep = !(warp_distance(d_rows, dim, entry_id(x), entry_id(s_entry[k]), lane) <
					 entry_distance(x));
		__syncwarp();
		if (keep)
		{
			if (lane == 0)
			{
				s_entry[kept] = x;
				lists.d_ids[(size_t) v * degree + kept] = entry_id(x);
			}
			kept++;
		}
		__syncwarp();
	}
	end_list(lists, v, degree, kept);
}

static uint32_t
paper_blocks(uint32_t n)
{
	return (n + PAPER_WARPS - 1) / PAPER_WARPS;
}

PaperSpace
paper_layout(uint8_t *d_base, uint32_t n, uint32_t r)
{
	Layout	   layout = {d_base};
	PaperSpace space;

	for (int i = 0; i < 2; i++)
	{
		space.d_pool[i] = layout.take<Key>((size_t) n * r);
		space.d_count[i] = layout.take<uint32_t>(n);
	}
	space.bytes = layout.bytes;
	return space;
}

static cudaError_t
clear_pool(cudaStream_t stream, const PaperSpace &space, int side, uint32_t n, uint32_t r)
{
	GRN_TRY(
		cudaMemsetAsync(space.d_pool[side], 0xff, sizeof(Key) * (size_t) n * r, stream));
	return cudaMemsetAsync(space.d_count[side], 0, 4 * (size_t) n, stream);
}

cudaError_t
launch_paper_init(cudaStream_t stream, const float *d_rows, uint32_t n, uint32_t dim,
				  const PaperSpace &space, uint32_t r, uint32_t s, uint64_t seed)
{
	GRN_REQUIRE(n > 0 && dim > 0 && r > 0 && r <= GRN_PAPER_MOST_R);
	GRN_TRY(clear_pool(stream, space, 0, n, r));
	GRN_TRY(clear_pool(stream, space, 1, n, r));
	paper_init_kernel<<<paper_blocks(n), PAPER_THREADS, 0, stream>>>(
		d_rows, n, dim, space.d_pool[0], space.d_count[0], r, s, seed);
	return cudaGetLastError();
}

/* A block has fewer warps for larger pools because the pools must fit the block's shared memory. */
template <int W>
static void
update(cudaStream_t stream, const UpdateArgs &args, bool all)
{
	constexpr int WARPS = W <= 2 ? PAPER_WARPS : PAPER_WARPS / 2;
	uint32_t	  blocks = (args.n + WARPS - 1) / WARPS;

	if (all)
		paper_update_kernel<W, true, WARPS><<<blocks, WARPS * WARP, 0, stream>>>(args);
	else
		paper_update_kernel<W, false, WARPS><<<blocks, WARPS * WARP, 0, stream>>>(args);
}

cudaError_t
launch_paper_update(cudaStream_t stream, const float *d_rows, uint32_t n, uint32_t dim,
					PaperSpace &space, uint32_t r, GrnPairOrder order, uint32_t pairs,
					uint64_t seed, uint32_t round)
{
	UpdateArgs args = {d_rows,
					   space.d_pool[0],
					   space.d_count[0],
					   space.d_pool[1],
					   space.d_count[1],
					   n,
					   dim,
					   r,
					   order,
					   pairs,
					   round,
					   seed};
	bool	   all = pairs == 0 || pairs >= r * (r - 1) / 2;

	GRN_REQUIRE(n > 0 && dim > 0 && r > 0 && r <= GRN_PAPER_MOST_R);
	if (r <= WARP)
		update<1>(stream, args, all);
	else if (r <= 2 * WARP)
		update<2>(stream, args, all);
	else if (r <= 3 * WARP)
		update<3>(stream, args, all);
	else
		update<4>(stream, args, all);
	GRN_TRY(cudaGetLastError());
	GRN_TRY(clear_pool(stream, space, 0, n, r));
	std::swap(space.d_pool[0], space.d_pool[1]);
	std::swap(space.d_count[0], space.d_count[1]);
	return cudaSuccess;
}

/*
 * The kernel reads a copy of the pools.  Without a copy, a warp could offer an entry that
 * another warp has just inserted.
 */
cudaError_t
launch_paper_reverse(cudaStream_t stream, uint32_t n, const PaperSpace &space, uint32_t r,
					 float rho, GrnReverse selection)
{
	GRN_REQUIRE(n > 0 && r > 0 && r <= GRN_PAPER_MOST_R && rho >= 0);
	GRN_TRY(cudaMemcpyAsync(space.d_pool[1], space.d_pool[0],
							sizeof(Key) * (size_t) n * r, cudaMemcpyDeviceToDevice,
							stream));
	GRN_TRY(cudaMemcpyAsync(space.d_count[1], space.d_count[0], 4 * (size_t) n,
							cudaMemcpyDeviceToDevice, stream));
	paper_reverse_kernel<<<paper_blocks(n), PAPER_THREADS, 0, stream>>>(
		space.d_pool[1], space.d_count[1], n, space.d_pool[0], space.d_count[0], r, rho,
		selection);
	GRN_TRY(cudaGetLastError());
	return clear_pool(stream, space, 1, n, r);
}

cudaError_t
launch_paper_lists(cudaStream_t stream, const float *d_rows, uint32_t n, uint32_t dim,
				   const PaperSpace &space, uint32_t r, uint32_t degree, bool prune,
				   uint32_t *d_ids, uint8_t *d_counts)
{
	GRN_REQUIRE(n > 0 && dim > 0 && r > 0 && r <= GRN_PAPER_MOST_R);
	GRN_REQUIRE(degree > 0 && degree <= GRN_MAX_DEGREE);
	paper_lists_kernel<<<paper_blocks(n), PAPER_THREADS, 0, stream>>>(
		d_rows, n, dim, space.d_pool[0], space.d_count[0], r, degree, prune,
		Lists {d_ids, d_counts});
	return cudaGetLastError();
}
