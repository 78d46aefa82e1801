/*
 * tile.cu - the update round of the default mode: one warp a vertex, all pairs
 * of its neighbours as one tile of tensor-core products.
 *
 * This is the paper's UPDATE_NEIGHBORS (section 3.3) with every pair evaluated
 * instead of a random sample, which makes the order of evaluation immaterial:
 *   1. sort pool and inbox by distance, drop duplicates;
 *   2. load the rows into registers; products of all pairs, lower triangle;
 *      squared norms are the diagonal;
 *   3. greedy RNG prune: x stays unless a kept y nearer to the vertex has
 *      d(x, y) < d(v, x), with 32-bit masks;
 *   4. each x that goes is pushed to the inbox of its nearest kept y.
 * Vertices with an empty inbox are skipped: their pools cannot change.
 *
 * Rows of a tile are numbered by distance.  Lane 4 g + t owns rows 8 t + g and
 * 32 + 8 t + g, because that is how the products' layout hands masks over
 * with the fewest exchanges; masks number rows by their owner's lane.
 */
#include "policy.cuh"

constexpr int TILE_WARPS = 4;	/* warps of a block */
constexpr int BIN_THREADS = 1024;

struct TileArgs
{
	const uint8_t *d_rows;		/* [n][stride] */
	uint32_t	stride;
	uint32_t	nseg;
	Key		   *d_pool;			/* [n][POOL] */
	uint8_t    *d_pool_count;
	const Key  *d_in;			/* [n][inbox] */
	uint32_t   *d_in_count;
	Key		   *d_out;			/* [n][inbox] */
	uint32_t   *d_out_count;
	uint32_t	inbox;
	uint32_t	keep;
	const uint64_t *d_list;
	const uint32_t *d_list_count;
};

/* A warp's scratch. */
template <class Acc, int T> struct TileShared
{
	uint32_t	slot_id[T == 64 ? 96 : 64];	/* by slot, as loaded */
	uint32_t	id[T];			/* by row, with the OFFERED bit */
	uint32_t	code[T];		/* distance code to the vertex, by row */
	Acc			norm[T];		/* by row */
};

/* Byte t' of the result is byte t of lane t' of the quad: a 4 x 4 transpose. */
__device__ inline uint32_t
quad_transpose(uint32_t x, int t)
{
	uint32_t	other = __shfl_xor_sync(FULL, x, 2);

	x = __byte_perm(x, other, t < 2 ? 0x5410 : 0x3276);
	other = __shfl_xor_sync(FULL, x, 1);
	return __byte_perm(x, other, (t & 1) == 0 ? 0x6240 : 0x3715);
}

/* Lane t of a quad gets the quad's smallest v[t]. */
__device__ inline int32_t
quad_scatter_min(const int32_t (&v)[4], int t)
{
	bool		high = t >= 2,
				odd = (t & 1) != 0;
	int32_t		a = high ? v[2] : v[0],
				b = high ? v[3] : v[1];

	a = min(a, __shfl_xor_sync(FULL, high ? v[0] : v[2], 2));
	b = min(b, __shfl_xor_sync(FULL, high ? v[1] : v[3], 2));
	int32_t		mine = odd ? b : a;

	return min(mine, __shfl_xor_sync(FULL, odd ? a : b, 1));
}

/* The keys of the vertex to come, loaded while the present one is worked on. */
template <int T> struct Fetched
{
	Key			pool;
	Key			inbox[T == 64 ? 2 : 1];
};

template <int T>
__device__ inline Fetched<T>
fetch(const TileArgs &a, uint64_t entry, int lane)
{
	uint32_t	v = (uint32_t) entry,
				npool = (uint32_t) (entry >> 32) & 0xff,
				ninbox = (uint32_t) (entry >> 40) & 0xff;
	const Key  *pool = a.d_pool + (size_t) v * POOL;
	const Key  *inbox = a.d_in + (size_t) v * a.inbox;
	Fetched<T>	f;

	f.pool = EMPTY_KEY;
	f.inbox[0] = EMPTY_KEY;
	if (T == 32)
	{
		/* both fit one register: the inbox follows the pool */
		if (lane < npool)
			f.pool = pool[lane];
		else if (lane < npool + ninbox)
			f.pool = inbox[lane - npool];
		return f;
	}
	if (lane < npool)
		f.pool = pool[lane];
	if (lane < ninbox)
		f.inbox[0] = inbox[lane];
	if (T == 64)
	{
		f.inbox[T == 64] = EMPTY_KEY;
		if (lane + 32 < ninbox)
			f.inbox[T == 64] = inbox[lane + 32];
	}
	return f;
}

__device__ inline uint32_t
sort_key(Key key, uint32_t slot)
{
	return key == EMPTY_KEY ? FULL : (uint32_t) (key >> 32) << SLOT_BITS | slot;
}

/*
 * Step 1: writes ids and codes of at most T distinct neighbours to s, nearest
 * first, and returns their number.
 */
template <class Acc, int T>
__device__ inline int
sorted_neighbours(const Fetched<T> &f, TileShared<Acc, T> &s, int lane)
{
	uint32_t	lo,
				hi = FULL;

	s.slot_id[lane] = (uint32_t) f.pool;
	lo = sort_key(f.pool, lane);
	if (T == 32)
		lo = sort32(lo, lane);
	else
	{
		s.slot_id[32 + lane] = (uint32_t) f.inbox[0];
		hi = sort32(sort_key(f.inbox[0], 32 + lane), lane);
		if (T == 64)
		{
			/* the nearest 64 of pool and two registers of inbox */
			uint32_t	top = sort32(sort_key(f.inbox[T == 64], 64 + lane), lane);

			s.slot_id[(T == 64 ? 64 : 0) + lane] = (uint32_t) f.inbox[T == 64];
			merge64(hi, top, lane);
			uint32_t	a = min(lo, __shfl_sync(FULL, top, 31 - lane)),
						b = __shfl_sync(FULL, hi, 31 - lane);

			lo = merge32(min(a, b), lane);
			hi = merge32(max(a, b), lane);
		}
		else
			merge64(lo, hi, lane);
	}
	__syncwarp();

	constexpr uint32_t SLOT_MASK = (1u << SLOT_BITS) - 1;
	uint32_t	below = (1u << lane) - 1,
				id = lo == FULL ? EMPTY_ID : s.slot_id[lo & SLOT_MASK],
				before = __shfl_up_sync(FULL, id, 1);
	bool		is_new = lo != FULL && (lane == 0 || ((id ^ before) & ID_MASK) != 0);
	uint32_t	mask = __ballot_sync(FULL, is_new);
	int			m = __popc(mask),
				row = __popc(mask & below);

	if (is_new)
	{
		s.id[row] = id;
		s.code[row] = lo >> SLOT_BITS;
	}
	if (T > 32)
	{
		uint32_t	last = __shfl_sync(FULL, id, 31);

		id = hi == FULL ? EMPTY_ID : s.slot_id[hi & SLOT_MASK];
		before = __shfl_up_sync(FULL, id, 1);
		if (lane == 0)
			before = last;
		is_new = hi != FULL && ((id ^ before) & ID_MASK) != 0;
		mask = __ballot_sync(FULL, is_new);
		row = m + __popc(mask & below);
		if (is_new && row < T)
		{
			s.id[row] = id;
			s.code[row] = hi >> SLOT_BITS;
		}
		m = min(m + __popc(mask), T);
	}
	__syncwarp();
	return m;
}

/* Step 2 for one segment of the rows; the first one starts the sums. */
template <class P, int SEG, int T>
__device__ inline void
add_products(typename P::Acc (&acc)[T / 16][T / 8][4], const TileShared<typename P::Acc, T> &s,
			 const uint8_t *d_segment, uint32_t stride, int m, int lane)
{
	constexpr int GROUPS = T / 8;
	Share<SEG>	x[GROUPS];
	int			g = lane >> 2,
				t = lane & 3;

#pragma unroll
	for (int b = 0; b < GROUPS; b++)
	{
		int			row = 8 * b + g;

		if (row < m)
			x[b].load(d_segment + (size_t) (s.id[row] & ID_MASK) * stride, t);
		else
			x[b].zero();
	}
#pragma unroll
	for (int i = 0; i < T / 16; i++)
		if (i == 0 || m > 16 * i)
		{
#pragma unroll
			for (int j = 0; j < 2 * (i + 1); j++)
#pragma unroll
				for (int w = 0; w < Share<SEG>::WORDS; w += 2)
					P::product(acc[i][j], x[2 * i].w[w], x[2 * i + 1].w[w],
							   x[2 * i].w[w + 1], x[2 * i + 1].w[w + 1],
							   x[j].w[w], x[j].w[w + 1]);
		}
}

/* Steps 2 to 4 for one vertex with m sorted neighbours in s. */
template <class P, int SEG, int T>
__device__ inline void
update_vertex(const TileArgs &a, TileShared<typename P::Acc, T> &s, uint32_t v, int m,
			  uint32_t nearer, int lane)
{
	typedef typename P::Acc Acc;
	constexpr int BLOCKS = T / 16;	/* of 16 rows */
	constexpr int GROUPS = T / 8;	/* of 8 rows or columns */
	constexpr int WORDS = T > 32 ? 2 : 1;	/* of 32 rows or columns */
	int			g = lane >> 2,
				t = lane & 3;
	Acc			acc[BLOCKS][GROUPS][4];

#pragma unroll
	for (int i = 0; i < BLOCKS; i++)
#pragma unroll
		for (int j = 0; j < GROUPS; j++)
#pragma unroll
			for (int e = 0; e < 4; e++)
				acc[i][j][e] = 0;
	for (uint32_t seg = 0; seg < a.nseg; seg++)
		add_products<P, SEG, T>(acc, s, a.d_rows + seg * SEG, a.stride, m, lane);

	/* the diagonal: lane t = g / 2 of each quad holds its rows' squares */
	if (t == g >> 1)
	{
#pragma unroll
		for (int i = 0; i < BLOCKS; i++)
		{
			s.norm[16 * i + g] = (g & 1) ? acc[i][2 * i][1] : acc[i][2 * i][0];
			s.norm[16 * i + 8 + g] = (g & 1) ? acc[i][2 * i + 1][3] : acc[i][2 * i + 1][2];
		}
	}
	__syncwarp();

	/* who would occlude whom: bit (row, column) where d(row, column) < d(v, row) */
	uint32_t	bits[WORDS][WORDS] = {};	/* byte b: rows 8 b + g of the word */

#pragma unroll
	for (int i = 0; i < BLOCKS; i++)
		if (i == 0 || m > 16 * i)
		{
			int			row = 16 * i + g;
			Acc			limit0 = P::limit(s.code[row], s.norm[row]),
						limit1 = P::limit(s.code[row + 8], s.norm[row + 8]);

#pragma unroll
			for (int j = 0; j < 2 * (i + 1); j++)
			{
				Acc			norm0 = s.norm[8 * j + 2 * t],
							norm1 = s.norm[8 * j + 2 * t + 1];
				Acc		   *c = acc[i][j];
				uint32_t   &word = bits[i / 2][j / 4];
				constexpr int EVEN = 0;
				int			byte0 = 8 * ((2 * i) & 3),
							byte1 = 8 * ((2 * i + 1) & 3),
							bit = EVEN + (j & 3);

				c[0] = P::partial(norm0, c[0]);
				c[1] = P::partial(norm1, c[1]);
				c[2] = P::partial(norm0, c[2]);
				c[3] = P::partial(norm1, c[3]);
				if (c[0] < limit0)
					word |= 1u << (byte0 + bit);
				if (c[1] < limit0)
					word |= 1u << (byte0 + 4 + bit);
				if (c[2] < limit1)
					word |= 1u << (byte1 + bit);
				if (c[3] < limit1)
					word |= 1u << (byte1 + 4 + bit);
			}
		}

	/* step 3: this lane decides its one or two rows, all lanes at once */
	int			row0 = 8 * t + g,
				row1 = 32 + row0;
	uint32_t	valid0 = __ballot_sync(FULL, row0 < m),
				valid1 = T > 32 ? __ballot_sync(FULL, row1 < m) : 0;
	uint32_t	over0 = quad_transpose(bits[0][0], t) & nearer & valid0;	/* occluders of row0 */
	uint32_t	over1a = 0,
				over1b = 0;		/* of row1 among words 0 and 1 */

	if (WORDS == 2)
	{
		over1a = quad_transpose(bits[WORDS - 1][0], t) & valid0;
		over1b = quad_transpose(bits[WORDS - 1][WORDS - 1], t) & nearer & valid1;
	}
	uint32_t	kept0 = 0,
				kept1 = 0,
				gone0 = 0,
				gone1 = 0;

	/* each pass settles at least the first row that is still open */
	while ((kept0 | gone0) != valid0 || (kept1 | gone1) != valid1)
	{
		bool		out = row0 < m && (over0 & kept0) != 0,
					in = row0 < m && (over0 & ~gone0) == 0;
		uint32_t	k0 = __ballot_sync(FULL, in),
					g0 = __ballot_sync(FULL, out);

		if (WORDS == 2)
		{
			out = row1 < m && ((over1a & kept0) | (over1b & kept1)) != 0;
			in = row1 < m && ((over1a & ~gone0) | (over1b & ~gone1)) == 0;
			kept1 = __ballot_sync(FULL, in);
			gone1 = __ballot_sync(FULL, out);
		}
		kept0 = k0;
		gone0 = g0;
	}

	/* step 4: the nearest kept column of each row */
	if ((gone0 | gone1) != 0)
	{
		int32_t		nearest[2][4];

#pragma unroll
		for (int b = 0; b < 8; b++)
			nearest[b / 4][b % 4] = INT32_MAX;
#pragma unroll
		for (int j = 0; j < GROUPS; j++)
			if (j < 2 || m > 16 * (j / 2))
			{
				uint32_t	kept = (j < 4 ? kept0 : kept1) >> (8 * t);
				int32_t		column = 8 * j + 2 * t;
				int32_t		penalty0 = column + ((kept >> (j & 3)) & 1 ? 0 : NOT_KEPT),
							penalty1 = column + 1 + ((kept >> (4 + (j & 3))) & 1 ? 0 : NOT_KEPT);

#pragma unroll
				for (int i = j / 2; i < BLOCKS; i++)
					if (i == 0 || m > 16 * i)
					{
						int32_t    &n0 = nearest[i / 2][(2 * i) & 3],
								   &n1 = nearest[i / 2][(2 * i + 1) & 3];
						Acc			norm0 = s.norm[16 * i + g],
									norm1 = s.norm[16 * i + 8 + g];
						const Acc  *c = acc[i][j];

						n0 = min(n0, min(P::pack(c[0], norm0, penalty0),
										 P::pack(c[1], norm0, penalty1)));
						n1 = min(n1, min(P::pack(c[2], norm1, penalty0),
										 P::pack(c[3], norm1, penalty1)));
					}
			}
#pragma unroll
		for (int w = 0; w < WORDS; w++)
		{
			int32_t		best = quad_scatter_min(nearest[w], t);
			int			row = 32 * w + row0;

			if (((w == 0 ? gone0 : gone1) >> lane) & 1)
			{
				uint32_t	target = s.id[best & ((1 << COLUMN_BITS) - 1)] & ID_MASK,
							id = s.id[row] & ID_MASK;

				if (target != id)
					push_key(a.d_out, a.d_out_count, a.inbox, target,
							 P::code_of(best, s.norm[row]), id);
			}
		}
	}

	/* the new pool */
	Key		   *pool = a.d_pool + (size_t) v * POOL;
	uint32_t	place = __popc(kept0 & nearer);

	if (((kept0 >> lane) & 1) && place < a.keep)
		pool[place] = make_key(s.code[row0], s.id[row0]);
	if (WORDS == 2)
	{
		place = __popc(kept0) + __popc(kept1 & nearer);
		if (((kept1 >> lane) & 1) && place < a.keep)
			pool[place] = make_key(s.code[row1], s.id[row1]);
	}
	if (lane == 0)
	{
		a.d_pool_count[v] = (uint8_t) min((uint32_t) (__popc(kept0) + __popc(kept1)), a.keep);
		a.d_in_count[v] = 0;
	}
	__syncwarp();
}

template <class P, int SEG, int T>
__global__ void
__launch_bounds__(TILE_WARPS * WARP, T == 32 ? 5 : T == 48 ? 4 : 3)
tile_kernel(const TileArgs a)
{
	__shared__ TileShared<typename P::Acc, T> s_all[TILE_WARPS];
	TileShared<typename P::Acc, T> &s = s_all[threadIdx.x / WARP];
	int			lane = lane_id();
	uint32_t	count = *a.d_list_count,
				step = gridDim.x * TILE_WARPS,
				at = blockIdx.x * TILE_WARPS + threadIdx.x / WARP;
	/* lanes whose rows precede this lane's row within a word of 32 rows */
	uint32_t	nearer = 0;

	for (int other = 0; other < WARP; other++)
		if (8 * (other & 3) + (other >> 2) < 8 * (lane & 3) + (lane >> 2))
			nearer |= 1u << other;

	if (at >= count)
		return;
	uint64_t	entry = a.d_list[at],
				next = at + step < count ? a.d_list[at + step] : 0;
	Fetched<T>	fetched = fetch<T>(a, entry, lane);

	for (;;)
	{
		uint32_t	v = (uint32_t) entry;
		int			m = sorted_neighbours(fetched, s, lane);
		bool		more = at + step < count;

		at += step;
		entry = next;
		if (more)
		{
			fetched = fetch<T>(a, entry, lane);
			if (at + step < count)
				next = a.d_list[at + step];
		}
		update_vertex<P, SEG, T>(a, s, v, m, nearer, lane);
		if (!more)
			break;
	}
}

/* Lists the vertices with news by the tile they need. */
__global__ void
__launch_bounds__(BIN_THREADS)
bin_kernel(const uint8_t *d_pool_count, const uint32_t *d_inbox_count, uint32_t n,
		   uint32_t inbox, uint64_t *d_list, uint32_t *d_list_count)
{
	__shared__ uint32_t s_count[NCLASSES],
				s_base[NCLASSES];
	uint32_t	v = blockIdx.x * BIN_THREADS + threadIdx.x;
	int			lane = lane_id();

	if (threadIdx.x < NCLASSES)
		s_count[threadIdx.x] = 0;
	__syncthreads();

	uint32_t	npool = 0,
				ninbox = 0,
				place = 0;
	int			mine = -1;

	if (v < n)
		ninbox = min(d_inbox_count[v], inbox);
	if (ninbox > 0)
	{
		npool = d_pool_count[v];
		mine = npool + ninbox <= 32 ? 0 : npool + ninbox <= 48 && ninbox <= 32 ? 1 : 2;
	}
#pragma unroll
	for (int c = 0; c < NCLASSES; c++)
	{
		uint32_t	mask = __ballot_sync(FULL, mine == c),
					base = 0;

		if (lane == 0 && mask != 0)
			base = atomicAdd(&s_count[c], __popc(mask));
		base = __shfl_sync(FULL, base, 0);
		if (mine == c)
			place = base + __popc(mask & ((1u << lane) - 1));
	}
	__syncthreads();
	if (threadIdx.x < NCLASSES)
		s_base[threadIdx.x] = atomicAdd(&d_list_count[threadIdx.x], s_count[threadIdx.x]);
	__syncthreads();
	if (mine >= 0)
		d_list[(size_t) mine * n + s_base[mine] + place] =
			v | (uint64_t) npool << 32 | (uint64_t) ninbox << 40;
}

template <class P, int SEG, int T>
static cudaError_t
launch_tile(const Device &device, const TileArgs &args, cudaStream_t stream)
{
	int			blocks = 0;

	GRN_TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, tile_kernel<P, SEG, T>,
														  TILE_WARPS * WARP, 0));
	tile_kernel<P, SEG, T><<<device.sms * blocks, TILE_WARPS * WARP, 0, stream>>>(args);
	return cudaGetLastError();
}

template <class P, int SEG>
static cudaError_t
launch_tiles(const Device &device, TileArgs args, const TileGraph &graph)
{
	/* the largest tiles first: the others fill the gaps at their end */
	for (int c = NCLASSES - 1; c >= 0; c--)
	{
		cudaStream_t stream = device.side[c];

		args.d_list = graph.d_list + (size_t) c * graph.n;
		args.d_list_count = graph.d_list_count + c;
		GRN_TRY(cudaStreamWaitEvent(stream, device.fork, 0));
		GRN_TRY(c == 0 ? (launch_tile<P, SEG, 32>(device, args, stream)) :
				c == 1 ? (launch_tile<P, SEG, 48>(device, args, stream)) :
				(launch_tile<P, SEG, 64>(device, args, stream)));
		GRN_TRY(cudaEventRecord(device.join[c], stream));
		GRN_TRY(cudaStreamWaitEvent(device.stream, device.join[c], 0));
	}
	return cudaSuccess;
}

cudaError_t
launch_update_round(const Device &device, const Codes &codes, TileGraph &graph, uint32_t keep)
{
	TileArgs	args = {};

	args.d_rows = codes.d_rows;
	args.stride = codes.stride;
	args.nseg = codes.nseg;
	args.d_pool = graph.d_pool;
	args.d_pool_count = graph.d_pool_count;
	args.d_in = graph.d_inbox[graph.side];
	args.d_in_count = graph.d_inbox_count[graph.side];
	args.d_out = graph.d_inbox[1 - graph.side];
	args.d_out_count = graph.d_inbox_count[1 - graph.side];
	args.inbox = graph.inbox;
	args.keep = keep;

	GRN_TRY(cudaMemsetAsync(graph.d_list_count, 0, NCLASSES * sizeof(uint32_t), device.stream));
	bin_kernel<<<(graph.n + BIN_THREADS - 1) / BIN_THREADS, BIN_THREADS, 0, device.stream>>>
		(graph.d_pool_count, args.d_in_count, graph.n, graph.inbox, graph.d_list,
		 graph.d_list_count);
	GRN_TRY(cudaGetLastError());
	GRN_TRY(cudaEventRecord(device.fork, device.stream));
	GRN_TRY(GRN_DISPATCH_ROWS(codes, launch_tiles, device, args, graph));
	graph.side = 1 - graph.side;
	return cudaSuccess;
}
