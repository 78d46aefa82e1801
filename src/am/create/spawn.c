/*
 * spawn.c - finds and starts the builder's program.
 */
#include "postgres.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <unistd.h>

#include "miscadmin.h"
#include "storage/fd.h"

#include "am/create/launch.h"
#include "am/grnnd.h"
#include "builder/protocol.h"

extern char **environ;

char *
grnnd_builder_program(bool elsewhere)
{
	char	   *path;
	struct stat st;

	if (elsewhere)
		path = psprintf("%s/grnnd_build_remote", pkglib_path);
	else if (grnnd_builder_path && grnnd_builder_path[0])
		path = pstrdup(grnnd_builder_path);
	else
	{
		/* A package with GPU kernels installs its program beside the program without kernels. */
		path = psprintf("%s/grnnd_build_cuda", pkglib_path);
		if (access(path, F_OK) < 0)
			path = psprintf("%s/grnnd_build", pkglib_path);
	}

	if (stat(path, &st) < 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not find the index builder \"%s\": %m", path),
				 errhint("\"make install\" installs the program beside the extension's library. grnnd.builder_path sets another path.")));
	if (!S_ISREG(st.st_mode) || access(path, X_OK) < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("the index builder \"%s\" is not an executable file", path),
				 errhint("Check grnnd.builder_path, and whether the server's user may execute the file.")));
	return path;
}

void
grnnd_guard_descriptors(void)
{
	DIR		   *dir = AllocateDir("/proc/self/fd");
	struct dirent *entry;

	while ((entry = ReadDir(dir, "/proc/self/fd")) != NULL)
	{
		int			fd = atoi(entry->d_name);	/* 0 for "." and ".." */

		if (fd > STDERR_FILENO)
			(void) fcntl(fd, F_SETFD, FD_CLOEXEC);
	}
	FreeDir(dir);
}

int
grnnd_spawn_builder(const char *path, int sock, pid_t *pid)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t	all,
				none;
	char	   *argv[] = {"grnnd_build", "--serve", NULL};
	int			rc;

	grnnd_guard_descriptors();
	sigfillset(&all);
	sigemptyset(&none);
	rc = posix_spawn_file_actions_init(&files);
	if (rc != 0)
		return rc;
	rc = posix_spawnattr_init(&attr);
	if (rc != 0)
	{
		posix_spawn_file_actions_destroy(&files);
		return rc;
	}
	if ((rc = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0)) == 0 &&
		(rc = posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0)) == 0 &&
		(rc = posix_spawn_file_actions_adddup2(&files, sock, GRN_BUILDER_FD)) == 0 &&
		(rc = posix_spawnattr_setsigdefault(&attr, &all)) == 0 &&
		(rc = posix_spawnattr_setsigmask(&attr, &none)) == 0 &&
		(rc = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK)) == 0)
		rc = posix_spawn(pid, path, &files, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&files);
	return rc;
}
