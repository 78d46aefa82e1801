/*
 * checksum.h - detects bytes that a network has changed.
 */
#ifndef GRN_CHECKSUM_H
#define GRN_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/*
 * Returns a 64-bit checksum, which detects accidental changes, not deliberate ones.  The
 * result is the same on all processors of one byte order.
 */
extern uint64_t grn_checksum(const void *data, size_t bytes);

#endif							/* GRN_CHECKSUM_H */
