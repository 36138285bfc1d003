"""Edits text in the user's editor, with a temporary file in memory if possible."""

from __future__ import annotations

import os
import tempfile

import click

import clew
from clew.base.files import mount_of

_IN_MEMORY = ("tmpfs", "ramfs")


def edit_text(text: str, *, private: bool) -> str:
    """Opens `text` in the editor and returns the result. Invalid if the editor fails.

    With `private`, for text of a sealed store, Invalid also if no folder is in memory: it must not reach a disk.
    """
    folder = memory_folder()
    if private and folder is None:
        hint = "Use /edit TEXT, or provide a folder in memory (tmpfs): XDG_RUNTIME_DIR or /dev/shm."
        raise clew.Invalid("the editor would write text of a sealed store to disk in clear text", hint=hint)
    try:
        with tempfile.TemporaryDirectory(prefix="clew-edit-", dir=folder) as made:  # readable only by its owner
            path = os.path.join(made, "question.md")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            click.edit(filename=path)
            with open(path, encoding="utf-8") as file:
                return file.read().strip()
    except click.ClickException as error:
        hint = "Set EDITOR, or use /edit TEXT."
        raise clew.Invalid(error.format_message(), hint=hint) from error
    except (OSError, UnicodeError) as error:
        raise clew.Invalid(f"cannot read the edited text: {error}") from error


def memory_folder() -> str | None:
    """A private folder in memory; None if there is none."""
    for folder in (os.environ.get("XDG_RUNTIME_DIR"), "/dev/shm"):
        mount = mount_of(os.path.realpath(folder)) if folder and os.access(folder, os.W_OK | os.X_OK) else None
        if mount is not None and mount.kind in _IN_MEMORY:
            return folder
    return None
