/*
 * mapping.h - the memory that an index build's leader, its parallel workers and
 * the builder process share.
 *
 * A segment (GrnSegment) is a range of address space reserved once and filled
 * from the front with extents, so growing never moves or copies a byte.  An
 * extent is a piece of a memfd while the limit of memory lasts, and past it of a
 * temporary file, which counts against temp_file_limit and is allocated on disk
 * before anyone touches it.
 *
 * The kernel lets one process at a time give pages of a file back, and has a lock for each
 * file that every new page takes.  So there are several memfds, which extents of large builds
 * take in turn.
 */
#ifndef GRNND_MAPPING_H
#define GRNND_MAPPING_H

#include "postgres.h"

#include "port/atomics.h"
#include "storage/fd.h"

#include "builder/protocol.h"

/*
 * Extents on disk grow by a quarter of the segment, those in memory by a sixteenth: a segment of
 * 16 TB takes about 180.
 */
#define GRNND_MAX_EXTENTS 1024

/* Sizes of segments and extents are multiples of this, and so of any page size. */
#define GRNND_EXTENT_ALIGN (UINT64_C(1) << 20)

/* Extents in memory are at most this large, or a sixteenth of what the segment has already. */
#define GRNND_MEMORY_EXTENT (UINT64_C(64) << 20)

/* The files: so many memfds, and the temporary file. */
#define GRNND_MEMORY_FILES 8
#define GRNND_FILE_DISK GRNND_MEMORY_FILES
#define GRNND_NFILES (GRNND_MEMORY_FILES + 1)

typedef struct GrnndExtent
{
	uint32		segment;		/* GrnSegment */
	uint32		file;			/* a memfd, or GRNND_FILE_DISK */
	uint64		offset;			/* in the segment */
	uint64		file_offset;
	uint64		bytes;
} GrnndExtent;

/*
 * What another process needs to map the same bytes.  Lies in the leader's memory,
 * or in a parallel context's where there are workers; entries below count
 * never change.
 */
typedef struct GrnndExtents
{
	pid_t		leader;
	int			fds[GRNND_NFILES];	/* the leader's descriptors; -1: not open */
	uint64		max[GRN_NSEGMENTS];
	pg_atomic_uint32 count;
	GrnndExtent extent[GRNND_MAX_EXTENTS];
} GrnndExtents;

/* Told of each new extent, with the leader's descriptor of its file. */
typedef void (*GrnndAnnounceFn) (void *arg, const GrnndExtent *extent, int fd);

typedef struct GrnndMapping
{
	GrnndExtents *extents;
	uint32		mapped;			/* of the extents, how many this process has mapped */
	char	   *base[GRN_NSEGMENTS];
	uint64		size[GRN_NSEGMENTS];	/* mapped bytes from base on */
	const char *setting;		/* that limits memory */
	/* the leader's alone */
	GrnndExtents *private_extents;	/* while extents points to shared memory */
	uint64		memory_limit;	/* bytes of memfd allowed */
	uint64		memory_used;	/* <= memory_limit */
	uint64		file_size[GRNND_NFILES];
	File		temp;			/* owns the temporary file; 0: none */
	GrnndAnnounceFn announce;
	void	   *announce_arg;
} GrnndMapping;

extern GrnndMapping *grnnd_mapping_create(const uint64 *segment_max,
										  uint64 memory_limit, const char *setting);
extern void grnnd_mapping_grow(GrnndMapping *map, GrnSegment segment, uint64 bytes);
/*
 * By how many bytes a segment of `size`, and of max at most, grows next on its way to so many: in
 * memory, as long as memory_left is not 0, and else on the disk.
 */
extern uint64 grnnd_next_piece(uint64 size, uint64 bytes, uint64 max, uint64 memory_left);
extern void grnnd_mapping_populate(GrnndMapping *map, GrnSegment segment,
								   uint64 begin, uint64 end);
extern void grnnd_mapping_write(GrnndMapping *map, GrnSegment segment, uint64 offset,
								const char *data, uint64 bytes);
extern void grnnd_mapping_listen(GrnndMapping *map, GrnndAnnounceFn fn, void *arg);
/* This process does not read or write any of it any more. */
extern void grnnd_mapping_unmap(GrnndMapping *map);

/* Processes that give memory back together; zeroed at first. */
typedef struct GrnndEmptying
{
	pg_atomic_uint32 next;		/* memfd that no process has taken */
	pg_atomic_uint64 done;		/* bytes */
} GrnndEmptying;

/*
 * Gives memory back before grnnd_mapping_release() does: it may be a lot, and look() (NULL: no
 * one) hears how far all are.  Every process must have called grnnd_mapping_unmap().
 */
typedef void (*GrnndLookFn) (void *arg, uint64 done, uint64 of);
extern void grnnd_mapping_empty(GrnndMapping *map, GrnndEmptying *shared, GrnndLookFn look, void *arg);
extern void grnnd_mapping_release(GrnndMapping *map, bool success);

/* for workers */
extern void grnnd_mapping_share(GrnndMapping *map, GrnndExtents *where);
extern void grnnd_mapping_unshare(GrnndMapping *map);
extern GrnndMapping *grnnd_mapping_attach(GrnndExtents *extents, uint32 segments);
extern bool grnnd_mapping_catch_up(GrnndMapping *map);

#endif							/* GRNND_MAPPING_H */
