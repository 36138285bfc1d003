"""The folders that clew creates for stores: private, and marked for tools that synchronise files.

A store in such a folder should not leave the machine because a folder above it is shared. There is no CACHEDIR.TAG: it
would exclude the store from backups too.
"""

from __future__ import annotations

import os
from contextlib import suppress

from clew.errors import ReadOnly

NAMESPACE = os.path.join("agentvoice", "conversations")
"""The folder of conversation records, below the storage folder of a workspace."""
MARKERS = {
    ".nosync": b"",
    ".stignore": b"// clew: a store is not copied while it is in use\n*\n",  # Syncthing
}
ATTRIBUTES = {"user.com.dropbox.ignored": b"1"}


def make_namespace(path: str) -> None:
    """Creates the folders of a new store, if it is in the namespace and the folder above exists. ReadOnly.

    A folder elsewhere is left to the caller: its name may be a typing error.
    """
    folder = os.path.dirname(os.path.abspath(path))
    if folder.endswith(os.sep + NAMESPACE) and os.path.isdir(folder.removesuffix(NAMESPACE)):
        make_private_folder(os.path.dirname(folder))
        make_private_folder(folder)
        keep_from_sync(folder)


def make_private_folder(folder: str, hint: str = "Choose another path for the store.") -> None:
    """Creates a folder that only its owner can access, and those above it, unless it exists. ReadOnly."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError as error:
        raise ReadOnly(f"cannot create {folder}: {error.strerror}", hint=hint) from error


def keep_from_sync(folder: str) -> None:
    """Puts the markers into a folder, as far as its file system supports them; keeps existing files."""
    for name, content in MARKERS.items():
        with suppress(OSError):
            fd = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(content)
    for name, content in ATTRIBUTES.items():
        with suppress(OSError, AttributeError):  # not supported everywhere
            os.setxattr(folder, name, content)
