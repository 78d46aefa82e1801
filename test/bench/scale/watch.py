"""What a CREATE INDEX does while it runs: threads at work, memory, progress, the GPU; from /proc, the progress view and nvidia-smi."""
import os
import shutil
import subprocess
import threading
import time

TICK = 1 / os.sysconf("SC_CLK_TCK")
EVERY = 0.2             # seconds between two looks
BUSY = 0.4              # of the time between two looks, of a thread that counts as at work
GPU_BUSY = 10           # percent


def read(path):
    try:
        with open(path, "rb") as f:
            return f.read().decode(errors="replace")
    except OSError:
        return ""


def children(pid):
    """Processes whose parent is pid."""
    listed = read(f"/proc/{pid}/task/{pid}/children")
    if listed or os.path.exists(f"/proc/{pid}/task/{pid}/children"):
        return [int(x) for x in listed.split()]
    found = []
    for name in os.listdir("/proc"):
        stat = read(f"/proc/{name}/stat") if name.isdigit() else ""
        if stat and int(stat.rsplit(")", 1)[1].split()[1]) == pid:
            found.append(int(name))
    return found


def kilobytes(text, name):
    at = text.find(name + ":")
    return int(text[at + len(name) + 1:].split()[0]) if at >= 0 else 0


class Watch:
    """Runs from start() to stop(); report() then says what was seen."""

    def __init__(self, server):
        self.server, self.samples, self.progress, self.gpu = server, [], [], []
        self.peaks, self.anonymous, self.shared, self.over = {}, 0, 0, False
        self.postmaster = int(read(f"{server.data}/postmaster.pid").split()[0])

    def start(self):
        self.shared_before = kilobytes(read("/proc/meminfo"), "Shmem")
        self.view = subprocess.Popen(
            [f"{self.server.bin}/psql", "-X", "-q", "-A", "-t", "-d", self.server.conn], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.view.stdin.write("SELECT 'P', extract(epoch FROM clock_timestamp()), phase, tuples_done, tuples_total, blocks_done, "
                              f"blocks_total FROM pg_stat_progress_create_index \\watch {EVERY}\n")
        self.view.stdin.flush()
        self.threads = [threading.Thread(target=self.look), threading.Thread(target=self.read_view)]
        self.smi = None
        if shutil.which("nvidia-smi"):
            self.smi = subprocess.Popen(["nvidia-smi", "--query-gpu=utilization.gpu,memory.used", "--format=csv,noheader,nounits",
                                         "-lms", str(int(EVERY * 1000))], stdout=subprocess.PIPE, text=True)
            self.threads.append(threading.Thread(target=self.read_smi))
        for t in self.threads:
            t.start()

    def stop(self):
        self.over = True
        self.view.terminate()
        if self.smi:
            self.smi.terminate()
        for t in self.threads:
            t.join()

    def read_view(self):
        for line in self.view.stdout:
            part = line.rstrip("\n").split("|")
            if part[0] == "P":
                self.progress.append((float(part[1]), part[2], tuple(int(x or 0) for x in part[3:])))

    def read_smi(self):
        for line in self.smi.stdout:
            try:
                use, memory = line.split(",")
                self.gpu.append((time.time(), float(use), float(memory)))
            except ValueError:
                pass

    def processes(self):
        """(pid, what it is) of the leader, its workers and the builder."""
        found = []
        for pid in children(self.postmaster):
            title = read(f"/proc/{pid}/cmdline").replace("\0", " ")
            if "CREATE INDEX" in title:
                found.append((pid, "leader"))
                found += [(child, "builder") for child in children(pid)]
            elif "parallel worker" in title:
                found.append((pid, "worker"))
        return found

    def look(self):
        before, last = {}, time.time()
        while not self.over:
            now, ticks, busy, names = time.time(), {}, 0, []
            anonymous = 0
            for pid, what in self.processes():
                status = read(f"/proc/{pid}/status")
                self.peaks[what] = max(self.peaks.get(what, 0), kilobytes(status, "VmHWM"))
                anonymous += kilobytes(status, "RssAnon")
                try:
                    tasks = os.listdir(f"/proc/{pid}/task")
                except OSError:
                    continue
                for task in tasks:
                    stat = read(f"/proc/{pid}/task/{task}/stat")
                    if stat:
                        part = stat.rsplit(")", 1)[1].split()
                        ticks[task] = int(part[11]) + int(part[12])
                        if (ticks[task] - before.get(task, ticks[task])) * TICK > BUSY * (now - last):
                            busy += 1
                            names.append(what)
            cores = sum(t - before.get(task, t) for task, t in ticks.items()) * TICK / max(now - last, 1e-6)
            self.anonymous = max(self.anonymous, anonymous)
            self.shared = max(self.shared, kilobytes(read("/proc/meminfo"), "Shmem") - self.shared_before)
            if ticks:
                self.samples.append((now, busy, cores, names[0] if len(names) == 1 else ""))
            before, last = ticks, now
            time.sleep(EVERY)

    def phase_at(self, t):
        name = ""
        for when, phase, _ in self.progress:
            if when > t:
                break
            name = phase
        return name.replace("building index: ", "")

    def gpu_at(self, t):
        near = [use for when, use, _ in self.gpu if abs(when - t) < 2 * EVERY]
        return max(near, default=0)

    def longest(self, which):
        """(seconds, phase, process) of the longest stretch of samples for which which(sample) holds."""
        best, begin = (0.0, "", ""), None
        for i, s in enumerate(self.samples):
            if not which(s):
                begin = None
                continue
            if begin is None:
                begin = self.samples[i - 1][0] if i else s[0]
            if s[0] - begin > best[0]:
                best = (s[0] - begin, self.phase_at(s[0]), s[3])
        return best

    def phases(self):
        """Of each phase of the progress view: its name, seconds, states that were seen, and the longest time without a new one."""
        out = []
        for when, phase, state in self.progress:
            if not out or out[-1]["phase"] != phase:
                out.append({"phase": phase, "begin": when, "end": when, "states": set(), "changed": when, "still": 0.0})
            of = out[-1]
            of["end"] = when
            if state not in of["states"]:
                of["states"].add(state)
                of["changed"] = when
            of["still"] = max(of["still"], when - of["changed"])
        return [(p["phase"].replace("building index: ", ""), p["end"] - p["begin"], len(p["states"]), p["still"]) for p in out]

    def report(self):
        alone = self.longest(lambda s: s[1] == 1 and self.gpu_at(s[0]) < GPU_BUSY)
        waiting = self.longest(lambda s: s[1] == 0 and self.gpu_at(s[0]) < GPU_BUSY)
        processor = sum((b[0] - a[0]) * b[2] for a, b in zip(self.samples, self.samples[1:]))
        return {"processor": processor, "alone": alone, "waiting": waiting, "phases": self.phases(), "anonymous": self.anonymous * 1024,
                "shared": self.shared * 1024, "peaks": {k: v * 1024 for k, v in self.peaks.items()},
                "gpu": max((m for _, _, m in self.gpu), default=0) * 1e6,
                "cores": [(round(s[0] - self.samples[0][0], 2), s[1], round(s[2], 1), self.phase_at(s[0])) for s in self.samples]}
