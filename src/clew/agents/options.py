"""How a run of an agent begins: with a new session, or going on with one, in it or beside it."""

from __future__ import annotations

import msgspec

from clew import ids
from clew.errors import Invalid


class Options(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a runtime was asked for. The names in JSON are those of agent SDKs: ``continue``, ``resume``, ``sessionId``,
    ``resumeSessionAt``, ``forkSession``, ``persistSession``, ``enableFileCheckpointing``. Others are Invalid.
    """

    continue_: bool = msgspec.field(default=False, name="continue")
    """Go on with the last session of the directory."""
    resume: str | None = None
    """Go on with the session of this id."""
    resume_at: str | None = msgspec.field(default=None, name="resumeSessionAt")
    """… as it was up to and with this message."""
    fork: bool = msgspec.field(default=False, name="forkSession")
    """Go on beside it, in a new session that shares what was said."""
    session_id: str | None = msgspec.field(default=None, name="sessionId")
    """The id of the new session."""
    persist: bool = msgspec.field(default=True, name="persistSession")
    """False to write nothing to the disk."""
    file_checkpointing: bool = msgspec.field(default=False, name="enableFileCheckpointing")
    """True to keep files before tools change them: `Session.file_checkpointing` says so to `clew.checkpoints`."""

    def check(self) -> None:
        """Invalid, saying which two do not go together, if this cannot be done."""
        if self.continue_ and self.resume is not None:
            raise Invalid("continue and resume exclude each other", hint="Name a session to resume, or continue.")
        if self.resume_at is not None and self.resume is None:
            raise Invalid("resumeSessionAt needs resume", hint="Name the session that the message is in.")
        going_on = self.continue_ or self.resume is not None
        if self.fork and not going_on:
            raise Invalid("forkSession needs continue or resume", hint="Name what to fork.")
        if self.session_id is not None:
            if going_on and not self.fork:
                raise Invalid(
                    "sessionId names a new session, and continue and resume go on with an old one",
                    hint="Leave it out, or set forkSession.",
                )
            ids.parse(self.session_id)


def parse(options: object) -> Options:
    """Options from JSON-like data, checked. Invalid."""
    try:
        found = options if isinstance(options, Options) else msgspec.convert(options, Options)
    except msgspec.ValidationError as error:
        raise Invalid(f"these are not options: {error}") from None
    found.check()
    return found
