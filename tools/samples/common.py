"""What the scripts share: a home, and how its traces are taken out of the files that a program wrote."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from clew.testing.providers import ProviderServer

OUT = Path(__file__).resolve().parents[2] / "tests" / "sources" / "samples"
PICTURE = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8cfc0000003010100c9fe92ef"
    "0000000049454e44ae426082"
)
"""A PNG of one red pixel."""


@contextmanager
def home(place: Path) -> Iterator[Path]:
    """An empty home with a folder ``work``; removed at the end."""
    shutil.rmtree(place, ignore_errors=True)
    (place / "work").mkdir(parents=True)
    (place / "work" / "pixel.png").write_bytes(PICTURE)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def environment(place: Path, **more: str) -> dict[str, str]:
    """The environment of a program in this home, and nothing of the caller's."""
    return {"HOME": str(place), "PATH": os.environ["PATH"], "TZ": "UTC", "LANG": "C.UTF-8", **more}


def clean_lines(data: bytes, place: Path, change: Callable[[dict[str, Any]], object]) -> bytes:
    """The lines of a JSONL file after `change`, without the home's path."""
    lines = []
    for line in data.splitlines():
        record = json.loads(line)
        change(record)
        lines.append(json.dumps(record, separators=(",", ":"), ensure_ascii=False) + "\n")
    return clean_text("".join(lines), {str(place): "/home/user"}).encode()


def clean_text(text: str, names: Mapping[str, str]) -> str:
    """A text with other names in place of some."""
    for old, new in names.items():
        text = text.replace(old, new)
    return re.sub(r"http://127\.0\.0\.1:\d+", "http://127.0.0.1", text)


def server() -> ProviderServer:
    """The scripted server."""
    return ProviderServer()
