/*
 * common.cuh - declarations that all kernel files share: checked calls, keys of
 * neighbors, sorts of a warp, random numbers, layouts of device memory, and the
 * launchers of each file.
 *
 * Words of the kernels:
 *   row        a vector of the caller's
 *   digest     the bytes that the descent compares instead of a row
 *   vertex     a row in the graph; its id is the row's position in the descent's order
 *   neighbor  a vertex to which another vertex has an edge
 *   candidate  a vertex that may become a neighbor
 *   pool       the neighbors that a vertex has during the descent, nearest first
 *   inbox      candidates that other vertices have sent to a vertex
 *   list       the neighbors of a vertex in the finished graph
 *   occlude    the RNG rule: a neighbor y of v occludes x if y is nearer to v than x
 *              is, and nearer to x than v is; the edge from v to x is not needed then
 *
 * Prefixes of pointers: d_ is device memory, h_ host memory, s_ shared memory.
 */
#ifndef GRN_COMMON_CUH
#define GRN_COMMON_CUH

#include <cuda_runtime.h>
#include <stdint.h>

#include <functional>

#include "gpu.h"

#define GRN_TRY(call) \
	do \
	{ \
		cudaError_t grn_try_rc = (call); \
		if (grn_try_rc != cudaSuccess) \
			return grn_try_rc; \
	} while (0)

/*
 * A launcher checks its arguments with this macro, and returns cudaErrorInvalidValue for
 * sizes that its kernels do not support.
 */
#define GRN_REQUIRE(condition) \
	do \
	{ \
		if (!(condition)) \
			return cudaErrorInvalidValue; \
	} while (0)

constexpr int WARP = 32;
/* The mask of all lanes of a warp; also the largest sort key. */
constexpr uint32_t FULL = 0xffffffffu;

/*
 * A neighbor in a pool or an inbox: ordinal << 32 | id.
 *
 * An ordinal has 24 bits, and ordinals order as squared distances do.  The ordinal of
 * 8-bit digests (of 256 dimensions at most) is the squared distance itself.  The ordinal
 * of bits is the number of bits that differ.  The ordinal of binary16 digests is the
 * upper bits of the squared distance in binary32.
 */
typedef uint64_t   Key;
constexpr Key	   EMPTY_KEY = ~0ull;
constexpr uint32_t EMPTY_ID = 0xffffffffu;
/* A warp sorts 31-bit words: ordinal << SLOT_BITS | slot. */
constexpr int SLOT_BITS = 7;

/* The paper's R, the keys of a pool.  R = 48 gains nothing measurable. */
constexpr int DEFAULT_POOL = 32;
constexpr int MAX_POOL = 64; /* at most two keys for each lane of a warp */
constexpr int MAX_INBOX = 64;
constexpr int NCLASSES = 3; /* tiles of 32, 48 and 64 rows */
/* The most bytes of a digest: 256 dimensions in binary16. */
constexpr uint32_t MAX_STRIDE = 512;

__host__ __device__ inline Key
make_key(uint32_t ordinal, uint32_t id)
{
	return (Key) ordinal << 32 | id;
}

/* The device's version of grn_random() (grn.h): the same numbers for the same arguments. */
__host__ __device__ inline uint64_t
random64(uint64_t seed, uint64_t stream, uint64_t counter)
{
	uint64_t x = seed + 0x9E3779B97F4A7C15ull * (stream + 1);

	x ^= counter * 0xD1B54A32D192ED03ull;
	for (int i = 0; i < 2; i++)
	{
		x ^= x >> 32;
		x *= 0xD6E8FEB86659FD93ull;
	}
	return x ^ (x >> 32);
}

/* Maps the low 32 bits of a random number to [0, bound). */
__host__ __device__ inline uint32_t
random_below(uint64_t bits, uint32_t bound)
{
	return (uint32_t) (((bits & 0xffffffffu) * bound) >> 32);
}

/*
 * Places arrays in device memory one after the other from d_base on, each at a multiple
 * of 256 bytes.  With d_base NULL a Layout only counts the bytes.
 */
struct Layout
{
	uint8_t *d_base = NULL;
	size_t	 bytes = 0;

	/* Reserves `count` elements and returns their offset in bytes. */
	template <class T> size_t reserve(size_t count)
	{
		size_t at = bytes;

		bytes += (count * sizeof(T) + 255) & ~(size_t) 255;
		return at;
	}
	template <class T> T *take(size_t count)
	{
		return (T *) (d_base + reserve<T>(count));
	}
};

/* The floats that a row of dim dimensions takes after padding to a multiple of 16 bytes. */
__host__ __device__ inline uint32_t
padded_dims(uint32_t dim)
{
	return (dim + 3) / 4 * 4;
}

/* Copies one value from the device, and waits for all earlier work of the stream. */
template <class T>
inline cudaError_t
fetch_value(T *h_value, const T *d_value, cudaStream_t stream)
{
	GRN_TRY(cudaMemcpyAsync(h_value, d_value, sizeof(T), cudaMemcpyDeviceToHost, stream));
	return cudaStreamSynchronize(stream);
}

/* The type of the elements of digests. */
enum RowFormat
{
	ROWS_S8 = 0,  /* signed bytes */
	ROWS_F16 = 1, /* binary16 */
	ROWS_B1 = 2	  /* bits, the rows themselves */
};

/* The bytes of `dims` elements. */
__host__ __device__ inline uint32_t
format_bytes(RowFormat format, uint32_t dims)
{
	return format == ROWS_F16 ? 2 * dims : format == ROWS_B1 ? dims / 8 : dims;
}

struct Digests
{
	const uint8_t  *d_rows;	 /* [n][stride] bytes */
	const uint32_t *d_norms; /* [n] squared norms: int32, or binary32 for ROWS_F16 */
	uint32_t		n;
	uint32_t		stride; /* bytes of a row: seg * nseg */
	uint32_t		seg;	/* 32, 64 or 128 bytes */
	uint32_t		nseg;
	RowFormat		format;

	/* Whether the kernels that compare digests support this shape. */
	bool valid() const
	{
		return n > 0 && (seg == 128 || seg == 64 || (seg == 32 && format == ROWS_S8)) &&
			   nseg > 0 && (nseg & (nseg - 1)) == 0 && stride == seg * nseg &&
			   stride <= MAX_STRIDE;
	}
};

/*
 * The graph during the descent.  Only a vertex's own warp writes the vertex's pool.  A
 * round reads the inboxes of one side and writes the inboxes of the opposite side.
 */
struct TileGraph
{
	Key		 *d_pool;			/* [n][pool], nearest first */
	uint8_t	 *d_pool_count;		/* [n] */
	Key		 *d_inbox[2];		/* [n][inbox], unordered */
	uint32_t *d_inbox_count[2]; /* [n] keys sent; at most `inbox` of them are stored */
	uint64_t *d_list;			/* [NCLASSES][n] vertices to update: vertex | pool <<
								 * 32 | inbox << 40 */
	uint32_t *d_list_count;		/* [NCLASSES] */
	uint32_t  n;
	uint32_t  pool;	 /* capacity, at most MAX_POOL */
	uint32_t  inbox; /* capacity, at most MAX_INBOX */
	int		  side;	 /* the next round reads d_inbox[side] */

	/* Whether the kernels of the descent support the capacities. */
	bool valid() const
	{
		return n > 0 && pool > 0 && pool <= MAX_POOL && inbox > 0 && inbox <= MAX_INBOX;
	}
};

/* Adjacency lists on the device. */
struct Lists
{
	uint32_t *d_ids;	/* [n][degree], EMPTY_ID after the last neighbor */
	uint8_t	 *d_counts; /* [n] */
};

/* The parameters of a build on the device.  tuning_for() derives them from GrnGraphParams. */
struct Tuning
{
	uint32_t inbox;		   /* capacity of an inbox, 32 to MAX_INBOX */
	uint32_t random_edges; /* the paper's S: random neighbors of the first graph */
	uint32_t bins;		   /* bins of the coarse order; 0: no coarse order */
	uint32_t window;	   /* rows that each row is compared with for the first graph;
						    * 0: none */
	uint32_t outer;		   /* the paper's T1: outer iterations */
	uint32_t inner;		   /* the paper's T2: update rounds of an outer iteration */
	uint32_t first;		   /* update rounds of the first outer iteration, in place of
						    * `inner` */
	uint32_t pool;		   /* the paper's R: capacity of a pool, 32 to MAX_POOL */
	uint32_t keep;		   /* entries of a pool in use, for R below 32 */
	float	 rho;		   /* the paper's rho: share of a pool that gets reverse edges */
	uint32_t fill;		   /* reverse edges fill lists up to this length, at most the
						    * degree */
	uint32_t format;	   /* RowFormat */
	uint64_t seed;
};

/* The properties of a device that launchers need. */
struct Device
{
	int			 sms;		   /* multiprocessors */
	int			 major, minor; /* compute capability */
	cudaStream_t stream;
	cudaStream_t side[NCLASSES]; /* streams for tiles of different sizes, which run
								  * side by side */
	cudaEvent_t	 fork, join[NCLASSES];
};

#ifdef __CUDACC__

__device__ inline int
lane_id()
{
	return threadIdx.x & 31;
}

/* Sorts 32 numbers, one for each lane, ascending (bitonic sort). */
__device__ inline uint32_t
sort32(uint32_t x, int lane)
{
#pragma unroll
	for (int k = 2; k <= 32; k *= 2)
#pragma unroll
		for (int j = k / 2; j > 0; j /= 2)
		{
			uint32_t y = __shfl_xor_sync(FULL, x, j);
			bool	 low = ((lane & j) == 0) == ((lane & k) == 0);

			x = low ? min(x, y) : max(x, y);
		}
	return x;
}

/* Sorts a bitonic sequence of 32 numbers, ascending. */
__device__ inline uint32_t
merge32(uint32_t x, int lane)
{
#pragma unroll
	for (int j = 16; j > 0; j /= 2)
	{
		uint32_t y = __shfl_xor_sync(FULL, x, j);

		x = (lane & j) == 0 ? min(x, y) : max(x, y);
	}
	return x;
}

/* Merges two ascending sequences of 32 numbers into one of 64: lo, then hi. */
__device__ inline void
merge64(uint32_t &lo, uint32_t &hi, int lane)
{
	uint32_t back = __shfl_sync(FULL, hi, 31 - lane);

	hi = merge32(max(lo, back), lane);
	lo = merge32(min(lo, back), lane);
}

/*
 * Ends a vertex's list of `count` neighbors.  One warp stores the count and fills the
 * remaining slots with EMPTY_ID, because the whole list is copied to the host.
 */
__device__ inline void
end_list(const Lists &lists, size_t v, uint32_t degree, uint32_t count)
{
	for (uint32_t slot = count + lane_id(); slot < degree; slot += WARP)
		lists.d_ids[v * degree + slot] = EMPTY_ID;
	if (lane_id() == 0)
		lists.d_counts[v] = (uint8_t) count;
}

/*
 * Puts a key into the target's inbox, at the slot that an atomic addition to the inbox's count has
 * returned.  If the inbox is full, a hash of the id selects a slot, and the nearer of the two keys
 * keeps the slot.  The first writer of the slot may still be storing its key, so initcheck reports
 * a read of an unset value.  Either key is a valid candidate.
 */
__device__ inline void
store_key(Key *d_inbox, uint32_t capacity, uint32_t target, uint32_t slot,
		  uint32_t ordinal, uint32_t id)
{
	Key	 key = make_key(ordinal, id);
	Key *d_own = d_inbox + (size_t) target * capacity; /* [capacity] */

	if (slot < capacity)
		d_own[slot] = key;
	else
		atomicMin((unsigned long long
					   *) &d_own[((uint64_t) (id * 2654435761u) * capacity) >> 32],
				  (unsigned long long) key);
}

#endif /* __CUDACC__ */

/* tile.cu: one update round of every vertex whose inbox is not empty. */
cudaError_t launch_update_round(const Device &device, const Digests &digests,
								TileGraph &graph, uint32_t keep);
/* initial_graph.cu */
/* Scratch of the coarse order, in device memory. */
struct StartSpace
{
	uint8_t	 *d_centroids;		/* [bins][stride] */
	uint32_t *d_centroid_norms; /* [bins] */
	uint32_t *d_rank;			/* [bins] position of a bin in the order */
	uint32_t *d_bin;			/* [n] */
	uint32_t *d_offset;			/* [bins + 1] */
	size_t	  bytes;			/* bytes of all arrays */
};
/* Places the scratch at d_base.  With d_base NULL only `bytes` of the result is valid. */
StartSpace start_layout(uint8_t *d_base, uint32_t n, uint32_t bins, uint32_t stride);
/* Computes d_norms [n], the squared norms of digests. */
cudaError_t launch_norms(const Device &device, const Digests &digests, uint32_t *d_norms);
/* Computes the coarse order: d_order [n] is the row at each position. */
cudaError_t launch_order(const Device &device, const Digests &digests,
						 const StartSpace &space, uint32_t bins, uint64_t seed,
						 uint32_t *d_order);
/* Copies digest d_order[i] to row i of d_rows [n][stride], and computes their norms d_norms [n]. */
cudaError_t launch_gather(const Device &device, const Digests &digests,
						  const uint32_t *d_order, uint8_t *d_rows, uint32_t *d_norms);
/* Draws up to 32 random neighbors of each vertex, as pools or as the next round's inboxes. */
cudaError_t launch_random_edges(const Device &device, const Digests &digests,
								TileGraph &graph, uint32_t edges, uint64_t seed,
								bool into_pool);
/*
 * Compares each vertex with the `window` vertices around its position, and writes the
 * nearest to the inboxes that the next round reads.
 */
cudaError_t launch_window(const Device &device, const Digests &digests, TileGraph &graph,
						  uint32_t window);
/* lists.cu */
/* Sends each vertex to the inboxes of the nearest share rho of its pool. */
cudaError_t launch_reverse(const Device &device, TileGraph &graph, float rho);
/*
 * Makes lists of the pools and, up to the length `fill`, of the nearest reverse edges in the
 * inboxes.  d_order: as for launch_near_digests().
 */
cudaError_t launch_fill(const Device &device, const TileGraph &graph,
						const uint32_t *d_order, uint32_t degree, uint32_t fill,
						const Lists &out);
/* Sets *d_count to the number of vertices whose nearest neighbor has an ordinal below limit. */
cudaError_t launch_count_below(const Device &device, const TileGraph &graph,
							   uint32_t limit, uint32_t *d_count);
/* Sorts the lists d_ids [n][degree] by distances of the rows d_rows [n][dim]. */
cudaError_t launch_exact_order(const Device &device, const float *d_rows, uint32_t n,
							   uint32_t dim, uint32_t degree, const uint32_t *d_order,
							   uint32_t *d_ids, const uint8_t *d_counts);
/*
 * two_hop_fill.cu: fills lists up to the degree, nearest first.  The list of vertex v
 * becomes the list of row d_order[v], and the ids change likewise.  With d_order NULL
 * lists and ids keep their places.
 */
cudaError_t launch_near_digests(const Device &device, const Digests &digests,
								const Lists &in, uint32_t degree, const uint32_t *d_order,
								const Lists &out);
/* project.cu */
/*
 * Makes digests d_digests [n][stride] of rows of integers 0 to 255.  Sets *d_other to 1 if a
 * row has a different number, otherwise to 0.
 */
cudaError_t launch_integers(const Device &device, const float *d_rows, uint32_t n,
							uint32_t dim, uint32_t stride, uint8_t *d_digests,
							int *d_other);
/* d_raw: [n][bytes] rows of dim bits, the highest bit of each byte first. */
cudaError_t launch_bits(const Device &device, const uint8_t *d_raw, uint32_t bytes,
						uint32_t n, uint32_t dim, uint32_t stride, uint8_t *d_digests);
/* Returns the bytes of device memory that a fit takes. */
size_t project_bytes(uint32_t n, uint32_t dim, uint32_t digest_dims);
/* A fitted projection, in device memory. */
struct Projection
{
	uint32_t	 dim, digest_dims;
	uint32_t	 width;	  /* dim, multiple of 4 */
	const float *d_basis; /* [digest_dims][width] */
	const float *d_mean;  /* [width] */
	const float *d_scale; /* [1] */
	const float *d_share; /* [1] share of the sample's variance that is kept; NULL:
						   * unknown */
};
/* The arguments of a fit of a projection. */
struct FitArgs
{
	const float *d_rows; /* [n][dim] rows from which the fit draws its sample */
	uint32_t	 n, dim;
	uint32_t	 digest_dims; /* directions: 32, 64, 128 or 256 */
	RowFormat	 format;
	uint64_t	 seed;
	uint8_t		*d_space; /* [project_bytes()] scratch; also receives the projection */
};
/* Fits a projection to a sample of the rows. */
cudaError_t launch_fit(const Device &device, const FitArgs &args, Projection *projection);
/* Returns in *share the share of the sample's variance that a fit keeps.  Waits for the fit. */
cudaError_t fitted_share(const Device &device, const Projection &projection,
						 float *share);
/*
 * Fits as launch_fit() does.  If digest_dims directions keep too little of the variance
 * and most_dims is larger, fits again with most_dims directions, in space from
 * more_space().  If more_space() returns NULL, the first fit is the result.
 */
typedef std::function<cudaError_t(uint8_t **d_space)> SpaceFn;
cudaError_t fit_enough(const Device &device, FitArgs args, uint32_t most_dims,
					   const SpaceFn &more_space, Projection *projection);
/* Projects d_rows [n][dim] to d_digests [n][stride]. */
cudaError_t launch_apply(const Device &device, const Projection &projection,
						 const float *d_rows, uint32_t n, RowFormat format,
						 uint32_t stride, uint8_t *d_digests);
/* product.cu: d_products[n][others] = (d_rows - d_mean) . d_others [padded_dims(dim)]. */
cudaError_t launch_products(const Device &device, const float *d_rows, uint32_t n,
							uint32_t dim, const float *d_mean, const float *d_others,
							uint32_t others, float *d_products);
/* cells.cu: GrnCells in device memory.  padded_dims() gives the row length of d_centers. */
struct Cells
{
	uint32_t	 n;
	const float *d_centers; /* [n][dim] centers minus their mean */
	const float *d_mean;	/* [dim] the mean of the centers */
	const float
		*d_bias; /* [n] squared norm of a center (minus the mean) plus the center's
				  * weight */
	const float *d_across; /* [n][n] as in GrnCells */
	float		 border;
};
/* d_products: [n][cells.n] scratch. */
cudaError_t launch_cells(const Device &device, const Cells &cells, const float *d_rows,
						 uint32_t n, uint32_t dim, float *d_products, uint32_t *d_home,
						 uint32_t *d_guest);
/* merge.cu */
struct MergeArgs
{
	Digests			digests;	/* of all rows */
	const uint32_t *d_rows;		/* [count] rows to merge */
	const uint32_t *d_lists[2]; /* [count][degree], EMPTY_ID after the last neighbor */
	uint32_t		count, degree;
	uint32_t		fill;	  /* occluded candidates fill lists up to this length */
	uint32_t	   *d_ids;	  /* [count][degree] */
	uint8_t		   *d_counts; /* [count] */
};
cudaError_t launch_merge(const Device &device, const MergeArgs &args);
/* Replaces each id of the lists by d_names[id], and fills the rest of each list with EMPTY_ID. */
cudaError_t launch_rename(const Device &device, uint32_t n, uint32_t degree,
						  const uint32_t *d_names, const uint8_t *d_counts,
						  uint32_t *d_ids);

/* plan.cu: derives the tuning from the parameters, the dimensions and the number of rows. */
Tuning tuning_for(const GrnGraphParams *params, uint32_t dim, uint64_t n);
/* gpu.cu: further builds use this tuning (NULL: tuning_for()), for sweeps in test/gpu. */
void grn_gpu_override(GrnGpu *gpu, const Tuning *tuning);

#endif /* GRN_COMMON_CUH */
