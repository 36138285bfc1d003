"""`python -m benchmarks [names…] [--quick] [--json]`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator

import msgspec

import clew
from benchmarks import (
    adapters,
    agents,
    appending,
    checkpoints,
    footprint,
    growth,
    importing,
    limits,
    page,
    peers,
    postgres,
    reading,
    redacting,
    sealing,
    searching,
    servertogether,
    snapshots,
    terminal,
    together,
)
from benchmarks.bench import FULL, QUICK, Bench
from benchmarks.floor import Floor, session_id
from benchmarks.measure import Figure

MEASURES: dict[str, Callable[[Bench], Iterator[Figure]]] = {
    "append": appending.append,
    "first": appending.first,
    "long": appending.long,
    "fork": appending.fork,
    "tasks": together.tasks,
    "threads": together.threads,
    "processes": together.processes,
    "path": reading.path,
    "last": reading.last,
    "list": reading.listing,
    "limits": limits.limits,
    "search": searching.search,
    "space": footprint.space,
    "start": footprint.start,
    "memory": footprint.memory,
    "sealed": sealing.sealed,
    "rotate": sealing.rotate,
    "purge": sealing.purge,
    "redact": redacting.redact,
    "import": importing.importing,
    "watch": importing.watching,
    "resume": agents.resume,
    "mirror": agents.mirror,
    "adapters": adapters.adapters,
    "autosave": snapshots.autosave,
    "snapshots": snapshots.listing,
    "tree": checkpoints.tree,
    "program": terminal.program,
    "hook": terminal.hook,
    "picker": terminal.picker,
    "growth": growth.growth,
    "page": page.page,
    "postgres": postgres.postgres,
    "servertogether": servertogether.servertogether,
}


def main(arguments: list[str] | None = None) -> None:
    """Runs what is named, or all, and tells the figures and whether they meet what was asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"what to measure: {', '.join(MEASURES)}; default all")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, fewer rounds: a look, not a result")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    parser.add_argument("--no-peers", action="store_true", help="leave the other stores out")
    parser.add_argument("--disk", metavar="DIR", help="a folder on the disk to measure; default: the temporary folder")
    given = parser.parse_args(arguments)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # the processes that are started would compile clew, each again
    unknown = [name for name in given.names if name not in MEASURES]
    if unknown:
        parser.error(f"no measure is called {unknown[0]}; there are {', '.join(MEASURES)}")
    bench = Bench(QUICK if given.quick else FULL, disk=given.disk, peers=not given.no_peers)
    file = sys.stderr if given.json else sys.stdout

    def out(line: str) -> None:
        print(line, file=file, flush=True)

    try:
        setting = described(bench)
        for name, words in setting.items():
            out(f"{name:<34} {words}")
        figures: list[Figure] = []
        for name in given.names or MEASURES:
            out(f"\n{name}: {(MEASURES[name].__doc__ or '').splitlines()[0]}")
            start = time.perf_counter()
            for figure in MEASURES[name](bench):
                figures.append(figure)
                for line in figure.lines():
                    out(line)
            out(f"    ({time.perf_counter() - start:.1f} s)")
        missed = [figure.name for figure in figures if figure.met is False]
        asked = sum(figure.met is not None for figure in figures)
        out(f"\n{asked - len(missed)} of {asked} targets met{'; missed: ' if missed else ''}{', '.join(missed)}")
        if given.json:
            print(json.dumps({"setting": setting, "figures": [figure.json() for figure in figures]}, indent=2))
    finally:
        bench.close()


def described(bench: Bench) -> dict[str, str]:
    """The machine, the versions, and the durability of each store as found at run time."""
    with peers.watched() as found, clew.open(bench.file(bench.disk)) as store:
        store.sessions.create().append(clew.user("hello"))
    with peers.watched() as floor_found:
        floor = Floor(bench.file(bench.disk))
        floor.append(session_id(), b"{}")
        floor.close()
    return {
        "machine": f"{os.cpu_count()} x {_cpu()}, {platform.system()} {platform.release()}",
        "load": f"{os.getloadavg()[0]:.1f} before the start; what else runs here falls on all sides, but not evenly",
        "disk": f"{bench.disk} ({_file_system(bench.disk)})",
        "software path": f"{bench.memory} ({_file_system(bench.memory)})",
        "python": f"{platform.python_version()}, SQLite {sqlite3.sqlite_version}, msgspec {msgspec.__version__}",
        "floor": f"bare sqlite3, {', '.join(sorted(floor_found))}",
        "clew": f"{clew.__version__} {_origin()}, {', '.join(sorted(found))}",
        **dict(peers.described(bench)),
    }


def _origin() -> str:
    """Where clew was imported from: an installed wheel has compiled modules, the sources may have none."""
    if clew.__file__.startswith(sysconfig.get_path("purelib") + os.sep):
        return "from a wheel"
    return "from its sources (times of new processes: see `make bench`)"


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _file_system(path: str) -> str:
    try:
        with open("/proc/self/mounts", encoding="utf-8") as file:
            mounts = [line.split()[1:3] for line in file]
    except OSError:
        return "unknown"
    return max((m for m in mounts if (path + "/").startswith(m[0].rstrip("/") + "/")), key=lambda m: len(m[0]))[1]


if __name__ == "__main__":
    main()
