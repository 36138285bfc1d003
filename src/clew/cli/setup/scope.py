"""Which conversations a command is about: of a directory, a project, a tool, a git branch, a label."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import click

import clew
from clew.store.origin import origin_of


class Scope(NamedTuple):
    """What a conversation must match; None matches everything."""

    cwd: str | None = None
    """Its directory."""
    project: str | None = None
    """Its directory, or one above it."""
    tool: str | None = None
    branch: str | None = None
    label: str | None = None
    here: bool = False
    """True if `cwd` was not typed, but is the current directory."""

    def holds(self, session: clew.Session) -> bool:
        """True if a conversation matches. Corrupted if its data is damaged."""
        cwd, origin = session.cwd or "", origin_of(session)
        return (
            (self.cwd is None or cwd == self.cwd)
            and (self.project is None or f"{cwd}{os.sep}".startswith(self.project.rstrip(os.sep) + os.sep))
            and (self.tool is None or self.tool.casefold() in (origin.tool, origin.tool.partition("-")[0]))
            and (self.branch is None or origin.branch == self.branch)
            and (self.label is None or self.label in session.labels)
        )

    @property
    def indexed(self) -> bool:
        """True if the list of sessions itself can be asked for it: only a directory and a label."""
        return (self.project, self.tool, self.branch) == (None, None, None)

    @property
    def flags(self) -> list[str]:
        """The options that narrow it."""
        named = {"--project": self.project, "--tool": self.tool, "--branch": self.branch, "--label": self.label}
        directory = [] if self.cwd is None else ["--here" if self.here else "--cwd"]
        return [*directory, *(flag for flag, value in named.items() if value is not None)]

    def advice(self, *more: str | None) -> str:
        """How to find more, for a command that found nothing; `more` are further options that were used."""
        flags = [*self.flags, *(flag for flag in more if flag is not None)]
        if not flags:
            return ""
        return f" Leave out {', '.join(flags[:-1])}{' or ' * (len(flags) > 1)}{flags[-1]} to find more."


def scope_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options of a scope to a command, which receives them as the argument `scope`."""

    @click.option("--here", is_flag=True, help="Only conversations of the current directory.")
    @click.option("--cwd", metavar="DIR", help="Only conversations of exactly this directory.")
    @click.option("--project", metavar="DIR", help="Only conversations of this directory and those below.")
    @click.option("--tool", metavar="NAME", help="Only conversations imported from this tool: claude-code, codex, …")
    @click.option("--branch", metavar="NAME", help="Only conversations of this git branch.")
    @click.option("--label", metavar="LABEL", help="Only conversations with this label.")
    @functools.wraps(command)
    def with_scope(
        *args: Any,
        here: bool,
        cwd: str | None,
        project: str | None,
        tool: str | None,
        branch: str | None,
        label: str | None,
        **kwargs: Any,
    ) -> Any:
        if here + (cwd is not None) + (project is not None) > 1:
            raise click.UsageError("--here, --cwd and --project cannot be used together")
        place = os.path.abspath(cwd or ".") if here or cwd is not None else None
        below = None if project is None else os.path.abspath(project)
        return command(*args, scope=Scope(place, below, tool, branch, label, here), **kwargs)

    return with_scope
