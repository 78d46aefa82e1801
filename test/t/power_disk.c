/*
 * power_disk.c - a disk that keeps only what was synced, for power_cut.pl.
 *
 * Preloaded into a server (LD_PRELOAD), it copies each file and folder below POWER_DATA
 * that is synced to the same place below POWER_DISK.  After a "power cut" the test puts
 * POWER_DISK in the place of the data directory.
 *
 * A file is copied with its name, as common file systems keep the name of a new file
 * that is synced.  A folder's sync makes it hold the names that it has now: other new
 * files are there then, empty, and removed ones are gone.  Until then removed files
 * come back.  Nothing is really synced: what is to be lost is chosen here, and
 * tests shall be quick.  O_DSYNC, sync() and msync() are not seen, so the server must not
 * rely on them (wal_sync_method = fdatasync).
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* A test of lost writes that lost some itself would lead astray: rather no server. */
static void
must(int ok, const char *what, const char *path)
{
	if (ok)
		return;
	fprintf(stderr, "PANIC: power_disk: %s %s: %s\n", what, path, strerror(errno));
	abort();
}

static int
again(int result)
{
	return result < 0 && errno == EINTR;
}

/*
 * Opens and locks a folder of the disk, so that of two processes that copy one file the
 * later does not bring back older contents.  Closing unlocks.
 */
static int
lock_folder(const char *path)
{
	int			fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	must(fd >= 0, "open", path);
	while (again(flock(fd, LOCK_EX)))
		;
	return fd;
}

static void
copy_file(int fd, const char *to)
{
	static char buffer[256 * 1024];
	char		from[64];
	int			in;
	int			out;
	off_t		at = 0;
	ssize_t		n;

	/* fd itself may not be readable */
	snprintf(from, sizeof(from), "/proc/self/fd/%d", fd);
	in = open(from, O_RDONLY | O_CLOEXEC);
	out = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	must(in >= 0 && out >= 0, "open", to);
	while ((n = pread(in, buffer, sizeof(buffer), at)) > 0 || again((int) n))
	{
		if (n < 0)
			continue;
		must(pwrite(out, buffer, n, at) == n, "write", to);
		at += n;
	}
	must(n == 0 && ftruncate(out, at) == 0, "copy", to);
	close(in);
	close(out);
}

/* Folders are few and small in a data directory, so they need not be quick. */
static void
remove_all(const char *path)
{
	struct dirent *entry;
	DIR		   *dir;
	char		name[PATH_MAX];

	if (unlink(path) == 0 || errno == ENOENT)
		return;
	dir = opendir(path);
	must(dir != NULL, "remove", path);
	while ((entry = readdir(dir)) != NULL)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
		{
			snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
			remove_all(name);
		}
	closedir(dir);
	must(rmdir(path) == 0, "remove", path);
}

/* Makes the folder `to` have the names that `from` has, or lose those that it lacks. */
static void
copy_names(const char *from, const char *to, int lose)
{
	struct dirent *entry;
	DIR		   *dir = opendir(lose ? to : from);
	char		here[PATH_MAX];
	char		there[PATH_MAX];
	struct stat st;

	must(dir != NULL, "read", lose ? to : from);
	while ((entry = readdir(dir)) != NULL)
	{
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		snprintf(here, sizeof(here), "%s/%s", from, entry->d_name);
		snprintf(there, sizeof(there), "%s/%s", to, entry->d_name);
		if (lstat(here, &st) != 0)
		{
			if (lose)
				remove_all(there);
		}
		else if (!lose && S_ISDIR(st.st_mode))
			must(mkdir(there, 0700) == 0 || errno == EEXIST, "make", there);
		else if (!lose && S_ISREG(st.st_mode))
		{
			int			out = open(there, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

			must(out >= 0, "make", there);
			close(out);
		}
	}
	closedir(dir);
}

/* Makes all folders of that path. */
static void
make_folders(char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/'))
	{
		*slash = '\0';
		must(mkdir(path, 0700) == 0 || errno == EEXIST, "make", path);
		*slash = '/';
	}
}

static int
keep(int fd)
{
	const char *data = getenv("POWER_DATA");
	const char *disk = getenv("POWER_DISK");
	char		link[64];
	char		path[PATH_MAX];
	char		to[2 * PATH_MAX];
	struct stat st;
	ssize_t		length;
	char	   *end;
	int			saved = errno;
	int			lock;

	/* a removed file is of no more use */
	if (fstat(fd, &st) != 0)
		return -1;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof(path) - 1);
	if (!data || !disk || length < 0 || st.st_nlink == 0)
		return 0;
	path[length] = '\0';
	length = (ssize_t) strlen(data);
	if (strncmp(path, data, length) != 0 || (path[length] != '/' && path[length] != '\0'))
		return 0;
	snprintf(to, sizeof(to), "%s%s/", disk, path + length);
	if (S_ISDIR(st.st_mode))
	{
		make_folders(to);
		lock = lock_folder(to);
		copy_names(path, to, 0);
		copy_names(path, to, 1);
	}
	else
	{
		to[strlen(to) - 1] = '\0';
		make_folders(to);
		end = strrchr(to, '/');
		*end = '\0';
		lock = lock_folder(to);
		*end = '/';
		copy_file(fd, to);
	}
	close(lock);
	errno = saved;
	return 0;
}

int
fsync(int fd)
{
	return keep(fd);
}

int
fdatasync(int fd)
{
	return keep(fd);
}
