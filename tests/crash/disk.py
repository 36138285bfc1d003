"""Small disks that can be filled and made read-only."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.reliability.tools import missing, need


class Disk:
    """A file system in memory, of a fixed size."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self, leave: int = 0) -> None:
        """Uses all of the space that is left but `leave` bytes."""
        with self._ballast.open("ab", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass
            file.truncate(max(0, file.tell() - leave))

    def left(self) -> int:
        """Bytes that are free."""
        now = os.statvfs(self.folder)
        return now.f_bavail * now.f_frsize

    def free(self) -> None:
        """Gives the space back."""
        self._ballast.unlink()

    def read_only(self, *, on: bool) -> None:
        """Makes the disk read-only, or writable again. Nobody may have a file on it open for writing."""
        subprocess.run(["mount", "-o", f"remount,{'ro' if on else 'rw'}", str(self.folder)], check=True)


@contextmanager
def mounted(folder: Path, size: str) -> Iterator[Disk]:
    """A disk of that size at `folder`; skips the test where mounting is not allowed."""
    folder.mkdir()
    if os.name != "posix" or os.geteuid() != 0:
        missing("mounting a small disk needs root")
    done = subprocess.run(
        [need("mount"), "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True
    )
    if done.returncode:
        missing(f"a small disk cannot be mounted: {done.stderr.decode().strip()}")
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
