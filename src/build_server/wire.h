/*
 * wire.h - the protocol between hosts.
 *
 * The program grnnd_build_remote is the client.  The client connects to a PostgreSQL by libpq and
 * calls grnnd_serve_build(bytea), in one transaction.  Each argument and each answer is a frame: a
 * GrnWireHead and a payload.  The backend is the leader of a second builder, and the client answers
 * its own leader as the second builder would.  TLS, authentication and rights are PostgreSQL's.
 *
 *   client                              grnnd_serve_build()
 *   BEGIN (GrnWireBegin) ----------->   starts a builder by that session's settings
 *   PUT rows ..., PUT order ... ---->   in turn, without gaps; rows while the leader collects them
 *   BUILD -------------------------->   NOTICEs meanwhile: GRN_WIRE_PHASE
 *   <--------------- (GrnWireBuilt)     RESULT is written
 *   GET(segment, offset, bytes) ---->   recall is measured meanwhile
 *   <------------------------- bytes
 *   END ---------------------------->
 *   <-------------- (GrnBuildResult)
 *
 * Hosts must have one byte order and one version of this protocol.
 */
#ifndef GRN_WIRE_H
#define GRN_WIRE_H

#include <string.h>

#include "builder/protocol.h"

#define GRN_WIRE_MAGIC UINT32_C(0x67726e57)
#define GRN_WIRE_PIECE (UINT64_C(1) << 20)	/* most bytes of a payload (a row may be longer) */
#define GRN_WIRE_PHASE "grnnd build phase %u, %llu of %llu" /* GrnStep, done, total */

typedef enum GrnWireType
{
	GRN_WIRE_BEGIN = 1,
	GRN_WIRE_PUT,				/* whole rows of VECTORS, or numbers of ORDER */
	GRN_WIRE_BUILD,
	GRN_WIRE_GET,				/* payload: uint64_t bytes wanted */
	GRN_WIRE_END
} GrnWireType;

typedef struct GrnWireHead
{
	uint64_t	checksum;		/* grn_checksum() of the bytes after it */
	uint32_t	magic;
	uint32_t	version;		/* GRN_PROTOCOL_VERSION */
	uint32_t	type;			/* GrnWireType; an answer has the type of its request */
	uint32_t	segment;		/* GrnSegment */
	uint64_t	offset;			/* in the segment */
	uint64_t	bytes;			/* of the payload */
} GrnWireHead;

typedef struct GrnWireBegin
{
	GrnBuildSpec spec;			/* the backend sets device, threads and limits */
	uint64_t	most_rows;
} GrnWireBegin;

typedef struct GrnWireBuilt
{
	uint64_t	bytes;			/* of RESULT */
} GrnWireBuilt;

static inline uint64_t
grn_mix(uint64_t sum, uint64_t word)
{
	sum ^= word;
	/* the factor is odd, so the product loses nothing */
	sum = (sum << 29 | sum >> 35) * UINT64_C(0x9E3779B97F4A7C15);
	return sum ^ sum >> 32;
}

/*
 * A 64-bit checksum at the speed of memory.  Four sums take turns, because a product takes several
 * cycles.  The sums are no array: gcc would make vectors of an array, and take five times as long.
 */
static inline uint64_t
grn_checksum(const void *data, size_t bytes)
{
	const char *at = data;
	const char *end = at + bytes;
	uint64_t	a = 1;
	uint64_t	b = 2;
	uint64_t	c = 3;
	uint64_t	d = 4;
	uint64_t	w[4];

	for (; end - at >= (ptrdiff_t) sizeof(w); at += sizeof(w))
	{
		memcpy(w, at, sizeof(w));
		a = grn_mix(a, w[0]);
		b = grn_mix(b, w[1]);
		c = grn_mix(c, w[2]);
		d = grn_mix(d, w[3]);
	}
	memset(w, 0, sizeof(w));
	memcpy(w, at, (size_t) (end - at));
	a = grn_mix(grn_mix(bytes, a), w[0]);
	a = grn_mix(grn_mix(a, b), w[1]);
	a = grn_mix(grn_mix(a, c), w[2]);
	return grn_mix(grn_mix(a, d), w[3]);
}

#endif							/* GRN_WIRE_H */
