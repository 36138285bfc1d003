"""Text in the person's editor, in a file that is in memory where that is possible."""

from __future__ import annotations

import os
import tempfile

import click

import clew
from clew.backends.sqlite.mounts import mount_of

_IN_MEMORY = ("tmpfs", "ramfs")


def edited(text: str, *, private: bool) -> str:
    """`text` as it comes out of the editor. Invalid if that does not run.

    With `private`, the text of a sealed store, Invalid also where no folder is in memory: it must not reach a disk.
    """
    folder = memory_folder()
    if private and folder is None:
        hint = "/edit TEXT needs no editor. An XDG_RUNTIME_DIR or /dev/shm in memory (tmpfs) makes it possible."
        raise clew.Invalid("the editor needs a file, which would have the text of a sealed store in clear", hint=hint)
    try:
        with tempfile.TemporaryDirectory(prefix="clew-edit-", dir=folder) as made:  # its owner's alone
            path = os.path.join(made, "question.md")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            click.edit(filename=path)
            with open(path, encoding="utf-8") as file:
                return file.read().strip()
    except click.ClickException as error:
        hint = "EDITOR names the editor; /edit TEXT needs none."
        raise clew.Invalid(error.format_message(), hint=hint) from error
    except (OSError, UnicodeError) as error:
        raise clew.Invalid(f"what was edited cannot be read: {error}") from error


def memory_folder() -> str | None:
    """A folder for files of this person's alone that is in memory; None if there is none."""
    for folder in (os.environ.get("XDG_RUNTIME_DIR"), "/dev/shm"):
        mount = mount_of(os.path.realpath(folder)) if folder and os.access(folder, os.W_OK | os.X_OK) else None
        if mount is not None and mount.kind in _IN_MEMORY:
            return folder
    return None
