/*
 * no_memory.c - a page of shared memory that the machine does not have.
 *
 * The leader grants memory before anybody has allocated it: threads do that when they first touch
 * a page, side by side.  Where there is none, the kernel mostly ends the process that takes most.
 * But under strict accounting (vm.overcommit_memory = 2) the thread gets SIGBUS, which the leader
 * is to hear of as an error like others.
 */
#include "builder/no_memory.h"

#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "builder/protocol.h"

/* Ready to be sent: a handler formats nothing. */
static GrnMsg failed;
static int	leader;

/* The thread stays; at the end of file the one that listens ends the process. */
static void
say_failed(int signo, siginfo_t *info, void *context)
{
	static bool said;

	(void) context;
	if (info->si_code != BUS_ADRERR)
	{
		/* of another kind: returning to the access ends the process by it */
		signal(signo, SIG_DFL);
		return;
	}
	if (!__atomic_exchange_n(&said, true, __ATOMIC_RELAXED) &&
		send(leader, &failed, sizeof(failed), MSG_NOSIGNAL) < 0)
		_exit(1);
	for (;;)
		pause();
}

void
grn_report_no_memory(int fd)
{
	struct sigaction action = {.sa_sigaction = say_failed, .sa_flags = SA_SIGINFO};

	leader = fd;
	failed.type = GRN_MSG_FAILED;
	snprintf(failed.sqlstate, sizeof(failed.sqlstate), "53200");
	snprintf(failed.u.say.text, sizeof(failed.u.say.text),
			 "the builder process found no memory behind what it was granted");
	snprintf(failed.u.say.hint, sizeof(failed.u.say.hint),
			 "Lower maintenance_work_mem: what is beyond it goes to temporary files.");
	sigemptyset(&action.sa_mask);
	sigaction(SIGBUS, &action, NULL);
}
