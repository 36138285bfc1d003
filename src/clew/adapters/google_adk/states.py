"""State of apps and users in ADK: documents, changed in the transaction that stores an event."""

from __future__ import annotations

from typing import Any

from google.adk.sessions import State
from pydantic_core import to_jsonable_python

from clew.adapters.google_adk.events import dump_state, imported_state, labels, load_state, session_names
from clew.adapters.rows import PAGE, Documents, Keyed
from clew.backends import Tx
from clew.store.session_table import SESSION


def scoped(state: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """A state by scope, without prefixes, as JSON values. Temporary values are left out; objects become their repr."""
    found: dict[str, dict[str, Any]] = {"app": {}, "user": {}, "session": {}}
    for name, value in state.items():
        if name.startswith(State.TEMP_PREFIX):
            continue
        if name.startswith(State.APP_PREFIX):
            found["app"][name.removeprefix(State.APP_PREFIX)] = value
        elif name.startswith(State.USER_PREFIX):
            found["user"][name.removeprefix(State.USER_PREFIX)] = value
        else:
            found["session"][name] = value
    plain: dict[str, dict[str, Any]] = to_jsonable_python(found, serialize_unknown=True)
    return plain


class ScopedStates:
    """The states of apps and users. Methods are steps of the caller's transaction."""

    def __init__(self, keyed: Keyed, documents: Documents) -> None:
        self._keyed = keyed
        self._documents = documents

    def of_user(self, tx: Tx, app: str, user: str) -> dict[str, Any]:
        """A user's state, without prefixes."""
        return self._read(tx, "user", app, user)

    def merge(self, tx: Tx, app: str, user: str, state: dict[str, Any]) -> dict[str, Any]:
        """The state that a session sees: its own, the app's and the user's."""
        of_app, of_user = self._read(tx, "app", app), self.of_user(tx, app, user)
        return {
            **state,
            **{State.APP_PREFIX + name: value for name, value in of_app.items()},
            **{State.USER_PREFIX + name: value for name, value in of_user.items()},
        }

    def update(self, tx: Tx, app: str, user: str, deltas: dict[str, dict[str, Any]]) -> None:
        """Changes the states of an app and a user. States that were imported become documents."""
        for scope, names in (("app", (app,)), ("user", (app, user))):
            state = {**self._read(tx, scope, *names), **deltas[scope]}
            if deltas[scope] or (state and self._documents.row(tx, scope, *names) is None):
                self._documents.put(tx, (scope, *names), dump_state(state))

    def _read(self, tx: Tx, scope: str, *names: str) -> dict[str, Any]:
        row = self._documents.row(tx, scope, *names)
        if row is not None:
            return load_state(self._documents.value(row))
        label, before = self._keyed.parts.table.label_hash(labels(*names)[-1]), None
        while rows := tx.refs_recent(self._keyed.engine.workspace, SESSION, label=label, before=before, limit=PAGE):
            for row in rows:
                data = self._keyed.parts.table.data(row).extra
                if session_names(data)[: len(names)] == names:  # other names can have the same label
                    return imported_state(data, scope)
            before = rows[-1].rank, rows[-1].ref
        return {}
