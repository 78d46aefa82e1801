/*
 * process.c - the process of a builder, before it serves its leader.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "builder/host.h"
#include "builder/pipeline.h"

/* Whether descriptor GRN_BUILDER_FD is the leader's socket. */
static bool
has_leader(void)
{
	int			type;
	socklen_t	size = sizeof(type);

	return getsockopt(GRN_BUILDER_FD, SOL_SOCKET, SO_TYPE, &type, &size) == 0 &&
		type == SOCK_SEQPACKET;
}

/*
 * A builder must not outlive its leader.  A builder must survive the interrupt that reaches the
 * leader's process group, because the leader reports its own cancel first and then kills the
 * builder.  If memory runs out, the kernel must kill the builder before other processes.
 */
static void
set_up_process(void)
{
	int			fd;

	signal(SIGINT, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	/*
	 * If the leader died before this line, the socket is closed and the builder reads an end of
	 * file.
	 */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd >= 0)
	{
		if (write(fd, "500", 3) != 3)
		{
			/* Without the score the kernel chooses the process to kill by its own rule. */
		}
		close(fd);
	}
}

int
grn_builder_process(const char *program, const GrnElsewhere *elsewhere)
{
	if (!has_leader())
	{
		fprintf(stderr, "%s: --serve is for PostgreSQL, which passes a socket\n", program);
		return 2;
	}
	set_up_process();
	grn_report_no_memory(GRN_BUILDER_FD);
	return grn_serve(GRN_BUILDER_FD, elsewhere);
}
