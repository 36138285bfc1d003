"""Several processes that write to one server, to random ones of many sessions, beside what others would use."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict, make_conninfo
from tests.backends.postgres.server import CannotStart

import clew
from benchmarks.bench import Bench
from benchmarks.measure import Figure, missing, span
from benchmarks.server import Database, served
from benchmarks.serverwriter import TABLE

SESSIONS = 200
THREADS = 4
PROCESSES = (1, 4, 8)
MILLISECONDS = 2
"""The round trip of the slow link."""
ROOT = Path(__file__).parents[1]


def servertogether(bench: Bench) -> Iterator[Figure]:
    """1, 4 and 8 processes with four threads each, on a local socket and over a link of 2 ms."""
    pairs = [("appends", "clew", "table", 0.9)]
    if _has_langgraph():
        pairs.append(("LangGraph turns", "ClewSaver", "PostgresSaver", 0.9))
    try:
        with served() as database:
            for slow in (False, True):
                for what, ours, theirs, target in pairs:
                    yield from _race(bench, database, slow, what, ours, theirs, target)
    except CannotStart as why:
        yield missing("servertogether", f"no server: {why}")


def _race(
    bench: Bench, database: Database, slow: bool, what: str, ours: str, theirs: str, target: float
) -> Iterator[Figure]:
    names = _prepare(database, schema := database.schema(), other := database.schema())
    rates: dict[str, dict[int, float]] = {ours: {}, theirs: {}}
    for processes in PROCESSES:
        told = []
        for kind in (theirs, ours):
            with _link(database, slow) as address:
                where = _url(address, schema) if kind == ours else _conninfo(address, other)
                took = sorted(_run(kind, where, processes, bench.sizes.seconds, names))
            rates[kind][processes] = len(took) / bench.sizes.seconds
            told.append(
                f"{kind} {rates[kind][processes]:,.0f} a second, p50 {span(took[len(took) // 2])},"
                f" p99 {span(took[len(took) * 99 // 100])}"
            )
        link = f"{MILLISECONDS} ms" if slow else "local"
        value = rates[ours][processes] / rates[theirs][processes]
        asked = target if processes > 1 else None
        yield Figure(f"{what}, {processes} processes, {link}", value, at_least=asked, detail="; ".join(told))


def _prepare(database: Database, schema: str, other: str) -> list[str]:
    """Sessions that exist on both sides."""
    with clew.open(database.url(schema)) as store:
        names = []
        for _ in range(SESSIONS):
            session = store.sessions.create()
            session.append(clew.user("first"))
            names.append(session.id)
    with closing(database.connect(other, autocommit=True)) as conn:
        conn.execute(TABLE.encode(), prepare=False)
        for name in names:
            conn.execute("INSERT INTO heads VALUES (%s, 0, now())", (name,))
    if _has_langgraph():
        from langgraph.checkpoint.postgres import PostgresSaver

        with PostgresSaver.from_conn_string(database.conninfo(other)) as saver:
            saver.setup()
    return names


def _has_langgraph() -> bool:
    spec = importlib.util.find_spec("langgraph")
    return spec is not None and importlib.util.find_spec("langgraph.checkpoint.postgres") is not None


@contextmanager
def _link(database: Database, slow: bool) -> Iterator[str]:
    """The address of the server, or of a slow link to it."""
    if not slow:
        yield database.address
        return
    about = conninfo_to_dict(database.address)
    socket = f"{about['host']}/.s.PGSQL.{about.get('port', 5432)}"
    command = [sys.executable, "-m", "benchmarks.delay", socket, str(MILLISECONDS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as link:
        assert link.stdout is not None
        try:
            yield f"postgresql://{about['user']}@127.0.0.1:{link.stdout.readline().strip()}/{about['dbname']}"
        finally:
            link.kill()


def _url(address: str, schema: str) -> str:
    return f"{address}{'&' if '?' in address else '?'}schema={schema}"


def _conninfo(address: str, schema: str) -> str:
    return make_conninfo(address, options=f"-c search_path={schema}")


def _run(kind: str, address: str, processes: int, seconds: float, names: list[str]) -> list[float]:
    command = [sys.executable, "-m", "benchmarks.serverwriter", kind, address, str(THREADS), str(seconds)]
    crew = [
        subprocess.Popen(
            [*command, json.dumps(names)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        for _ in range(processes)
    ]
    for one in crew:
        assert one.stdout is not None
        one.stdout.readline()  # ready
    for one in crew:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    return [took for one in crew for took in json.loads(one.communicate()[0])]
