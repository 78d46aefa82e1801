#!/usr/bin/env python3
"""stage.py COMMAND...: runs a command of a check, and ends all processes that the command has started.

The standard output is a file, the stage's log.  The exit status is the command's, or 124 after a hang:
for QUIET seconds the log has not grown and the command's processes have used next to no processor
time, or they have used SPENT seconds of it since the log grew.  No other time counts, since a busy
machine may be slow.  The last line of the log is "# processor time: N s".

This process adopts every orphan among its descendants (PR_SET_CHILD_SUBREAPER), so that servers and
other daemons are found as well.
"""
import ctypes
import os
import signal
import sys
import time

QUIET = float(os.environ.get("STAGE_QUIET") or 600)
SPENT = float(os.environ.get("STAGE_SPENT") or 1800)
# An idle server's processes wake up now and then: so small a share of one processor is no movement.
IDLE_SHARE = 0.01
STEP = min(5, QUIET / 10)
GRACE = 3  # seconds in which servers remove their shared memory
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
TICK = os.sysconf("SC_CLK_TCK")
LOG = 1


def descendants():
    """Maps the process id of each descendant to its name and to the seconds of processor time of that
    process and of the children that it has waited for."""
    parents, about = {}, {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                program, _, rest = file.read().partition(b"(")[2].rpartition(b")")
        except OSError:
            continue
        fields = rest.split()
        parents[int(name)] = int(fields[1])
        about[int(name)] = program, sum(map(int, fields[11:15])) / TICK
    found, more = {}, {os.getpid()}
    while more:
        more = {pid for pid, parent in parents.items() if parent in more}
        found.update((pid, about[pid]) for pid in more)
    return found


def waited():
    """Seconds of processor time of the children that this process has waited for."""
    times = os.times()
    return times.children_user + times.children_system


def reap():
    """Waits for the children that have ended; returns their statuses by process id."""
    ended = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended[pid] = status


def end_all():
    """Ends all descendants, also those that start meanwhile."""
    began = time.monotonic()
    while alive := descendants():
        for pid, (program, _) in alive.items():
            # a server that gets SIGQUIT ends at once, and removes its shared memory before
            gently = program == b"postgres" and time.monotonic() - began < GRACE
            try:
                os.kill(pid, signal.SIGQUIT if gently else signal.SIGKILL)
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass
        time.sleep(0.02)
        reap()


def start(command):
    """Starts the command in a session of its own; returns its process id."""
    child = os.fork()
    if child == 0:
        os.setsid()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(LOG, 2)
        try:
            os.execvp(command[0], command)
        except OSError as error:
            os.write(2, f"{command[0]}: {error.strerror}\n".encode())
        os._exit(127)
    return child


def watch(child):
    """Waits for the command's end or a hang; returns the exit status."""
    size, spent, spent_at_line, quiet = 0, 0.0, 0.0, 0.0
    while True:
        began = time.monotonic()
        signal.sigtimedwait([signal.SIGCHLD], STEP)
        ended = reap()
        if child in ended:
            return os.waitstatus_to_exitcode(ended[child]) % 256
        # (a machine that stood still meanwhile shows one long step)
        quiet += min(time.monotonic() - began, 2 * STEP)
        total = waited() + sum(seconds for _, seconds in descendants().values())
        if os.fstat(LOG).st_size > size:
            size = os.fstat(LOG).st_size
            spent = spent_at_line = total
            quiet = 0.0
        elif total - spent > IDLE_SHARE * QUIET:
            spent = total
            quiet = 0.0
        if quiet > QUIET:
            os.write(LOG, f"# nothing has moved for {QUIET:.0f} s\n".encode())
            return 124
        if total - spent_at_line > SPENT:
            os.write(LOG, f"# {SPENT:.0f} s of processor time without output\n".encode())
            return 124


def main():
    ending = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]

    def leave(number, _frame):
        for other in ending:
            signal.signal(other, signal.SIG_IGN)
        end_all()
        os._exit(128 + number)

    for number in ending:
        signal.signal(number, leave)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    status = watch(start(sys.argv[1:]))
    end_all()
    os.write(LOG, f"# processor time: {waited():.0f} s\n".encode())
    return status


if __name__ == "__main__":
    sys.exit(main())
