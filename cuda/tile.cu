/*
 * tile.cu - the update round of the descent.  A warp works on one vertex.  All pairs of
 * the vertex's neighbors and candidates are one tile of products on the tensor cores.
 *
 * The kernel is RNN-Descent's UPDATE_NEIGHBORS (the paper's Algorithm 2) for all vertices
 * at the same time.  The paper's parallel version (Algorithm 4, paper/kernels.cu)
 * differs: pairs take effect one after the other in random order.  Here nearer neighbors
 * decide first, and a refused neighbor refuses no candidate.
 * 1. The warp sorts pool and inbox by distance, takes the nearest 64 keys, and drops
 *    duplicates.
 * 2. The warp multiplies all pairs of rows: the lower triangle of the tile, in blocks of
 *    16 x 8.  The diagonal gives the squared norms.
 * 3. The warp visits rows in order of distance and keeps each x that no kept y occludes:
 *    no kept y nearer to the vertex v has d(x, y) < d(v, x).  Sets of rows are 32-bit
 *    masks.
 * 4. The warp pushes each refused x to the inbox of the nearest kept y among the columns
 *    that x was multiplied with: the rows before the end of x's block of 16.
 *
 * Vertices with an empty inbox are skipped, because a round would not change their pools.
 *
 * Kernels are compiled for tiles of T = 32, 48 or 64 rows, and for inboxes of IW times 32
 * keys.  Each vertex uses the smallest tile that its pool and inbox fit, or the largest
 * tile.
 *
 * Rows of a tile are numbered by distance.  Lane 4 g + t decides on row 8 t + g and on the
 * row 32 behind, because this assignment fits the products' layout with the fewest
 * exchanges between lanes.  Bit i of a mask stands for the row that lane i decides on.
 */
#include "row_formats.cuh"

/*
 * Warps of a block.  The descent of a million SIFT rows takes .0414 s, with half .0455 s, with
 * twice .121 s.
 */
constexpr int TILE_WARPS = 4;
constexpr int BIN_THREADS = 1024;

struct TileArgs
{
	const uint8_t  *d_rows; /* [n][stride] digests */
	uint32_t		stride;
	uint32_t		nseg;
	Key			   *d_pool;		  /* [n][pool] */
	uint8_t		   *d_pool_count; /* [n] */
	const Key	   *d_in;		  /* [n][inbox] inboxes to read */
	uint32_t	   *d_in_count;	  /* [n] */
	Key			   *d_out;		  /* [n][inbox] inboxes to write */
	uint32_t	   *d_out_count;  /* [n] */
	uint32_t		pool;		  /* capacity of a pool */
	uint32_t		inbox;		  /* capacity of an inbox */
	uint32_t		keep;		  /* the most rows that a pool keeps */
	const uint64_t *d_list;		  /* [*d_list_count] vertices whose tiles have this
								   * size */
	const uint32_t *d_list_count; /* [1] */
};

/* Neighbors and candidates of a vertex, in the order of the tile. */
template <int T> struct TileRows
{
	uint32_t id[T];
	uint32_t ordinal[T]; /* ordinal of the distance to the vertex */
};

/* Scratch memory of a warp: rows of the vertex that is pruned, and of the vertex that is loaded. */
template <class Acc, int T, int IW> struct TileShared
{
	uint32_t	slot_id[T == 32	  ? WARP
						: T == 48 ? 2 * WARP
								  : (2 + IW) * WARP]; /* ids in the order of loading */
	TileRows<T> rows[2];
	Acc			norm[T]; /* [row] squared norms */
};

/* Transposes 4 x 4 bytes of a quad: byte t' of the result is byte t of lane t'. */
__device__ inline uint32_t
quad_transpose(uint32_t x, int t)
{
	uint32_t other = __shfl_xor_sync(FULL, x, 2);

	x = __byte_perm(x, other, t < 2 ? 0x5410 : 0x3276);
	other = __shfl_xor_sync(FULL, x, 1);
	return __byte_perm(x, other, (t & 1) == 0 ? 0x6240 : 0x3715);
}

/* Returns to lane t of a quad the smallest v[t] of the quad's lanes. */
__device__ inline int32_t
quad_scatter_min(const int32_t (&v)[4], int t)
{
	bool	high = t >= 2, odd = (t & 1) != 0;
	int32_t a = high ? v[2] : v[0], b = high ? v[3] : v[1];

	a = min(a, __shfl_xor_sync(FULL, high ? v[0] : v[2], 2));
	b = min(b, __shfl_xor_sync(FULL, high ? v[1] : v[3], 2));
	int32_t mine = odd ? b : a;

	return min(mine, __shfl_xor_sync(FULL, odd ? a : b, 1));
}

/*
 * One lane's keys of a vertex, which are loaded two vertices ahead.  For tiles of 32 rows
 * `pool` has the pool's keys and behind them the inbox's keys.
 */
template <int IW> struct Fetched
{
	Key pool;
	Key far; /* the pool's keys from the 33rd on, for tiles of 64 */
	Key inbox[IW];
};

template <int T, int IW>
__device__ inline Fetched<IW>
fetch(const TileArgs &a, uint64_t entry, int lane)
{
	uint32_t v = (uint32_t) entry, npool = (uint32_t) (entry >> 32) & 0xff,
			 ninbox = (uint32_t) (entry >> 40) & 0xff;
	const Key  *d_pool = a.d_pool + (size_t) v * a.pool;
	const Key  *d_inbox = a.d_in + (size_t) v * a.inbox;
	Fetched<IW> f;

	f.far = EMPTY_KEY;
	if (T == 32)
	{
		f.inbox[0] = EMPTY_KEY;
		f.pool = lane < npool			 ? d_pool[lane]
				 : lane < npool + ninbox ? d_inbox[lane - npool]
										 : EMPTY_KEY;
		return f;
	}
	f.pool = lane < npool ? d_pool[lane] : EMPTY_KEY;
	if (T == 64 && lane + WARP < npool)
		f.far = d_pool[lane + WARP];
#pragma unroll
	for (int w = 0; w < IW; w++)
		f.inbox[w] = lane + WARP * w < ninbox ? d_inbox[lane + WARP * w] : EMPTY_KEY;
	return f;
}

__device__ inline uint32_t
sort_key(Key key, uint32_t slot)
{
	return key == EMPTY_KEY ? FULL : (uint32_t) (key >> 32) << SLOT_BITS | slot;
}

/* Step 1: writes at most T distinct keys to rows, nearest first, and returns their number. */
template <int T, int IW>
__device__ inline int
sorted_neighbors(const Fetched<IW> &f, uint32_t *s_slot_id, TileRows<T> &rows, int lane)
{
	uint32_t lo = sort_key(f.pool, lane), /* sorted already, except for T = 32 */
		hi = FULL;

	s_slot_id[lane] = (uint32_t) f.pool;
	if (T == 32)
		lo = sort32(lo, lane);
	else
	{
		s_slot_id[WARP + lane] = (uint32_t) f.inbox[0];
		hi = sort32(sort_key(f.inbox[0], WARP + lane), lane);
		if (T == 64)
		{
			/* Takes the nearest 64 keys of pool and inbox, two sorted sequences. */
			constexpr int FAR = (1 + IW) * WARP;
			uint32_t	  far = sort_key(f.far, FAR + lane), top;

			s_slot_id[(T == 64 ? FAR : 0) + lane] = (uint32_t) f.far;
			s_slot_id[IW * WARP + lane] = (uint32_t) f.inbox[IW - 1];
			top = sort32(sort_key(f.inbox[IW - 1], 2 * WARP + lane), lane);
			merge64(hi, top, lane);
			uint32_t a = min(lo, __shfl_sync(FULL, top, 31 - lane)),
					 b = min(far, __shfl_sync(FULL, hi, 31 - lane));

			lo = merge32(min(a, b), lane);
			hi = merge32(max(a, b), lane);
		}
		else
			merge64(lo, hi, lane);
	}
	__syncwarp();

	constexpr uint32_t SLOT_MASK = (1u << SLOT_BITS) - 1;
	uint32_t		   below = (1u << lane) - 1,
			 id = lo == FULL ? EMPTY_ID : s_slot_id[lo & SLOT_MASK],
			 before = __shfl_up_sync(FULL, id, 1);
	bool	 is_new = lo != FULL && (lane == 0 || id != before);
	uint32_t mask = __ballot_sync(FULL, is_new);
	int		 m = __popc(mask), row = __popc(mask & below);

	if (is_new)
	{
		rows.id[row] = id;
		rows.ordinal[row] = lo >> SLOT_BITS;
	}
	if (T > 32)
	{
		uint32_t last = __shfl_sync(FULL, id, 31);

		id = hi == FULL ? EMPTY_ID : s_slot_id[hi & SLOT_MASK];
		before = __shfl_up_sync(FULL, id, 1);
		if (lane == 0)
			before = last;
		is_new = hi != FULL && id != before;
		mask = __ballot_sync(FULL, is_new);
		row = m + __popc(mask & below);
		if (is_new && row < T)
		{
			rows.id[row] = id;
			rows.ordinal[row] = hi >> SLOT_BITS;
		}
		m = min(m + __popc(mask), T);
	}
	__syncwarp();
	return m;
}

/* Starts the copy of m rows to s_digests [T][stride]; piece_at() has the places of the pieces. */
template <int SEG, int T>
__device__ inline void
stage_rows(const TileArgs &a, const TileRows<T> &rows, int m, uint8_t *s_digests,
		   int lane)
{
	int pieces = a.stride / 16, shift = 31 - __clz(pieces);

	for (int i = lane; i < m << shift; i += WARP)
	{
		int row = i >> shift, piece = i & (pieces - 1);

		copy16(s_digests + row * a.stride + 16 * piece_at<SEG>(row, piece),
			   a.d_rows + (size_t) rows.id[row] * a.stride + 16 * piece, true);
	}
	asm volatile("cp.async.commit_group;" : : : "memory");
}

/* Sums of products in blocks of 16 rows by 8 columns.  Only the lower triangle is computed. */
template <class P, int T> struct TileSums
{
	typename P::Acc of[T / 16][T / 8][4];
};

/* Step 2: multiplies all pairs of rows.  The copies of stage_rows() must have ended. */
template <class P, int SEG, int T>
__device__ inline void
multiply(const TileArgs &a, const uint8_t *s_digests, int m, TileSums<P, T> &sums,
		 int lane)
{
	constexpr int GROUPS = T / 8;
	int			  g = lane >> 2, t = lane & 3;

#pragma unroll
	for (int i = 0; i < T / 16; i++)
#pragma unroll
		for (int j = 0; j < GROUPS; j++)
#pragma unroll
			for (int e = 0; e < 4; e++)
				sums.of[i][j][e] = 0;
	/* Parts of 64 bytes of each row need fewer registers than whole segments. */
	constexpr int WORDS = SEG == 32 ? 2 : 4;
	constexpr int PARTS = SEG == 128 ? 2 : 1;

	for (uint32_t part = 0; part < a.nseg * PARTS; part++)
	{
		uint32_t x[GROUPS][WORDS];

#pragma unroll
		for (int b = 0; b < GROUPS; b++)
		{
			int	  row = 8 * b + g;
			uint4 y = make_uint4(0, 0, 0, 0);

			if (row < m)
			{
				const uint8_t *s_row = s_digests + row * a.stride;

				if (SEG == 32)
				{
					uint2 z = *(const uint2 *) (s_row + 8 * t);

					y.x = z.x, y.y = z.y;
				}
				else
					y = *(const uint4 *) (s_row + 16 * piece_at<SEG>(row, 4 * part + t));
			}
			x[b][0] = y.x, x[b][1] = y.y;
			x[b][2 % WORDS] = WORDS == 4 ? y.z : y.x;
			x[b][3 % WORDS] = WORDS == 4 ? y.w : y.y;
		}
#pragma unroll
		for (int i = 0; i < T / 16; i++)
			if (i == 0 || m > 16 * i)
			{
#pragma unroll
				for (int j = 0; j < 2 * (i + 1); j++)
#pragma unroll
					for (int w = 0; w < WORDS; w += 2)
						P::product(sums.of[i][j], x[2 * i][w], x[2 * i + 1][w],
								   x[2 * i][w + 1], x[2 * i + 1][w + 1], x[j][w],
								   x[j][w + 1]);
			}
	}
}

/*
 * A candidate on the way to another vertex's inbox.  An atomic addition has been started to find
 * the candidate's slot.  The warp waits for the result only at the same step of the next vertex.
 */
struct Pending
{
	uint32_t target = EMPTY_ID;
	uint32_t slot, ordinal, id;
};

__device__ inline void
deliver(const TileArgs &a, Pending &p)
{
	if (p.target != EMPTY_ID)
		store_key(a.d_out, a.inbox, p.target, p.slot, p.ordinal, p.id);
	p.target = EMPTY_ID;
}

/* Masks of the nearer rows that occlude a lane's one or two rows, if these nearer rows are kept. */
struct Occluders
{
	uint32_t of0;		 /* occluders of row0, among rows 0 to 31 */
	uint32_t of1a, of1b; /* occluders of row1, among rows 0 to 31 and rows 32 to 63 */
};

/*
 * Finds the occluders of each row x: each nearer y with d(x, y) < d(v, x).  Replaces the
 * sums by partial distances, and writes the squared norms to s.norm.
 */
template <class P, int T, int IW>
__device__ inline Occluders
occluders(TileShared<typename P::Acc, T, IW> &s, const TileRows<T> &rows,
		  TileSums<P, T> &sums, int m, uint32_t nearer, int lane)
{
	typedef typename P::Acc Acc;
	constexpr int			BLOCKS = T / 16;		/* blocks of 16 rows */
	constexpr int			WORDS = T > 32 ? 2 : 1; /* words of 32 rows or columns */
	int						g = lane >> 2, t = lane & 3;
	auto				   &acc = sums.of;

	/* On the diagonal lane t = g / 2 of each quad holds the squared norms of its rows. */
	if (t == g >> 1)
	{
#pragma unroll
		for (int i = 0; i < BLOCKS; i++)
		{
			s.norm[16 * i + g] = (g & 1) ? acc[i][2 * i][1] : acc[i][2 * i][0];
			s.norm[16 * i + 8 + g] =
				(g & 1) ? acc[i][2 * i + 1][3] : acc[i][2 * i + 1][2];
		}
	}
	__syncwarp();

	uint32_t bits[WORDS][WORDS] = {}; /* byte b of a word is row 8 b + g */

#pragma unroll
	for (int i = 0; i < BLOCKS; i++)
		if (i == 0 || m > 16 * i)
		{
			int row = 16 * i + g;
			Acc limit0 = P::limit(rows.ordinal[row], s.norm[row]),
				limit1 = P::limit(rows.ordinal[row + 8], s.norm[row + 8]);

#pragma unroll
			for (int j = 0; j < 2 * (i + 1); j++)
			{
				Acc	 norm0 = s.norm[8 * j + 2 * t], norm1 = s.norm[8 * j + 2 * t + 1];
				Acc *c = acc[i][j];
				uint32_t &word = bits[i / 2][j / 4];
				int byte0 = 8 * ((2 * i) & 3), byte1 = 8 * ((2 * i + 1) & 3), bit = j & 3;

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

	int		  row0 = 8 * t + g, row1 = 32 + row0;
	uint32_t  valid0 = __ballot_sync(FULL, row0 < m);
	Occluders over = {};

	over.of0 = quad_transpose(bits[0][0], t) & nearer & valid0;
	if (WORDS == 2)
	{
		uint32_t valid1 = __ballot_sync(FULL, row1 < m);

		over.of1a = quad_transpose(bits[WORDS - 1][0], t) & valid0;
		over.of1b = quad_transpose(bits[WORDS - 1][WORDS - 1], t) & nearer & valid1;
	}
	return over;
}

/* Writes the new pool: the nearest a.keep of the kept rows. */
template <int T>
__device__ inline void
store_pool(const TileArgs &a, const TileRows<T> &rows, uint32_t v, uint32_t kept0,
		   uint32_t kept1, uint32_t nearer, int lane)
{
	int		 row0 = 8 * (lane & 3) + (lane >> 2);
	Key		*d_pool = a.d_pool + (size_t) v * a.pool;
	uint32_t position = __popc(kept0 & nearer);

	if (((kept0 >> lane) & 1) && position < a.keep)
		d_pool[position] = make_key(rows.ordinal[row0], rows.id[row0]);
	if (T > 32)
	{
		position = __popc(kept0) + __popc(kept1 & nearer);
		if (((kept1 >> lane) & 1) && position < a.keep)
			d_pool[position] = make_key(rows.ordinal[32 + row0], rows.id[32 + row0]);
	}
	if (lane == 0)
	{
		a.d_pool_count[v] =
			(uint8_t) min((uint32_t) (__popc(kept0) + __popc(kept1)), a.keep);
		a.d_in_count[v] = 0;
	}
	__syncwarp();
}

/* Steps 3 and 4 for vertex v, whose tile has m rows. */
template <class P, int T, int IW>
__device__ inline void
prune(const TileArgs &a, TileShared<typename P::Acc, T, IW> &s, const TileRows<T> &rows,
	  TileSums<P, T> &sums, uint32_t v, int m, uint32_t nearer, Pending (&pending)[2],
	  int lane)
{
	typedef typename P::Acc Acc;
	constexpr int			BLOCKS = T / 16;		/* blocks of 16 rows */
	constexpr int			GROUPS = T / 8;			/* groups of 8 rows or columns */
	constexpr int			WORDS = T > 32 ? 2 : 1; /* words of 32 rows or columns */
	int						g = lane >> 2, t = lane & 3;
	auto				   &acc = sums.of;
	Occluders				over = occluders<P, T, IW>(s, rows, sums, m, nearer, lane);

	/* Step 3: all lanes decide on their one or two rows at once. */
	int		 row0 = 8 * t + g, row1 = 32 + row0;
	uint32_t valid0 = __ballot_sync(FULL, row0 < m),
			 valid1 = T > 32 ? __ballot_sync(FULL, row1 < m) : 0;
	uint32_t kept0 = 0, kept1 = 0, gone0 = 0, gone1 = 0;

	/* Each pass settles at least the nearest open row. */
	while ((kept0 | gone0) != valid0 || (kept1 | gone1) != valid1)
	{
		bool out = row0 < m && (over.of0 & kept0) != 0,
			 in = row0 < m && (over.of0 & ~gone0) == 0;
		uint32_t k0 = __ballot_sync(FULL, in), g0 = __ballot_sync(FULL, out);

		if (WORDS == 2)
		{
			out = row1 < m && ((over.of1a & kept0) | (over.of1b & kept1)) != 0;
			in = row1 < m && ((over.of1a & ~gone0) | (over.of1b & ~gone1)) == 0;
			kept1 = __ballot_sync(FULL, in);
			gone1 = __ballot_sync(FULL, out);
		}
		kept0 = k0;
		gone0 = g0;
	}

	/* Step 4: find the nearest kept column of each refused row. */
#pragma unroll
	for (int w = 0; w < WORDS; w++)
		deliver(a, pending[w]);
	if ((gone0 | gone1) != 0)
	{
		int32_t nearest[2][4];

#pragma unroll
		for (int b = 0; b < 8; b++)
			nearest[b / 4][b % 4] = INT32_MAX;
#pragma unroll
		for (int j = 0; j < GROUPS; j++)
			if (j < 2 || m > 16 * (j / 2))
			{
				uint32_t kept = (j < 4 ? kept0 : kept1) >> (8 * t);
				int32_t	 column = 8 * j + 2 * t;
				int32_t	 penalty0 = column + ((kept >> (j & 3)) & 1 ? 0 : NOT_KEPT),
						penalty1 =
							column + 1 + ((kept >> (4 + (j & 3))) & 1 ? 0 : NOT_KEPT);

#pragma unroll
				for (int i = j / 2; i < BLOCKS; i++)
					if (i == 0 || m > 16 * i)
					{
						int32_t &n0 = nearest[i / 2][(2 * i) & 3],
								&n1 = nearest[i / 2][(2 * i + 1) & 3];
						Acc norm0 = s.norm[16 * i + g], norm1 = s.norm[16 * i + 8 + g];
						const Acc *c = acc[i][j];

						n0 = min(n0, min(P::pack(c[0], norm0, penalty0),
										 P::pack(c[1], norm0, penalty1)));
						n1 = min(n1, min(P::pack(c[2], norm1, penalty0),
										 P::pack(c[3], norm1, penalty1)));
					}
			}
#pragma unroll
		for (int w = 0; w < WORDS; w++)
		{
			int32_t best = quad_scatter_min(nearest[w], t);
			int		row = 32 * w + row0;

			if (((w == 0 ? gone0 : gone1) >> lane) & 1)
			{
				uint32_t target = rows.id[best & ((1 << COLUMN_BITS) - 1)],
						 id = rows.id[row];

				if (target != id)
				{
					pending[w].slot = atomicAdd(&a.d_out_count[target], 1u);
					pending[w].target = target;
					pending[w].ordinal = P::ordinal_of(best, s.norm[row]);
					pending[w].id = id;
				}
			}
		}
	}

	store_pool<T>(a, rows, v, kept0, kept1, nearer, lane);
}

template <class P, int SEG, int T, int IW>
__global__ void
__launch_bounds__(TILE_WARPS *WARP, T == 32	  ? 7
									: T == 48 ? 4
											  : 3) tile_kernel(const TileArgs a)
{
	typedef TileShared<typename P::Acc, T, IW> Scratch;
	extern __shared__ __align__(16) uint8_t s_bytes[]; /* [warp][T][stride] */
	__shared__ Scratch						s_all[TILE_WARPS];
	int										warp = threadIdx.x / WARP, lane = lane_id();
	Scratch								   &s = s_all[warp];
	uint8_t *s_digests = s_bytes + (size_t) warp * T * a.stride;
	uint32_t count = *a.d_list_count, step = gridDim.x * TILE_WARPS,
			 at = blockIdx.x * TILE_WARPS + warp;
	/* The lanes whose rows are nearer than this lane's row, within each 32 rows. */
	uint32_t nearer = 0;

	for (int other = 0; other < WARP; other++)
		if (8 * (other & 3) + (other >> 2) < 8 * (lane & 3) + (lane >> 2))
			nearer |= 1u << other;
	if (at >= count)
		return;

	/*
	 * Three vertices are in progress.  The rows of the first vertex, m of them, are in s_digests.
	 * The keys of the second vertex are loaded.  The list entry of the third vertex is loaded.
	 */
	uint64_t entry = 0, next = a.d_list[at],
			 third = at + step < count ? a.d_list[at + step] : 0;
	Fetched<IW> fetched = fetch<T, IW>(a, next, lane);
	Pending		pending[2];
	int			m = 0;

	for (int side = 0;; side ^= 1)
	{
		TileSums<P, T> sums;
		bool		   more = at < count;
		int			   m_next = 0;

		if (m > 0)
		{
			asm volatile("cp.async.wait_all;" : : : "memory");
			__syncwarp();
			multiply<P, SEG, T>(a, s_digests, m, sums, lane);
			__syncwarp();
		}
		if (more)
		{
			m_next = sorted_neighbors<T, IW>(fetched, s.slot_id, s.rows[side], lane);
			stage_rows<SEG, T>(a, s.rows[side], m_next, s_digests, lane);
			at += step;
		}
		uint32_t v = (uint32_t) entry;

		entry = next;
		next = third;
		if (at < count)
		{
			fetched = fetch<T, IW>(a, next, lane);
			third = at + step < count ? a.d_list[at + step] : 0;
		}
		if (m > 0)
			prune<P, T, IW>(a, s, s.rows[side ^ 1], sums, v, m, nearer, pending, lane);
		m = m_next;
		if (!more)
			break;
	}
	deliver(a, pending[0]);
	deliver(a, pending[1]);
}

/* Lists the vertices with a nonempty inbox by the size of their tiles. */
__global__ void
__launch_bounds__(BIN_THREADS)
	bin_kernel(const uint8_t *d_pool_count, const uint32_t *d_inbox_count, uint32_t n,
			   uint32_t inbox, uint64_t *d_list, uint32_t *d_list_count)
{
	__shared__ uint32_t s_count[NCLASSES], s_base[NCLASSES];
	uint32_t			v = blockIdx.x * BIN_THREADS + threadIdx.x;
	int					lane = lane_id();

	if (threadIdx.x < NCLASSES)
		s_count[threadIdx.x] = 0;
	__syncthreads();

	uint32_t npool = 0, ninbox = 0, position = 0;
	int		 mine = -1;

	if (v < n)
		ninbox = min(d_inbox_count[v], inbox);
	if (ninbox > 0)
	{
		npool = d_pool_count[v];
		mine = npool + ninbox <= 32									 ? 0
			   : npool + ninbox <= 48 && ninbox <= 32 && npool <= 32 ? 1
																	 : 2;
	}
#pragma unroll
	for (int c = 0; c < NCLASSES; c++)
	{
		uint32_t mask = __ballot_sync(FULL, mine == c), base = 0;

		if (lane == 0 && mask != 0)
			base = atomicAdd(&s_count[c], __popc(mask));
		base = __shfl_sync(FULL, base, 0);
		if (mine == c)
			position = base + __popc(mask & ((1u << lane) - 1));
	}
	__syncthreads();
	if (threadIdx.x < NCLASSES)
		s_base[threadIdx.x] = atomicAdd(&d_list_count[threadIdx.x], s_count[threadIdx.x]);
	__syncthreads();
	if (mine >= 0)
		d_list[(size_t) mine * n + s_base[mine] + position] =
			v | (uint64_t) npool << 32 | (uint64_t) ninbox << 40;
}

template <class P, int SEG, int T, int IW>
static cudaError_t
launch_tile(const Device &device, const TileArgs &args, cudaStream_t stream)
{
	auto   kernel = tile_kernel<P, SEG, T, IW>;
	size_t bytes = (size_t) TILE_WARPS * T * args.stride;
	int	   blocks = 0;

	GRN_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
								 (int) bytes));
	GRN_TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel,
														  TILE_WARPS * WARP, bytes));
	if (blocks < 1)
		return cudaErrorInvalidConfiguration;
	kernel<<<device.sms * blocks, TILE_WARPS * WARP, bytes, stream>>>(args);
	return cudaGetLastError();
}

template <class P, int SEG>
static cudaError_t
launch_tiles(const Device &device, TileArgs args, const TileGraph &graph)
{
	/*
	 * The largest tiles come first, and smaller tiles fill the multiprocessors at the
	 * end.  Measured on a million SIFT rows on one H200, with 7, 4 and 3 blocks for each
	 * multiprocessor: 43.7 ms; with 6, 5 and 4 blocks: 47.8 ms.
	 */
	for (int c = NCLASSES - 1; c >= 0; c--)
	{
		cudaStream_t stream = device.side[c];

		args.d_list = graph.d_list + (size_t) c * graph.n;
		args.d_list_count = graph.d_list_count + c;
		GRN_TRY(cudaStreamWaitEvent(stream, device.fork, 0));
		GRN_TRY(c == 0	 ? (launch_tile<P, SEG, 32, 1>(device, args, stream))
				: c == 1 ? (launch_tile<P, SEG, 48, 1>(device, args, stream))
						 : (launch_tile<P, SEG, 64, 2>(device, args, stream)));
		GRN_TRY(cudaEventRecord(device.join[c], stream));
		GRN_TRY(cudaStreamWaitEvent(device.stream, device.join[c], 0));
	}
	return cudaSuccess;
}

cudaError_t
launch_update_round(const Device &device, const Digests &digests, TileGraph &graph,
					uint32_t keep)
{
	TileArgs args = {};

	GRN_REQUIRE(digests.valid() && graph.valid() && digests.n == graph.n);
	GRN_REQUIRE(keep <= graph.pool);
	args.d_rows = digests.d_rows;
	args.stride = digests.stride;
	args.nseg = digests.nseg;
	args.d_pool = graph.d_pool;
	args.d_pool_count = graph.d_pool_count;
	args.d_in = graph.d_inbox[graph.side];
	args.d_in_count = graph.d_inbox_count[graph.side];
	args.d_out = graph.d_inbox[1 - graph.side];
	args.d_out_count = graph.d_inbox_count[1 - graph.side];
	args.pool = graph.pool;
	args.inbox = graph.inbox;
	args.keep = keep;

	GRN_TRY(cudaMemsetAsync(graph.d_list_count, 0, NCLASSES * sizeof(uint32_t),
							device.stream));
	bin_kernel<<<(graph.n + BIN_THREADS - 1) / BIN_THREADS, BIN_THREADS, 0,
				 device.stream>>>(graph.d_pool_count, args.d_in_count, graph.n,
								  graph.inbox, graph.d_list, graph.d_list_count);
	GRN_TRY(cudaGetLastError());
	GRN_TRY(cudaEventRecord(device.fork, device.stream));
	GRN_TRY(GRN_DISPATCH_ROWS(digests, launch_tiles, device, args, graph));
	graph.side = 1 - graph.side;
	return cudaSuccess;
}
