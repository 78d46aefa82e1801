/*
 * row_formats.cuh - the formats of digests (8-bit integers, binary16 and bits) as
 * policies that kernels take as template arguments: the product on tensor cores, and
 * distances.
 *
 * All products take 32 bytes of each of 16 rows and of 8 rows, in one layout: lane 4 g +
 * t holds 8 bytes of row g (and of row g + 8).  Any 8 bytes serve, as long as both
 * operands hold the same positions.  A lane therefore loads 16 consecutive bytes and uses
 * them in two products.
 */
#ifndef GRN_ROW_FORMATS_CUH
#define GRN_ROW_FORMATS_CUH

#include <cuda_fp16.h>

#include "common.cuh"

constexpr int	  COLUMN_BITS = 6;	  /* bits of a column's number; a tile has at most
									   * 64 columns */
constexpr int32_t NOT_KEPT = 1 << 30; /* added to the distance of a column that must
									   * not be the nearest */

struct RowsS8
{
	typedef int32_t Acc;

	static __device__ inline void product(Acc (&c)[4], uint32_t a0, uint32_t a1,
										  uint32_t a2, uint32_t a3, uint32_t b0,
										  uint32_t b1)
	{
		asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
					 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
					 : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
					 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
	}
	/* Adds the products of four bytes to c. */
	static __device__ inline Acc dot(uint32_t a, uint32_t b, Acc c)
	{
		return __dp4a((int) a, (int) b, c);
	}
	/* Returns |y|^2 - 2 x.y, the squared distance of x and y minus |x|^2. */
	static __device__ inline Acc partial(Acc norm_y, Acc dot)
	{
		return norm_y - 2 * dot;
	}
	/*
	 * Returns the limit of partial(y) below which y occludes x: the distance of x to the
	 * vertex, minus |x|^2.  The distance counts as at least 1, so that one of two equal
	 * rows occludes the other.  In binary16 the 1 is lost in rounding.  Nearly equal rows
	 * then keep more of their edges, which does no harm.
	 */
	static __device__ inline Acc limit(uint32_t ordinal, Acc norm_x)
	{
		return (Acc) max(ordinal, 1u) - norm_x;
	}
	/* Returns a number that orders as (distance, column) does; ordinal_of() returns its ordinal. */
	static __device__ inline int32_t pack(Acc partial, Acc norm_x, int32_t column)
	{
		return partial * (1 << COLUMN_BITS) + column;
	}
	static __device__ inline uint32_t ordinal_of(int32_t packed, Acc norm_x)
	{
		return (uint32_t) max((packed >> COLUMN_BITS) + norm_x, 0);
	}
	static __device__ inline uint32_t ordinal(Acc distance)
	{
		return (uint32_t) max(distance, 0);
	}
	static __device__ inline Acc from_bits(uint32_t bits)
	{
		return (Acc) bits;
	}
	static __device__ inline uint32_t to_bits(Acc x)
	{
		return (uint32_t) x;
	}
	static __device__ inline Acc most()
	{
		return INT32_MAX;
	}
};

/*
 * Bits: the product of two rows is the number of ones that the rows have in common, so |x|^2 +
 * |y|^2 - 2 x.y is the number of different bits.  Tensor cores count 32 bits in place of four
 * products of bytes (Ampere to Hopper; for later devices the compiler makes products of bytes).
 */
struct RowsB1 : RowsS8
{
	static __device__ inline void product(Acc (&c)[4], uint32_t a0, uint32_t a1,
										  uint32_t a2, uint32_t a3, uint32_t b0,
										  uint32_t b1)
	{
		asm volatile("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc "
					 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
					 : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
					 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
	}
	/* Adds the number of common ones of 32 bits to c. */
	static __device__ inline Acc dot(uint32_t a, uint32_t b, Acc c)
	{
		return c + __popc(a & b);
	}
};

struct RowsF16
{
	typedef float Acc;

	static __device__ inline void product(Acc (&c)[4], uint32_t a0, uint32_t a1,
										  uint32_t a2, uint32_t a3, uint32_t b0,
										  uint32_t b1)
	{
		asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
					 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
					 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
					 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
	}
	static __device__ inline Acc dot(uint32_t a, uint32_t b, Acc c)
	{
		float2 x = __half22float2(*(__half2 *) &a);
		float2 y = __half22float2(*(__half2 *) &b);

		return fmaf(x.x, y.x, fmaf(x.y, y.y, c));
	}
	static __device__ inline Acc partial(Acc norm_y, Acc dot)
	{
		return fmaf(-2.0f, dot, norm_y);
	}
	static __device__ inline Acc limit(uint32_t ordinal, Acc norm_x)
	{
		return __uint_as_float(max(ordinal, 1u) << SLOT_BITS) - norm_x;
	}
	static __device__ inline int32_t pack(Acc partial, Acc norm_x, int32_t column)
	{
		uint32_t bits = __float_as_uint(fmaxf(partial + norm_x, 0.0f));

		return (int32_t) ((bits >> 1) & ~63u) + column;
	}
	static __device__ inline uint32_t ordinal_of(int32_t packed, Acc norm_x)
	{
		return (uint32_t) packed >> COLUMN_BITS;
	}
	static __device__ inline uint32_t ordinal(Acc distance)
	{
		return __float_as_uint(fmaxf(distance, 0.0f)) >> SLOT_BITS;
	}
	static __device__ inline Acc from_bits(uint32_t bits)
	{
		return __uint_as_float(bits);
	}
	static __device__ inline uint32_t to_bits(Acc x)
	{
		return __float_as_uint(x);
	}
	static __device__ inline Acc most()
	{
		return __uint_as_float(0x7f800000u);
	}
};

/*
 * Returns the position of a 16-byte piece of a row's segment in shared memory.  In
 * segments of 128 bytes odd rows swap their halves, so that the quarters of two rows,
 * which eight lanes read at once, are in different banks.
 */
template <int SEG>
__device__ inline int
piece_at(int row, int piece)
{
	return SEG == 128 ? piece ^ ((row & 1) << 2) : piece;
}

/* Starts an asynchronous copy of 16 bytes, or writes zeros if `valid` is false. */
__device__ inline void
copy16(void *s_to, const void *d_from, bool valid)
{
	uint32_t to = (uint32_t) __cvta_generic_to_shared(s_to);

	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
				 :
				 : "r"(to), "l"(d_from), "r"(valid ? 16 : 0)
				 : "memory");
}

/*
 * Words of a row's segment that lane t of a quad holds: the 16-byte pieces t and 4 + t of
 * 128 bytes, piece t of 64 bytes, or bytes 8 t to 8 t + 7 of 32 bytes.
 */
template <int SEG> struct Share
{
	static constexpr int WORDS = SEG / 16; /* words of 4 bytes */
	uint32_t			 w[WORDS];

	__device__ inline void load(const uint8_t *d_segment, int t)
	{
		if (SEG == 32)
		{
			uint2 x = *(const uint2 *) (d_segment + 8 * t);

			w[0] = x.x, w[1] = x.y;
		}
		else
		{
#pragma unroll
			for (int p = 0; p < SEG / 64; p++)
			{
				uint4 x = *(const uint4 *) (d_segment + 64 * p + 16 * t);

				w[(4 * p) % WORDS] = x.x, w[(4 * p + 1) % WORDS] = x.y;
				w[(4 * p + 2) % WORDS] = x.z, w[(4 * p + 3) % WORDS] = x.w;
			}
		}
	}
	/* Loads the same words from shared memory, where piece p of row r is at piece_at(r, p). */
	__device__ inline void load_swizzled(const uint8_t *s_segment, int row, int t)
	{
		if (SEG == 128)
		{
			uint4 lo = *(const uint4 *) (s_segment + 16 * piece_at<SEG>(row, t));
			uint4 hi = *(const uint4 *) (s_segment + 16 * piece_at<SEG>(row, 4 + t));

			w[0] = lo.x, w[1] = lo.y, w[2 % WORDS] = lo.z, w[3 % WORDS] = lo.w;
			w[4 % WORDS] = hi.x, w[5 % WORDS] = hi.y, w[6 % WORDS] = hi.z,
				  w[7 % WORDS] = hi.w;
		}
		else
			load(s_segment, t);
	}
	__device__ inline void zero()
	{
#pragma unroll
		for (int i = 0; i < WORDS; i++)
			w[i] = 0;
	}
};

/* Calls f<format, segment>() for the format and segment of the digests. */
#define GRN_DISPATCH_ROWS(digests, f, ...) \
	((digests).format == ROWS_S8 ? ((digests).seg == 32	  ? f<RowsS8, 32>(__VA_ARGS__) \
									: (digests).seg == 64 ? f<RowsS8, 64>(__VA_ARGS__) \
														  : f<RowsS8, 128>(__VA_ARGS__)) \
	 : (digests).format == ROWS_B1 \
		 ? ((digests).seg == 64 ? f<RowsB1, 64>(__VA_ARGS__) \
								: f<RowsB1, 128>(__VA_ARGS__)) \
		 : ((digests).seg == 64 ? f<RowsF16, 64>(__VA_ARGS__) \
								: f<RowsF16, 128>(__VA_ARGS__)))

#endif /* GRN_ROW_FORMATS_CUH */
