"""By which rules commands redact what they store: those of a flag, or else of the settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

from clew.cli import settings

if TYPE_CHECKING:
    from clew.redaction import Rules


def also_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--also` to a command."""
    return click.option(
        "--also",
        multiple=True,
        type=click.Choice(settings.PERSONAL),
        help="Find these too, beside secrets; may be repeated.",
    )(command)


def rules(also: Iterable[str]) -> Rules:
    """The built-in rules, with those that were asked for."""
    from clew.redaction import Rules, builtin

    return Rules(builtin(*also))


def in_settings() -> Rules | None:
    """What the settings say: None if nothing is to be taken out."""
    said = settings.current().value("redact")
    if said in (None, settings.OFF):
        return None
    return rules(name for name in settings.PERSONAL if name in said.split())
