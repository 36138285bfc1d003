"""Search in all messages for words, phrases and prefixes, or for substrings."""

from __future__ import annotations

import json
import re
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

from clew.backends import ID, MAX_POS, MAX_SEQ, POS, SEQ_BITS, NodeLocation, RefRow, RunRow, Tx
from clew.base.messages import ROLES, Role
from clew.engine import paths
from clew.engine.damage import Damage
from clew.engine.engine import Engine, whole_number
from clew.engine.node import Node, microseconds, node_row, run_info
from clew.engine.trash import Visibility
from clew.errors import Invalid, ReadOnly
from clew.store.search import text as words
from clew.store.search.index import Index, Mode, Progress, searchable
from clew.store.search.postgres import ServerIndex
from clew.store.search.text import Marks
from clew.store.session import Session, row_of
from clew.store.session_table import SESSION, SUBAGENT, SessionParts

CONTEXT = 12
"""The number of words in a snippet; for substrings, five characters per word."""

LONGEST_SNIPPET = 400
"""The maximum number of characters in a snippet: a word may be a whole file in base64."""

MOST_TERMS = 64
"""The maximum number of terms in a query; further terms are ignored."""

# snippet() puts this mark before and after each match. Text is very unlikely to contain it.
_MARK = "\x02\ue0c1\x02"
_TERM = re.compile(r'"([^"]*)"?(\*?)|(\S+)')
_SHORTEST_GRAM = 3


class Hit:
    """A message that matched."""

    __slots__ = ("_marks", "_search", "node", "score", "snippet")

    def __init__(self, search: Search, node: Node, snippet: str, marks: Marks | str, score: float) -> None:
        """`marks` may be the snippet as FTS5 returns it, with marks in the text."""
        self._search = search
        self.node = node
        if len(snippet) > LONGEST_SNIPPET:
            snippet, marks = words.cut(snippet, _marks(marks) if isinstance(marks, str) else marks, LONGEST_SNIPPET)
        self.snippet = snippet
        """The part of its text that matched."""
        self._marks = marks
        self.score = score
        """Higher is better. Compare scores only within one search."""

    @property
    def marks(self) -> Marks:
        """The matches in the snippet, each as start and end."""
        if isinstance(self._marks, str):
            self._marks = _marks(self._marks)
        return self._marks

    @property
    def session(self) -> Session | None:
        """The most recently active session that contains it now; None if it belongs to no session."""
        return self._search.session_of(self.node)

    def __repr__(self) -> str:
        return f"<Hit {self.node!r} {self.score:.3g}>"


class _Term(NamedTuple):
    text: str
    prefix: bool


class _Asked(NamedTuple):
    mode: Mode
    terms: list[_Term]
    where: str
    bounds: list[Any]
    limit: int
    newest: bool


class Search:
    """Finds messages, one search at a time. Updates the index before each search."""

    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts
        self._engine = engine = parts.engine
        self._beside = Index(engine)
        self._server = ServerIndex(engine)
        self._lock = threading.RLock()  # a signal handler may close the store in the middle of a search

    @property
    def index(self) -> Index | ServerIndex:
        """The index in use. A sealed store on a server has its index in memory: the server must not see words."""
        return self._server if self._on_server() else self._beside

    def _on_server(self) -> bool:
        return self._engine.backend.words is not None and not self._engine.keyed

    def remove(self) -> None:
        """Deletes the index. The next search builds it again, on the server or next to the file."""
        with self._lock:
            self._beside.remove()
            if self._engine.backend.words is not None:
                self._server.remove()

    def forget(self) -> bool:
        """Erases deleted messages from the index: see `Index.shred`."""
        with self._lock:
            return self.index.shred()

    def __call__(
        self,
        query: str,
        *,
        limit: int = 20,
        session: Session | str | None = None,
        role: Role | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        mode: Mode = "words",
        newest: bool = False,
        progress: Progress | None = None,
    ) -> list[Hit]:
        """See `clew.Store.search`. With `newest`, newest first and unranked, which is fast for many matches."""
        whole_number("limit", limit, 1)
        if not isinstance(query, str):
            raise Invalid(f"a query is text, not {type(query).__name__}")
        if mode not in ("words", "substring"):
            raise Invalid(f"mode is 'words' or 'substring', not {mode!r}")
        if role is not None and role not in ROLES:
            raise Invalid(f"role is one of {', '.join(ROLES)}, not {role!r}")
        if self._engine.backend.in_transaction():
            # The index would keep messages that the transaction may yet roll back.
            raise Invalid("cannot search inside a transaction", hint="Search before or after it.")
        terms = list(dict.fromkeys(_terms(query, mode)))[:MOST_TERMS]
        if not terms:
            return []
        filters = self._filters(session, role, since, until)
        if self._on_server():
            with suppress(ReadOnly):  # on a replica, or without write permission, use an index in memory
                return self._find_there(mode, terms, filters | {"newest": newest}, limit, progress)
        asked = _Asked(mode, terms, *_conditions(mode, filters), limit, newest)
        with self._lock:
            return self._beside.search(mode, lambda conn: self._find(conn, asked), progress)

    def check(self) -> Iterator[Damage]:
        """Damage in the index. Writes nothing."""
        return self.index.check()

    def close(self) -> None:
        """Idempotent."""
        with self._lock:
            self._beside.close()

    # -- inside

    def _filters(
        self, session: Session | str | None, role: Role | None, since: datetime | None, until: datetime | None
    ) -> dict[str, Any]:
        """The filters that are set, as stored values."""
        filters: dict[str, Any] = {}
        if role is not None:
            filters["role"] = ROLES.index(role)
        if since is not None:
            filters["since"] = microseconds(since)
        if until is not None:
            filters["until"] = microseconds(until)
        if session is not None:
            filters["spans"] = self._spans(session)
        return filters

    def _find_there(
        self, mode: Mode, terms: list[_Term], filters: dict[str, Any], limit: int, progress: Progress | None
    ) -> list[Hit]:
        """`_find` on a server: its index returns candidates, and the messages show which match, and where."""
        self._server.catch_up(mode, progress)
        texts = [term.text for term in terms]
        query = words.query(terms) if mode == "words" else words.gram_query(texts)
        hits: list[Hit] = []
        offset, size = 0, limit
        while True:
            rows = self._server.find(mode, query, filters, limit=size, offset=offset)
            for (_, _, rank), node in self._visible(rows):
                text = searchable(node.message)
                if mode == "substring" and not all(one.lower() in text.lower() for one in texts):
                    continue  # it has all trigrams of the term, but apart from each other
                shown = words.excerpt(text, terms, CONTEXT) if mode == "words" else _excerpt(text, terms)
                hits.append(Hit(self, node, *shown, rank))
            if len(rows) < size or len(hits) >= limit:
                return hits[:limit]
            offset, size = offset + size, 2 * size

    def _spans(self, session: Session | str) -> list[tuple[int, int]]:
        """The positions of all messages of a session, including those that compactions replaced."""
        row = row_of(session) if isinstance(session, Session) else self._parts.table.find(session)

        def work(tx: Tx) -> list[tuple[int, int]]:
            head = self._parts.refs.get(tx, row.kind, row.key).head
            shown = _all_runs(self._engine, tx, head)
            return [(run.run << SEQ_BITS, run.run << SEQ_BITS | upto) for run, upto in shown]

        return self._engine.read(work)

    def _find(self, conn: sqlite3.Connection, asked: _Asked) -> list[Hit]:
        """Hits whose messages still exist and are visible in this workspace, read a page of rows at a time."""
        mode, terms, _, _, limit, _ = asked
        sql, values = _statement(conn, asked)
        hits: list[Hit] = []
        offset, size = 0, limit
        while True:
            rows = conn.execute(f"{sql} LIMIT ?+0 OFFSET ?", [*values, size, offset]).fetchall()
            shown = self._visible(rows)
            if mode == "words":
                hits += [Hit(self, node, text.replace(_MARK, ""), text, -rank) for (_, _, rank, text), node in shown]
            else:
                hits += [Hit(self, node, *_excerpt(text, terms), -rank) for (_, _, rank, text), node in shown]
            if len(rows) < size or len(hits) >= limit:
                return hits[:limit]
            offset, size = offset + size, 2 * size  # each page runs the whole query, so keep them few

    def _visible(self, rows: list[Any]) -> Iterator[tuple[Any, Node]]:
        """The rows whose messages still exist and are visible in this workspace, each with its message."""
        places = self._engine.read(partial(self._visible_places, positions=[row[0] for row in rows]))
        nodes = dict(zip(places, self._engine.nodes(places.values()), strict=True))
        for row in rows:
            node = nodes.get(row[0])
            if node is not None and node_row(node)[ID] == row[1]:
                yield row, node

    def _visible_places(self, tx: Tx, positions: list[int]) -> dict[int, NodeLocation]:
        """The nodes at these positions, except those of other workspaces and those that only the trash needs."""
        places = tx.nodes_at(positions)
        sight = Visibility(tx, self._engine.workspace)
        if sight.load_trees(places.values()):
            return places
        return {pos: place for pos, place in places.items() if sight.is_visible(place.tree, pos)}

    def session_id_of(self, node: Node) -> str | None:
        """The id of `session_of`."""
        session = self.session_of(node)
        return None if session is None else session.id

    def session_of(self, node: Node) -> Session | None:
        """The most recently active session that contains a message, or contained it before a compaction."""
        pos, tree = node_row(node)[POS], run_info(node).tree

        def work(tx: Tx) -> RefRow | None:
            refs = [ref for ref in tx.refs_in_tree(tree, 0, MAX_POS) if ref.kind in (SESSION, SUBAGENT)]
            for ref in sorted(refs, key=lambda ref: -ref.rank):
                shown = {run.run: upto for run, upto in _all_runs(self._engine, tx, ref.head)}
                if ref.trashed_at is None and shown.get(pos >> SEQ_BITS, -1) >= pos & MAX_SEQ:
                    return ref
            return None

        ref = self._engine.read(work)
        return None if ref is None else Session(self._parts, ref)


def _all_runs(engine: Engine, tx: Tx, head: int | None) -> list[tuple[RunRow, int]]:
    """The runs of a path and of the paths that its compactions replaced, each with its highest seq there."""
    return [run for origin in paths.origins(engine, tx, head) for run in paths.lineage(tx, origin)]


def _conditions(mode: Mode, filters: dict[str, Any]) -> tuple[str, list[Any]]:
    """The filters as SQL conditions with their values."""
    sql = {
        "role": "role = ?",
        "since": "created_at >= ?",
        "until": "created_at < ?",
        "spans": "EXISTS (SELECT 1 FROM json_each(?)"
        f" WHERE {mode}.rowid BETWEEN json_extract(value, '$[0]') AND json_extract(value, '$[1]'))",
    }
    values = [json.dumps(value) if name == "spans" else value for name, value in filters.items()]
    return "".join(f" AND {sql[name]}" for name in filters), values


def _terms(query: str, mode: Mode) -> Iterator[_Term]:
    """The terms of a query, which must all match: words, "phrases", prefixes with a star. Never an error."""
    cleaned = query.replace("\0", " ").encode(errors="replace").decode()
    for phrase, star, word in _TERM.findall(cleaned):
        text = phrase or word
        prefix = bool(star) or (bool(word) and word.endswith("*"))
        text = text.rstrip("*") if word else text
        if mode == "substring":
            text = text.strip()
        if text and (mode == "substring" or any(char.isalnum() for char in text)):
            yield _Term(text, prefix)


def _statement(conn: sqlite3.Connection, asked: _Asked) -> tuple[str, list[Any]]:
    """The SQL for rows that have every term, best or newest first.

    The substring index has no terms of one or two characters. LIKE finds these in the matches of the longer terms, or
    if there are none in all rows, newest first.
    """
    mode, terms, where, bounds, limit, newest = asked
    long = [term for term in terms if mode == "words" or len(term.text) >= _SHORTEST_GRAM]
    short = [term for term in terms if term not in long]
    like = " AND text LIKE ? ESCAPE '\\'" * len(short)
    likes = [_like(term) for term in short]
    if not long:
        sql = f"SELECT rowid, id, 0.0, text FROM {mode} WHERE 1{like}{where} ORDER BY created_at DESC, rowid DESC"
        return sql, [*likes, *bounds]
    star = " *" if mode == "words" else ""
    match = " ".join('"' + term.text.replace('"', '""') + '"' + (star if term.prefix else "") for term in long)
    shown, marks = ("text", [])
    if mode == "words":
        shown, marks = f"snippet({mode}, 0, ?, ?, '…', {CONTEXT})", [_MARK, _MARK]
    score, order = ("0.0", "rowid DESC") if newest else ("rank", "rank")
    if not newest and _at_most(conn, mode, match, limit):
        score = order = f"bm25({mode})"
    sql = f"SELECT rowid, id, {score}, {shown} FROM {mode} WHERE {mode} MATCH ?{like}{where} ORDER BY {order}"
    return sql, [*marks, match, *likes, *bounds]


def _at_most(conn: sqlite3.Connection, mode: Mode, match: str, count: int) -> bool:
    """True if at most `count` rows match, so that SQLite should sort them.

    To sort by rank, FTS5 prepares a statement of its own, which takes longer than finding a few rows. But if SQLite
    sorts, it creates the snippets of all rows, not only of the best.
    """
    sql = f"SELECT 1 FROM {mode} WHERE {mode} MATCH ? LIMIT 1 OFFSET ?"
    return conn.execute(sql, (match, count)).fetchone() is None


def _like(term: _Term) -> str:
    escaped = term.text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def _marks(text: str) -> Marks:
    """The positions of the matches in a snippet of FTS5, after its marks are removed."""
    ends = list(accumulate(map(len, text.split(_MARK))))
    return tuple(zip(ends[:-1:2], ends[1::2], strict=False))  # the text may contain a mark itself, after all


def _excerpt(text: str, terms: list[_Term]) -> tuple[str, Marks]:
    """The text around the first match of a substring, and the positions of the terms in it."""
    pattern = re.compile("|".join(re.escape(term.text) for term in terms), re.IGNORECASE)
    first = pattern.search(text)
    start = max(0, (first.start() if first else 0) - 2 * CONTEXT)
    part = text[start : start + 5 * CONTEXT]
    before, after = "…" * (start > 0), "…" * (start + 5 * CONTEXT < len(text))
    snippet = before + part + after
    return snippet, tuple((found.start(), found.end()) for found in pattern.finditer(snippet))
