/*
 * checksum.h - what tells whether bytes that went over a network are those that were sent.
 */
#ifndef GRN_CHECKSUM_H
#define GRN_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* 64 bits; for accidents, not against forgers.  The same on processors of one byte order. */
extern uint64_t grn_checksum(const void *data, size_t bytes);

#endif							/* GRN_CHECKSUM_H */
