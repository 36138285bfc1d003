"""`ClewStore`: LangGraph's long-term memory over a store.

An item is a document. Its groups are the beginnings of its namespace, so a search reads the items below its namespace
and no others. With an index, the vectors of an item are in its document, and are compared in Python.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    ensure_embeddings,
    get_text_at_path,
    tokenize_path,
)

from clew.adapters.documents import Documents
from clew.adapters.keyed import Adapter, Keyed, Target, check_version
from clew.adapters.langgraph.saver import TOOL
from clew.adapters.threads import in_thread
from clew.engine.node import moment
from clew.errors import Invalid
from clew.store.unit import Document, Unit

Namespace = tuple[str, ...]
ITEM = "item"
MINUTE = 60_000_000


class _Vectors(NamedTuple):
    """The vectors that a batch needs: of queries, and of the texts of items."""

    of_queries: dict[str, list[float]]
    of_texts: dict[str, list[float]]


class ClewStore(Adapter, BaseStore):
    """Items in a store: a path, a URL or an open `Store`. `options` are those of `clew.open`.

    `index` and `ttl` are as for LangGraph's own stores. Without `index`, a search with a query ranks items by the words
    they share with it. An item that has expired is not read any more; `sweep_ttl` deletes it.
    """

    supports_ttl = True

    def __init__(
        self, target: Target, *, index: IndexConfig | None = None, ttl: TTLConfig | None = None, **options: Any
    ) -> None:
        check_version("langgraph-checkpoint", "4.1", "5")
        self._keyed = Keyed(target, TOOL, options)
        self._documents = Documents(self._keyed)
        self.ttl_config = ttl
        self.index_config = index
        self.embeddings = None if index is None else ensure_embeddings(index.get("embed"))
        self._fields = [] if index is None else _tokenize(index.get("fields") or ["$"])

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        ops = list(ops)
        queries, texts = self._texts(ops)
        embed = self.embeddings
        of_queries = {} if embed is None else {query: embed.embed_query(query) for query in queries}
        of_texts = {} if embed is None or not texts else embed.embed_documents(texts)
        return self._run(ops, _Vectors(of_queries, dict(zip(texts, of_texts, strict=True))))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        ops = list(ops)
        queries, texts = self._texts(ops)
        embed = self.embeddings
        of_queries = {} if embed is None else {query: await embed.aembed_query(query) for query in queries}
        of_texts = {} if embed is None or not texts else await embed.aembed_documents(texts)
        return await in_thread(self._run, ops, _Vectors(of_queries, dict(zip(texts, of_texts, strict=True))))

    def sweep_ttl(self) -> int:
        """Deletes the items that have expired, and clears every trace of them. Returns how many."""
        gone = [one for one in self._keyed.read(lambda unit: self._below(unit, ())) if self._has_expired(one[1])]
        return sum(self._documents.purge(*_names(value)) for _, value in gone)

    # -- a batch

    def _run(self, ops: Sequence[Op], vectors: _Vectors) -> list[Result]:
        """Reads see what was there before the batch; of several puts of an item the last one counts."""
        puts = {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
        stored = [op for op in puts.values() if op.value is not None]

        def work(unit: Unit) -> list[Result]:
            results = [self._read(unit, op, vectors) for op in ops]
            for op in stored:
                self._put(unit, op, vectors)
            return results

        refreshes = any(isinstance(op, GetOp | SearchOp) and self._refreshes(op) for op in ops)
        results = self._keyed.write(work) if stored or refreshes else self._keyed.read(work)
        for op in puts.values():
            if op.value is None:
                self._documents.purge(ITEM, _join_names(op.namespace), op.key)
        return results

    def _read(self, unit: Unit, op: Op, vectors: _Vectors) -> Result:
        if isinstance(op, GetOp):
            return self._get(unit, op)
        if isinstance(op, SearchOp):
            return self._search(unit, op, vectors)
        if isinstance(op, ListNamespacesOp):
            return self._namespaces(unit, op)
        return None

    def _get(self, unit: Unit, op: GetOp) -> Item | None:
        document = self._documents.get(unit, ITEM, _join_names(op.namespace), op.key)
        value = self._documents.value(document)
        if document is None or self._has_expired(value):
            return None
        self._refresh(unit, op, [(document, value)])
        return Item(**_fields(value))

    def _search(self, unit: Unit, op: SearchOp, vectors: _Vectors) -> list[SearchItem]:
        found = [
            one
            for one in self._below(unit, op.namespace_prefix)
            if not self._has_expired(one[1]) and _passes(one[1]["value"], op.filter)
        ]
        found.sort(key=lambda one: one[1]["updated_at"], reverse=True)
        scored: list[tuple[float | None, tuple[Document, dict[str, Any]]]] = [(None, one) for one in found]
        if op.query:
            query = vectors.of_queries.get(op.query)
            scored = [(_score(value, op.query, query), (document, value)) for document, value in found]
            scored.sort(key=lambda one: -math.inf if one[0] is None else one[0], reverse=True)
        page = scored[op.offset : op.offset + op.limit]
        self._refresh(unit, op, [one for _, one in page])
        return [SearchItem(**_fields(value), score=score) for score, (_, value) in page]

    def _namespaces(self, unit: Unit, op: ListNamespacesOp) -> list[Namespace]:
        conditions = op.match_conditions or ()
        start = next((_literal(one.path) for one in conditions if one.match_type == "prefix"), ())
        found = {tuple(value["namespace"]) for _, value in self._below(unit, start) if not self._has_expired(value)}
        found = {one for one in found if all(_matches(condition, one) for condition in conditions)}
        if op.max_depth is not None:
            found = {one[: op.max_depth] for one in found}
        return sorted(found)[op.offset : op.offset + op.limit]

    def _put(self, unit: Unit, op: PutOp, vectors: _Vectors) -> None:
        names = ITEM, _join_names(op.namespace), op.key
        before, now = self._documents.get(unit, *names), self._keyed.store.clock()
        old = self._documents.value(before)
        created = now if old is None or self._has_expired(old) else old["created_at"]
        minutes = op.ttl
        value = {
            "namespace": list(op.namespace),
            "key": op.key,
            "value": json.loads(json.dumps(dict(op.value or {}), allow_nan=False)),  # plain types, or an error
            "created_at": created,
            "updated_at": now,
            "ttl": minutes,
            "expires_at": None if minutes is None else now + int(minutes * MINUTE),
            "vectors": {path: vectors.of_texts[text] for path, text in self._indexed(op)},
        }
        groups = [(ITEM, *op.namespace[:depth]) for depth in range(len(op.namespace) + 1)]
        self._documents.put(unit, names, value, groups=groups, before=before)

    # -- expiry

    def _has_expired(self, value: Mapping[str, Any]) -> bool:
        at = value["expires_at"]
        return at is not None and at <= self._keyed.store.clock()

    def _refreshes(self, op: GetOp | SearchOp) -> bool:
        return bool(op.refresh_ttl) and self.ttl_config is not None

    def _refresh(self, unit: Unit, op: GetOp | SearchOp, found: Iterable[tuple[Document, dict[str, Any]]]) -> None:
        """Items that are read live for another period."""
        now = self._keyed.store.clock()
        for document, value in found if self._refreshes(op) else ():
            if value["ttl"] is not None:
                until = now + int(value["ttl"] * MINUTE)
                self._documents.put(unit, _names(value), {**value, "expires_at": until}, before=document)

    # -- inside

    def _below(self, unit: Unit, namespace: Namespace) -> list[tuple[Document, dict[str, Any]]]:
        """The items of a namespace and of those below it."""
        found = ((one, self._documents.value(one)) for one in self._documents.group_in(unit, ITEM, *namespace))
        return [(one, value) for one, value in found if tuple(value["namespace"][: len(namespace)]) == namespace]

    def _texts(self, ops: Iterable[Op]) -> tuple[list[str], list[str]]:
        """The queries and the texts that a batch needs vectors of."""
        queries, texts = dict[str, None](), dict[str, None]()
        for op in ops if self.embeddings is not None else ():
            if isinstance(op, SearchOp) and op.query:
                queries[op.query] = None
            elif isinstance(op, PutOp):
                texts |= dict.fromkeys(text for _, text in self._indexed(op))
        return list(queries), list(texts)

    def _indexed(self, op: PutOp) -> list[tuple[str, str]]:
        """The texts of an item that are indexed, each with its path."""
        if self.embeddings is None or op.value is None or op.index is False:
            return []
        fields = self._fields if op.index is None else _tokenize(op.index)
        return [
            (path if number == 0 else f"{path}.{number}", text)
            for path, field in fields
            for number, text in enumerate(get_text_at_path(dict(op.value), field))
        ]


def _tokenize(paths: Iterable[str]) -> list[tuple[str, Any]]:
    """Paths within a value, and their parts; ``$`` is the whole value."""
    return [(path, path if path == "$" else tokenize_path(path)) for path in paths]


def _join_names(namespace: Namespace) -> str:
    return json.dumps(namespace)


def _names(value: Mapping[str, Any]) -> tuple[str, str, str]:
    return ITEM, _join_names(tuple(value["namespace"])), value["key"]


def _fields(value: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an item, as LangGraph makes it."""
    created, updated = (moment(value[name]) for name in ("created_at", "updated_at"))
    times: dict[str, datetime] = {"created_at": created, "updated_at": updated}
    return {"namespace": tuple(value["namespace"]), "key": value["key"], "value": value["value"], **times}


def _literal(path: Sequence[str]) -> Namespace:
    """The beginning of a path before its first wildcard."""
    return tuple(path[: path.index("*")] if "*" in path else path)


def _matches(condition: MatchCondition, namespace: Namespace) -> bool:
    path = condition.path
    if len(namespace) < len(path):
        return False
    if condition.match_type == "prefix":
        pairs = zip(namespace, path, strict=False)
    elif condition.match_type == "suffix":
        pairs = zip(reversed(namespace), reversed(path), strict=False)
    else:
        raise ValueError(f"Unsupported match type: {condition.match_type}")
    return all(wanted in ("*", name) for name, wanted in pairs)


def _passes(value: Mapping[str, Any], filter: Mapping[str, Any] | None) -> bool:
    return all(_equals(value.get(key), wanted) for key, wanted in (filter or {}).items())


def _equals(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        if any(key.startswith("$") for key in wanted):
            return all(_compare(value, operator, one) for operator, one in wanted.items())
        return isinstance(value, dict) and all(_equals(value.get(key), one) for key, one in wanted.items())
    if isinstance(wanted, list | tuple):
        same = isinstance(value, list | tuple) and len(value) == len(wanted)
        return same and all(_equals(one, other) for one, other in zip(value, wanted, strict=True))
    return bool(value == wanted)


def _compare(value: Any, operator: str, wanted: Any) -> bool:
    if operator in ("$eq", "$ne"):
        return bool(value == wanted) == (operator == "$eq")
    if operator not in ("$gt", "$gte", "$lt", "$lte"):
        raise ValueError(f"Unsupported operator: {operator}")
    try:
        one, other = float(value), float(wanted)
    except (TypeError, ValueError):
        return False
    return {"$gt": one > other, "$gte": one >= other, "$lt": one < other, "$lte": one <= other}[operator]


def _score(value: Mapping[str, Any], query: str, vector: Sequence[float] | None) -> float | None:
    """How well an item matches a query: by its vectors, or by the part of the query's words that it has."""
    if vector is not None:
        return max((_cosine(vector, one) for one in value["vectors"].values()), default=None)
    asked, words = set(query.casefold().split()), json.dumps(value["value"], ensure_ascii=False).casefold()
    matches = sum(word in words for word in asked)
    return matches / len(asked) if matches else None


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    if len(one) != len(other):
        raise Invalid("the vectors of items have another length", hint="Store the items again with this embedding.")
    norms = math.hypot(*one) * math.hypot(*other)
    return sum(a * b for a, b in zip(one, other, strict=True)) / norms if norms else 0.0
