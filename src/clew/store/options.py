"""The options of `clew.open`, and their checks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from clew.backends import BackendOptions
from clew.backends.open import SERVERS
from clew.base.ids import IdSource, new_id
from clew.base.loading import loading
from clew.base.values import Clock, whole_number
from clew.engine.engine import MAX_BODY, wall_clock
from clew.errors import Invalid

if TYPE_CHECKING:
    from clew.base.buckets import Bucket
    from clew.keys import Key
    from clew.redaction import Rules

LONGEST_WAIT = 1_000_000
"""The longest timeout in seconds: eleven days. SQLite counts milliseconds in 31 bits."""


class Options(NamedTuple):
    """The parameters of `open`, which explains them."""

    backend: BackendOptions = BackendOptions()
    key: Key | None = None
    blobs: str | Bucket | None = None
    workspace: str = ""
    audit: bool = False
    actor: str | None = None
    max_body: int = MAX_BODY
    redact: Rules | None = None
    tidy: bool = True
    clock: Clock = wall_clock
    ids: IdSource = new_id


def store_name(path: str | os.PathLike[str]) -> str:
    """The path or URL of a store as text. Invalid if it cannot name a store."""
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(name, str) or not name:
        raise Invalid("a store is named by a path")
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        raise Invalid("the path is not valid Unicode") from None
    if "://" in name and not name.startswith(SERVERS):
        raise Invalid(
            f"clew cannot open {name.partition('://')[0]}:// stores", hint="Name a file, or a postgresql:// database."
        )
    return name


def check_options(options: Options) -> None:
    """Invalid or Unavailable for options that would otherwise fail only after the file is created."""
    key, workspace, actor, redact = options.key, options.workspace, options.actor, options.redact
    timeout = options.backend.timeout
    if not isinstance(timeout, int | float) or not 0 <= timeout <= LONGEST_WAIT:
        raise Invalid(f"a timeout is a number of seconds, at most {LONGEST_WAIT:,}")
    whole_number("max_body", options.max_body, 1)
    whole_number("pool_size", options.backend.pool_size, 2)
    if key is not None:
        with loading:
            from clew.engine.sealing import header
            from clew.keys import Passphrase, check

        header.require_cryptography()

        if not isinstance(key, Passphrase):
            check(key)
    if not isinstance(workspace, str):
        raise Invalid(f"a workspace is text, not {type(workspace).__name__}")
    try:
        workspace.encode()
    except UnicodeEncodeError:
        raise Invalid("the workspace is not valid Unicode") from None
    if actor is not None:
        with loading:
            from clew.engine.audit import actor_name

        actor_name(actor)
    if not callable(options.clock) or not callable(options.ids):
        raise Invalid("clock and ids must be functions")
    if redact is not None:
        with loading:
            from clew.redaction import Rules

        if not isinstance(redact, Rules):
            raise Invalid(
                f"redact takes redaction.Rules, not {type(redact).__name__}", hint="Put the rules in Rules([…])."
            )
