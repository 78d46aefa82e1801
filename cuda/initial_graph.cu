/*
 * initial_graph.cu - makes the graph that the descent begins with: S random neighbors of
 * each vertex (Algorithm 3, line 4), and a few near neighbors from a coarse order of the
 * rows.
 *
 * Some thousand random rows are the centroids of bins.  Each row is assigned to the bin
 * of the nearest centroid, rows are renumbered in the order of their bins, and each row
 * is compared with the `window` rows around its position.  The comparison is one matrix
 * product and takes less than half of the time of a round.  The window makes no
 * difference on SIFT.  If rows form many tight clusters, few random neighbors are in a
 * row's own cluster, and the window finds neighbors of the same cluster.
 */
#include "row_formats.cuh"

/*
 * A million SIFT rows: the descent, which includes the initial graph, takes .0414 s; with half and
 * twice of SWEEP_WARPS .0416 and .0428 s, with two STAGES .0414 s.
 */
constexpr int SWEEP_WARPS = 4;
constexpr int SWEEP_ROWS = 32 * SWEEP_WARPS; /* rows that a block compares */
constexpr int CHUNK = 32;					 /* columns of one step of a block */
constexpr int STAGES = 4;					 /* chunks of columns in shared memory: one
											  * in use, the rest being copied */
constexpr int MAX_WINDOW = CHUNK << COLUMN_BITS;
/*
 * Candidates of a row from its window.  Recall@10 of a million SIFT rows, 200,000 GIST rows and
 * 19,000 sentences: 4 lose .0025, .002 and nothing; 16 and 32 lose 0 to .004 (SIFT, GIST).
 */
constexpr int WINDOW_KEYS = 8;
/*
 * The first SUPER_BINS centroids order the bins: each bin stands with its nearest super
 * bin, so that near bins are near in the order.  Half and twice change neither time nor recall
 * (SIFT, GIST, sentences).
 */
constexpr int SUPER_BINS = 64;
constexpr int SCAN_THREADS = 1024;

/* Rows and columns to compare, each row with each column.  Rows and columns are digests. */
struct SweepArgs
{
	const uint8_t  *d_rows; /* [nrows][stride] */
	const uint32_t *d_row_norms;
	uint32_t		nrows;
	const uint8_t  *d_columns; /* [ncolumns][stride] */
	const uint32_t *d_column_norms;
	uint32_t		ncolumns;
	uint32_t		stride;
	uint32_t		nseg;
};

template <int SEG> struct SweepShared
{
	uint8_t	 columns[STAGES][CHUNK * SEG];
	uint32_t norms[STAGES][CHUNK];
};

/* Starts the copy of one segment of CHUNK columns to shared memory. */
template <int SEG>
__device__ inline void
stage_columns(const SweepArgs &a, SweepShared<SEG> &s, int stage, uint32_t first,
			  uint32_t seg)
{
	constexpr int PIECES = SEG / 16;

	for (int i = threadIdx.x; i < CHUNK * PIECES; i += SWEEP_ROWS)
	{
		int		 row = i / PIECES, piece = i % PIECES;
		bool	 valid = first + row < a.ncolumns;
		uint32_t from = valid ? first + row : 0;

		copy16(&s.columns[stage][row * SEG + 16 * piece_at<SEG>(row, piece)],
			   a.d_columns + (size_t) from * a.stride + seg * SEG + 16 * piece, valid);
	}
	if (threadIdx.x < CHUNK)
		s.norms[stage][threadIdx.x] =
			first + threadIdx.x < a.ncolumns ? a.d_column_norms[first + threadIdx.x] : 0;
	asm volatile("cp.async.commit_group;");
}

/*
 * Compares the warp's 32 rows, from first_row on, with columns [first, first + width).  Calls
 * fold.chunk() with the number of each chunk of columns, and after that fold.take() with the sums
 * of each product of 16 rows by 8 columns.  All warps of the block must call the function.
 */
template <class P, int SEG, class Fold>
__device__ inline void
sweep(const SweepArgs &a, SweepShared<SEG> &s, uint32_t first_row, uint32_t first,
	  uint32_t width, Fold &fold)
{
	typedef typename P::Acc Acc;
	int						lane = lane_id(), g = lane >> 2, t = lane & 3;
	uint32_t				chunks = (width + CHUNK - 1) / CHUNK, steps = chunks * a.nseg;
	Share<SEG>				x[4]; /* rows 8 b + g */
	Acc						acc[4][2][4];

#pragma unroll
	for (int i = 0; i < STAGES - 1; i++)
	{
		if (i < steps)
			stage_columns<SEG>(a, s, i, first + CHUNK * (i / a.nseg), i % a.nseg);
		else
			asm volatile("cp.async.commit_group;");
	}
	for (uint32_t step = 0, chunk = 0, seg = 0; step < steps; step++)
	{
		int stage = step % STAGES;

		if (step == 0 || a.nseg > 1)
		{
#pragma unroll
			for (int b = 0; b < 4; b++)
			{
				uint32_t row = min(first_row + 8 * b + g, a.nrows - 1);

				x[b].load(a.d_rows + (size_t) row * a.stride + seg * SEG, t);
			}
		}
		asm volatile("cp.async.wait_group %0;" : : "n"(STAGES - 2));
		__syncthreads();
		uint32_t ahead = step + STAGES - 1;

		if (ahead < steps)
			stage_columns<SEG>(a, s, ahead % STAGES, first + CHUNK * (ahead / a.nseg),
							   ahead % a.nseg);
		else
			asm volatile("cp.async.commit_group;");

#pragma unroll
		for (int j = 0; j < 4; j++)
		{
			Share<SEG> y;
			int		   row = 8 * j + g;

			y.load_swizzled(&s.columns[stage][row * SEG], row, t);
#pragma unroll
			for (int m = 0; m < 2; m++)
			{
				if (seg == 0)
					acc[j][m][0] = acc[j][m][1] = acc[j][m][2] = acc[j][m][3] = 0;
#pragma unroll
				for (int w = 0; w < Share<SEG>::WORDS; w += 2)
					P::product(acc[j][m], x[2 * m].w[w], x[2 * m + 1].w[w],
							   x[2 * m].w[w + 1], x[2 * m + 1].w[w + 1], y.w[w],
							   y.w[w + 1]);
			}
		}
		if (++seg == a.nseg)
		{
			fold.chunk(chunk);
#pragma unroll
			for (int j = 0; j < 4; j++)
			{
				Acc norm0 = P::from_bits(s.norms[stage][8 * j + 2 * t]),
					norm1 = P::from_bits(s.norms[stage][8 * j + 2 * t + 1]);

#pragma unroll
				for (int m = 0; m < 2; m++)
					fold.take(j, m, acc[j][m], norm0, norm1);
			}
			seg = 0;
			chunk++;
		}
	}
	asm volatile("cp.async.wait_group 0;");
}

/*
 * Finds for each row the nearest column in each of 32 buckets.  The bucket of a column is the
 * column's position within its chunk.  Buckets save a sort: the nearest column of all is always
 * found, and the next few columns are usually found because they rarely share a bucket.
 */
template <class P> struct NearestFold
{
	typedef typename P::Acc Acc;
	int32_t					best[4][2][4]; /* [row 8 b + g][column parity][group] */
	Acc						norm[4];
	uint32_t				row[4]; /* number of the row, which must not become its own
									 * candidate */
	uint32_t				first, width, ncolumns;
	uint32_t				first_row; /* first row of the warp */
	int						t;
	uint32_t				now; /* the current chunk */
	bool careful; /* the chunk contains some of the warp's own rows, or passes the end
				   * of the window */

	__device__ inline void chunk(uint32_t c)
	{
		uint32_t begin = first + CHUNK * c;

		now = c;
		careful = (begin < first_row + 32 && first_row < begin + CHUNK) ||
				  CHUNK * (c + 1) > width;
	}
	__device__ inline void take_one(int b, int e, int j, Acc dot, Acc column_norm)
	{
		int32_t packed = P::pack(P::partial(column_norm, dot), norm[b], now);

		if (careful)
		{
			uint32_t c = CHUNK * now + 8 * j + 2 * t + e;

			if (c >= width || first + c == row[b])
				return;
		}
		best[b][e][j] = min(best[b][e][j], packed);
	}
	__device__ inline void take(int j, int m, const Acc (&acc)[4], Acc norm0, Acc norm1)
	{
		take_one(2 * m, 0, j, acc[0], norm0);
		take_one(2 * m, 1, j, acc[1], norm1);
		take_one(2 * m + 1, 0, j, acc[2], norm0);
		take_one(2 * m + 1, 1, j, acc[3], norm1);
	}
};

template <class P, int SEG>
__global__ void
__launch_bounds__(SWEEP_ROWS, 3)
	window_kernel(const SweepArgs a, uint32_t window, Key *d_inbox, uint32_t *d_count,
				  uint32_t inbox)
{
	__shared__ __align__(16) SweepShared<SEG> s;
	int										  lane = lane_id(), g = lane >> 2;
	uint32_t								  block_row = blockIdx.x * SWEEP_ROWS,
			 first_row = block_row + 32 * (threadIdx.x / WARP),
			 width = min(window, a.nrows), middle = block_row + SWEEP_ROWS / 2;
	NearestFold<P> fold;

	fold.t = lane & 3;
	fold.first = min(middle > width / 2 ? middle - width / 2 : 0, a.nrows - width);
	fold.width = width;
	fold.first_row = first_row;
#pragma unroll
	for (int b = 0; b < 4; b++)
	{
		fold.row[b] = first_row + 8 * b + g;
		fold.norm[b] = P::from_bits(a.d_row_norms[min(fold.row[b], a.nrows - 1)]);
#pragma unroll
		for (int i = 0; i < 8; i++)
			fold.best[b][i / 4][i % 4] = INT32_MAX;
	}
	sweep<P, SEG>(a, s, first_row, fold.first, width, fold);
#pragma unroll
	for (int b = 0; b < 4; b++)
		if (fold.row[b] < a.nrows)
		{
			Key *d_out = d_inbox + (size_t) fold.row[b] * inbox;
			Key	 key[8]; /* keys of this lane's buckets */

#pragma unroll
			for (int i = 0; i < 8; i++)
			{
				int32_t	 packed = fold.best[b][i / 4][i % 4];
				uint32_t c = CHUNK * (packed & ((1 << COLUMN_BITS) - 1)) + 8 * (i % 4) +
							 2 * fold.t + i / 4;

				key[i] =
					packed == INT32_MAX
						? EMPTY_KEY
						: make_key(P::ordinal_of(packed, fold.norm[b]), fold.first + c);
			}
			/* One key of each four buckets is enough: more keys do not improve the graph. */
#pragma unroll
			for (int i = 0; i < 2; i++)
				d_out[4 * i + fold.t] =
					min(min(key[i], key[i + 2]), min(key[i + 4], key[i + 6]));
			if (fold.t == 0)
				d_count[fold.row[b]] = WINDOW_KEYS;
		}
}

/* Finds the nearest column of each row. */
template <class P> struct ArgminFold
{
	typedef typename P::Acc Acc;
	Acc						best[4];
	uint32_t				column[4];
	uint32_t				width;
	uint32_t				now;
	int						t;

	__device__ inline void chunk(uint32_t c)
	{
		now = CHUNK * c;
	}
	__device__ inline void take_one(int b, Acc partial, uint32_t c)
	{
		if (partial < best[b] && c < width)
			best[b] = partial, column[b] = c;
	}
	__device__ inline void take(int j, int m, const Acc (&acc)[4], Acc norm0, Acc norm1)
	{
		uint32_t c = now + 8 * j + 2 * t;

		take_one(2 * m, P::partial(norm0, acc[0]), c);
		take_one(2 * m, P::partial(norm1, acc[1]), c + 1);
		take_one(2 * m + 1, P::partial(norm0, acc[2]), c);
		take_one(2 * m + 1, P::partial(norm1, acc[3]), c + 1);
	}
};

/* Sets d_bin[row] to d_rank[nearest column], or to the nearest column if d_rank is NULL. */
template <class P, int SEG>
__global__ void
__launch_bounds__(SWEEP_ROWS, 4)
	assign_kernel(const SweepArgs a, const uint32_t *d_rank, uint32_t *d_bin)
{
	__shared__ __align__(16) SweepShared<SEG> s;
	int										  lane = lane_id(), g = lane >> 2;
	uint32_t	  first_row = blockIdx.x * SWEEP_ROWS + 32 * (threadIdx.x / WARP);
	ArgminFold<P> fold;

	fold.t = lane & 3;
	fold.width = a.ncolumns;
#pragma unroll
	for (int b = 0; b < 4; b++)
		fold.best[b] = P::most(), fold.column[b] = 0;
	sweep<P, SEG>(a, s, first_row, 0, a.ncolumns, fold);
#pragma unroll
	for (int b = 0; b < 4; b++)
	{
		typename P::Acc best = fold.best[b];
		uint32_t		column = fold.column[b], row = first_row + 8 * b + g;

#pragma unroll
		for (int i = 1; i < 4; i *= 2)
		{
			typename P::Acc other = __shfl_xor_sync(FULL, best, i);
			uint32_t		other_column = __shfl_xor_sync(FULL, column, i);

			if (other < best || (other == best && other_column < column))
				best = other, column = other_column;
		}
		if (fold.t == 0 && row < a.nrows)
			d_bin[row] = d_rank ? d_rank[column] : column;
	}
}

/*
 * Copies row d_order[i] of d_from to row i of d_to, and computes the squared norm
 * d_norms[i].  A quad of lanes copies a row.  If d_order is NULL, row i is a random row
 * of the i-th of `count` equal ranges.
 */
template <class P, int SEG>
__global__ void
gather_kernel(const uint8_t *d_from, uint32_t stride, uint32_t nseg, uint32_t n,
			  uint32_t count, const uint32_t *d_order, uint64_t seed, uint8_t *d_to,
			  uint32_t *d_norms)
{
	uint32_t i = blockIdx.x * (blockDim.x / 4) + threadIdx.x / 4;
	int		 t = threadIdx.x & 3;
	uint32_t at = min(i, count - 1);
	uint32_t from =
		d_order
			? d_order[at]
			: (uint32_t) (((uint64_t) at * n + random_below(random64(seed, 1, at), n)) /
						  count);
	typename P::Acc norm = 0;

	for (uint32_t seg = 0; seg < nseg; seg++)
	{
		Share<SEG>	   x;
		const uint8_t *d_src = d_from + (size_t) from * stride + seg * SEG;
		uint8_t		  *d_dst = d_to + (size_t) at * stride + seg * SEG;

		x.load(d_src, t);
#pragma unroll
		for (int w = 0; w < Share<SEG>::WORDS; w++)
			norm = P::dot(x.w[w], x.w[w], norm);
		if (d_to != d_from && i < count)
		{
			constexpr int W = Share<SEG>::WORDS;

			if (SEG == 32)
				*(uint2 *) (d_dst + 8 * t) = make_uint2(x.w[0], x.w[1]);
			else
#pragma unroll
				for (int p = 0; p < SEG / 64; p++)
					*(uint4 *) (d_dst + 64 * p + 16 * t) =
						make_uint4(x.w[(4 * p) % W], x.w[(4 * p + 1) % W],
								   x.w[(4 * p + 2) % W], x.w[(4 * p + 3) % W]);
		}
	}
	norm += __shfl_xor_sync(FULL, norm, 1);
	norm += __shfl_xor_sync(FULL, norm, 2);
	if (t == 0 && i < count)
		d_norms[i] = P::to_bits(norm);
}

/* Computes d_rank[b], the position of bin b.  Bins of one super bin are adjacent. */
__global__ void
__launch_bounds__(SCAN_THREADS)
	rank_kernel(const uint32_t *d_super, uint32_t bins, uint32_t *d_rank)
{
	__shared__ uint32_t s_count[SUPER_BINS + 1];

	if (threadIdx.x <= SUPER_BINS)
		s_count[threadIdx.x] = 0;
	__syncthreads();
	for (uint32_t b = threadIdx.x; b < bins; b += SCAN_THREADS)
		atomicAdd(&s_count[d_super[b] + 1], 1u);
	__syncthreads();
	if (threadIdx.x == 0)
		for (int i = 0; i < SUPER_BINS; i++)
			s_count[i + 1] += s_count[i];
	__syncthreads();
	for (uint32_t b = threadIdx.x; b < bins; b += SCAN_THREADS)
		d_rank[b] = atomicAdd(&s_count[d_super[b]], 1u);
}

__global__ void
count_kernel(const uint32_t *d_bin, uint32_t n, uint32_t *d_count)
{
	uint32_t v = blockIdx.x * blockDim.x + threadIdx.x;

	if (v < n)
		atomicAdd(&d_count[d_bin[v]], 1u);
}

/* Replaces at most a few thousand counts by their exclusive sums, in place, in one block. */
__global__ void
__launch_bounds__(SCAN_THREADS) scan_kernel(uint32_t *d_count, uint32_t bins)
{
	__shared__ uint32_t s_sum[SCAN_THREADS];
	uint32_t			each = (bins + SCAN_THREADS - 1) / SCAN_THREADS,
			 begin = min(threadIdx.x * each, bins), end = min(begin + each, bins),
			 sum = 0;

	for (uint32_t b = begin; b < end; b++)
		sum += d_count[b];
	s_sum[threadIdx.x] = sum;
	__syncthreads();
	for (uint32_t d = 1; d < SCAN_THREADS; d *= 2)
	{
		uint32_t left = threadIdx.x >= d ? s_sum[threadIdx.x - d] : 0;

		__syncthreads();
		s_sum[threadIdx.x] += left;
		__syncthreads();
	}
	sum = s_sum[threadIdx.x] - sum;
	for (uint32_t b = begin; b < end; b++)
	{
		uint32_t count = d_count[b];

		d_count[b] = sum;
		sum += count;
	}
}

__global__ void
scatter_kernel(const uint32_t *d_bin, uint32_t n, uint32_t *d_offset, uint32_t *d_order)
{
	uint32_t v = blockIdx.x * blockDim.x + threadIdx.x;

	if (v < n)
		d_order[atomicAdd(&d_offset[d_bin[v]], 1u)] = v;
}

__global__ void
identity_kernel(uint32_t n, uint32_t *d_order)
{
	uint32_t v = blockIdx.x * blockDim.x + threadIdx.x;

	if (v < n)
		d_order[v] = v;
}

/*
 * Returns to each lane the ordinal of the distance between v and the lane's vertex id; 0 if the id
 * is EMPTY_ID.  A quad of lanes reads a row, so a warp reads eight rows at a time.
 */
template <class P, int SEG>
__device__ inline uint32_t
warp_ordinals(const Digests &digests, uint32_t v, uint32_t id, int lane)
{
	typedef typename P::Acc Acc;
	int						g = lane >> 2, t = lane & 3;
	uint32_t				result = 0;

	for (int base = 0; base < WARP; base += 8)
	{
		uint32_t other = __shfl_sync(FULL, id, base + g);
		Acc		 dot = 0;

		if (!__any_sync(FULL, other != EMPTY_ID))
			continue;
		if (other == EMPTY_ID)
			other = v;
		for (uint32_t seg = 0; seg < digests.nseg; seg++)
		{
			Share<SEG> x, y;

			x.load(digests.d_rows + (size_t) v * digests.stride + seg * SEG, t);
			y.load(digests.d_rows + (size_t) other * digests.stride + seg * SEG, t);
#pragma unroll
			for (int w = 0; w < Share<SEG>::WORDS; w++)
				dot = P::dot(x.w[w], y.w[w], dot);
		}
		dot += __shfl_xor_sync(FULL, dot, 1);
		dot += __shfl_xor_sync(FULL, dot, 2);
		uint32_t ordinal =
			P::ordinal(P::partial(P::from_bits(digests.d_norms[other]), dot) +
					   P::from_bits(digests.d_norms[v]));

		ordinal = __shfl_sync(FULL, ordinal, 4 * (lane & 7));
		if (lane >= base && lane < base + 8)
			result = ordinal;
	}
	return result;
}

/*
 * Draws random neighbors; one warp handles one vertex.  The neighbors become the pool,
 * nearest first, or, if d_pool is NULL, the inbox that the next round reads.
 */
template <class P, int SEG>
__global__ void
random_edges_kernel(const Digests digests, uint32_t edges, uint64_t seed, Key *d_pool,
					uint32_t pool, uint8_t *d_pool_count, Key *d_inbox,
					uint32_t *d_inbox_count, uint32_t inbox)
{
	uint32_t v = blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
	int		 lane = lane_id();

	if (v >= digests.n)
		return;
	uint32_t others = digests.n - 1;
	bool	 all = others <= edges; /* Every other vertex becomes a neighbor. */
	uint32_t count = all ? others : edges, id = EMPTY_ID;

	if (lane < count)
	{
		id = all ? lane : random_below(random64(seed, 2 + (uint64_t) v, lane), others);
		id += id >= v; /* skips v itself */
	}
	uint32_t key = warp_ordinals<P, SEG>(digests, v, id, lane) << SLOT_BITS | lane;

	key = sort32(lane < count ? key : FULL, lane);
	id = __shfl_sync(FULL, id, key & 31);
	if (d_pool)
	{
		if (lane < count)
			d_pool[(size_t) v * pool + lane] = make_key(key >> SLOT_BITS, id);
		if (lane == 0)
			d_pool_count[v] = (uint8_t) count;
	}
	else
	{
		if (lane < count)
			d_inbox[(size_t) v * inbox + lane] = make_key(key >> SLOT_BITS, id);
		if (lane == 0)
			d_inbox_count[v] = count;
	}
}

template <class P, int SEG>
static cudaError_t
launch_gather_of(const Device &device, const Digests &digests, uint32_t count,
				 const uint32_t *d_order, uint64_t seed, uint8_t *d_to, uint32_t *d_norms)
{
	gather_kernel<P, SEG><<<(count + 63) / 64, 256, 0, device.stream>>>(
		digests.d_rows, digests.stride, digests.nseg, digests.n, count, d_order, seed,
		d_to, d_norms);
	return cudaGetLastError();
}

template <class P, int SEG>
static cudaError_t
launch_assign(const Device &device, const SweepArgs &args, const uint32_t *d_rank,
			  uint32_t *d_bin)
{
	assign_kernel<P, SEG>
		<<<(args.nrows + SWEEP_ROWS - 1) / SWEEP_ROWS, SWEEP_ROWS, 0, device.stream>>>(
			args, d_rank, d_bin);
	return cudaGetLastError();
}

template <class P, int SEG>
static cudaError_t
launch_window_of(const Device &device, const SweepArgs &args, TileGraph &graph,
				 uint32_t window)
{
	window_kernel<P, SEG>
		<<<(args.nrows + SWEEP_ROWS - 1) / SWEEP_ROWS, SWEEP_ROWS, 0, device.stream>>>(
			args, window, graph.d_inbox[graph.side], graph.d_inbox_count[graph.side],
			graph.inbox);
	return cudaGetLastError();
}

template <class P, int SEG>
static cudaError_t
launch_random_edges_of(const Device &device, const Digests &digests, TileGraph &graph,
					   uint32_t edges, uint64_t seed, bool into_pool)
{
	random_edges_kernel<P, SEG><<<(digests.n + 7) / 8, 256, 0, device.stream>>>(
		digests, edges, seed, into_pool ? graph.d_pool : NULL, graph.pool,
		graph.d_pool_count, graph.d_inbox[graph.side], graph.d_inbox_count[graph.side],
		graph.inbox);
	return cudaGetLastError();
}

StartSpace
start_layout(uint8_t *d_base, uint32_t n, uint32_t bins, uint32_t stride)
{
	Layout	   layout = {d_base};
	StartSpace space;

	space.d_centroids = layout.take<uint8_t>((size_t) bins * stride);
	space.d_centroid_norms = layout.take<uint32_t>(bins + 1);
	space.d_rank = layout.take<uint32_t>(bins + 1);
	space.d_offset = layout.take<uint32_t>(bins + 1);
	space.d_bin = layout.take<uint32_t>(n);
	space.bytes = layout.bytes;
	return space;
}

cudaError_t
launch_norms(const Device &device, const Digests &digests, uint32_t *d_norms)
{
	GRN_REQUIRE(digests.valid());
	return GRN_DISPATCH_ROWS(digests, launch_gather_of, device, digests, digests.n, NULL,
							 0, (uint8_t *) digests.d_rows, d_norms);
}

/* Writes the coarse order: d_order[i] is the row at position i.  digests.d_norms is not used. */
cudaError_t
launch_order(const Device &device, const Digests &digests, const StartSpace &space,
			 uint32_t bins, uint64_t seed, uint32_t *d_order)
{
	uint32_t n = digests.n, blocks = (n + 255) / 256;

	GRN_REQUIRE(digests.valid() && bins <= n);
	if (bins <= 1)
	{
		identity_kernel<<<blocks, 256, 0, device.stream>>>(n, d_order);
		return cudaGetLastError();
	}
	GRN_TRY(GRN_DISPATCH_ROWS(digests, launch_gather_of, device, digests, bins, NULL,
							  seed, space.d_centroids, space.d_centroid_norms));

	SweepArgs args = {};

	args.d_rows = args.d_columns = space.d_centroids;
	args.d_row_norms = args.d_column_norms = space.d_centroid_norms;
	args.nrows = bins;
	args.ncolumns = bins < SUPER_BINS ? bins : SUPER_BINS;
	args.stride = digests.stride;
	args.nseg = digests.nseg;
	GRN_TRY(
		GRN_DISPATCH_ROWS(digests, launch_assign, device, args, NULL, space.d_offset));
	rank_kernel<<<1, SCAN_THREADS, 0, device.stream>>>(space.d_offset, bins,
													   space.d_rank);
	GRN_TRY(cudaGetLastError());

	args.d_rows = digests.d_rows;
	args.d_row_norms = digests.d_norms;
	args.nrows = n;
	args.ncolumns = bins;
	GRN_TRY(GRN_DISPATCH_ROWS(digests, launch_assign, device, args, space.d_rank,
							  space.d_bin));

	GRN_TRY(cudaMemsetAsync(space.d_offset, 0, 4 * (size_t) bins, device.stream));
	count_kernel<<<blocks, 256, 0, device.stream>>>(space.d_bin, n, space.d_offset);
	GRN_TRY(cudaGetLastError());
	scan_kernel<<<1, SCAN_THREADS, 0, device.stream>>>(space.d_offset, bins);
	GRN_TRY(cudaGetLastError());
	scatter_kernel<<<blocks, 256, 0, device.stream>>>(space.d_bin, n, space.d_offset,
													  d_order);
	return cudaGetLastError();
}

cudaError_t
launch_gather(const Device &device, const Digests &digests, const uint32_t *d_order,
			  uint8_t *d_rows, uint32_t *d_norms)
{
	GRN_REQUIRE(digests.valid() && d_order);
	return GRN_DISPATCH_ROWS(digests, launch_gather_of, device, digests, digests.n,
							 d_order, 0, d_rows, d_norms);
}

cudaError_t
launch_random_edges(const Device &device, const Digests &digests, TileGraph &graph,
					uint32_t edges, uint64_t seed, bool into_pool)
{
	edges = edges < WARP ? edges : WARP;
	GRN_REQUIRE(digests.valid() && graph.valid() && digests.n == graph.n);
	GRN_REQUIRE(edges <= (into_pool ? graph.pool : graph.inbox));
	return GRN_DISPATCH_ROWS(digests, launch_random_edges_of, device, digests, graph,
							 edges, seed, into_pool);
}

cudaError_t
launch_window(const Device &device, const Digests &digests, TileGraph &graph,
			  uint32_t window)
{
	SweepArgs args = {};

	GRN_REQUIRE(digests.valid() && graph.valid() && digests.n == graph.n);
	GRN_REQUIRE(window > 0 && graph.inbox >= WINDOW_KEYS);
	args.d_rows = args.d_columns = digests.d_rows;
	args.d_row_norms = args.d_column_norms = digests.d_norms;
	args.nrows = args.ncolumns = digests.n;
	args.stride = digests.stride;
	args.nseg = digests.nseg;
	return GRN_DISPATCH_ROWS(digests, launch_window_of, device, args, graph,
							 window < MAX_WINDOW ? window : MAX_WINDOW);
}
