/*
 * file_pages.h - pages of a mapped file, which the kernel reads and keeps as we say: for arrays
 * that memory does not hold.
 */
#ifndef GRN_FILE_PAGES_H
#define GRN_FILE_PAGES_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of an array that a thread works on at a time where it asks for them first. */
#define GRN_AHEAD_PIECE ((size_t) 1 << 20)

/* Asks for bytes that are going to be read, all of them at once; does not wait. */
extern void grn_pages_ahead(const void *base, size_t bytes);
/* Whether bytes are going to be read here and there: then a page that is missing comes alone. */
extern void grn_pages_scattered(const void *base, size_t bytes, bool scattered);
/*
 * Nobody reads the bytes any more: what whole pages take of memory and of the disk goes back.
 * False where the file system cannot do that.
 */
extern bool grn_pages_remove(const void *base, size_t bytes);

#endif							/* GRN_FILE_PAGES_H */
