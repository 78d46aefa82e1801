/*
 * mapping.h - the memory that an index build's leader, its parallel workers and the builder process
 * share.
 *
 * A segment (GrnSegment) is a range of address space that is reserved once and filled from the
 * front with extents, so growth never moves or copies a byte.  An extent is a piece of a memfd,
 * until the limit of memory is reached.  Further extents are pieces of a temporary file, which
 * counts against temp_file_limit and is allocated on disk before any process touches it.
 *
 * The kernel lets only a single process at a time free pages of a file, and takes a lock of the
 * file for every new page.  So several memfds exist, and the extents of a large build alternate
 * between the memfds.
 */
#ifndef GRNND_MAPPING_H
#define GRNND_MAPPING_H

#include "postgres.h"

#include "port/atomics.h"
#include "storage/fd.h"

#include "builder/protocol.h"

/*
 * Largest number of extents.  Extents on disk grow by a quarter of the segment, extents in memory
 * by a sixteenth, so a segment of 16 TB has about 180 extents.
 */
#define GRNND_MAX_EXTENTS 1024

/* Sizes of segments and extents are multiples of this number, and so of any page size. */
#define GRNND_EXTENT_ALIGN (UINT64_C(1) << 20)

/*
 * Largest extent in memory, in bytes.  The extents of a segment over a gigabyte may be a sixteenth
 * of the segment.
 */
#define GRNND_MEMORY_EXTENT (UINT64_C(64) << 20)

/*
 * Files: GRNND_MEMORY_FILES memfds, and the temporary file.  Measured on two busy cores: all
 * processes free 6 GB of 8 memfds in 1.0 s, and of a single memfd in 2.0 s
 * (test/bench/decisions.md).
 */
#define GRNND_MEMORY_FILES 8
#define GRNND_FILE_DISK GRNND_MEMORY_FILES
#define GRNND_NFILES (GRNND_MEMORY_FILES + 1)

typedef struct GrnndExtent
{
	uint32		segment;		/* GrnSegment */
	uint32		file;			/* number of a memfd, or GRNND_FILE_DISK */
	uint64		offset;			/* offset in the segment */
	uint64		file_offset;
	uint64		bytes;
} GrnndExtent;

/*
 * The data that another process needs to map the same bytes.  GrnndExtents lies in the leader's
 * memory, or in the memory of a parallel context if workers exist.  Entries below `count` never
 * change.
 */
typedef struct GrnndExtents
{
	pid_t		leader;
	int			fds[GRNND_NFILES];	/* the leader's descriptors; -1: not open */
	uint64		max[GRN_NSEGMENTS];
	pg_atomic_uint32 count;
	GrnndExtent extent[GRNND_MAX_EXTENTS];
} GrnndExtents;

/* Receives each new extent, with the leader's descriptor of the extent's file. */
typedef void (*GrnndAnnounceFn) (void *arg, const GrnndExtent *extent, int fd);

typedef struct GrnndMapping
{
	GrnndExtents *extents;
	uint32		mapped;			/* number of extents that this process has mapped */
	char	   *reserved;		/* address space of all segments, or NULL */
	uint64		reserved_bytes;
	char	   *base[GRN_NSEGMENTS];
	uint64		size[GRN_NSEGMENTS];	/* mapped bytes from base on */
	const char *setting;		/* name of the setting that limits memory */
	/* used by the leader alone */
	GrnndExtents *private_extents;	/* saved table while extents points to shared memory */
	uint64		memory_limit;	/* bytes of memfds allowed */
	uint64		memory_used;	/* <= memory_limit */
	uint64		file_size[GRNND_NFILES];
	File		temp;			/* owns the temporary file; 0: none */
	GrnndAnnounceFn announce;
	void	   *announce_arg;
} GrnndMapping;

/* The comments of these functions are in mapping.c. */
extern GrnndMapping *grnnd_mapping_create(const uint64 *segment_max,
										  uint64 memory_limit, const char *setting);
extern PGDLLEXPORT void grnnd_mapping_grow(GrnndMapping *map, GrnSegment segment, uint64 bytes);
/*
 * The number of bytes by which a segment of `size` bytes grows next, toward `bytes` bytes and at
 * most `max`.  The new extent lies in memory unless memory_left is 0.
 */
extern PGDLLEXPORT uint64 grnnd_next_piece(uint64 size, uint64 bytes, uint64 max, uint64 memory_left);
extern PGDLLEXPORT void grnnd_mapping_populate(GrnndMapping *map, GrnSegment segment,
											   uint64 begin, uint64 end);
extern void grnnd_mapping_listen(GrnndMapping *map, GrnndAnnounceFn fn, void *arg);
/* Unmaps all segments.  This process reads and writes no byte of the mapping afterwards. */
extern void grnnd_mapping_unmap(GrnndMapping *map);

/*
 * Frees memory before grnnd_mapping_release(), because freeing much memory takes long.
 * Processes free together; *next, at first 0, is the first memory file that no process has taken.
 * Every process must have called grnnd_mapping_unmap().
 */
extern void grnnd_mapping_empty(GrnndMapping *map, pg_atomic_uint32 *next);
extern void grnnd_mapping_release(GrnndMapping *map, bool success);

/* Functions for parallel workers. */
extern void grnnd_mapping_share(GrnndMapping *map, GrnndExtents *where);
extern void grnnd_mapping_unshare(GrnndMapping *map);
extern GrnndMapping *grnnd_mapping_attach(GrnndExtents *extents, uint32 segments);
extern bool grnnd_mapping_catch_up(GrnndMapping *map);

#endif							/* GRNND_MAPPING_H */
