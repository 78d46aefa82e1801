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
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "builder/host.h"
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
	GrnFailure	failure;

	leader = fd;
	grn_fail(&failure, "53200",
			 "Lower maintenance_work_mem where memory is short; else look at the kernel's log and the disk of temp_tablespaces.",
			 "the builder process could not get a page of the memory or temporary file that it was granted");
	failed.type = GRN_MSG_FAILED;
	memcpy(failed.sqlstate, failure.sqlstate, sizeof(failed.sqlstate));
	snprintf(failed.u.say.text, sizeof(failed.u.say.text), "%s", failure.text);
	snprintf(failed.u.say.hint, sizeof(failed.u.say.hint), "%s", failure.hint);
	sigemptyset(&action.sa_mask);
	sigaction(SIGBUS, &action, NULL);
}
