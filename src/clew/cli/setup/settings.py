"""Settings. Order of precedence: flag, environment variable, project file, user file, default.

Files are TOML. The project file is the nearest `.clew.toml` in the working directory or above it; the user file is
`config.toml` in the user's settings folder. A project file may be written by a stranger: it cannot cause a connection,
start a program, or name a file outside the project. Secrets are never read from files.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

from clew.base.outside import open_outside
from clew.base.visible import plain
from clew.cli.output.text import warn
from clew.errors import Invalid, NotFound, clip
from clew.providers.registry import PROVIDERS, key_variables

_XDG = {"config": ("XDG_CONFIG_HOME", "~/.config"), "data": ("XDG_DATA_HOME", "~/.local/share")}


def user_folder(kind: Literal["config", "data"]) -> str:
    """Clew's folder for settings or data. On Linux it avoids loading platformdirs, which takes as long as `ls`."""
    variable, usual = _XDG[kind]
    named, home = os.environ.get(variable, ""), os.path.expanduser(usual)
    base = named or home
    if sys.platform == "linux" and os.path.isabs(base) and base == base.strip():
        return os.path.join(base, "clew")
    import platformdirs

    find = platformdirs.user_config_dir if kind == "config" else platformdirs.user_data_dir
    return find("clew", appauthor=False)


if TYPE_CHECKING:
    from clew.providers.prices import Price, Prices

PROJECT_FILE, USER_FILE = ".clew.toml", "config.toml"
LONGEST = 1 << 20
"""Largest size of a settings file in bytes."""

Kind = Literal["text", "path", "seconds", "names", "rules"]
Source = Literal["flag", "environment", "project", "user", "default"]
InProject = Literal["never", "inside", "any"]
"""Whether a project file may set a setting: never, to a path inside the project, to any value."""


class Setting(NamedTuple):
    """The definition of a setting."""

    name: str
    kind: Kind
    what: str
    default: Any = None
    project: InProject = "never"
    """Whether a project file may set it; allow it only after checking that it is harmless."""
    why_never: str = "it is not known to be safe"
    """Why a project file may not set it."""

    @property
    def variable(self) -> str | None:
        """The environment variable; None for a table."""
        return None if self.kind == "names" else f"CLEW_{self.name.upper()}"


_OPENS = "it would be used as your key"
SETTINGS = {
    one.name: one
    for one in (
        Setting("db", "path", "Path or URL of the store.", project="inside"),
        Setting("key_file", "path", "Key file of a sealed store.", why_never=_OPENS),
        Setting("keyring", "text", "Name of its key in the system keyring.", why_never=_OPENS),
        Setting(
            "blobs",
            "text",
            "Object storage for large attachments: s3://bucket/prefix.",
            why_never="its author would receive your attachments",
        ),
        Setting("timeout", "seconds", "Seconds to wait for other writers.", 60.0, project="any"),
        Setting(
            "hook_timeout",
            "seconds",
            "Time limit of 'clew hook' in seconds; 0 for none.",
            5.0,
            why_never="it could block your agent",
        ),
        Setting("provider", "text", "Default provider.", project="any"),
        Setting("model", "text", "Default model, or an alias.", project="any"),
        Setting("aliases", "names", "Short names for models: aliases.NAME.", {}, project="any"),
        Setting(
            "prices",
            "names",
            "Your own prices: prices.MODEL 'input=3 output=15'.",
            {},
            why_never="it could make costs look smaller than they are",
        ),
        Setting("system", "text", "System prompt.", project="any"),
        Setting(
            "base_url",
            "text",
            "Address of the model server, if not the provider's own.",
            why_never="its author would receive your requests",
        ),
        Setting(
            "redact",
            "rules",
            "What to remove before storing: secrets, email, phone; or off.",
            why_never="it could cause your secrets to be stored",
        ),
    )
}
PERSONAL, OFF = ("email", "phone"), "off"
"""Values of `redact` besides secrets, and the value that turns it off."""
NOT_FROM_FILES = frozenset({"allow_insecure"})
"""Settings that no file may contain."""


class SettingValue(NamedTuple):
    """The value of a setting, and where it comes from."""

    value: Any
    source: Source
    origin: str
    """The flag, the variable, the file, or `default`."""


class SettingsFile(NamedTuple):
    """The settings in a file, and the unknown names in it."""

    path: str
    source: Source
    values: dict[str, Any]
    unknown: tuple[str, ...]

    def value(self, name: str) -> Any:
        """The parsed value of a setting in `values`; paths are relative to the file's folder. Invalid."""
        setting = SETTINGS[name]
        if self.source == "project" and setting.project == "never":
            raise forbidden(name, self.path, setting.why_never)
        try:
            value = parse_value(setting, self.values[name])
        except ValueError as error:
            raise Invalid(f"{name} in {self.path} {error}", hint="Correct the file.") from None
        if setting.kind != "path":
            return value
        return _inside(name, value, self.path) if self.source == "project" else _resolve_path(value, self.path)


class Settings:
    """The settings of one command. Files are read only when a setting is in no flag or variable."""

    def __init__(
        self,
        files: Callable[[], Sequence[SettingsFile]],
        environ: Mapping[str, str],
        flags: Mapping[str, tuple[str, str]] | None = None,
    ) -> None:
        self._load = files
        self._environ = environ
        self._flags = flags or {}

    @cached_property
    def files(self) -> Sequence[SettingsFile]:
        """The existing settings files, the nearest first. Invalid if one cannot be read, or contains a secret."""
        return self._load()

    def find(self, name: str) -> SettingValue:
        """The value of a setting that is not a table. Invalid or UsageError if the value is not allowed."""
        setting = SETTINGS[name]
        if name in self._flags:
            flag, text = self._flags[name]
            return SettingValue(self._parse(setting, text, flag), "flag", flag)
        variable = setting.variable
        if variable is not None and self._environ.get(variable):
            return SettingValue(self._parse(setting, self._environ[variable], variable), "environment", variable)
        return self.in_files(name) or SettingValue(setting.default, "default", "default")

    def in_files(self, name: str) -> SettingValue | None:
        """The value in the nearest file that sets it."""
        for file in self.files:
            if name in file.values:
                return SettingValue(file.value(name), file.source, file.path)
        return None

    def value(self, name: str) -> Any:
        """The value that `find` returns."""
        return self.find(name).value

    def names(self, name: str) -> dict[str, SettingValue]:
        """The entries of a table, merged; the nearest file takes precedence."""
        found: dict[str, SettingValue] = {}
        for file in self.files:
            for entry, value in (file.value(name) if name in file.values else {}).items():
                found.setdefault(entry, SettingValue(value, file.source, file.path))
        return found

    def _parse(self, setting: Setting, text: str, origin: str) -> Any:
        try:
            return parse_value(setting, text)
        except ValueError as error:
            raise click.UsageError(f"{origin} {error}, not {text!r}") from None


def current(*, quiet: bool = False) -> Settings:
    """The settings of the running command; outside of a command there are no flags.

    Unless `quiet`, unknown names in files are reported once on stderr.
    """
    ctx = click.get_current_context(silent=True)
    if ctx is None:
        return Settings(lambda: files(os.getcwd()), os.environ, {})
    meta = ctx.meta
    if "clew.settings" not in meta:
        load = (lambda: files(os.getcwd())) if quiet else _files_with_warnings
        meta["clew.settings"] = Settings(load, os.environ, flags())
    settings: Settings = meta["clew.settings"]
    return settings


def remember(ctx: click.Context, name: str, flag: str, value: str) -> None:
    """Records the value that a flag gives to a setting."""
    ctx.meta[f"clew.{name}"] = flag, value


def flags() -> dict[str, tuple[str, str]]:
    """The settings given by flags: each with the flag and the value."""
    meta = click.get_current_context().meta
    return {name: meta[f"clew.{name}"] for name in SETTINGS if f"clew.{name}" in meta}


def flagged(name: str) -> str | None:
    """The value that a flag gives to a setting, or None."""
    return flags().get(name, (None, None))[1]


def _files_with_warnings() -> list[SettingsFile]:
    found = files(os.getcwd(), warn)
    for file in found:
        for name in file.unknown:
            warn(f"clew: {plain(file.path)}: {describe_unknown(name)}")
    return found


def files(cwd: str, tell: Callable[[str], None] = lambda _: None) -> list[SettingsFile]:
    """The project file and the user file, as far as they exist. Invalid."""
    places: list[tuple[str | None, Source]] = [(project_path(cwd, tell), "project"), (user_path(), "user")]
    return [load(path, source) for path, source in places if path is not None and os.path.isfile(path)]


def user_path() -> str:
    """The path of the user's settings file."""
    return os.path.join(user_folder("config"), USER_FILE)


def project_path(cwd: str, tell: Callable[[str], None] = lambda _: None) -> str | None:
    """The nearest project file in `cwd` or above it; None if it belongs to another user.

    The search ends at the nearest file: files above it are meant for other folders. Invalid if it is a link to a file
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
                raise Invalid(
                    f"{path} is a link to a file outside the project", hint="Replace the link by the file itself."
                )
            if not hasattr(os, "geteuid") or owner in (0, os.geteuid()):
                return path
            tell(f"clew: {plain(path)} belongs to another user and is ignored")
            return None
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def load(path: str, source: Source) -> SettingsFile:
    """Reads a settings file. Invalid if it is not TOML, or contains a secret."""
    values = parse(read(path), path)
    _refuse_secrets(values, path, project=source == "project")
    known = {name: value for name, value in values.items() if name in SETTINGS}
    return SettingsFile(path, source, known, tuple(name for name in values if name not in SETTINGS))


def read(path: str) -> str:
    """Reads the text of a file. Invalid; NotFound."""
    try:
        with open_outside(path) as file:
            raw = file.read(LONGEST + 1)
        if len(raw) > LONGEST:
            raise Invalid(f"{path} is larger than {LONGEST >> 20} MiB, the limit for settings files")
        return raw.decode()
    except FileNotFoundError:
        raise NotFound("file", path) from None
    except UnicodeDecodeError:
        raise Invalid(f"{path} is not UTF-8") from None
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror}", hint="Check its permissions.") from None


def parse(text: str, path: str) -> dict[str, Any]:
    """Parses TOML. Invalid."""
    import tomllib

    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: also a number with too many digits for Python
        where = f": {error}" if isinstance(error, tomllib.TOMLDecodeError) else ""
        raise Invalid(f"{path} is not valid TOML{where}", hint="Correct the file, or move it away.") from None


def forbidden(name: str, path: str, why: str) -> Invalid:
    """The error for a setting that a project file may not contain."""
    top = name.partition(".")[0]
    variable = SETTINGS[top].variable
    instead = f"set {variable} or use 'clew config set {name}'" if variable else f"use 'clew config set {name}'"
    return Invalid(
        f"{path} is a project file and may not set {name}: {why}",
        hint=f"If you trust it, {instead}. 'clew config unset --project {name}' removes it.",
    )


def describe_unknown(name: str) -> str:
    """The warning about an unknown name in a settings file."""
    if name in NOT_FROM_FILES:
        return f"{name} cannot be set in a file"
    return f"unknown setting {clip(name)}{nearest(name)}"


def nearest(name: str) -> str:
    """`; did you mean …` if a setting has a similar name, else an empty text."""
    import difflib

    close = difflib.get_close_matches(name, SETTINGS, 1)
    return f"; did you mean {close[0]}?" if close else ""


def _resolve_path(value: str, path: str) -> str:
    if "://" in value or value == ":memory:":
        return value
    return os.path.normpath(os.path.join(os.path.dirname(path), os.path.expanduser(value)))


def _inside(name: str, value: str, path: str) -> str:
    """A path in a project file, links resolved. Invalid unless it and the files beside it are inside the project."""
    folder = os.path.realpath(os.path.dirname(path))
    place = os.path.realpath(os.path.join(folder, os.path.expanduser(value)))
    if "://" in value or value == ":memory:" or not leads_below(folder, place) or _linked_out(folder, place):
        raise forbidden(name, path, "it must be a path inside the project")
    return place


def _linked_out(folder: str, place: str) -> bool:
    """True if a file next to a store, with a name that starts like the store's, is a link out of the folder."""
    with suppress(OSError), os.scandir(os.path.dirname(place)) as entries:
        names = [entry.path for entry in entries if entry.name.startswith(os.path.basename(place))]
        return not all(leads_below(folder, name) for name in names)
    return False


def leads_below(folder: str, path: str) -> bool:
    """True if a path is below a folder, links followed. The folder must have no links."""
    return os.path.realpath(path).startswith(folder.rstrip(os.sep) + os.sep)


def prices() -> Prices:
    """What models cost: the user's own prices, then the list. Invalid."""
    from clew.providers.prices import Prices

    return Prices({name: _price(one.value) for name, one in current().names("prices").items()})


def _price(text: str) -> Price:
    from clew.providers.prices import read_price

    return read_price(text)


def parse_value(setting: Setting, value: Any) -> Any:
    """Converts a value to the setting's kind. ValueError with what it must be."""
    if setting.kind == "names":
        if not isinstance(value, dict) or not all(isinstance(one, str) and one for one in value.values()):
            raise ValueError("must be a table of strings")
        if setting.name == "prices":
            for one in value.values():
                _price(one)
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
        raise ValueError("must be a non-empty string")
    if setting.kind == "rules":
        words = value.replace(",", " ").split()
        if words != [OFF] and (not words or not set(words) <= {"secrets", *PERSONAL}):
            raise ValueError("must be 'off', or a list of: secrets, email, phone")
        return " ".join(words)
    return value


_NAME = re.compile(r"(?:^|_)(?:(?:api_?key|token|secret|password|passphrase|credentials?)(?:_|$)|key$)")
_VALUE = re.compile(
    r"\b(?:sk-[\w-]{16,}|AIza[\w-]{30,}|gsk_\w{20,}|xai-\w{20,}|hf_\w{20,}|gh[oprsu]_\w{30,}|github_pat_\w{20,})"
    r"|://[^/@\s]+@"
)
_PASSWORD = re.compile(r"://[^/@\s:]*:[^/@\s]+@|[?&]password=", re.IGNORECASE)
"""A URL may contain a user name, but no password."""
_STORAGE = "the variables of your object storage (such as AWS_SECRET_ACCESS_KEY)"
_OWN = {"key": "CLEW_KEY", "db": "PGPASSWORD", "blobs": _STORAGE}


def _refuse_secrets(values: dict[str, Any], path: str, *, project: bool) -> None:
    """Invalid if a file contains a secret, judged by its name or its form; the error does not contain the value."""
    unset = "clew config unset --project" if project else "clew config unset"
    for name, value in _leaves(values):
        if is_secret(name, value):
            variable = variable_of(name, value, values.get("provider"))
            hint = f"Remove it with '{unset} {name}', and set {variable} in the environment instead."
            raise Invalid(f"{path} contains a secret ({clip(name)}); secrets are not read from files", hint=hint)


def is_secret(name: str, value: object) -> bool:
    """True if a setting must not be stored in a file."""
    if name == "db":
        return isinstance(value, str) and _PASSWORD.search(value) is not None
    if isinstance(value, str) and _VALUE.search(value):
        return True
    last = name.rpartition(".")[2].lower().replace("-", "_")
    return not name.startswith("aliases.") and _NAME.search(last) is not None


def variable_of(name: str, value: object, provider: object = None) -> str:
    """The environment variable to use for such a secret."""
    if name in _OWN:
        return _OWN[name]
    for text in (name.lower(), str(value), str(provider).lower()):
        for row in PROVIDERS.values():
            if row.key_prefix and (
                text.startswith(row.key_prefix) or any(known in text for known in (row.name, row.sdk.partition(".")[0]))
            ):
                return row.api_keys[0]
        if "passphrase" in text or "password" in text:
            return "CLEW_PASSPHRASE"
    return key_variables()


def _leaves(values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every value that is not a table, with its dotted name; without recursion, because tables may be deeply nested."""
    left: list[tuple[str, Any]] = list(values.items())
    while left:
        name, value = left.pop()
        if isinstance(value, dict):
            left += [(f"{name}.{inner}", below) for inner, below in value.items()]
        elif isinstance(value, list):
            left += [(name, below) for below in value]
        else:
            yield name, value
