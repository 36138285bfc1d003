"""`clew config`: settings, where each comes from, and the files that hold them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, MutableMapping
from typing import Any

import click

from clew.cli import settings, tokens
from clew.cli.exits import FAILED, say, show_help
from clew.cli.forms import Form, json_options, out_lines, out_value
from clew.cli.place import default
from clew.cli.settings import NOT_FROM_FILES, PROJECT_FILE, SETTINGS, Found, Setting
from clew.cli.sources import VARIABLES
from clew.cli.text import bold, dim, out_jsonl, pad, plain, warn, width
from clew.errors import Invalid, NotFound

_NAMES = "\n".join(f"  {one.name:<10} {one.what}" for one in SETTINGS.values())
_SECRETS = tuple(name for name in VARIABLES if name in ("CLEW_KEY", "CLEW_PASSPHRASE"))


@click.group(
    invoke_without_command=True,
    short_help="Show and change settings, and say where they come from.",
    epilog="\b\nExamples:\n  clew config show --origin\n  clew config set model sonnet\n"
    "  clew config set --project db chats.db\n\n\b\n"
    f"Settings:\n{_NAMES}\n\n\b\n"
    "A flag counts before the variable CLEW_NAME, that before the project's .clew.toml (the nearest in\n"
    "the working directory or above it), that before your own config.toml. Secrets are read from the\n"
    "environment, the keyring or a key file, never from a flag or from a file of settings.",
)
@click.pass_context
def config(ctx: click.Context) -> None:
    """Shows and changes settings. Each can be given by a flag, a variable, a project's file, or your own."""
    if ctx.invoked_subcommand is None:
        show_help(ctx)


@config.command(
    short_help="Show the settings that count here.",
    epilog="\b\nExamples:\n  clew config show\n  clew config show --origin\n  clew config show --json | jq .model",
)
@click.option("--origin", is_flag=True, help="Say where each comes from.")
@json_options
@click.pass_context
def show(ctx: click.Context, origin: bool, form: Form) -> None:
    """Shows the settings that count in this directory; with --origin also who says so.

    Exit code 1 if something that is said cannot be used.
    """
    wrong: list[Invalid] = []
    found = [*_settings(wrong), *_secrets()]
    if form == "json":
        out_value({name: one._asdict() if origin else one.value for name, one in found}, form)
    elif form == "jsonl":
        out_jsonl({"name": name, **one._asdict()} for name, one in found)
    else:
        out_lines(_lines(found, origin))
        if origin:
            warn(dim(f"yours: {plain(settings.user_path())}"))
    for error in wrong:
        say(error.message, error.hint, FAILED)
    ctx.exit(FAILED if wrong else 0)


def _settings(wrong: list[Invalid]) -> Iterator[tuple[str, Found]]:
    """Each setting with its value, entries of tables by their full names; `wrong` gets what cannot be used."""
    here = settings.current()
    _ = here.files  # one that cannot be read at all is an error of its own, told once
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
    """`url`, a path or the URL of a server, for people."""
    if "://" not in url:
        return url
    return re.sub("(password=)[^&]*", r"\1…", re.sub("^([^:/]*://[^:/@]*):[^/?]*@", r"\1:…@", url))


def _secrets() -> Iterator[tuple[str, Found]]:
    """That a secret is set is no secret; what it is, is."""
    for name in _SECRETS:
        if name in os.environ:
            yield name.removeprefix("CLEW_").lower(), Found("(set)", "environment", name)


def _lines(found: list[tuple[str, Found]], origin: bool) -> Iterator[str]:
    shown = [(plain(name), "-" if one.value is None else plain(str(one.value)), one) for name, one in found]
    names = max(width(name) for name, _, _ in shown)
    values = max(width(value) for _, value, _ in shown)
    for name, value, one in shown:
        paint = dim if one.source == "default" else str
        line = f"{bold(pad(name, names))}  {paint(pad(value, values) if origin else value)}"
        yield f"{line}  {dim(plain(one.origin))}" if origin else line


@config.command(
    name="set",
    short_help="Change a setting in your file, or the project's.",
    epilog="\b\nExamples:\n  clew config set model sonnet\n  clew config set aliases.fast claude-haiku-4-5\n"
    "  clew config set --project db chats.db",
)
@click.argument("setting", metavar="KEY")
@click.argument("value")
@click.option("--project", is_flag=True, help="In the project's .clew.toml: the nearest, or a new one here.")
@json_options
def set_(setting: str, value: str, project: bool, form: Form) -> None:
    """Gives the setting KEY a VALUE in your config.toml. Comments and order of the file stay as they are."""
    meant, entry = _checked(setting, value, project)
    path = _path(project)
    document = _document(path)
    if entry is not None:
        document.setdefault(meant.name, {})[entry] = value
    elif meant.kind == "seconds":
        document[meant.name] = int(value) if value.isdecimal() else float(value)
    else:
        document[meant.name] = value
    _save(path, document, project)
    _told(path, f"{setting} is {value}", {"path": path, "name": setting, "value": value}, form)


@config.command(
    short_help="Take a setting out of your file, or the project's.",
    epilog="\b\nExamples:\n  clew config unset model\n  clew config unset --project db",
)
@click.argument("setting", metavar="KEY")
@click.option("--project", is_flag=True, help="From the project's .clew.toml.")
@json_options
def unset(setting: str, project: bool, form: Form) -> None:
    """Takes KEY out of your config.toml, whatever it is: also what does not belong there."""
    path = _path(project)
    document = _document(path)
    *tables, last = setting.split(".")
    place: Any = document
    for table in tables:
        place = place.get(table) if isinstance(place, MutableMapping) else None
    if not isinstance(place, MutableMapping) or last not in place:
        raise NotFound("setting", setting, hint=f"It is not in {path}.")
    del place[last]
    _save(path, document, project)
    _told(path, f"{setting} is no longer set", {"path": path, "name": setting, "value": None}, form)


def _checked(name: str, value: str, project: bool) -> tuple[Setting, str | None]:
    """The setting that a name means, and the entry of it if it is a table. Invalid, UsageError."""
    top, _, entry = name.partition(".")
    if tokens.is_secret(name, value):
        hint = f"Set {tokens.variable_of(name, value)} in the environment. What was typed here may be in your history."
        raise Invalid("secrets are not kept in files", hint=hint)
    if top in NOT_FROM_FILES:
        raise click.UsageError(f"{top} is not read from any file")
    setting = SETTINGS.get(top)
    if setting is None or bool(entry) != (setting.kind == "names"):
        raise click.UsageError(f"there is no setting {name!r}{settings.nearest(top)}")
    given = {entry: value} if entry else value
    try:
        settings.parsed(setting, given)
    except ValueError as error:
        raise click.UsageError(f"{name} {error}, not {value!r}") from None
    if project:
        settings.File(_path(project), "project", {top: given}, ()).value(top)
    return setting, entry or None


def _path(project: bool) -> str:
    if not project:
        return settings.user_path()
    return settings.project_path(os.getcwd()) or os.path.abspath(PROJECT_FILE)


def _document(path: str) -> Any:
    """The file as something that can be changed without losing its comments; empty if it is not there. Invalid."""
    import tomlkit

    try:
        text = settings.read(path)
    except NotFound:
        return tomlkit.document()
    settings.parse(text, path)
    return tomlkit.parse(text)


def _save(path: str, document: Any, project: bool) -> None:
    """Replaces the file at once. A new one of yours is for you alone, and so is its folder; a project's is shared."""
    import tomlkit

    from clew.files import replace

    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    replace(os.path.realpath(path), tomlkit.dumps(document).encode(), mode=0o644 if project else 0o600)


def _told(path: str, sentence: str, value: dict[str, Any], form: Form) -> None:
    if form == "text":
        warn(f"{plain(sentence)} in {plain(path)}")
    else:
        out_value(value, form)
