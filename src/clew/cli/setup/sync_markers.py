"""Markers that exclude the folder of the default store from file synchronisation.

A store in the default location should not leave the machine because a folder above it is shared. There is no
CACHEDIR.TAG: it would exclude the store from backups too.
"""

from __future__ import annotations

import os
from contextlib import suppress

FILES = {
    ".nosync": b"",
    ".stignore": b"// clew: a store is not copied while it is in use\n*\n",  # Syncthing
}
ATTRIBUTES = {"user.com.dropbox.ignored": b"1"}


def keep_from_sync(folder: str) -> None:
    """Puts the markers into a folder, as far as its file system supports them; keeps existing files."""
    for name, content in FILES.items():
        with suppress(OSError):
            fd = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(content)
    for name, content in ATTRIBUTES.items():
        with suppress(OSError, AttributeError):  # not supported everywhere
            os.setxattr(folder, name, content)
