"""What the benchmarks share: a private PostgreSQL server, tables of vectors, and qps runs."""
import concurrent.futures
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


# The systems that are compared: what follows USING, and what CREATE INDEX wants set before it.
# pgvectorscale builds in parallel by itself from 65,536 rows on.
SYSTEMS = {
    "grnnd": ("grnnd (v {ops})", ""),
    "pgvector": ("hnsw (v {ops}) WITH (m = 16, ef_construction = 64)", ""),
    "diskann": ("diskann (v {ops})", "SET max_parallel_maintenance_workers = 0; "),
    "diskann-parallel": ("diskann (v {ops})", "SET diskann.min_vectors_for_parallel_build = 1; "),
}


def using(system, ops="vector_l2_ops"):
    """What follows USING in CREATE INDEX."""
    return SYSTEMS[system][0].format(ops=ops)


def build_settings(system):
    """SQL to run before CREATE INDEX."""
    return SYSTEMS[system][1]


def beam(system, width):
    """SQL that sets how wide a search of that system is; diskann ranks half of the list by exact distances, 50 at least."""
    width = round(width)
    if system.startswith("diskann"):
        return f"SET diskann.query_search_list_size = {width}; SET diskann.query_rescore = {max(50, width // 2)}"
    return f"SET {'hnsw' if system in ('pgvector', 'hnsw') else 'grnnd'}.ef_search = {width}"


def extensions(systems):
    """SQL that creates what these systems are in."""
    return ("CREATE EXTENSION vector; CREATE EXTENSION grnnd;"
            + (" CREATE EXTENSION vectorscale;" if any(s.startswith("diskann") for s in systems) else ""))


def read_matrix(path, dtype=np.float32):
    """An .fbin or .ibin file as an array; a memory map, so that large ones cost nothing."""
    rows, columns = np.fromfile(path, np.int32, 2)
    if os.path.getsize(path) < 8 + 4 * int(rows) * int(columns):
        sys.exit(f"{path}: cut short")
    return np.memmap(path, dtype, "r", 8, (int(rows), int(columns)))


def save_matrix(path, rows):
    with open(path, "wb") as f:
        np.array(rows.shape, np.int32).tofile(f)
        np.ascontiguousarray(rows).tofile(f)


def from_hdf5(path, out):
    """The data folder of a .hdf5 file of ann-benchmarks, written to out; a path that is none, as it is."""
    if not path.endswith(".hdf5"):
        return path
    import h5py
    os.makedirs(out, exist_ok=True)
    with h5py.File(path) as f:
        save_matrix(f"{out}/base.fbin", f["train"][:].astype("f4"))
        save_matrix(f"{out}/query.fbin", f["test"][:].astype("f4"))
        save_matrix(f"{out}/gt.ibin", f["neighbors"][:].astype("i4"))
    return out


def take(folder, out, n):
    """The first n base rows of an .fbin folder with their own exact neighbors."""
    base, query = read_matrix(f"{folder}/base.fbin"), read_matrix(f"{folder}/query.fbin")
    if n is None or n >= len(base):
        return folder
    os.makedirs(out, exist_ok=True)
    base, query = np.array(base[:n]), np.array(query[:2000])
    norms, truth = (base * base).sum(1), []
    for i in range(0, len(query), 100):
        d = norms[None] - 2 * query[i:i + 100] @ base.T
        near = np.argpartition(d, 100, axis=1)[:, :100]
        truth.append(np.take_along_axis(near, np.take_along_axis(d, near, 1).argsort(1), 1))
    save_matrix(f"{out}/base.fbin", base)
    save_matrix(f"{out}/query.fbin", query)
    save_matrix(f"{out}/gt.ibin", np.concatenate(truth).astype(np.int32))
    return out


def random_rows(n, whole=False, seed=3):
    """n rows of 128 dimensions at random about 16 latent ones; whole: integers to 255, which are kept in a byte each."""
    rng = np.random.default_rng(seed)
    basis = rng.standard_normal((16, 128), dtype=np.float32)
    out = np.empty((n, 128), np.float32)
    for i in range(0, n, 65536):
        m = min(65536, n - i)
        out[i:i + m] = rng.standard_normal((m, 16), dtype=np.float32) @ basis * 15
        out[i:i + m] += 4 * rng.standard_normal((m, 128), dtype=np.float32)
    return np.clip(np.rint(out + 100), 0, 255) if whole else out


class Cgroup:
    """A memory cgroup of so many megabytes, the kernel's cache of files included.  OSError: none can be made here."""

    LIMITS = (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max"))    # version 1, version 2

    def __init__(self, megabytes):
        root, limit = next((x for x in self.LIMITS if os.path.isdir(x[0])), self.LIMITS[-1])
        self.folder = f"{root}/grnnd-bench-{os.getpid()}"
        os.mkdir(self.folder)
        try:
            self.write(limit, megabytes << 20)
        except OSError:
            self.drop()
            raise

    def write(self, name, value):
        with open(f"{self.folder}/{name}", "w") as f:
            f.write(str(value))

    def take(self, pids):
        """What these processes start from now on belongs to it as well."""
        for pid in pids:
            self.write("cgroup.procs", pid)

    def drop(self):
        """Once all its processes have ended."""
        os.rmdir(self.folder)


class Server:
    """A private cluster in a temporary folder, on a unix socket, as another user where run as root."""

    def __init__(self, pg_config, user=None, settings=None, folder=None, initdb=()):
        self.bin = subprocess.check_output([pg_config, "--bindir"], text=True).strip()
        self.lib = subprocess.check_output([pg_config, "--libdir"], text=True).strip()
        self.include = subprocess.check_output([pg_config, "--includedir"], text=True).strip()
        self.user = user or ("grnnd-bench" if os.geteuid() == 0 else None)
        if self.user and os.geteuid() == 0:
            try:
                pwd.getpwnam(self.user)
            except KeyError:
                subprocess.check_call(["useradd", "-m", self.user])
        self.dir = tempfile.mkdtemp(prefix="grnnd-bench-", dir=folder)
        if self.user:
            shutil.chown(self.dir, self.user)
        os.chmod(self.dir, 0o755)
        self.data = f"{self.dir}/data"
        self._as(["initdb", "-D", self.data, "-A", "trust", "-U", "bench", "--no-sync", *initdb],
                 stdout=subprocess.DEVNULL)
        base = {"listen_addresses": "''", "unix_socket_directories": f"'{self.dir}'",
                "shared_buffers": "2GB", "maintenance_work_mem": "2GB", "max_wal_size": "16GB",
                "checkpoint_timeout": "1h", "autovacuum": "off", "jit": "off", "max_connections": "200"}
        with open(f"{self.data}/postgresql.conf", "a") as f:
            for name, value in {**base, **(settings or {})}.items():
                f.write(f"{name} = {value}\n")
        self.start()
        self.conn = f"host={self.dir} user=bench dbname=postgres"

    def _as(self, command, **kw):
        command = [f"{self.bin}/{command[0]}"] + command[1:]
        if self.user and os.geteuid() == 0:
            command = ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups"] + command
        subprocess.check_call(command, cwd="/", **kw)

    def start(self):
        self._as(["pg_ctl", "-D", self.data, "-w", "-l", f"{self.dir}/log", "start"], stdout=subprocess.DEVNULL)

    def stop(self, remove=True):
        self._as(["pg_ctl", "-D", self.data, "-m", "fast", "-w", "stop"], stdout=subprocess.DEVNULL)
        if remove:
            shutil.rmtree(self.dir)

    def restart(self, **settings):
        """Stops, appends settings and starts again."""
        self.stop(remove=False)
        with open(f"{self.data}/postgresql.conf", "a") as f:
            for name, value in settings.items():
                f.write(f"{name} = {value}\n")
        self.start()

    def processes(self):
        """The postmaster and what it has started."""
        with open(f"{self.data}/postmaster.pid") as f:
            postmaster = int(f.readline())
        with open(f"/proc/{postmaster}/task/{postmaster}/children") as f:
            return [postmaster] + [int(x) for x in f.read().split()]

    def sql(self, text):
        """Runs SQL; returns (last command's output, stderr)."""
        done = subprocess.run([f"{self.bin}/psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d",
                               self.conn, "-f", "-"], input=text, text=True, capture_output=True)
        if done.returncode:
            raise RuntimeError(done.stderr.strip() + "\n" + text)
        return done.stdout.strip(), done.stderr

    def copy_binary(self, table, chunks):
        """COPY BINARY from a pipe; chunks: bytes of whole rows."""
        psql = subprocess.Popen([f"{self.bin}/psql", "-X", "-q", "-d", self.conn, "-c",
                                 f"COPY {table} FROM STDIN (FORMAT binary)"], stdin=subprocess.PIPE)
        psql.stdin.write(b"PGCOPY\n\xff\r\n\0" + b"\0" * 8)
        for chunk in chunks:
            psql.stdin.write(chunk)
        psql.stdin.write(b"\xff\xff")
        psql.stdin.close()
        if psql.wait():
            raise RuntimeError("COPY failed")

    def copy(self, table, base, first=0, columns=None):
        """COPY BINARY into a table (id int, v vector(d), columns int); ids from first on; columns: name, array."""
        d, columns = base.shape[1], columns or {}
        row = np.dtype([("fields", ">i2"), ("l1", ">i4"), ("id", ">i4"), ("l2", ">i4"), ("dim", ">i2"),
                        ("zero", ">i2"), ("v", ">f4", (d,))]
                       + [(part + name, ">i4") for name in columns for part in ("l_", "c_")])

        def chunks():
            for i in range(0, len(base), 16384):
                part = base[i:i + 16384]
                out = np.zeros(len(part), row)
                out["fields"], out["l1"], out["l2"], out["dim"] = 2 + len(columns), 4, 4 + 4 * d, d
                out["id"], out["v"] = np.arange(first + i, first + i + len(part)), part
                for name, values in columns.items():
                    out["l_" + name], out["c_" + name] = 4, values[i:i + len(part)]
                yield out.tobytes()

        self.copy_binary(table, chunks())

    def load(self, table, base, storage="plain", streams=1, columns=None):
        """Makes and fills a table as copy() does, by several sessions where streams > 1."""
        columns = columns or {}
        self.sql(f"CREATE TABLE {table} (id int, v vector({base.shape[1]}){''.join(f', {name} int' for name in columns)}); "
                 f"ALTER TABLE {table} ALTER v SET STORAGE {storage};")
        bounds = np.linspace(0, len(base), streams + 1).astype(int)

        def copy(i):
            part = slice(bounds[i], bounds[i + 1])
            self.copy(table, base[part], part.start, {name: values[part] for name, values in columns.items()})

        with concurrent.futures.ThreadPoolExecutor(streams) as pool:
            list(pool.map(copy, range(streams)))
        self.sql(f"VACUUM (FREEZE, ANALYZE) {table}; CHECKPOINT;")

    def create_index(self, text):
        """Runs CREATE INDEX; returns (seconds, what the server logged at debug1)."""
        start = time.time()
        _, log = self.sql("SET client_min_messages = debug1; " + text)
        return time.time() - start, log

    def size(self, relation):
        return int(self.sql(f"SELECT pg_relation_size('{relation}')")[0])

    def forget(self):
        """Drops the cluster's files from the kernel's cache; shared buffers are not touched."""
        self.sql("CHECKPOINT")
        for folder, _, files in os.walk(f"{self.data}/base"):
            for name in files:
                fd = os.open(f"{folder}/{name}", os.O_RDONLY)
                os.fsync(fd)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(fd)

    def qps(self, binary, data, query, setup="", clients=1, seconds=3.0, pin=False, buffers=0, by_id=False,
            queries=0, warmup=200, warm=0.0, first=0, k=10, truth=True, bounds=None):
        """Runs qps.c; bounds: an .ibin file, of which query i has row i as its parameters from $2 on.

        Each session asks `warmup` queries before, and for `warm` seconds at least."""
        command = [binary, "--conn", self.conn, "--query", query, "--vectors", f"{data}/query.fbin",
                   "--setup", setup or "SELECT 1", "--clients", str(clients), "--seconds", str(seconds)]
        command += ["--by-id"] if by_id else ["--truth", f"{data}/gt.ibin"] if truth else []
        command += ["--bounds", bounds] if bounds else []
        command += ["--pin"] if pin else []
        command += ["--buffers", str(buffers)] if buffers else []
        command += ["--queries", str(queries), "--warmup", str(warmup), "--warm", str(warm), "--first", str(first),
                    "--k", str(k)]
        env = dict(os.environ, LD_LIBRARY_PATH=self.lib + ":" + os.environ.get("LD_LIBRARY_PATH", ""))
        return json.loads(subprocess.check_output(command, text=True, env=env))

    def build_qps(self):
        """Compiles qps.c against this server's libpq."""
        out = f"{self.dir}/qps"
        subprocess.check_call(["cc", "-O2", "-Wall", "-o", out, f"{HERE}/qps.c", f"-I{self.include}",
                               f"-L{self.lib}", f"-Wl,-rpath,{self.lib}", "-lpq"])
        return out


class Session:
    """One psql, so one backend, whose processor time is known."""

    def __init__(self, server):
        self.psql = subprocess.Popen([f"{server.bin}/psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", server.conn],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = int(self.sql("SELECT pg_backend_pid()")[0])

    def sql(self, text):
        """Lines of output."""
        self.psql.stdin.write(text + ";\n\\echo end of output\n")
        self.psql.stdin.flush()
        lines = []
        for line in self.psql.stdout:
            if line == "end of output\n":
                return lines
            lines.append(line.rstrip("\n"))
        raise RuntimeError("psql ended: " + text)

    def processor(self):
        """Seconds that the backend has run, and the builders that it has started."""
        with open(f"/proc/{self.pid}/schedstat") as f:
            own = int(f.read().split()[0]) / 1e9
        with open(f"/proc/{self.pid}/stat") as f:
            children = f.read().rpartition(")")[2].split()[13:15]
        return own + sum(int(x) for x in children) / os.sysconf("SC_CLK_TCK")

    def timed(self, text):
        start = self.processor()
        lines = self.sql(text)
        return lines, self.processor() - start

    def close(self):
        self.psql.stdin.close()
        self.psql.wait()


def machine():
    """One line on where the figures come from."""
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    line = f"{model}, {os.cpu_count()} cores"
    if shutil.which("nvidia-smi"):
        gpu = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                             text=True, capture_output=True).stdout.strip()
        line += f", {gpu}" if gpu else ""
    return line


def write_table(path, title, columns, rows, where=None):
    """A Markdown table, also printed; where: the machine(), if not this one."""
    lines = [f"# {title}", "", where or machine(), "", "| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for r in rows:
        lines.append("| " + " | ".join(f"{x:.4g}" if isinstance(x, float) else str(x) for x in r) + " |")
    with open(path, "w") as f:
        f.write("\n".join(lines) + "\n")
    print("\n".join(lines), flush=True)
