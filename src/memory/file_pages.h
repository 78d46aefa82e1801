/*
 * file_pages.h - advises the kernel which pages of a mapped file to read, keep or drop: for
 * arrays that memory does not hold.
 */
#ifndef GRN_FILE_PAGES_H
#define GRN_FILE_PAGES_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of an array that a thread prefetches and then processes at a time. */
#define GRN_PREFETCH_PIECE ((size_t) 1 << 20)

/* Starts reading bytes from the disk, all at once, without waiting. */
extern void grn_prefetch_pages(const void *base, size_t bytes);
/* Accesses to the bytes will be scattered: a missing page is read without its neighbors. */
extern void grn_pages_scattered(const void *base, size_t bytes, bool scattered);
/*
 * Returns the memory and the disk space of whole pages among the bytes, which no process may
 * read again.  Returns false if the file system cannot do so.
 */
extern bool grn_pages_remove(const void *base, size_t bytes);

#endif							/* GRN_FILE_PAGES_H */
