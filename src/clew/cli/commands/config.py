"""`clew config`: shows settings and their origin, and changes settings files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, MutableMapping
from typing import Any

import click

from clew.base.visible import plain
from clew.cli.exits import FAILED, say
from clew.cli.options import Group, examples
from clew.cli.output.json import Form, json_options, out_lines, out_value
from clew.cli.output.text import bold, dim, out_jsonl, pad, warn, width
from clew.cli.setup import settings
from clew.cli.setup.key_sources import VARIABLES
from clew.cli.setup.open_store import default
from clew.cli.setup.settings import NOT_FROM_FILES, PROJECT_FILE, SETTINGS, Setting, SettingsFile, SettingValue
from clew.errors import Invalid, NotFound

_NAMES = "\n".join(f"  {one.name:<12} {one.what}" for one in SETTINGS.values())
_SECRETS = tuple(name for name in VARIABLES if name in ("CLEW_KEY", "CLEW_PASSPHRASE"))


@click.group(
    cls=Group,
    default="show",
    epilog=examples(
        "clew config show --origin",
        "clew config set model sonnet",
        "clew config set --project db chats.db",
        more=f"Settings:\n{_NAMES}\n\n\b\n"
        "Order of precedence: a flag, the variable CLEW_NAME, the project file, your\n"
        "config.toml, the default. The project file is the nearest .clew.toml in the\n"
        "current directory or above it. Secrets are read from the environment, the\n"
        "keyring or a key file; never from a flag or from a settings file.",
    ),
)
def config() -> None:
    """Show and change settings. A setting comes from a flag, a variable, the project file or your own file.

    Without a command, shows the settings.
    """


@config.command(
    epilog=examples("clew config show", "clew config show --origin", "clew config show --json | jq .settings.model")
)
@click.option("--origin", is_flag=True, help="Show where each value comes from.")
@json_options
@click.pass_context
def show(ctx: click.Context, origin: bool, form: Form) -> None:
    """Show the settings in effect in this directory.

    Exit code 1 if a setting has an invalid value.
    """
    wrong: list[Invalid] = []
    found = [*_settings(wrong), *_secrets()]
    if form == "json":
        out_value({"settings": {name: one._asdict() if origin else one.value for name, one in found}}, form)
    elif form == "jsonl":
        out_jsonl({"name": name, **one._asdict()} for name, one in found)
    else:
        out_lines(_lines(found, origin))
        if origin:
            warn(dim(f"your settings file: {plain(settings.user_path())}"))
    for error in wrong:
        say(error.message, error.hint, FAILED)
    ctx.exit(FAILED if wrong else 0)


def _settings(wrong: list[Invalid]) -> Iterator[tuple[str, SettingValue]]:
    """Each setting with its value, entries of tables by their full names; appends errors to `wrong`."""
    here = settings.current()
    _ = here.files  # a file that cannot be read is reported only once
    for name, setting in SETTINGS.items():
        try:
            if setting.kind == "names":
                yield from ((f"{name}.{entry}", found) for entry, found in here.names(name).items())
                continue
            found = here.find(name)
        except Invalid as error:
            wrong.append(error)
            continue
        if name == "db":
            found = found._replace(value=default() if found.value is None else _without_password(str(found.value)))
        yield name, found


def _without_password(url: str) -> str:
    """A path, or a URL with its password hidden."""
    if "://" not in url:
        return url
    return re.sub("(password=)[^&]*", r"\1…", re.sub("^([^:/]*://[^:/@]*):[^/?]*@", r"\1:…@", url))


def _secrets() -> Iterator[tuple[str, SettingValue]]:
    """The secrets that are set, without their values."""
    for name in _SECRETS:
        if name in os.environ:
            yield name.removeprefix("CLEW_").lower(), SettingValue("(set)", "environment", name)


def _lines(found: list[tuple[str, SettingValue]], origin: bool) -> Iterator[str]:
    shown = [(plain(name), "-" if one.value is None else plain(str(one.value)), one) for name, one in found]
    names = max(width(name) for name, _, _ in shown)
    values = max(width(value) for _, value, _ in shown)
    for name, value, one in shown:
        paint = dim if one.source == "default" else str
        line = f"{bold(pad(name, names))}  {paint(pad(value, values) if origin else value)}"
        yield f"{line}  {dim(plain(one.origin))}" if origin else line


@config.command(
    name="set",
    epilog=examples(
        "clew config set model sonnet",
        "clew config set aliases.fast claude-haiku-4-5",
        "clew config set --project db chats.db",
    ),
)
@click.argument("setting", metavar="KEY")
@click.argument("value")
@click.option("--project", is_flag=True, help="Change the project file: the nearest .clew.toml, or a new one here.")
@json_options
def set_(setting: str, value: str, project: bool, form: Form) -> None:
    """Set KEY to VALUE in your config.toml, or in the project file. Keeps comments and order of the file."""
    meant, entry = _find_setting(setting, value, project)
    path = _path(project)
    document = _document(path)
    if entry is not None:
        document.setdefault(meant.name, {})[entry] = value
    elif meant.kind == "seconds":
        document[meant.name] = int(value) if value.isdecimal() else float(value)
    else:
        document[meant.name] = value
    _save(path, document, project)
    _print_result(path, f"{setting} set to {value} in", {"path": path, "name": setting, "value": value}, form)


@config.command(epilog=examples("clew config unset model", "clew config unset --project db"))
@click.argument("setting", metavar="KEY")
@click.option("--project", is_flag=True, help="Change the project file: the nearest .clew.toml.")
@json_options
def unset(setting: str, project: bool, form: Form) -> None:
    """Remove KEY from your config.toml, or from the project file. KEY may be unknown to clew."""
    path = _path(project)
    document = _document(path)
    *tables, last = setting.split(".")
    place: Any = document
    for table in tables:
        place = place.get(table) if isinstance(place, MutableMapping) else None
    if not isinstance(place, MutableMapping) or last not in place:
        raise NotFound("setting", setting, hint=f"It is not set in {path}.")
    del place[last]
    _save(path, document, project)
    _print_result(path, f"{setting} removed from", {"path": path, "name": setting, "value": None}, form)


def _find_setting(name: str, value: str, project: bool) -> tuple[Setting, str | None]:
    """The setting for a name, and the entry if it is a table. Invalid, UsageError."""
    top, _, entry = name.partition(".")
    if settings.is_secret(name, value):
        hint = f"Set {settings.variable_of(name, value)} in the environment. Remove the secret from your shell history."
        raise Invalid("secrets are not stored in settings files", hint=hint)
    if top in NOT_FROM_FILES:
        raise click.UsageError(f"{top} cannot be set in a file")
    setting = SETTINGS.get(top)
    if setting is None or bool(entry) != (setting.kind == "names"):
        raise click.UsageError(f"unknown setting {name!r}{settings.nearest(top)}")
    given = {entry: value} if entry else value
    try:
        settings.parse_value(setting, given)
    except ValueError as error:
        raise click.UsageError(f"{name} {error}, not {value!r}") from None
    if project:
        SettingsFile(_path(project), "project", {top: given}, ()).value(top)
    return setting, entry or None


def _path(project: bool) -> str:
    if not project:
        return settings.user_path()
    return settings.project_path(os.getcwd()) or os.path.abspath(PROJECT_FILE)


def _document(path: str) -> Any:
    """The file as a TOML document that keeps its comments; empty if the file does not exist. Invalid."""
    import tomlkit

    try:
        text = settings.read(path)
    except NotFound:
        return tomlkit.document()
    settings.parse(text, path)
    return tomlkit.parse(text)


def _save(path: str, document: Any, project: bool) -> None:
    """Replaces the file atomically. Only you can read a new user file and its folder; a project file is shared."""
    import tomlkit

    from clew.base.files import replace

    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    replace(os.path.realpath(path), tomlkit.dumps(document).encode(), mode=0o644 if project else 0o600)


def _print_result(path: str, sentence: str, value: dict[str, Any], form: Form) -> None:
    if form == "text":
        warn(f"{plain(sentence)} {plain(path)}")
    else:
        out_value(value, form)
