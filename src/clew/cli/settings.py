"""Settings: what a flag says, or else the environment, the file of the project, that of the user, a default.

A file is TOML. The project's is `.clew.toml`, the nearest in the working directory or above it; the user's is
`config.toml` in the folder that the system has for settings. A project's file may have been written by a stranger: it
causes no connection, starts no program, and names no file outside the project. Secrets are never read from a file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, Literal, NamedTuple

import click

from clew.cli import tokens
from clew.cli.folders import user_folder
from clew.cli.text import plain, warn
from clew.errors import Invalid, NotFound, clip

PROJECT_FILE, USER_FILE = ".clew.toml", "config.toml"
LONGEST = 1 << 20
"""Bytes of a file at most."""

Kind = Literal["text", "path", "seconds", "names", "rules"]
Source = Literal["flag", "environment", "project", "user", "default"]
InProject = Literal["never", "inside", "any"]
"""What a project's file may set: nothing, a path inside the project, any value."""


class Setting(NamedTuple):
    """Something that can be set."""

    name: str
    kind: Kind
    what: str
    default: Any = None
    project: InProject = "never"
    """Whether a project's file may set it. A new setting may not be set there until someone has found it harmless."""
    why_never: str = "it is not known to be harmless"
    """Why a project's file may not set it."""

    @property
    def variable(self) -> str | None:
        """The variable of the environment; None for a table, which fits in no variable."""
        return None if self.kind == "names" else f"CLEW_{self.name.upper()}"


_OPENS = "it would be read as a key of yours"
SETTINGS = {
    one.name: one
    for one in (
        Setting("db", "path", "The store.", project="inside"),
        Setting("key_file", "path", "The file with the key of a sealed store.", why_never=_OPENS),
        Setting("keyring", "text", "Or the name of its key in the keyring of the system.", why_never=_OPENS),
        Setting(
            "blobs",
            "text",
            "Where large attachments go: s3://bucket/prefix.",
            why_never="its author would get your attachments",
        ),
        Setting("timeout", "seconds", "Seconds to wait for other writers.", 60.0, project="any"),
        Setting(
            "hook_timeout",
            "seconds",
            "Seconds that 'clew hook' may take; 0 for no limit.",
            5.0,
            why_never="it could keep your agent waiting",
        ),
        Setting("provider", "text", "Who answers in a chat.", project="any"),
        Setting("model", "text", "The model that answers, or an alias.", project="any"),
        Setting("aliases", "names", "Short names of models: aliases.NAME.", {}, project="any"),
        Setting("system", "text", "What the model is told first.", project="any"),
        Setting(
            "base_url",
            "text",
            "Where requests go, if not to the provider itself.",
            why_never="its author would get your requests",
        ),
        Setting(
            "redact",
            "rules",
            "What is taken out before it is stored: secrets, email, phone; or off.",
            why_never="it could have your secrets stored",
        ),
    )
}
PERSONAL, OFF = ("email", "phone"), "off"
"""What `redact` can name beside secrets, and the word for nothing at all."""
NOT_FROM_FILES = frozenset({"allow_insecure"})
"""What code alone may say: a file could be somebody else's."""


class Found(NamedTuple):
    """The value of a setting, and who says so."""

    value: Any
    source: Source
    origin: str
    """The flag, the variable, or the file; `default` if nobody does."""


class File(NamedTuple):
    """What a file says, and the names in it that nothing reads."""

    path: str
    source: Source
    values: dict[str, Any]
    strange: tuple[str, ...]

    def value(self, name: str) -> Any:
        """The value of a setting that is in `values`, read; a path is taken from the folder of the file. Invalid."""
        setting = SETTINGS[name]
        if self.source == "project" and setting.project == "never":
            raise forbidden(name, self.path, setting.why_never)
        try:
            value = parsed(setting, self.values[name])
        except ValueError as error:
            raise Invalid(f"{name} in {self.path} {error}", hint="Correct it there.") from None
        if setting.kind != "path":
            return value
        return _inside(name, value, self.path) if self.source == "project" else _placed(value, self.path)


class Settings:
    """The settings of one command. Files are read when the first setting is asked for that nothing nearer says."""

    def __init__(
        self,
        files: Callable[[], Sequence[File]],
        environ: Mapping[str, str],
        flags: Mapping[str, tuple[str, str]] | None = None,
    ) -> None:
        self._load = files
        self._environ = environ
        self._flags = flags or {}

    @cached_property
    def files(self) -> Sequence[File]:
        """The files there are, the nearest first. Invalid if one cannot be read, or has a secret."""
        return self._load()

    def find(self, name: str) -> Found:
        """The value of a setting that is no table. Invalid, UsageError if what is said cannot be its value."""
        setting = SETTINGS[name]
        if name in self._flags:
            flag, text = self._flags[name]
            return Found(self._typed(setting, text, flag), "flag", flag)
        variable = setting.variable
        if variable is not None and self._environ.get(variable):
            return Found(self._typed(setting, self._environ[variable], variable), "environment", variable)
        return self.in_files(name) or Found(setting.default, "default", "default")

    def in_files(self, name: str) -> Found | None:
        """What the nearest file says that says something."""
        for file in self.files:
            if name in file.values:
                return Found(file.value(name), file.source, file.path)
        return None

    def value(self, name: str) -> Any:
        """What `find` finds."""
        return self.find(name).value

    def names(self, name: str) -> dict[str, Found]:
        """The entries of a table: each as the nearest file has it."""
        found: dict[str, Found] = {}
        for file in self.files:
            for entry, value in (file.value(name) if name in file.values else {}).items():
                found.setdefault(entry, Found(value, file.source, file.path))
        return found

    def _typed(self, setting: Setting, text: str, origin: str) -> Any:
        try:
            return parsed(setting, text)
        except ValueError as error:
            raise click.UsageError(f"{origin} {error}, not {text!r}") from None


def current(*, quiet: bool = False) -> Settings:
    """The settings of the command that runs; outside of one there are no flags.

    Names in files that nothing reads are told on stderr, once, or not.
    """
    ctx = click.get_current_context(silent=True)
    if ctx is None:
        return Settings(lambda: files(os.getcwd()), os.environ, {})
    meta = ctx.meta
    if "clew.settings" not in meta:
        load = (lambda: files(os.getcwd())) if quiet else _told_files
        meta["clew.settings"] = Settings(load, os.environ, flags())
    settings: Settings = meta["clew.settings"]
    return settings


def remember(ctx: click.Context, name: str, flag: str, value: str) -> None:
    """Notes that a flag says what a setting is."""
    ctx.meta[f"clew.{name}"] = flag, value


def flags() -> dict[str, tuple[str, str]]:
    """The settings that flags say: each with the flag, and what it says."""
    meta = click.get_current_context().meta
    return {name: meta[f"clew.{name}"] for name in SETTINGS if f"clew.{name}" in meta}


def flagged(name: str) -> str | None:
    """What a flag says a setting is; None if none does."""
    return flags().get(name, (None, None))[1]


def _told_files() -> list[File]:
    found = files(os.getcwd(), warn)
    for file in found:
        for name in file.strange:
            warn(f"clew: {plain(file.path)}: {strange(name)}")
    return found


def files(cwd: str, tell: Callable[[str], None] = lambda _: None) -> list[File]:
    """The file of the project and that of the user, as far as they are there. Invalid."""
    places: list[tuple[str | None, Source]] = [(project_path(cwd, tell), "project"), (user_path(), "user")]
    return [load(path, source) for path, source in places if path is not None and os.path.isfile(path)]


def user_path() -> str:
    """Where the user's settings are."""
    return os.path.join(user_folder("config"), USER_FILE)


def project_path(cwd: str, tell: Callable[[str], None] = lambda _: None) -> str | None:
    """The nearest file of a project, in `cwd` or above it. One that somebody else could have put there is passed over.

    Nothing above it is looked for then: what is above was meant for another place. Invalid if it is a link to a file
    outside the project.
    """
    folder = os.path.abspath(cwd)
    while True:
        path = os.path.join(folder, PROJECT_FILE)
        try:
            owner = os.stat(path).st_uid
        except OSError:
            owner = None
        if owner is not None:
            if not leads_below(os.path.realpath(folder), path):
                raise Invalid(f"{path} is a link that leads out of the project", hint="Put the file itself there.")
            if not hasattr(os, "geteuid") or owner in (0, os.geteuid()):
                return path
            tell(f"clew: {plain(path)} belongs to another user, and is not read")
            return None
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def load(path: str, source: Source) -> File:
    """What a file says. Invalid if it is no TOML, or has a secret."""
    values = parse(read(path), path)
    tokens.refuse(values, path, project=source == "project")
    known = {name: value for name, value in values.items() if name in SETTINGS}
    return File(path, source, known, tuple(name for name in values if name not in SETTINGS))


def read(path: str) -> str:
    """The text of a file. Invalid; NotFound."""
    try:
        with open(path, "rb") as file:
            raw = file.read(LONGEST + 1)
        if len(raw) > LONGEST:
            raise Invalid(f"{path} is too long for settings")
        return raw.decode()
    except FileNotFoundError:
        raise NotFound("file", path) from None
    except UnicodeDecodeError:
        raise Invalid(f"{path} is not UTF-8") from None
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror}", hint="Check its permissions.") from None


def parse(text: str, path: str) -> dict[str, Any]:
    """The values in a text of TOML. Invalid."""
    import tomllib

    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also a number with more digits than Python reads
        where = f": {error}" if isinstance(error, tomllib.TOMLDecodeError) else ""
        raise Invalid(f"{path} is not TOML{where}", hint="Correct it, or move it away.") from None


def forbidden(name: str, path: str, why: str) -> Invalid:
    """The error for what a project's file may not set."""
    top = name.partition(".")[0]
    variable = SETTINGS[top].variable
    instead = f"set {variable} or use 'clew config set {name}'" if variable else f"use 'clew config set {name}'"
    return Invalid(
        f"{path} is a project's file and may not set {name}: {why}",
        hint=f"If you trust it, {instead}; 'clew config unset --project {name}' removes it.",
    )


def strange(name: str) -> str:
    """What to say of a name that nothing reads."""
    if name in NOT_FROM_FILES:
        return f"{name} is not read from any file"
    return f"nothing reads {clip(name)}{nearest(name)}"


def nearest(name: str) -> str:
    """`; did you mean …` if something has a name like this, else nothing."""
    import difflib

    close = difflib.get_close_matches(name, SETTINGS, 1)
    return f"; did you mean {close[0]}?" if close else ""


def _placed(value: str, path: str) -> str:
    if "://" in value or value == ":memory:":
        return value
    return os.path.normpath(os.path.join(os.path.dirname(path), os.path.expanduser(value)))


def _inside(name: str, value: str, path: str) -> str:
    """A path in a project's file, with all links resolved. Invalid unless it, and what is beside it, is inside."""
    folder = os.path.realpath(os.path.dirname(path))
    place = os.path.realpath(os.path.join(folder, os.path.expanduser(value)))
    if "://" in value or value == ":memory:" or not leads_below(folder, place) or _linked_out(folder, place):
        raise forbidden(name, path, "it must be a path inside the project")
    return place


def _linked_out(folder: str, place: str) -> bool:
    """Whether a file beside a store, whose name begins with the store's, is a link that leads out of a folder."""
    with suppress(OSError), os.scandir(os.path.dirname(place)) as entries:
        names = [entry.path for entry in entries if entry.name.startswith(os.path.basename(place))]
        return not all(leads_below(folder, name) for name in names)
    return False


def leads_below(folder: str, path: str) -> bool:
    """Whether a path is below a folder, links followed. The folder is given without links."""
    return os.path.realpath(path).startswith(folder.rstrip(os.sep) + os.sep)


def parsed(setting: Setting, value: Any) -> Any:
    """A value of the setting's kind. ValueError with what it should be."""
    if setting.kind == "names":
        if not isinstance(value, dict) or not all(isinstance(one, str) and one for one in value.values()):
            raise ValueError("must be a table of texts")
        return dict(value)
    if setting.kind == "seconds":
        try:
            seconds = -1.0 if isinstance(value, bool) else float(value)
        except (TypeError, ValueError):
            seconds = -1.0
        if not 0 <= seconds < 1e6:
            raise ValueError("must be a number of seconds")
        return seconds
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError("must be a text")
    if setting.kind == "rules":
        words = value.replace(",", " ").split()
        if words != [OFF] and (not words or not set(words) <= {"secrets", *PERSONAL}):
            raise ValueError("must be off, or some of secrets, email, phone")
        return " ".join(words)
    return value
