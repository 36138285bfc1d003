"""Finds the messages that match a query in the index next to the store: part by part, best or newest first."""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import log
from typing import Any, NamedTuple

from clew.backends.fts_tables import FtsTables, Mode, Part

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
