/*
 * free_memory.c - how much memory there is to take.
 */
#include "builder/free_memory.h"

#include <stdbool.h>
#include <stdio.h>

/* The first number in a file, 0 where there is none. */
static uint64_t
number_in(const char *path)
{
	unsigned long long value = 0;
	FILE	   *f = fopen(path, "r");

	if (f && fscanf(f, "%llu", &value) != 1)
		value = 0;
	if (f)
		fclose(f);
	return value;
}

/* Bytes of file cache, which the kernel gives back, among those that a cgroup uses. */
static uint64_t
file_cache(const char *path)
{
	unsigned long long value;
	uint64_t	bytes = 0;
	char		line[128];
	FILE	   *f = fopen(path, "r");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "inactive_file %llu", &value) == 1 ||
			sscanf(line, "active_file %llu", &value) == 1)
			bytes += value;
	if (f)
		fclose(f);
	return bytes;
}

uint64_t
grn_free_memory(void)
{
	unsigned long long kb;
	uint64_t	bytes = UINT64_MAX;
	uint64_t	most = number_in("/sys/fs/cgroup/memory.max");
	uint64_t	used = number_in("/sys/fs/cgroup/memory.current");
	uint64_t	cache = file_cache("/sys/fs/cgroup/memory.stat");
	char		line[128];
	FILE	   *f = fopen("/proc/meminfo", "r");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "MemAvailable: %llu kB", &kb) == 1)
			bytes = (uint64_t) kb << 10;
	if (f)
		fclose(f);
	used -= cache < used ? cache : used;
	if (most > 0 && most < UINT64_MAX && most > used && most - used < bytes)
		bytes = most - used;
	return bytes;
}
