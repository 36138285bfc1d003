"""State of apps and users in ADK: documents, changed in the unit of work that stores an event."""

from __future__ import annotations

from typing import Any

from google.adk.sessions import State
from pydantic_core import to_jsonable_python

from clew.adapters.documents import Documents
from clew.adapters.google_adk.events import dump_state, imported_state, labels, load_state, session_names
from clew.adapters.keyed import Keyed
from clew.store.unit import Unit


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
    """The states of apps and users. Methods are steps of the caller's unit of work."""

    def __init__(self, keyed: Keyed, documents: Documents) -> None:
        self._keyed = keyed
        self._documents = documents

    def of_user(self, unit: Unit, app: str, user: str) -> dict[str, Any]:
        """A user's state, without prefixes."""
        return self._read(unit, "user", app, user)

    def merge(self, unit: Unit, app: str, user: str, state: dict[str, Any]) -> dict[str, Any]:
        """The state that a session sees: its own, the app's and the user's."""
        of_app, of_user = self._read(unit, "app", app), self.of_user(unit, app, user)
        return {
            **state,
            **{State.APP_PREFIX + name: value for name, value in of_app.items()},
            **{State.USER_PREFIX + name: value for name, value in of_user.items()},
        }

    def update(self, unit: Unit, app: str, user: str, deltas: dict[str, dict[str, Any]]) -> None:
        """Changes the states of an app and a user. States that were imported become documents."""
        for scope, names in (("app", (app,)), ("user", (app, user))):
            state = {**self._read(unit, scope, *names), **deltas[scope]}
            if deltas[scope] or (state and self._documents.get(unit, scope, *names) is None):
                self._documents.put(unit, (scope, *names), dump_state(state))

    def _read(self, unit: Unit, scope: str, *names: str) -> dict[str, Any]:
        document = self._documents.get(unit, scope, *names)
        if document is not None:
            return load_state(self._documents.value(document))
        label, after = labels(*names)[-1], None
        while found := unit.labelled(label, after=after):
            for one in found:
                if session_names(one.extra)[: len(names)] == names:  # other names can have the same label
                    return imported_state(one.extra, scope)
            after = found[-1]
        return {}
