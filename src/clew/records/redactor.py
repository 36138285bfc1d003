"""Redaction by a record service: applies its own rules to everything that it stores, before those of the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from clew.base import codec
from clew.base.loading import loading
from clew.base.messages import RECORD, AnyMessage
from clew.engine.session_data import SessionData
from clew.errors import Invalid
from clew.store.store import Store

if TYPE_CHECKING:
    from clew.redaction import Rules


def rules_for(store: Store, redact: Rules | bool) -> Rules | None:
    """The rules that a service applies itself: see `RecordService`. Raises Invalid."""
    with loading:
        from clew.redaction import Rules, builtin
    if isinstance(redact, Rules):
        return redact
    if not isinstance(redact, bool):
        raise Invalid(f"redact takes redaction.Rules, True or False, not {type(redact).__name__}")
    if not redact or store.redacts:
        return None
    return Rules(builtin())


class Redactor:
    """Redacts what a service stores; without rules, changes nothing."""

    def __init__(self, store: Store, rules: Rules | None) -> None:
        self._store = store
        self._rules = rules

    @property
    def active(self) -> bool:
        """True if there are rules, here or in the store."""
        return self._rules is not None or self._store.redacts

    def message(self, said: AnyMessage) -> AnyMessage:
        """A message, annotated with the rules that matched."""
        if self._rules is None:
            return said
        with loading:
            from clew.redaction import redact
        return redact(said, self._rules, token=self._store.redaction_token).said

    def own_json(self, data: bytes) -> bytes:
        """JSON that clew wrote."""
        if self._rules is None:
            return data
        with loading:
            from clew.redaction import redact_bytes
        return redact_bytes(data, self._rules, own=True)

    def session(self, data: SessionData) -> SessionData:
        """A session's title and record fields. Its other data may be of other programs."""
        written = codec.to_json({"title": data.title, "extra": {RECORD: (data.extra or {})[RECORD]}})
        redacted = self.own_json(written)
        if redacted == written:
            return data
        clean: dict[str, Any] = msgspec.json.decode(redacted)
        return msgspec.structs.replace(data, title=clean["title"], extra={**(data.extra or {}), **clean["extra"]})

    def finds(self, text: str) -> bool:
        """True if one of the rules, or of the store's, matches the text."""
        written = codec.to_json(text)
        return self._store.redacted(self.own_json(written), own=True) != written
