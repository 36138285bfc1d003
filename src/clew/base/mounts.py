"""Finds the mount that a store is on. Linux only."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

_NETWORK = frozenset(
    (
        "9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "fuse.glusterfs", "fuse.s3fs", "fuse.sshfs", "gfs2",
        "lustre", "ncpfs", "nfs", "nfs4", "smb3", "smbfs",
    )
)  # fmt: skip


class Mount(NamedTuple):
    """The mount that a file is on."""

    point: str
    """Where it is mounted: the file itself, or a folder above it."""
    kind: str
    """The kind of file system."""

    @property
    def network(self) -> bool:
        """True for a network file system."""
        return self.kind in _NETWORK


def mount_of(path: str) -> Mount | None:
    """The mount that a resolved path is on; None if unknown."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            lines = [line.split(" ") for line in file]
    except OSError:
        return None
    best = None
    for line in lines:  # of several mounts at one point, the last one is in effect
        point = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), line[4])
        inside = path == point or path.startswith(point.rstrip(os.sep) + os.sep)
        if inside and (best is None or len(point) >= len(best.point)):
            best = Mount(point, line[line.index("-") + 1])
    return best
