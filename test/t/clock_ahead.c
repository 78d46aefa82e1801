/*
 * clock_ahead.c - preloaded into a server: gettimeofday() runs ahead by the seconds
 * that the file named by $CLOCK_AHEAD has as a decimal number.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int
gettimeofday(struct timeval *restrict tv, void *restrict tz)
{
	const char *path = getenv("CLOCK_AHEAD");
	int			fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	char		number[32] = "";
	struct timespec now;

	(void) tz;
	if (fd >= 0)
	{
		if (read(fd, number, sizeof(number) - 1) < 0)
			number[0] = '\0';
		close(fd);
	}
	clock_gettime(CLOCK_REALTIME, &now);
	tv->tv_sec = now.tv_sec + atol(number);
	tv->tv_usec = now.tv_nsec / 1000;
	return 0;
}
