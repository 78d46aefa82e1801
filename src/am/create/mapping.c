/*
 * mapping.c - segments of shared memory for an index build; see mapping.h.
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "commands/tablespace.h"
#include "common/int.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "utils/wait_event.h"

#include "am/create/mapping.h"

/* Memory is allocated and freed in pieces, so that a cancel is handled between pieces. */
#define ALLOCATE_PIECE ((uint64) 64 * 1024 * 1024)
#define EMPTY_PIECE ((uint64) 256 * 1024 * 1024)

#ifndef MADV_POPULATE_WRITE		/* since Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif

static const char *const segment_names[GRN_NSEGMENTS] = {
	[GRN_SEG_VECTORS] = "vectors",[GRN_SEG_ORDER] = "order",[GRN_SEG_RESULT] = "result",[GRN_SEG_WORK] = "workspace",
	[GRN_SEG_VALUES] = "values",[GRN_SEG_LISTS] = "lists",[GRN_SEG_PAGES] = "pages",[GRN_SEG_TIDS] = "heap TIDs",[GRN_SEG_ATTRS] = "filter columns"
};

static uint64
round_up(uint64 bytes, uint64 unit)
{
	return (bytes + unit - 1) / unit * unit;
}

/*
 * Reserves address space for the segments in the bit set `segments`.  Errors: 53200 if no address
 * space is left.
 */
static void
reserve_segments(GrnndMapping *map, uint32 segments)
{
	uint64		bytes = 0;
	char	   *p;

	for (int i = 0; i < GRN_NSEGMENTS; i++)
		if (segments & (UINT32_C(1) << i))
			bytes += map->extents->max[i];
	p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("could not reserve address space for an index build: %m"),
				 errhint("Check the limit on address space (ulimit -v).")));
	map->reserved = p;
	map->reserved_bytes = bytes;
	for (int i = 0; i < GRN_NSEGMENTS; i++)
		if (map->extents->max[i] > 0 && segments & (UINT32_C(1) << i))
		{
			map->base[i] = p;
			p += map->extents->max[i];
		}
}

/*
 * Reserves segments of at most segment_max[] bytes.  memory_limit is the number of bytes that may
 * lie in memory; `setting` names the setting of this limit for error messages.
 */
GrnndMapping *
grnnd_mapping_create(const uint64 *segment_max, uint64 memory_limit, const char *setting)
{
	GrnndMapping *map = palloc0(sizeof(GrnndMapping));

	map->setting = setting;
	map->extents = palloc0(sizeof(GrnndExtents));
	map->extents->leader = MyProcPid;
	for (int i = 0; i < GRNND_NFILES; i++)
		map->extents->fds[i] = -1;
	for (int i = 0; i < GRN_NSEGMENTS; i++)
		map->extents->max[i] = round_up(segment_max[i], GRNND_EXTENT_ALIGN);
	pg_atomic_init_u32(&map->extents->count, 0);
	map->memory_limit = memory_limit / GRNND_EXTENT_ALIGN * GRNND_EXTENT_ALIGN;
	reserve_segments(map, ~UINT32_C(0));
	return map;
}

/* Gives a descriptor back to fd.c's account, and keeps errno. */
static void
release_descriptor(void)
{
	int			save = errno;

	ReleaseExternalFD();
	errno = save;
}

static void
open_memory(GrnndMapping *map, uint32 file)
{
	int			fd = -1;

	if (AcquireExternalFD())
	{
		fd = memfd_create("grnnd build", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		if (fd < 0)
			release_descriptor();
	}

	/* Sealed, so that no process, not even a broken builder, can truncate the file. */
	if (fd < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
	{
		int			save = errno;

		if (fd >= 0)
		{
			close(fd);
			ReleaseExternalFD();
		}
		errno = save;
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("could not create shared memory for an index build: %m")));
	}
	map->extents->fds[file] = fd;
}

static void
open_disk(GrnndMapping *map)
{
	int			fd = -1;

	PrepareTempTablespaces();
	map->temp = OpenTemporaryFile(false);
	if (AcquireExternalFD())
	{
		/*
		 * A duplicate, because fd.c may close its own descriptor to make room for new descriptors.
		 */
		fd = FileGetRawDesc(map->temp);
		if (fd >= 0)
			fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		if (fd < 0)
			release_descriptor();
	}
	if (fd < 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not open temporary file \"%s\": %m",
						FilePathName(map->temp))));
	map->extents->fds[GRNND_FILE_DISK] = fd;
}

/* An ErrorContextCallback: adds a hint to fd.c's error about temp_file_limit. */
static void
hint_at_limit(void *map)
{
	if (geterrcode() == ERRCODE_CONFIGURATION_LIMIT_EXCEEDED)
		errhint("Raise temp_file_limit, or raise %s: a build uses temporary files beyond that setting.",
				((GrnndMapping *) map)->setting);
}

/*
 * Extends the disk file to `size` bytes by writing its last byte through fd.c.  fd.c checks
 * temp_file_limit (error: 53400) and counts the file in the statistics of temporary files.
 */
static void
claim_disk(GrnndMapping *map, uint64 size)
{
	const char	zero = 0;
	ErrorContextCallback callback = {.previous = error_context_stack, .callback = hint_at_limit, .arg = map};
	ssize_t		written;

	error_context_stack = &callback;
	errno = 0;
	written = FileWrite(map->temp, (char *) &zero, 1, (off_t) (size - 1), PG_WAIT_EXTENSION);
	error_context_stack = callback.previous;
	if (written != 1)
	{
		if (errno == 0)
			errno = ENOSPC;
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not extend temporary file \"%s\": %m", FilePathName(map->temp))));
	}
}

/*
 * Lengthens a file by `bytes` bytes.  A disk file is allocated now, so that a full disk is an error
 * here instead of a SIGBUS later.  A memory file only gets its length: see
 * grnnd_mapping_populate().
 */
static void
lengthen_file(GrnndMapping *map, uint32 file, uint64 bytes)
{
	uint64		size = map->file_size[file] + bytes;

	if (file != GRNND_FILE_DISK)
	{
		if (map->extents->fds[file] < 0)
			open_memory(map, file);
		if (ftruncate(map->extents->fds[file], (off_t) size) < 0)
			ereport(ERROR,
					(errcode(ERRCODE_OUT_OF_MEMORY),
					 errmsg("could not extend shared memory of an index build to %llu bytes: %m",
							(unsigned long long) size)));
	}
	else
	{
		int			rc;

		if (map->extents->fds[file] < 0)
			open_disk(map);

		claim_disk(map, size);
		for (uint64 at = map->file_size[file]; at < size; at += ALLOCATE_PIECE)
		{
			CHECK_FOR_INTERRUPTS();
			do
				rc = posix_fallocate(map->extents->fds[file], (off_t) at,
									 (off_t) Min(ALLOCATE_PIECE, size - at));
			while (rc == EINTR);
			if (rc != 0)
			{
				errno = rc;
				ereport(ERROR,
						(errcode_for_file_access(),
						 errmsg("could not extend temporary file \"%s\" to %llu bytes: %m",
								FilePathName(map->temp), (unsigned long long) size),
						 rc == ENOSPC ?
						 errhint("Free disk space, point temp_tablespaces to a larger disk, or raise %s.",
								 map->setting) : 0));
			}
		}
	}
	map->file_size[file] = size;
}

/*
 * Maps the first `count` extents, except extents mapped before, from fds[].  The caller has opened
 * the files of the extents to map.
 */
static void
map_extents(GrnndMapping *map, const int *fds, uint32 count)
{
	pg_read_barrier();			/* pairs with add_extent() */
	for (; map->mapped < count; map->mapped++)
	{
		const GrnndExtent *e = &map->extents->extent[map->mapped];

		if (map->base[e->segment] == NULL)
			continue;			/* this process does not map the segment */
		if (mmap(map->base[e->segment] + e->offset, e->bytes,
				 PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
				 fds[e->file], (off_t) e->file_offset) == MAP_FAILED)
			ereport(ERROR,
					(errcode(ERRCODE_OUT_OF_MEMORY),
					 errmsg("could not map memory of an index build: %m")));
		map->size[e->segment] = e->offset + e->bytes;
	}
}

static void
add_extent(GrnndMapping *map, GrnSegment segment, uint32 file, uint64 bytes)
{
	GrnndExtents *all = map->extents;
	uint32		count = pg_atomic_read_u32(&all->count);
	GrnndExtent *e;

	if (count >= GRNND_MAX_EXTENTS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("an index build needed more than %d pieces of memory",
						GRNND_MAX_EXTENTS),
				 errhint("Partition the table.")));
	e = &all->extent[count];
	e->segment = segment;
	e->file = file;
	e->offset = map->size[segment];
	e->file_offset = map->file_size[file];
	e->bytes = bytes;
	lengthen_file(map, file, bytes);
	if (file != GRNND_FILE_DISK)
		map->memory_used += bytes;
	pg_write_barrier();			/* Workers must see the entry before the count. */
	pg_atomic_write_u32(&all->count, count + 1);
	map_extents(map, all->fds, count + 1);
	if (map->announce)
		map->announce(map->announce_arg, e, all->fds[file]);
}

static void
report_no_memory(const GrnndMapping *map, GrnSegment segment)
{
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("could not allocate memory for the %s of an index build: %m", segment_names[segment]),
			 errhint("Lower %s: memory beyond this setting comes from temporary files.", map->setting)));
}

uint64
grnnd_next_piece(uint64 size, uint64 bytes, uint64 max, uint64 memory_left)
{
	uint64		need = round_up(bytes - size, GRNND_EXTENT_ALIGN);
	uint64		want = Max(need, round_up(size / 4, GRNND_EXTENT_ALIGN));
	uint64		most = Max(GRNND_MEMORY_EXTENT, round_up(size / 16, GRNND_EXTENT_ALIGN));

	want = Min(want, max - size);
	return memory_left > 0 ? Min(Min(want, most), memory_left) : want;
}

/*
 * Grows a segment to at least `bytes` bytes.  Pages in memory are not allocated: a backend must
 * call grnnd_mapping_populate() before it touches them.  Errors: 54000 beyond the segment's
 * maximum, 53400 beyond temp_file_limit, 53100 if the disk is full.
 */
void
grnnd_mapping_grow(GrnndMapping *map, GrnSegment segment, uint64 bytes)
{
	uint64		max = map->extents->max[segment];

	if (bytes > max)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("an index build needs %llu bytes for its %s, but at most %llu are possible",
						(unsigned long long) bytes, segment_names[segment],
						(unsigned long long) max),
				 errhint("Partition the table.")));

	while (map->size[segment] < bytes)
	{
		uint64		memory_left = map->memory_limit - map->memory_used;
		uint64		piece = grnnd_next_piece(map->size[segment], bytes, max, memory_left);
		uint32		file = map->memory_used < GRNND_MEMORY_EXTENT ? 0 :
			pg_atomic_read_u32(&map->extents->count) % GRNND_MEMORY_FILES;

		CHECK_FOR_INTERRUPTS();
		add_extent(map, segment, memory_left > 0 ? file : GRNND_FILE_DISK, piece);
	}
}

/*
 * Allocates the pages of [begin, end) of a segment, if they lie in memory.  A lack of memory is
 * then an ERROR (53200) instead of a SIGBUS.  The call also fills this process's page table, much
 * faster than page faults.
 */
void
grnnd_mapping_populate(GrnndMapping *map, GrnSegment segment, uint64 begin, uint64 end)
{
	static uint64 page = 0;
	static bool have_populate = true;
	uint32		count = pg_atomic_read_u32(&map->extents->count);

	if (page == 0)
		page = (uint64) sysconf(_SC_PAGESIZE);
	begin = begin / page * page;
	end = round_up(end, page);
	for (uint32 i = 0; i < count; i++)
	{
		const GrnndExtent *e = &map->extents->extent[i];
		uint64		from = Max(begin, e->offset);
		uint64		to = Min(end, e->offset + e->bytes);

		if (e->segment != segment || e->file == GRNND_FILE_DISK || from >= to)
			continue;
		while (from < to)
		{
			uint64		piece = Min(to - from, ALLOCATE_PIECE);
			int			rc;

			CHECK_FOR_INTERRUPTS();
			rc = have_populate ?
				madvise(map->base[segment] + from, piece, MADV_POPULATE_WRITE) : -1;
			if (!have_populate || (rc < 0 && errno == EINVAL))
			{
				have_populate = false;
				if (map->extents->leader != MyProcPid)
					return;		/* The memory is the leader's: only the leader has the descriptor. */
				rc = fallocate(map->extents->fds[e->file], 0,
							   (off_t) (e->file_offset + from - e->offset),
							   (off_t) piece);
			}
			if (rc < 0)
			{
				if (errno == EINTR || errno == EAGAIN)
					continue;
				report_no_memory(map, segment);
			}
			from += piece;
		}
	}
}

/* Passes all extents, present and future, to fn.  fn NULL: no function receives future extents. */
void
grnnd_mapping_listen(GrnndMapping *map, GrnndAnnounceFn fn, void *arg)
{
	map->announce = fn;
	map->announce_arg = arg;
	if (fn)
	{
		uint32		count = pg_atomic_read_u32(&map->extents->count);

		for (uint32 i = 0; i < count; i++)
		{
			const GrnndExtent *e = &map->extents->extent[i];

			fn(arg, e, map->extents->fds[e->file]);
		}
	}
}

/*
 * Returns the leader's descriptor of a file.  A worker opens the file anew.  Returns -1 if the file
 * cannot be opened.
 */
static int
descriptor_of(const GrnndExtents *extents, uint32 file)
{
	char		path[64];
	int			fd;

	if (extents->leader == MyProcPid)
		return extents->fds[file];
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int) extents->leader, extents->fds[file]);
	fd = open(path, O_RDWR | O_CLOEXEC);
	/*
	 * The leader may have closed the descriptor and opened another file under the number.  Memory
	 * files of a build have seals, so a file without seals is a wrong file.
	 */
	if (fd >= 0 && file != GRNND_FILE_DISK && fcntl(fd, F_GET_SEALS) < 0)
	{
		close(fd);
		return -1;
	}
	return fd;
}

void
grnnd_mapping_unmap(GrnndMapping *map)
{
	if (map->reserved)
		munmap(map->reserved, map->reserved_bytes);
	map->reserved = NULL;
	memset(map->base, 0, sizeof(map->base));
	memset(map->size, 0, sizeof(map->size));
}

/*
 * Frees memory by punching holes into the memory files, piece by piece.  An error only leaves
 * memory for grnnd_mapping_release().  The kernel lets a single process at a time into a file, so
 * each process takes files of its own.
 */
void
grnnd_mapping_empty(GrnndMapping *map, pg_atomic_uint32 *next)
{
	const GrnndExtents *extents = map->extents;
	uint32		count = pg_atomic_read_u32(&map->extents->count);
	uint64		sizes[GRNND_NFILES] = {0};
	uint64		all = 0;
	uint32		file;

	for (uint32 i = 0; i < count; i++)
	{
		const GrnndExtent *e = &extents->extent[i];

		sizes[e->file] = Max(sizes[e->file], e->file_offset + e->bytes);
		all += e->file == GRNND_FILE_DISK ? 0 : e->bytes;
	}
	/* The end of the mapping frees a small mapping just as fast. */
	if (all <= GRNND_MEMORY_EXTENT)
		return;
	while ((file = pg_atomic_fetch_add_u32(next, 1)) < GRNND_MEMORY_FILES)
	{
		int			fd = sizes[file] > 0 ? descriptor_of(extents, file) : -1;

		PG_TRY();
		{
			for (uint64 at = 0; fd >= 0 && at < sizes[file]; at += EMPTY_PIECE)
			{
				uint64		bytes = Min(EMPTY_PIECE, sizes[file] - at);

				CHECK_FOR_INTERRUPTS();
				if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t) at, (off_t) bytes) != 0)
					break;
			}
		}
		PG_FINALLY();
		{
			if (fd >= 0 && extents->leader != MyProcPid)
				close(fd);
		}
		PG_END_TRY();
	}
}

/*
 * Frees the mapping.  The function may be called twice and in error cleanup.  There (success false)
 * the temporary file remains until the end of the transaction.
 */
void
grnnd_mapping_release(GrnndMapping *map, bool success)
{
	grnnd_mapping_unmap(map);
	if (map->extents->leader != MyProcPid)
		return;
	for (int i = 0; i < GRNND_NFILES; i++)
	{
		if (map->extents->fds[i] >= 0)
		{
			close(map->extents->fds[i]);
			ReleaseExternalFD();
		}
		map->extents->fds[i] = -1;
	}
	if (success && map->temp > 0)
	{
		FileClose(map->temp);
		map->temp = 0;
	}
}

/* Moves the table of extents to shared memory, where workers read the table. */
void
grnnd_mapping_share(GrnndMapping *map, GrnndExtents *where)
{
	memcpy(where, map->extents, sizeof(GrnndExtents));
	map->private_extents = map->extents;
	map->extents = where;
}

/* Moves the table back before the shared memory is freed. */
void
grnnd_mapping_unshare(GrnndMapping *map)
{
	memcpy(map->private_extents, map->extents, sizeof(GrnndExtents));
	map->extents = map->private_extents;
}

/*
 * In a worker: reserves address space for the leader's segments in the bit set `segments`, at
 * addresses of the worker's own.  grnnd_mapping_catch_up() maps the extents.
 */
GrnndMapping *
grnnd_mapping_attach(GrnndExtents *extents, uint32 segments)
{
	GrnndMapping *map = palloc0(sizeof(GrnndMapping));

	map->setting = "maintenance_work_mem";
	map->extents = extents;
	reserve_segments(map, segments);
	return map;
}

/*
 * In a worker: maps the extents that the leader has added.  Returns false if the leader's
 * descriptors cannot be opened, for example because /proc hides processes.  The worker must then
 * leave all work to the leader.
 */
bool
grnnd_mapping_catch_up(GrnndMapping *map)
{
	int			fds[GRNND_NFILES];
	uint32		count = pg_atomic_read_u32(&map->extents->count);
	bool		needed[GRNND_NFILES] = {false};
	bool		ok = true;

	if (map->mapped >= count)
		return true;
	pg_read_barrier();
	for (uint32 i = map->mapped; i < count; i++)
		needed[map->extents->extent[i].file] = true;
	for (int i = 0; i < GRNND_NFILES; i++)
	{
		fds[i] = needed[i] ? descriptor_of(map->extents, i) : -1;
		if (needed[i] && fds[i] < 0)
			ok = false;
	}
	PG_TRY();
	{
		if (ok)
			map_extents(map, fds, count);
	}
	PG_FINALLY();
	{
		for (int i = 0; i < GRNND_NFILES; i++)
			if (fds[i] >= 0)
				close(fds[i]);
	}
	PG_END_TRY();
	return ok;
}
