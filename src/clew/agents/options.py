"""Options for the start of an agent run: a new session, or an existing one to continue or fork."""

from __future__ import annotations

import msgspec

from clew.base import ids
from clew.errors import Invalid


class Options(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The options of a runtime, with the names of agent SDKs in JSON. Raises Invalid for unknown options.

    The names are ``continue``, ``resume``, ``sessionId``, ``resumeSessionAt``, ``forkSession``, ``persistSession`` and
    ``enableFileCheckpointing``.
    """

    continue_: bool = msgspec.field(default=False, name="continue")
    """Continue the last session of the directory."""
    resume: str | None = None
    """Continue the session with this id."""
    resume_at: str | None = msgspec.field(default=None, name="resumeSessionAt")
    """With `resume`: continue after this message."""
    fork: bool = msgspec.field(default=False, name="forkSession")
    """Continue in a new session that shares the messages."""
    session_id: str | None = msgspec.field(default=None, name="sessionId")
    """The id of the new session."""
    persist: bool = msgspec.field(default=True, name="persistSession")
    """False to write nothing to disk."""
    file_checkpointing: bool = msgspec.field(default=False, name="enableFileCheckpointing")
    """True to save files before tools change them: `Session.file_checkpointing` passes this to `clew.checkpoints`."""

    def check(self) -> None:
        """Raises Invalid if two options conflict."""
        if self.continue_ and self.resume is not None:
            raise Invalid("continue and resume cannot be combined", hint="Set resume to a session id, or set continue.")
        if self.resume_at is not None and self.resume is None:
            raise Invalid("resumeSessionAt needs resume", hint="Set resume to the session of that message.")
        going_on = self.continue_ or self.resume is not None
        if self.fork and not going_on:
            raise Invalid(
                "forkSession needs continue or resume", hint="Set resume to the session to fork, or set continue."
            )
        if self.session_id is not None:
            if going_on and not self.fork:
                raise Invalid(
                    "sessionId names a new session, but continue and resume use an existing one",
                    hint="Omit sessionId, or set forkSession.",
                )
            ids.parse(self.session_id)


def parse(options: object) -> Options:
    """Options from JSON-like data. Raises Invalid."""
    try:
        found = options if isinstance(options, Options) else msgspec.convert(options, Options)
    except msgspec.ValidationError as error:
        raise Invalid(f"invalid options: {error}") from None
    found.check()
    return found
