/*
 * main.c - grnnd_build: with --serve the builder process of a leader, else a
 * command-line tool.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "builder/cli.h"
#include "builder/list_gpus.h"
#include "builder/no_memory.h"
#include "builder/serve.h"
#include "graph/kernels/dist.h"

/* Whether the leader's socket is where it should be. */
static bool
has_leader(void)
{
	int			type;
	socklen_t	size = sizeof(type);

	return getsockopt(GRN_BUILDER_FD, SOL_SOCKET, SO_TYPE, &type, &size) == 0 &&
		type == SOCK_SEQPACKET;
}

/*
 * A builder must not outlive its leader, must not die of the interrupt that the
 * leader's process group gets (the leader reports its own cancel first and then
 * kills it), and must be what the kernel kills first when memory runs out.
 */
static void
behave(void)
{
	int			fd;

	signal(SIGINT, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	/* a leader that died before this line has closed its socket: end of file */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd >= 0)
	{
		if (write(fd, "500", 3) != 3)
		{
			/* then the kernel chooses as it likes */
		}
		close(fd);
	}
}

int
main(int argc, char **argv)
{
	grn_dist_init();

	/*
	 * One queue to a GPU instead of eight: its context opens 0.05 s sooner, and
	 * neither rounds nor copies take longer.
	 */
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 0);
	if (argc == 2 && strcmp(argv[1], "--serve") == 0)
	{
		if (!has_leader())
		{
			fprintf(stderr, "grnnd_build: --serve is for PostgreSQL, which passes a socket\n");
			return 2;
		}
		behave();
		grn_report_no_memory(GRN_BUILDER_FD);
		return grn_serve(GRN_BUILDER_FD);
	}
	if (argc == 2 && strcmp(argv[1], "--devices") == 0)
		return grn_list_gpus();
	return grn_command_line(argc, argv);
}
