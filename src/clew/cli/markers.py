"""Markers that keep programs which copy folders to other machines away from the folder of the default store.

A store that a person has not placed should not leave the machine because somebody shares the folder above it, sealed
or not. There is no CACHEDIR.TAG among them: it would also keep backups from saving what nobody has twice.
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
    """Puts the markers into a folder of ours, as far as its file system has them. What is there stays as it is."""
    for name, content in FILES.items():
        with suppress(OSError):
            fd = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(content)
    for name, content in ATTRIBUTES.items():
        with suppress(OSError, AttributeError):  # not on every system, and not on every file system
            os.setxattr(folder, name, content)
