/*
 * disk_faults.c - reads or writes that fail, for disk_full.pl: preloaded into a server.  The
 * file $FAULTS_CONTROL, which the test writes and all processes map, says which: from call
 * number `after` on each call of that kind for a file whose path holds `pattern`.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define WRITES 1
#define READS 2

typedef struct Control
{
	int32_t		kind;			/* 0: no faults */
	int32_t		error;			/* errno */
	int32_t		after;			/* calls that succeed first */
	int32_t		failed;			/* calls that have failed */
	char		pattern[64];
} Control;

static Control *control;

__attribute__((constructor)) static void
start(void)
{
	const char *path = getenv("FAULTS_CONTROL");
	int			fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;

	if (fd < 0)
		return;
	control = mmap(NULL, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (control == MAP_FAILED)
		control = NULL;
	close(fd);
}

/* Whether this call fails; then errno is set. */
static int
fails(int kind, int fd)
{
	char		link[64];
	char		path[512];
	ssize_t		n;

	if (control == NULL || control->kind != kind)
		return 0;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	if (n < 0)
		return 0;
	path[n] = '\0';
	if (strstr(path, control->pattern) == NULL)
		return 0;
	if (__atomic_fetch_sub(&control->after, 1, __ATOMIC_RELAXED) > 0)
		return 0;
	__atomic_fetch_add(&control->failed, 1, __ATOMIC_RELAXED);
	errno = control->error;
	return 1;
}

#define NEXT(type, name) \
	static type next; \
	if (next == NULL) \
		next = (type) dlsym(RTLD_NEXT, name)

typedef ssize_t (*WriteFn) (int, const void *, size_t);
typedef ssize_t (*PwriteFn) (int, const void *, size_t, off_t);
typedef ssize_t (*PwritevFn) (int, const struct iovec *, int, off_t);
typedef ssize_t (*PreadFn) (int, void *, size_t, off_t);
typedef int (*AllocateFn) (int, off_t, off_t);

ssize_t
write(int fd, const void *bytes, size_t n)
{
	NEXT(WriteFn, "write");
	return fails(WRITES, fd) ? -1 : next(fd, bytes, n);
}

ssize_t
pwrite(int fd, const void *bytes, size_t n, off_t at)
{
	NEXT(PwriteFn, "pwrite");
	return fails(WRITES, fd) ? -1 : next(fd, bytes, n, at);
}

ssize_t
pwritev(int fd, const struct iovec *pieces, int n, off_t at)
{
	NEXT(PwritevFn, "pwritev");
	return fails(WRITES, fd) ? -1 : next(fd, pieces, n, at);
}

/* glibc returns the error instead of setting errno. */
int
posix_fallocate(int fd, off_t at, off_t n)
{
	NEXT(AllocateFn, "posix_fallocate");
	return fails(WRITES, fd) ? control->error : next(fd, at, n);
}

ssize_t
pread(int fd, void *bytes, size_t n, off_t at)
{
	NEXT(PreadFn, "pread");
	return fails(READS, fd) ? -1 : next(fd, bytes, n, at);
}

ssize_t
preadv(int fd, const struct iovec *pieces, int n, off_t at)
{
	NEXT(PwritevFn, "preadv");
	return fails(READS, fd) ? -1 : next(fd, pieces, n, at);
}

/* The same by the names that programs with large files ask for. */
ssize_t		pwrite64(int, const void *, size_t, off_t) __attribute__((alias("pwrite")));
ssize_t		pwritev64(int, const struct iovec *, int, off_t) __attribute__((alias("pwritev")));
ssize_t		pread64(int, void *, size_t, off_t) __attribute__((alias("pread")));
ssize_t		preadv64(int, const struct iovec *, int, off_t) __attribute__((alias("preadv")));
int			posix_fallocate64(int, off_t, off_t) __attribute__((alias("posix_fallocate")));
