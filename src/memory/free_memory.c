/*
 * free_memory.c - finds how much memory a build may take.
 */
#include "memory/memory.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/*
 * A full cgroup has at least this much memory for a build, because pages of files fill the
 * cgroup and can be read again.  With less memory the parts of a build would be too small for
 * rows to find their neighbors.
 */
#define LEAST_FREE ((uint64_t) 32 << 20)

#define MOST_PATH 4096

/* The paths and file names of one version of cgroups. */
typedef struct Cgroups
{
	const char *root;
	const char *most;
	const char *high;			/* limit beyond which processes are throttled; NULL: none */
	const char *used;
	const char *stat[2];		/* lines of memory.stat: file cache, which the kernel can give back */
} Cgroups;

static const Cgroups version_1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", NULL, "memory.usage_in_bytes",
	{"total_inactive_file", "total_active_file"}};
static const Cgroups version_2 = {"/sys/fs/cgroup", "memory.max", "memory.high", "memory.current",
	{"inactive_file", "active_file"}};

static FILE *
open_file(const char *folder, const char *name)
{
	char		path[2 * MOST_PATH];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return fopen(path, "r");
}

/* Returns the first number in a file, or 0 if there is none. */
static uint64_t
number_in(const char *folder, const char *name)
{
	unsigned long long value = 0;
	FILE	   *f = open_file(folder, name);

	if (f && fscanf(f, "%llu", &value) != 1)
		value = 0;
	if (f)
		fclose(f);
	return value;
}

/* Returns the bytes of file cache among the bytes that a cgroup uses. */
static uint64_t
file_cache(const Cgroups *groups, const char *folder)
{
	unsigned long long value;
	uint64_t	bytes = 0;
	char		line[128];
	char		name[64];
	FILE	   *f = open_file(folder, "memory.stat");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%63s %llu", name, &value) == 2 &&
			(strcmp(name, groups->stat[0]) == 0 || strcmp(name, groups->stat[1]) == 0))
			bytes += value;
	if (f)
		fclose(f);
	return bytes;
}

/* Returns the least free room of a path's cgroup and the cgroups around; UINT64_MAX: no limit. */
static uint64_t
room_in(const Cgroups *groups, const char *path)
{
	char		folder[MOST_PATH + 64];
	uint64_t	least = UINT64_MAX;
	size_t		root = strlen(groups->root);

	snprintf(folder, sizeof(folder), "%s%s", groups->root, path);
	for (;;)
	{
		uint64_t	most = number_in(folder, groups->most);
		uint64_t	high = groups->high ? number_in(folder, groups->high) : 0;
		uint64_t	used = number_in(folder, groups->used);
		uint64_t	cache = file_cache(groups, folder);
		char	   *slash = strrchr(folder, '/');

		if (high > 0 && (most == 0 || high < most))
			most = high;
		used -= cache < used ? cache : used;
		if (most > 0 && most - (used < most ? used : most) < least)
			least = most - (used < most ? used : most);
		if (strlen(folder) <= root || slash == NULL)
			return least;
		*slash = '\0';
	}
}

/* Returns the least free room of the cgroups of this process. */
static uint64_t
cgroup_room(void)
{
	uint64_t	least = UINT64_MAX;
	char		line[MOST_PATH];
	FILE	   *f = fopen("/proc/self/cgroup", "r");

	/* lines "number:controllers:path"; version 2 names no controllers */
	while (f && fgets(line, sizeof(line), f))
	{
		char	   *controllers = strchr(line, ':');
		char	   *path = controllers ? strchr(controllers + 1, ':') : NULL;
		uint64_t	room = UINT64_MAX;

		if (path == NULL)
			continue;
		*path++ = '\0';
		path[strcspn(path, "\n")] = '\0';
		if (controllers[1] == '\0')
			room = room_in(&version_2, path);
		else if (strcmp(controllers + 1, "memory") == 0)
			room = room_in(&version_1, path);
		least = room < least ? room : least;
	}
	if (f)
		fclose(f);
	return least;
}

uint64_t
grn_free_memory(void)
{
	unsigned long long kb;
	uint64_t	bytes = UINT64_MAX;
	uint64_t	room = cgroup_room();
	char		line[128];
	FILE	   *f = fopen("/proc/meminfo", "r");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "MemAvailable: %llu kB", &kb) == 1)
			bytes = (uint64_t) kb << 10;
	if (f)
		fclose(f);
	return room < bytes ? room : bytes;
}

uint64_t
grn_memory_limit(uint64_t set)
{
	uint64_t	bytes = set > 0 ? set : grn_free_memory();

	return set > 0 || bytes > LEAST_FREE ? bytes : LEAST_FREE;
}
