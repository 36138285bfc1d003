"""The sources that clew knows: its own, and those that other packages add by the entry point ``clew.sources``."""

from __future__ import annotations

import glob
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib import import_module
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from clew.base.outside import is_of_store
from clew.errors import ClewError, NotFound
from clew.sources.contract import Home, Source
from clew.sources.items import Item, items
from clew.store.origin import origin_of
from clew.store.search.index import searchable
from clew.store.session import Session
from clew.turns import derive
from clew.turns.model import PLAIN, ShowRules
from clew.turns.model import entry as entry_of

if TYPE_CHECKING:
    from clew.store.search.query import Hit

GROUP = "clew.sources"
_OWN = (
    "qwen_code:QwenCode",  # before Claude Code, whose lines have the same names and other messages
    "claude_code:ClaudeCode",
    "codex:Codex",
    "llm:Llm",
    "chatgpt:ChatGPT",
    "claude_ai:ClaudeAI",
    "copilot_cli:CopilotCLI",
    "vscode:VSCode",
    "gemini_cli:GeminiCLI",
    "opencode:OpenCode",
    "pi:Pi",
    "openai_agents:OpenAIAgents",
    "google_adk:GoogleADK",  # before Goose, whose database has tables of the same names
    "langgraph:LangGraph",
    "agno:Agno",
    "goose:Goose",
    "cline:Cline",
    "continue_dev:Continue",
    "aider:Aider",
    "cursor:CursorHistory",
    "open_webui:OpenWebUI",
    "librechat:LibreChat",
    "lm_studio:LMStudio",
    "hf_traces:HFTraces",
    "otel:OTel",
)
_PLAIN = re.compile(r"\w[\w.-]*", re.ASCII).fullmatch
"""An id that cannot be taken for an option or for several words of a command: it was read from a file."""
_MEMBERS = (".jsonl", ".json", ".db", ".vscdb", ".md", ".txt")
"""Files of a zip archive that may be a history."""

Known = Callable[[Item], str | None]
"""The name of the source that has read a file, if the file has not changed since."""


class Found(NamedTuple):
    """A file and the source that reads it; `why` says why it cannot be read, if no source does."""

    item: Item
    source: Source | None
    why: str = ""
    unchanged: bool = False
    """True if it was imported and has not changed since; then it was not opened."""
    partial: bool = False
    """True if its source reads a part of it only, so that it is not noted as imported."""
    unreadable: bool = False
    """True for a file or folder that could not be opened: it may be a history."""


def sources() -> Iterator[Source]:
    """Every source, clew's own first. Each is loaded when the iterator reaches it, which takes several milliseconds.

    Skips a source of another package that cannot be loaded, with a warning.
    """
    yield from map(_own, _OWN)
    yield from other_sources()


@cache
def _own(name: str) -> Source:
    module, _, kind = name.partition(":")
    found: Source = getattr(import_module(f"clew.sources.{module}"), kind)()
    return found


@cache
def other_sources() -> tuple[Source, ...]:
    """The sources of other packages."""
    from importlib.metadata import entry_points

    found = list[Source]()
    for entry in entry_points(group=GROUP):
        try:
            found.append(entry.load()())
        except Exception as error:  # noqa: BLE001 (it is another package's code)
            text = f"the source {entry.name} ({entry.value}) cannot be loaded: {type(error).__name__}: {error}"
            warnings.warn(text, RuntimeWarning, stacklevel=3)
    return tuple(found)


def source_named(name: str) -> Source:
    """The source with this name. NotFound."""
    for source in sources():
        if source.name == name:
            return source
    known = ", ".join(source.name for source in sources())
    raise NotFound("source", name, hint=f"The sources are: {known}.")


def _find(name: str) -> Source | None:
    """The source with this name, without loading the others if it is clew's own."""
    own = next((one for one in _OWN if one.startswith(f"{name.replace('-', '_')}:")), None)
    if own is not None and (found := _own(own)).name == name:
        return found
    return next((source for source in sources() if source.name == name), None)


def tool_title(name: str) -> str:
    """The name of a tool as people read it: `Claude Code`; the name itself for an unknown one."""
    found = _find(name)
    return name if found is None else found.title


def rules_named(name: str) -> ShowRules:
    """How the program of the source with this name shows conversations."""
    return getattr(_find(name), "rules", PLAIN)  # see `SourceWithRules`


def rules_for(session: Session) -> ShowRules:
    """How the program that a conversation came from shows it. Agents that clew records itself follow Claude Code."""
    return rules_named(origin_of(session).tool or "claude-code")


def is_machine_match(hit: Hit, session: Session | None) -> bool:
    """True for a hit whose words only the program of a conversation wrote. None: no conversation is known."""
    if session is None:
        return False
    one, rules = entry_of(hit.node), rules_for(session)
    if one.message is None or derive.is_machine_text(one, rules):
        return one.message is not None
    added = derive.added_texts(one, rules)
    if not added:
        return False
    rest = searchable(one.message)
    for text in added:
        rest = rest.replace(text, "")
    rest = rest.casefold()
    words = [hit.snippet[start:end].casefold() for start, end in hit.marks]
    return bool(words) and not any(word in rest for word in words)


def resume_elsewhere(name: str, conversation: str) -> str | None:
    """The command that continues a conversation in the program it was imported from; None if there is none."""
    known = sources() if _PLAIN(conversation) else ()
    found = next((source for source in known if source.name == name), None)
    return None if found is None else found.resume(conversation)


def places(source: Source, home: Home) -> list[str]:
    """The paths on this machine at which a source is looked for and something is.

    A folder above them that cannot be entered is one of them: `find` says so.
    """
    found = dict[str, None]()
    for pattern in source.discover(home):
        found |= dict.fromkeys(_closed_folders(pattern))
        found |= dict.fromkeys(path for path in sorted(glob.glob(pattern)) if not _passes_link(pattern, path))
    return list(found)


def _passes_link(pattern: str, path: str) -> bool:
    """True if a folder above a path is a link, and is below the folder that the pattern names without wildcards."""
    fixed = len(list(takewhile(lambda part: not glob.has_magic(part), pattern.split(os.sep))))
    parts = path.split(os.sep)
    return any(os.path.islink(os.sep.join(parts[:end])) for end in range(fixed + 1, len(parts)))


def _closed_folders(pattern: str) -> list[str]:
    """The folders above a pattern that cannot be entered, or cannot be listed where it has a wildcard below them."""
    found = list[str]()
    above, name = os.path.split(pattern)
    while name:
        needed = os.X_OK | os.R_OK if glob.has_magic(name) else os.X_OK
        found += [path for path in glob.glob(above) if os.path.isdir(path) and not os.access(path, needed)]
        above, name = os.path.split(above)
    return found


def find(
    paths: Iterable[str],
    *,
    only: Source | None = None,
    exclude: Iterable[str] = (),
    known: Known = lambda _: None,
    roots: Iterable[str] = (),
) -> Iterator[Found]:
    """What is at these paths: files, archives, and everything below folders. Links in folders are not followed.

    Below a folder, files come in the order in which they were last changed, and those that no source recognises are
    left out, as are the files of a store that is open here; those that cannot be read are not. `only` is the one source
    to try; `exclude` are patterns of paths. A file that is `known` is not opened. A path below one of the folders
    `roots` is found as if that folder were named: no link below it is followed.
    """
    above = [os.path.abspath(one) for one in roots]
    left_out = [os.path.abspath(one) if os.sep in one else one for one in exclude]
    for path in paths:
        absolute = os.path.abspath(path)
        root = next((one for one in above if absolute.startswith(os.path.join(one, ""))), None)
        if os.path.isdir(absolute):
            closed: list[OSError] = []
            for _, name in sorted(files_below(absolute, closed)):
                if not _excluded(name, left_out):
                    found = _recognise(name, root or absolute, only, known)
                    yield from (
                        one
                        for one in found
                        if one.source is not None
                        or one.item.member is not None
                        or (one.unreadable and not _is_of_store(name))
                    )
            yield from (_unreadable(error.filename, error.strerror or type(error).__name__) for error in closed)
        elif not _exists(absolute):
            raise NotFound("file", path, hint="Check the path.")
        elif not _excluded(absolute, left_out):
            yield from _recognise(absolute, root, only, known)


def files_below(folder: str, closed: list[OSError] | None = None) -> Iterator[tuple[int, str]]:
    """The files below a folder, with the times at which they were changed; no links.

    Errors of files and folders that cannot be read are added to `closed`.
    """
    left, failed = [folder], list[OSError]() if closed is None else closed
    while left:
        try:
            with os.scandir(left.pop()) as found:
                entries = list(found)
        except FileNotFoundError:  # it went away
            continue
        except OSError as error:
            failed.append(error)
            continue
        for entry in entries:
            try:
                if entry.is_dir(follow_symlinks=False):
                    left.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    yield entry.stat(follow_symlinks=False).st_mtime_ns, entry.path
            except FileNotFoundError:
                continue
            except OSError as error:
                failed.append(error)


def _excluded(path: str, patterns: Iterable[str]) -> bool:
    """True if a pattern matches the path, a folder above it, or the name of one of these."""
    from fnmatch import fnmatchcase

    return any(
        fnmatchcase(path, pattern)
        or fnmatchcase(path, f"{pattern}{os.sep}*")
        or any(fnmatchcase(part, pattern) for part in path.split(os.sep))
        for pattern in patterns
    )


def _recognise(path: str, root: str | None, only: Source | None, known: Known) -> Iterator[Found]:
    try:
        plain = _as_it_is(path, root)
        before = None if plain is None else known(plain)
        if plain is not None and before is not None and (only is None or before == only.name):
            yield Found(plain, source_named(before), unchanged=True)
            return
        found = list(items(path, root))
    except ClewError as error:
        if _exists(path):  # else it went away
            yield _unreadable(path, error.message)
        return
    recognised = 0
    for item in found:
        if item.member is not None and not item.member.endswith(_MEMBERS):
            continue
        try:
            before = known(item) if item.member is not None else None
            if before is not None:
                recognised += 1
                yield Found(item, source_named(before), unchanged=True)
                continue
            head = item.head()
            tried = sources() if only is None else (only,)
            # a member's name must not be taken for a file's: sources open databases to recognise them
            name = path if item.member is None else item.member.lstrip("/\\")
            source = next((source for source in tried if source.recognise(name, head)), None)
        except Exception as error:  # noqa: BLE001 (no file may end the search)
            recognised += 1
            yield Found(item, None, reason(error))
            continue
        if source is not None:
            recognised += 1
            yield Found(item, source)
    if not recognised and not (len(found) == 1 and found[0].size == 0):
        what = "no source recognises it" if only is None else f"it is not a history of {only.title}"
        yield Found(Item(path, 0, 0), None, what)


def reason(error: Exception) -> str:
    """Why a file cannot be read. The text of an error that is not clew's may have words of the file."""
    return error.message if isinstance(error, ClewError) else f"it cannot be read ({type(error).__name__})"


def _unreadable(path: str, why: str) -> Found:
    return Found(Item(path, 0, 0), None, why, unreadable=True)


def _exists(path: str) -> bool:
    """True if something has this name, or may have it: a folder above it cannot be entered."""
    try:
        os.lstat(path)
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
    return True


def _is_of_store(path: str) -> bool:
    try:
        return is_of_store(os.stat(path))
    except OSError:
        return False


def _as_it_is(path: str, root: str | None) -> Item | None:
    """A file as an item, without opening it."""
    try:
        status = os.stat(path, follow_symlinks=root is None)
    except OSError:
        return None
    return Item(path, status.st_size, status.st_mtime_ns, root=root)
