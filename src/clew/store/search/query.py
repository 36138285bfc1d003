"""Search in all messages for words, phrases and prefixes, or for substrings."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache, partial
from itertools import islice
from math import log
from typing import Any, NamedTuple

from clew.backends import ID, MAX_POS, MAX_SEQ, POS, SEQ_BITS, NodeLocation, RefRow, RunRow, Tx
from clew.backends.fts_tables import FtsTables, Mode, Part, short_id
from clew.backends.problems import Damage
from clew.base.messages import ROLES, Role
from clew.base.values import whole_number
from clew.engine import paths
from clew.engine.engine import Engine
from clew.engine.node import Node, microseconds, node_row, run_info
from clew.engine.refs import BRANCH
from clew.engine.trash import Visibility
from clew.errors import Corrupted, Invalid, ReadOnly
from clew.store.search import text as words
from clew.store.search.index import Index, Progress, searchable
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

_TERM = re.compile(r'"([^"]*)"?(\*?)|(\S+)')


class Hit:
    """A message that matched."""

    __slots__ = ("_excerpt", "_found", "_shown", "node", "score")

    def __init__(self, found: _Found, node: Node, excerpt: Callable[[], tuple[str, Marks]], score: float) -> None:
        self._found = found
        self.node = node
        self._excerpt = excerpt
        self._shown: tuple[str, Marks] | None = None
        self.score = score
        """Higher is better. Compare scores only within one search."""

    def _show(self) -> tuple[str, Marks]:
        """Snippet and marks, made when they are first read: for a page of hits they take half as long as the search."""
        if self._shown is None:
            snippet, marks = self._excerpt()
            if len(snippet) > LONGEST_SNIPPET:
                snippet, marks = words.cut(snippet, marks, LONGEST_SNIPPET)
            self._shown = snippet, marks
        return self._shown

    @property
    def snippet(self) -> str:
        """The part of its text that matched."""
        return self._show()[0]

    @property
    def marks(self) -> Marks:
        """The matches in the snippet, each as start and end."""
        return self._show()[1]

    @property
    def session(self) -> Session | None:
        """The session in which it was written, or the oldest that still contains it; None if there is none."""
        return next(iter(self.sessions), None)

    @property
    def sessions(self) -> list[Session]:
        """All sessions that contain it, or did before a compaction, the oldest first; read once for all hits."""
        return list(self._found.sessions(self.node))

    def __repr__(self) -> str:
        return f"<Hit {self.node!r} {self.score:.3g}>"


class _Found:
    """The messages that one search found."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self.nodes: list[Node] = []
        self._sessions: dict[int, list[Session]] | None = None
        """By position, once the sessions of one were read."""

    def sessions(self, node: Node) -> list[Session]:
        """The sessions that contain a message, oldest first."""
        if self._sessions is None:
            try:
                read = self._search.holders_of(self.nodes)
            except Corrupted:  # of another message perhaps
                return self._search.holders_of([node])[0]
            self._sessions = {node_row(one)[POS]: some for one, some in zip(self.nodes, read, strict=True)}
        return self._sessions[node_row(node)[POS]]


_UNSPACED = re.compile("[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
"""Letters of scripts without spaces, such as Chinese, Japanese and Thai: a query with them is a substring."""


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

    def shred(self) -> bool:
        """Erases deleted messages from the index: see `Index.shred`."""
        with self._lock:
            return self.index.shred()

    def refill(self) -> None:
        """Indexes the messages again that `shred` removed along with deleted ones: see `Index.refill`."""
        with self._lock:
            self.index.refill()

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
        if _UNSPACED.search(query):
            mode = "substring"
        terms = list(dict.fromkeys(_terms(query, mode)))[:MOST_TERMS]
        if not terms:
            return []
        filters = self._filters(session, role, since, until)
        if self._on_server():
            with suppress(ReadOnly):  # on a replica, or without write permission, use an index in memory
                self._server.catch_up(mode, progress)
                found = self._matches_there(mode, terms, filters | {"newest": newest}, limit)
                return self._hits(mode, terms, limit, found, unsure=mode == "substring")
        asked = Query(mode, terms, filters, limit, newest)
        with self._lock:
            return self._beside.search(
                mode, lambda tables: self._hits(mode, terms, limit, matches(tables, asked)), progress
            )

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

    def _matches_there(
        self, mode: Mode, terms: list[Term], filters: dict[str, Any], limit: int
    ) -> Iterator[IndexMatch]:
        """The matches on a server, a page at a time."""
        query = words.query(terms) if mode == "words" else words.gram_query([term.text for term in terms])
        offset, size = 0, limit
        while rows := self._server.find(mode, query, filters, limit=size, offset=offset):
            yield from (IndexMatch(pos, short_id(id), rank) for pos, id, rank in rows)
            if len(rows) < size:
                return
            offset, size = offset + size, 2 * size

    def _hits(
        self, mode: Mode, terms: list[Term], limit: int, found: Iterator[IndexMatch], *, unsure: bool = False
    ) -> list[Hit]:
        """The first `limit` matches whose messages still exist and are visible in this workspace.

        With `unsure`, leaves out messages that have the trigrams of a term, but apart from each other.
        """
        hits: list[Hit] = []
        together = _Found(self)
        size = limit
        while len(hits) < limit and (page := list(islice(found, size))):
            for match, node in self._visible(page):
                try:
                    text = searchable(node.message)
                except Corrupted:
                    continue
                if unsure and not all(one.text.lower() in text.lower() for one in terms):
                    continue
                excerpt = (
                    partial(words.excerpt, text, terms, CONTEXT) if mode == "words" else partial(_excerpt, text, terms)
                )
                hits.append(Hit(together, node, excerpt, match.score))
            size *= 2  # many matches may be invisible
        together.nodes = [hit.node for hit in hits[:limit]]
        return hits[:limit]

    def _spans(self, session: Session | str) -> list[tuple[int, int]]:
        """The positions of all messages of a session, including those that compactions replaced."""
        row = row_of(session) if isinstance(session, Session) else self._parts.table.find(session)

        def work(tx: Tx) -> list[tuple[int, int]]:
            head = self._parts.refs.get(tx, row.kind, row.key).head
            shown = _all_runs(self._engine, tx, head)
            return [(run.run << SEQ_BITS, run.run << SEQ_BITS | upto) for run, upto in shown]

        return self._engine.read(work)

    def _visible(self, found: list[IndexMatch]) -> Iterator[tuple[IndexMatch, Node]]:
        """The matches whose messages still exist and are visible in this workspace, each with its message."""
        places = self._engine.read(partial(self._visible_places, positions=[match.pos for match in found]))
        nodes = dict(zip(places, self._engine.nodes(places.values()), strict=True))
        for match in found:
            node = nodes.get(match.pos)
            if node is not None and short_id(node_row(node)[ID]) == match.id:
                yield match, node

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
        pos = node_row(node)[POS]

        def work(tx: Tx) -> RefRow | None:
            return next((ref for ref, shown in self._holders(tx, run_info(node).tree) if _has(shown(), pos)), None)

        found = self._engine.read(work)
        return None if found is None else Session(self._parts, found)

    def session_with(self, node: Node) -> Session | None:
        """`session_of`; for a message that only branches contain, the session of one of them."""

        def work(tx: Tx) -> RefRow | None:
            tree, pos = run_info(node).tree, node_row(node)[POS]
            owners = {ref.ref: ref for ref, _ in self._holders(tx, tree)}
            branches = ((owners.get(ref.owner or 0), shown) for ref, shown in self._holders(tx, tree, (BRANCH,)))
            return next((ref for ref, shown in branches if ref and _has(shown(), pos)), None)

        found = self.session_of(node)
        if found is None and (ref := self._engine.read(work)) is not None:
            return Session(self._parts, ref)
        return found

    def holders_of(self, nodes: Sequence[Node]) -> list[list[Session]]:
        """The sessions that contain each message, or did before a compaction, oldest first; reads each tree once."""
        wanted = [(run_info(node).tree, node_row(node)[POS]) for node in nodes]

        def work(tx: Tx) -> list[list[RefRow]]:
            trees = {tree: sorted(self._holders(tx, tree), key=lambda held: held[0].ref) for tree, _ in wanted}
            return [[ref for ref, shown in trees[tree] if _has(shown(), pos)] for tree, pos in wanted]

        found = self._engine.read(work) if wanted else []
        return [[Session(self._parts, ref) for ref in refs] for refs in found]

    def _holders(
        self, tx: Tx, tree: int, kinds: Container[str] = (SESSION, SUBAGENT)
    ) -> list[tuple[RefRow, Callable[[], dict[int, int]]]]:
        """The sessions of a tree, most recently active first, each with the runs it has, read when first needed."""

        def runs(ref: RefRow) -> Callable[[], dict[int, int]]:
            return cache(lambda: {run.run: upto for run, upto in _all_runs(self._engine, tx, ref.head)})

        refs = [ref for ref in tx.refs_in_tree(tree, 0, MAX_POS) if ref.kind in kinds and ref.trashed_at is None]
        return [(ref, runs(ref)) for ref in sorted(refs, key=lambda ref: -ref.rank)]


def _has(runs: dict[int, int], pos: int) -> bool:
    return runs.get(pos >> SEQ_BITS, -1) >= pos & MAX_SEQ


def _all_runs(engine: Engine, tx: Tx, head: int | None) -> list[tuple[RunRow, int]]:
    """The runs of a path and of the paths that its compactions replaced, each with its highest seq there."""
    return [run for origin in paths.origins(engine, tx, head) for run in paths.lineage(tx, origin)]


def _terms(query: str, mode: Mode) -> Iterator[Term]:
    """The terms of a query, which must all match: words, "phrases", prefixes with a star. Never an error."""
    cleaned = query.replace("\0", " ").encode(errors="replace").decode()
    for phrase, star, word in _TERM.findall(cleaned):
        text = phrase or word
        prefix = bool(star) or (bool(word) and word.endswith("*"))
        text = text.rstrip("*") if word else text
        if mode == "substring":
            text = text.strip()
        if text and (mode == "substring" or any(char.isalnum() for char in text)):
            yield Term(text, prefix)


def _excerpt(text: str, terms: list[Term]) -> tuple[str, Marks]:
    """The text around the first match of a substring, and the positions of the terms in it."""
    pattern = re.compile("|".join(re.escape(term.text) for term in terms), re.IGNORECASE)
    first = pattern.search(text)
    start = max(0, (first.start() if first else 0) - 2 * CONTEXT)
    part = text[start : start + 5 * CONTEXT]
    before, after = "…" * (start > 0), "…" * (start + 5 * CONTEXT < len(text))
    snippet = before + part + after
    return snippet, tuple((found.start(), found.end()) for found in pattern.finditer(snippet))


_SHORTEST_GRAM = 3
_FILTERS = {
    "role": "m.role = ?",
    "since": "m.created_at >= ?",
    "until": "m.created_at < ?",
    "spans": "EXISTS (SELECT 1 FROM json_each(?)"
    " WHERE m.pos BETWEEN json_extract(value, '$[0]') AND json_extract(value, '$[1]'))",
}
_NEWEST = "(SELECT -created_at FROM messages WHERE ord = {0}.rowid)"


class Term(NamedTuple):
    """A word, a phrase, or a substring."""

    text: str
    prefix: bool
    """True if longer words match, too."""


class IndexMatch(NamedTuple):
    """A message that the index found."""

    pos: int
    id: int
    """See `short_id`."""
    score: float


class Query(NamedTuple):
    """A query. All terms must match."""

    mode: Mode
    terms: list[Term]
    filters: dict[str, Any]
    limit: int
    newest: bool
    """Newest first and unranked, which is fast for many matches."""


class _Statement(NamedTuple):
    """SQL for one part of the index, with {0} for its table, and its values."""

    score: str
    where: str
    values: list[Any]


def matches(tables: FtsTables, query: Query) -> Iterator[IndexMatch]:
    """The matches, best or newest first. Scores are by the word counts of the whole index."""
    parts = tables.indexed(query.mode)
    found = _newest(tables, query, parts) if query.newest else _best(tables, query, parts)
    for rows in found:
        known = {
            ord: (pos, id)
            for ord, pos, id in tables.conn.execute(
                "SELECT ord, pos, id FROM messages WHERE ord IN (SELECT value FROM json_each(?))",
                (json.dumps([ord for ord, _ in rows]),),
            )
        }
        for ord, score in rows:
            if ord in known:  # otherwise it was deleted
                yield IndexMatch(*known[ord], -score)


def _best(tables: FtsTables, query: Query, parts: list[Part]) -> Iterator[list[tuple[int, float]]]:
    """Pages of matches, best first. Each page asks all parts again, so there are few of them."""
    statement = _statement(query)
    sql = f"SELECT rowid, {statement.score} FROM {{0}} WHERE {statement.where} ORDER BY 2, 1 LIMIT ?+0"
    weights: dict[Part, float] | None = None
    done, size = 0, query.limit
    while True:
        found = {
            part: tables.conn.execute(sql.format(part.table), [*statement.values, size]).fetchall() for part in parts
        }
        if weights is None:
            weights = _weights(tables, query, found)
        rows = [(ord, score * weights.get(part, 1.0)) for part, some in found.items() for ord, score in some]
        rows = sorted(rows, key=lambda row: row[1])[:size]
        yield rows[done:]
        if len(rows) < size:
            return
        done, size = size, 3 * size


def _weights(tables: FtsTables, query: Query, found: dict[Part, list[Any]]) -> dict[Part, float]:
    """The factors that turn the scores of parts into those of one table with all messages.

    FTS5 weighs a term by its rarity, and a message by its length, both compared with its table. So the words of a topic
    that fills a part would count nothing there. The factor of a part is exact for one term in a message of its average
    length. It is the same for all messages of the part, so longer pages continue shorter ones.
    """
    terms = _ranked(query)
    if not terms or len(found) < 2:
        return {}
    # Without filters, a part without matches has none of a single term either.
    counted = [part for part, rows in found.items() if rows or query.filters or len(query.terms) > 1]
    sizes = {part: tables.size(part) for part in found}
    messages, words = map(sum, zip(*sizes.values(), strict=True))
    whole, own = 0.0, dict.fromkeys(counted, 0.0)
    for term in terms:
        counts = {part: tables.count(part, _match(query.mode, [term])) for part in counted}
        whole += _rarity(messages, sum(counts.values()))
        for part, count in counts.items():
            own[part] += _rarity(sizes[part][0], count)
    average = words / max(messages, 1)
    return {
        part: whole / weight * _shortness(sizes[part][1] / sizes[part][0] / average)
        for part, weight in own.items()
        if found[part]
    }


def _rarity(messages: int, matching: int) -> float:
    """The weight of a term in FTS5's bm25."""
    ratio = (messages - matching + 0.5) / (matching + 0.5)
    return log(ratio) if ratio > 1 else 1e-6


def _shortness(length: float) -> float:
    """The factor of bm25 for a term that a message has once, by its length as a multiple of the average."""
    return 2.2 / (1 + 1.2 * (0.25 + 0.75 * length))


def _newest(tables: FtsTables, query: Query, parts: list[Part]) -> Iterator[list[tuple[int, float]]]:
    """Pages of matches in reverse order of commit."""
    statement = _statement(query)
    sql = f"SELECT rowid, 0.0 FROM {{0}} WHERE {statement.where} ORDER BY rowid DESC LIMIT ?+0 OFFSET ?"
    for part in reversed(parts):
        offset, size = 0, query.limit
        while rows := tables.conn.execute(sql.format(part.table), [*statement.values, size, offset]).fetchall():
            yield rows
            offset, size = offset + size, 2 * size


def _statement(query: Query) -> _Statement:
    """The SQL for messages of a part that have every term.

    The substring index has no terms of one or two characters. LIKE finds these in the matches of the longer terms, or
    if there are none in all messages, newest first.
    """
    long = _ranked(query)
    where = ["{0} MATCH ?"] * bool(long)
    values: list[Any] = [_match(query.mode, long)] * bool(long)
    for term in query.terms:
        if term not in long:
            where.append("text LIKE ? ESCAPE '\\'")
            values.append(_like(term))
    if query.filters or not long:  # a deleted message has no time to sort by
        conditions = " AND ".join(["m.ord = {0}.rowid", *(_FILTERS[name] for name in query.filters)])
        where.append(f"EXISTS (SELECT 1 FROM messages m WHERE {conditions})")
        values += [json.dumps(value) if name == "spans" else value for name, value in query.filters.items()]
    return _Statement("bm25({0})" if long else _NEWEST, " AND ".join(where), values)


def _ranked(query: Query) -> list[Term]:
    """The terms that the index has."""
    return [term for term in query.terms if query.mode == "words" or len(term.text) >= _SHORTEST_GRAM]


def _match(mode: Mode, terms: list[Term]) -> str:
    """The terms as an FTS5 query."""
    star = " *" if mode == "words" else ""
    return " ".join('"' + term.text.replace('"', '""') + '"' + (star if term.prefix else "") for term in terms)


def _like(term: Term) -> str:
    escaped = term.text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"
