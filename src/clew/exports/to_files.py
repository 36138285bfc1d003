"""Conversations as files: a file, or a folder with one for each; and the form of CPE, one file for all."""

from __future__ import annotations

import os
import re
import tempfile
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple
from urllib.parse import quote

from clew.agents.cpe.writer import write_file
from clew.base import files
from clew.base.messages import Media
from clew.errors import Conflict, Corrupted, Invalid, NotFound
from clew.exports.images import ENDINGS, read_image
from clew.exports.to_html import html
from clew.exports.to_markdown import Detail, markdown
from clew.exports.to_native import native, native_files
from clew.providers.prices import Prices
from clew.store.jsonl import jsonl, refuse_export
from clew.store.session import Session
from clew.store.store import Store
from clew.turns.model import Entry

Form = Literal["native", "jsonl", "markdown", "html", "cpeconvo"]
FORMS: dict[Form, str] = {
    "native": ".jsonl", "jsonl": ".jsonl", "markdown": ".md", "html": ".html", "cpeconvo": ".cpeconvo"
}  # fmt: skip
"""The forms, and how the names of their files end."""
Progress = Callable[[int, int], object]
"""Called with what is done and what there is to do: messages of a JSONL export, conversations of others."""
_UNSAFE = re.compile(r"[^\w.-]+")
LONGEST = 60


class Exported(NamedTuple):
    """What an export wrote."""

    files: tuple[str, ...]
    conversations: int | None
    """None for a whole store."""
    damaged: tuple[str, ...]
    """What could not be read, and is marked or missing in the files."""
    refused: tuple[str, ...]
    """Conversations that were left out, with the reason: marked as not to be exported, deleted meanwhile, not
    imported from a tool."""


def write(
    store: Store,
    path: str | os.PathLike[str],
    sessions: Iterable[Session] | None = None,
    *,
    form: Form = "jsonl",
    detail: Detail = "full",
    progress: Progress | None = None,
    prices: Prices | None = None,
) -> Exported:
    """Writes these conversations, or all of the store, readable by their owner alone. Complete when it returns.

    JSONL is one file. So is CPE's form, and that file must not exist yet: Conflict. The other forms are one file if
    one conversation is given and `path` is not a folder, and otherwise a folder with a file for each; native, with the
    files that they came from, also those of subagents. `prices` are a user's own and the list, for the cost in Markdown
    and HTML; without them the list alone. A file is replaced as a whole; other files of the folder stay.
    """
    if form not in FORMS:
        raise Invalid(f"an export is {', '.join(FORMS)}, not {form!r}")
    target = os.fspath(path)
    damaged: list[str] = []
    refused: list[str] = []
    if form == "jsonl":
        chosen = exportable(None if sessions is None else list(sessions), refused)
        _write(target, jsonl(store, chosen, damaged=damaged, refused=refused, progress=progress))
        count = None if chosen is None else len(chosen)
        return Exported((target,), count, tuple(damaged), tuple(refused))
    if form == "cpeconvo":
        return _write_cpeconvo(store, target, sessions, progress)
    many = exportable(list(store.sessions.list().all() if sessions is None else sessions), refused) or []
    single = sessions is not None and len(many) == 1 and not os.path.isdir(target) and not target.endswith(os.sep)
    if not single:
        files.make_folder(os.path.abspath(target))
        if form == "native":
            return _write_native(store, target, many, refused, progress)
    written = []
    for number, session in enumerate(many):
        name = target if single else os.path.join(target, file_name(session, FORMS[form]))
        try:
            _write(name, parts(store, session, form, detail, beside=name, prices=prices))
        except (NotFound, Invalid) as error:  # deleted meanwhile; not imported from a tool
            if single:
                raise
            refused.append(f"{session.id}: {error.message}")
            continue
        except Corrupted:
            damaged.append(session.id)
            continue
        written.append(name)
        if progress is not None:
            progress(number + 1, len(many))
    return Exported(tuple(written), len(written), tuple(damaged), tuple(refused))


def _write_native(
    store: Store, folder: str, sessions: list[Session], refused: list[str], progress: Progress | None
) -> Exported:
    """Writes the files that conversations came from, under the names that they had."""
    written: dict[str, None] = {}
    damaged: list[str] = []
    done = set[str]()
    chosen = {session.id for session in sessions}

    def refuse_export(session: Session, error: Invalid) -> None:
        refused.append(f"{session.id}: {error.message}")

    for one in native_files(store, sessions, refuse_export):
        first = one.sessions[0]
        name = os.path.join(folder, one.name or file_name(first, FORMS["native"]))
        if name in written:
            stem, end = os.path.splitext(name)
            name = f"{stem}-{first.handle}{end}"
        try:
            _write(name, one.parts())
        except NotFound as error:  # deleted meanwhile
            refused.append(f"{first.id}: {error.message}")
            continue
        except Corrupted:
            damaged += [session.id for session in one.sessions]
            continue
        written[name] = None
        done |= {session.id for session in one.sessions} & chosen
        if progress is not None:
            progress(len(done), len(sessions))
    return Exported(tuple(written), len(done), tuple(damaged), tuple(refused))


def _write_cpeconvo(
    store: Store, target: str, sessions: Iterable[Session] | None, progress: Progress | None
) -> Exported:
    if os.path.lexists(target):
        hint = "Name a new file. clew does not add to a file of CPE, and replacing it would delete its conversations."
        raise Conflict(f"{target} exists", hint=hint)
    damaged: list[str] = []
    refused: list[str] = []
    chosen = exportable(list(every_session(store) if sessions is None else sessions), refused) or []
    folder = os.path.dirname(os.path.abspath(target))
    _write(target, cpeconvo(store, chosen, folder=folder, damaged=damaged, progress=progress))
    return Exported((target,), len(chosen), tuple(damaged), tuple(refused))


def file_name(session: Session, end: str) -> str:
    """A name for the file of a conversation: its day, its title and its handle, in characters that any system takes."""
    words = unicodedata.normalize("NFKC", session.title or "untitled")
    title = _UNSAFE.sub("-", words).strip("-.")[:LONGEST].rstrip("-.") or "untitled"
    return f"{session.created_at:%Y-%m-%d}-{title}-{session.handle}{end}"


class _Images:
    """Writes the images of a conversation into a folder beside its Markdown, which it makes for the first one."""

    def __init__(self, session: Session, name: str) -> None:
        self._session = session
        self._folder = f"{os.path.splitext(name)[0]}-files"
        self._count = 0

    def save(self, one: Entry, block: Media) -> str | None:
        """Where an image was written, relative to the Markdown; None for what is no image or cannot be read."""
        found = read_image(self._session, block)
        if found is None:
            return None
        self._count += 1
        name = f"{one.number}-{self._count}{ENDINGS[found.mime_type]}"
        files.make_folder(os.path.abspath(self._folder))
        _write(os.path.join(self._folder, name), [found.data])
        return quote(f"{os.path.basename(self._folder)}/{name}")


def parts(
    store: Store,
    session: Session,
    form: Form,
    detail: Detail,
    *,
    beside: str | None = None,
    prices: Prices | None = None,
) -> Iterator[bytes]:
    """The pieces of one conversation's file. The images of Markdown go beside the file that is named."""
    if form == "native":
        return native(store, session)
    save = None if beside is None else _Images(session, beside).save
    lines = (
        markdown(session, session.history(), detail=detail, front_matter=True, save=save, prices=prices)
        if form == "markdown"
        else html(session, session.history(), fold=detail != "full", prices=prices)
    )
    return (f"{line}\n".encode() for line in lines)


def exportable(sessions: list[Session] | None, refused: list[str] | None = None) -> list[Session] | None:
    """The sessions that may leave the store. Conflict for others, or with `refused` they are added there."""
    kept = []
    for session in sessions or ():
        try:
            refuse_export(session.id, session.data)
        except Conflict as error:
            if refused is None:
                raise
            refused.append(f"{session.id}: {error.message}")
        else:
            kept.append(session)
    return None if sessions is None else kept


def _write(path: str, parts: Iterable[bytes]) -> None:
    try:
        files.write_private(path, parts)
    except OSError as error:
        raise files.unwritten(error, path) from error


PIECE = 1 << 20


def cpeconvo(
    store: Store,
    sessions: Iterable[Session] | None = None,
    *,
    folder: str | None = None,
    damaged: list[str] | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Iterator[bytes]:
    """The bytes of a ``.cpeconvo`` file with these sessions, or all.

    The file is made in a new folder inside `folder`, or among the temporary files, that only its owner can read.
    Messages that cannot be read are left out, and added to `damaged`.
    """
    with tempfile.TemporaryDirectory(prefix=".clew-export-", dir=folder) as place:
        path = os.path.join(place, "cpeconvo")
        chosen = every_session(store) if sessions is None else sessions
        write_file(store, path, chosen, damaged=[] if damaged is None else damaged, progress=progress)
        with open(path, "rb") as file:
            while piece := file.read(PIECE):
                yield piece


def every_session(store: Store) -> Iterator[Session]:
    """All sessions, and the traces of subagents that no session owns."""
    yield from store.sessions.list().all()
    yield from (one for one in store.sessions.list(subagents=True).all() if one.owner_id is None)
