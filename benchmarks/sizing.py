"""How large a store on a server gets: `python -m benchmarks.sizing [sessions]` measures, and prints the tables of
docs/how-to/postgresql.md.

A real server is started and filled as it would be in use: many sessions are talked to at the same time, a question and
an answer in one append. Then each table and each of its indexes is asked for its size. What a message or a session
takes is that size over their number, and the tables for larger stores are computed from it.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, NamedTuple

from tests.backends.postgres.server import Server

import clew
from clew.store import partitions

TEXT = 1_000
"""Bytes of text in a message."""
TALK = 40
"""Messages in a session."""
AT_ONCE = 100
"""Sessions that are talked to in turns."""
SESSIONS = 1_000
SIZES = (100_000, 1_000_000, 10_000_000)

_OF_MESSAGES = ("nodes",)
_OF_SESSIONS = ("trees", "runs", "refs")


class Measured(NamedTuple):
    """Bytes."""

    body: float
    """Of a message's body, as it is stored, for `TEXT` bytes of text."""
    message: dict[str, float]
    """For each message: the table, without the bodies, and each index."""
    session: dict[str, float]
    """For each session: the tables, and all indexes of each."""
    words: float
    """For each message, once somebody has searched: the table of words and its indexes."""
    appending: float
    """Of memory that a connection has for itself once it has appended for a while, in 16 partitions."""
    indexing: float
    """The same once it has filled the index of words."""


MEASURED = Measured(
    body=1_068,
    message={"nodes": 299, "nodes_pkey": 31, "nodes_id": 56, "nodes_ord": 23},
    session={"trees": 98, "trees indexes": 41, "runs": 139, "runs indexes": 115, "refs": 442, "refs indexes": 1_245},
    words=2_659,
    appending=6_189_056,
    indexing=10_219_520,
)
"""On PostgreSQL 18, with a thousand sessions."""


def measure(server: Server, sessions: int = SESSIONS) -> Measured:
    """Fills a store, and looks."""
    url = server.url()
    with clew.open(url, durability="relaxed") as store, _sql(server, url) as conn:
        _talk(store, sessions)
        conn.execute("VACUUM ANALYZE")
        messages = sessions * TALK
        sizes = {name: (parent, bytes) for name, parent, bytes in conn.execute(_SIZES).fetchall()}
        (bodies,) = conn.execute("SELECT sum(length(body)) FROM nodes").fetchone() or (0,)
        message = {name: bytes / messages for name, (parent, bytes) in sizes.items() if parent in _OF_MESSAGES}
        message = {"nodes": message.pop("nodes") - float(bodies) / messages, **message}
        session = {
            f"{table}{' indexes' * indexes}": sum(
                bytes for name, (parent, bytes) in sizes.items() if parent == table and (name != table) == indexes
            )
            / sessions
            for table in _OF_SESSIONS
            for indexes in (False, True)
        }
        store.search("nothing")
        conn.execute("VACUUM")
        (words,) = conn.execute("SELECT pg_total_relation_size('search')").fetchone() or (0,)
        indexing = _memory(conn)
    divided = server.url()
    with clew.open(divided) as store, _sql(server, divided) as conn:
        partitions.divide(store, 16)
        _talk(store, min(sessions, AT_ONCE))
        return Measured(float(bodies) / messages, message, session, words / messages, _memory(conn), indexing)


def _sql(server: Server, url: str) -> Any:
    return server.connect(options=f"-csearch_path={url.partition('schema=')[2]}")


_SIZES = """
SELECT c.relname, coalesce(t.relname, c.relname), pg_table_size(c.oid)
FROM pg_class c LEFT JOIN pg_index i ON i.indexrelid = c.oid LEFT JOIN pg_class t ON t.oid = i.indrelid
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'i')"""


def _talk(store: clew.Store, sessions: int) -> None:
    chance = random.Random(1)
    words = [f"{chance.getrandbits(4 * min(10, 2 + rank // 30)):x}" for rank in range(20_000)]
    often = list(accumulate(1 / (rank + 1) for rank in range(20_000)))  # as in a language: few words are most of them

    def said() -> str:
        return " ".join(chance.choices(words, cum_weights=often, k=TEXT // 3))[:TEXT]

    for begin in range(0, sessions, AT_ONCE):
        talks = [store.sessions.create(title="A talk", cwd="/src/app") for _ in range(min(AT_ONCE, sessions - begin))]
        for _ in range(TALK // 2):
            for talk in talks:
                talk.append([clew.user(said()), clew.assistant(said(), model="m-1")])


def _memory(conn: Any) -> float:
    """What the server's processes for clew have for themselves, beside the memory that all share; the most of any."""
    pids = conn.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'clew'").fetchall()
    return max(map(_private, (pid for (pid,) in pids)), default=0)


def _private(pid: int) -> int:
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        return sum(int(line.split()[1]) * 1024 for line in file if line.startswith("Anonymous:"))


def each(measured: Measured) -> Iterator[str]:
    """What one message and one session take, as a table."""
    yield "| item | bytes |"
    yield "|---|---|"
    yield f"| message: its body, for {TEXT:,} bytes of text | {measured.body:,.0f} |"
    names = {"nodes": "the rest of its row", "nodes_pkey": "index by position", "nodes_id": "index by id",
             "nodes_ord": "index by order of commit"}  # fmt: skip
    for name, bytes in measured.message.items():
        yield f"| message: {names.get(name, name)} | {bytes:,.0f} |"
    yield f"| message: its words, once someone has searched | {measured.words:,.0f} |"
    for name, bytes in measured.session.items():
        yield f"| session: `{name.partition(' ')[0]}`{name.partition(' ')[2] and ', indexes'} | {bytes:,.0f} |"


def larger(measured: Measured) -> Iterator[str]:
    """What stores of several sizes take, as a table."""
    yield f"| sessions of {TALK} messages of {TEXT:,} bytes | " + " | ".join(f"{size:,}" for size in SIZES) + " |"
    yield "|---" * (len(SIZES) + 1) + "|"
    of_message = sum(measured.message.values())
    of_index = of_message - measured.message["nodes"]
    of_session = sum(measured.session.values())
    for name, one in (
        ("rows of messages", None),
        ("messages with their indexes", TALK * (measured.body + of_message)),
        ("of that, the index by id (random access)", TALK * measured.message["nodes_id"]),
        ("of that, all indexes", TALK * of_index),
        ("sessions with their indexes", of_session),
        ("words, once someone has searched", TALK * measured.words),
        ("total", TALK * (measured.body + of_message + measured.words) + of_session),
    ):
        cells = [f"{size * TALK:,}" if one is None else _large(size * one) for size in SIZES]
        yield f"| {name} | {' | '.join(cells)} |"


def _large(bytes: float) -> str:
    return f"{bytes / 1e9:,.1f} GB" if bytes < 1e11 else f"{bytes / 1e9:,.0f} GB"


def main() -> None:
    server = Server(settings={"shared_buffers": "256MB", "autovacuum": "on"})
    try:
        found = measure(server, int(sys.argv[1]) if len(sys.argv) > 1 else SESSIONS)
    finally:
        server.stop()
    print(found)
    print("\n".join(each(found)), "", "\n".join(larger(found)), sep="\n")


if __name__ == "__main__":
    main()
