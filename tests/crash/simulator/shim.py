"""Builds the recorder, `shim.c`, and the environment that puts a program under it."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")


def build() -> Path:
    """The shared object, compiled when it is missing or older than its source."""
    target = Path(tempfile.gettempdir()) / f"clew-shim-{os.getuid()}" / "shim.so"
    target.parent.mkdir(mode=0o700, exist_ok=True)
    if not target.exists() or target.stat().st_mtime < SOURCE.stat().st_mtime:
        part = target.with_suffix(f".{os.getpid()}")
        subprocess.run(["gcc", "-O2", "-Wall", "-shared", "-fPIC", "-o", str(part), str(SOURCE), "-ldl"], check=True)
        part.replace(target)
    return target


def environment(root: Path, log: Path, fault: str = "") -> dict[str, str]:
    """Variables that record a program's changes below `root` in `log`; `fault` is explained in `shim.c`."""
    env = {"LD_PRELOAD": str(build()), "PC_ROOT": str(root), "PC_LOG": str(log), "PC_ACKFD": "1"}
    return {**env, "PC_FAULT": fault} if fault else env
