/*
 * entries.h - how many entry points an index has.  On-disk values: the entry page's arrays
 * have this room.
 */
#ifndef GRN_ENTRIES_H
#define GRN_ENTRIES_H

#define GRN_MAX_ENTRIES 32
/* Of these so many are the longest rows under inner product (src/am/entries.c). */
#define GRN_LONG_ENTRIES (GRN_MAX_ENTRIES / 2)

#endif							/* GRN_ENTRIES_H */
