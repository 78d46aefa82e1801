/*
 * no_memory.c - reports a page of shared memory that the machine cannot supply.
 *
 * The leader grants memory before any process has allocated the pages.  Threads allocate pages in
 * parallel, at the first touch.  If the machine has no page left, the kernel usually kills the
 * process that uses the most memory.  Under strict accounting (vm.overcommit_memory = 2) the thread
 * gets SIGBUS instead, and the leader must receive an ordinary error.
 */
#include "builder/host.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "builder/protocol.h"

/* The message is formatted in advance, because a signal handler must not format text. */
static GrnMsg failed;
static int	leader;

/*
 * The thread never returns from here.  The thread that reads the socket ends the process at the
 * leader's end of file.
 */
static void
report_failure(int signo, siginfo_t *info, void *context)
{
	static bool reported;

	(void) context;
	if (info->si_code != BUS_ADRERR)
	{
		/* Any other SIGBUS: the faulting access runs again and kills the process. */
		signal(signo, SIG_DFL);
		return;
	}
	if (!__atomic_exchange_n(&reported, true, __ATOMIC_RELAXED) &&
		send(leader, &failed, sizeof(failed), MSG_NOSIGNAL) < 0)
		_exit(1);
	for (;;)
		pause();
}

void
grn_report_no_memory(int fd)
{
	struct sigaction action = {.sa_sigaction = report_failure, .sa_flags = SA_SIGINFO};
	GrnFailure	failure;

	leader = fd;
	grn_fail(&failure, "53200",
			 "If memory is short, lower maintenance_work_mem. Otherwise check the kernel's log and the disk of temp_tablespaces.",
			 "the builder process could not get a page of its memory or temporary file");
	failed.type = GRN_MSG_FAILED;
	memcpy(failed.sqlstate, failure.sqlstate, sizeof(failed.sqlstate));
	snprintf(failed.u.say.text, sizeof(failed.u.say.text), "%s", failure.text);
	snprintf(failed.u.say.hint, sizeof(failed.u.say.hint), "%s", failure.hint);
	sigemptyset(&action.sa_mask);
	sigaction(SIGBUS, &action, NULL);
}
