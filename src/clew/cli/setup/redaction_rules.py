"""The redaction rules of a command: from its flags, or from the settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

from clew.cli.setup import settings

if TYPE_CHECKING:
    from clew.redaction import Rules


def also_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--also` to a command."""
    return click.option(
        "--also",
        multiple=True,
        type=click.Choice(settings.PERSONAL),
        help="Also redact these, besides secrets; repeatable.",
    )(command)


def rules(also: Iterable[str]) -> Rules:
    """The built-in rules for secrets, plus those for `also`."""
    from clew.redaction import Rules, builtin

    return Rules(builtin(*also))


def in_settings() -> Rules | None:
    """The rules of the setting `redact`; None if it is off."""
    value = settings.current().value("redact")
    if value in (None, settings.OFF):
        return None
    return rules(name for name in settings.PERSONAL if name in value.split())
