"""The sessions of one framework in a store, found by the framework's own keys.

A key, such as a thread id, or an app, a user and a session, becomes the id of a session by a keyed hash. So a look-up
is one indexed read, and the id reveals nothing. The session's free data says which framework it belongs to, and under
which key, like that of an imported session. A session that was imported from the framework's own store is found, too.

`Adapter` is the base class of the adapters, `check_version` the check of a framework's version.

`Keyed.session` is the only look-up. It compares all names of a key: no text that joins them is compared.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Self

from clew.base import codec, ids
from clew.base.messages import Native
from clew.engine.node import Node, node_payload
from clew.engine.session_data import SOURCE, SessionData, label_set
from clew.errors import Conflict, Corrupted, Invalid
from clew.sources.contract import join_any_names, join_names, split_names
from clew.sources.writing import session_id
from clew.store.session import Session
from clew.store.store import Store
from clew.store.store import open as open_store
from clew.store.unit import Target as Owner
from clew.store.unit import Unit

AsyncStore = Any
"""A store of `clew.aio`, which stands beside this room: an adapter uses the sync store in it."""
Target = str | os.PathLike[str] | Store | AsyncStore
"""Where an adapter keeps its sessions: a path or a URL to open, or an open store, also an async one."""


class Keyed:
    """The sessions of one framework. Methods with `unit` are steps of the caller's unit of work."""

    def __init__(
        self, target: Target, tool: str, options: dict[str, Any], *, arity: int = 1, forks: bool = False
    ) -> None:
        """`arity` is the number of names of a session. With `forks` a fork made in clew is a session of the framework,
        too: its own id takes the place of the last name. `options` are those of `clew.open`, and `labels`.
        """
        self._arity, self._forks = arity, forks
        self.labels = label_set(options.pop("labels", ()))
        """The labels of new sessions, and of new documents that no session owns."""
        store: Any = getattr(target, "sync", target)
        self._opened = not isinstance(store, Store)
        self.store = store if isinstance(store, Store) else open_store(store, **options)
        self.tool = tool
        self.read, self.write, self.draft = self.store.read, self.store.write, self.store.draft

    def close(self) -> None:
        """Closes the store, unless the adapter was made with an open one."""
        if self._opened:
            self.store.close()

    # -- keys

    def key(self, *names: str) -> bytes:
        """The keyed hash of a framework's names: the key of a session or a document, an index or a label."""
        return self.store.derived_id(self.tool, *names)

    def id(self, *names: str) -> str:
        """`key` as text: the id of the session with these names, or of a message in all workspaces."""
        return ids.text(self.key(*names))

    def message_id(self, unit: Unit, *names: str) -> str:
        """The id of the message with these names. Other workspaces have another id for it.

        A message that was stored before workspaces had ids of their own keeps its id.
        """
        old, workspace = self.key(*names), self.store.workspace
        return ids.text(old if not workspace or unit.node(old) is not None else self.key(*names, workspace))

    def entry_id(self, unit: Unit, of: Owner, *names: str) -> bytes:
        """`message_id` for an entry in the log of a session or a document."""
        old, workspace = self.key(*names), self.store.workspace
        return old if not workspace or unit.logged(of, [old]) else self.key(*names, workspace)

    # -- sessions

    def session(self, unit: Unit, *names: str, subagent: bool = False, trashed: bool = False) -> Session | None:
        """The session with these names, else an import of it, or a fork; None if there is none.

        None also if it is in the trash and `trashed` is False.
        """
        key = self.key(*names)
        found = unit.session(key, subagent=subagent, trashed=trashed)
        if found is None:
            found = self._imported(unit, names, subagent) or self._fork(unit, names)
            if found is not None and not trashed:
                hidden = found.trashed_at is not None or unit.session(key, subagent=subagent, trashed=True) is not None
                return None if hidden else found
        return found

    def find(self, *names: str) -> Session | None:
        """`session`, in a read of its own."""
        return self.read(lambda unit: self.session(unit, *names), single=True)

    def ensure(
        self,
        unit: Unit,
        *names: str,
        about: dict[str, Any] | None = None,
        labels: Sequence[str] = (),
        title: str | None = None,
        agent: str | None = None,
        model: str | None = None,
        owner: Session | None = None,
        beside: Session | None = None,
        at: str | bytes | None = None,
    ) -> Session:
        """The session with these names, which is created if there is none. Conflict if it is in the trash.

        `about` goes into its free data. With `agent` it is the trace of a subagent. `owner`, `beside` and `at` are as
        for `Unit.create`.
        """
        subagent = agent is not None
        found = unit.session(self.key(*names), subagent=subagent)
        if found is not None:
            return found
        found = self.session(unit, *names, subagent=subagent, trashed=True)
        if found is None:
            origin = {"tool": self.tool, "id": join_names(*names), **(about or {})}
            data = SessionData(
                title, model=model, labels=label_set([*labels, *self.labels]), agent=agent, extra={SOURCE: origin}
            )
            return unit.create(data, self.key(*names), at=at, beside=beside, owner=owner)
        if found.trashed_at is not None:
            raise Conflict(f"session {found.id} is in the trash", hint="Restore it or purge it, then try again.")
        return found

    def ensured(self, *names: str) -> Session:
        """`ensure`, as a unit of its own."""
        return self.write(lambda unit: self.ensure(unit, *names))

    def owns(self, session: Session) -> bool:
        """True if a session belongs to this framework. Corrupted."""
        return self._origin(session).get("tool") == self.tool

    def _origin(self, session: Session) -> dict[str, Any]:
        origin = (session.data.extra or {}).get(SOURCE)
        return origin if isinstance(origin, dict) else {}

    def _imported(self, unit: Unit, names: tuple[str, ...], subagent: bool) -> Session | None:
        """The import of the session with these names, in the trash or not."""
        for key in self._import_ids(names):
            found = unit.session(key, subagent=subagent, trashed=True)
            if found is not None and self._imported_names(found) == names:
                return found
        return None

    def _import_ids(self, names: tuple[str, ...]) -> list[str]:
        """The ids that an import of the session with these names may have."""
        # The second one for a source with keys of several lengths; the third one as clew once imported it.
        joined = dict.fromkeys((join_names(*names), join_any_names(*names), "/".join(names)))
        return [session_id(self.tool, one) for one in joined]

    def _imported_names(self, session: Session) -> tuple[str, ...]:
        """The names of an imported session; none if it is not one of this framework."""
        own, name = (session.data.extra or {}).get(self.tool), self._origin(session).get("id")
        if not self.owns(session) or not isinstance(name, str):
            return ()
        if isinstance(own, dict) and isinstance(own.get("names"), list | tuple):
            return tuple(own["names"])
        return (name,) if self._arity == 1 else ()

    def names(self, session: Session) -> tuple[str, ...]:
        """The names of a session; for a fork made in clew, with its own id as the last. Empty if it is not one."""
        names = self._data_names(session)
        return (*names[:-1], session.id) if self._is_fork(session, names) else names

    def _data_names(self, session: Session) -> tuple[str, ...]:
        """The names in a session's data, which a fork has from the session that it was forked from."""
        if own := self._imported_names(session):
            return own
        name = self._origin(session).get("id") if self.owns(session) else None
        return () if not isinstance(name, str) else (name,) if self._arity == 1 else split_names(name)

    def _is_fork(self, session: Session, names: tuple[str, ...]) -> bool:
        """True if a fork made in clew has the names of the session that it was forked from."""
        if session.forked_from is None or not names:
            return False
        return session.id not in (self.id(*names), *self._import_ids(names))

    def _fork(self, unit: Unit, names: tuple[str, ...]) -> Session | None:
        """The fork with this id of a session that has the other names, in the trash or not."""
        key = ids.maybe(names[-1]) if self._forks else None
        found = None if key is None else unit.session(key, trashed=True)
        if found is None or not self.owns(found) or self.names(found) != names or self._data_names(found) == names:
            return None
        return found

    def labelled(self, label: str) -> Iterator[Session]:
        """The sessions with a label, last active first."""
        for one in self.store.sessions.list(label=label, limit=200, include_expired=True).all():
            if self._forks or not self._is_fork(one, self._data_names(one)):
                yield one

    def purge(self, *names: str) -> bool:
        """Deletes a session, in the trash or not, and clears every trace of it. False if there is none.

        Conflict if it is held.
        """
        found = self.read(lambda unit: self.session(unit, *names, trashed=True))
        if found is not None:
            self.purge_session(found)
        return found is not None

    def purge_session(self, session: Session) -> None:
        """Deletes a session with all it owns, and clears every trace of it. Conflict if it is held."""
        for failure in session.purge().failures:
            raise Conflict(failure.error)


class Adapter:
    """What all adapters have: a store, and a way to close it."""

    _keyed: Keyed

    @property
    def store(self) -> Store:
        """The store that has the sessions."""
        return self._keyed.store

    def close(self) -> None:
        """Closes the store, unless the adapter was made with an open one."""
        self._keyed.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def unchanged(keyed: Keyed) -> None:
    """Invalid if the store redacts: for frameworks whose state must be read back as it was written."""
    if keyed.store.redacts:
        raise Invalid(
            f"{keyed.tool} needs its state back unchanged, and this store redacts",
            hint="Open the store without redaction rules.",
        )


def native_message(node: Node) -> Native:
    """The message of a node, as the framework wrote it. Corrupted if it is not one of a framework.

    `Node.said` tries clew's own form first: for a path of 10,000 messages of a framework it takes a third more.
    """
    try:
        said = codec.decode(node_payload(node), "")
    except Corrupted as error:  # adds the id here, because formatting it for each message is slow
        raise Corrupted(f"message {node.id}", error.why) from None
    if not isinstance(said, Native):
        raise Corrupted(f"message {node.id}", "it is not a message of a framework")
    return said


def check_version(package: str, first: str, before: str) -> None:
    """Warns if the installed version is not from `first` up to but not including `before`."""
    try:
        found = version(package)
    except PackageNotFoundError:
        return
    if not _parts(first) <= _parts(found) < _parts(before):
        warnings.warn(
            f"clew was tested with {package} from {first} to before {before}; {found} is installed", stacklevel=3
        )


def _parts(text: str) -> tuple[int, ...]:
    return tuple(int("".join(digit for digit in part if digit.isdecimal()) or 0) for part in text.split("."))
