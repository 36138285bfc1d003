"""Folders as a crash at any moment of a program could have left them."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import clew
from tests.crash import lab
from tests.crash.simulator.volume import Event, Volume, read_log

CHANGES = "WtxzCRLUXMl"
"""Events that change what a process that looks at the folder sees."""
SYNCS = "SY"
"""Events that change what is surely on the disk."""


class Image(NamedTuple):
    """A folder, and the moment at which a crash left it so: after which event of how many."""

    folder: Path
    event: int
    events: int
    survive: str


class Recording:
    """What a program does to the files of a folder, call by call."""

    def __init__(self, folder: Path, code: str, *args: str) -> None:
        """Runs `code` with clew and these tests at hand; it must end well."""
        preload = lab.shim()
        self._folder = folder
        log = folder.with_name(f"{folder.name}-log")
        path = os.pathsep.join([str(Path(clew.__file__).parents[1]), str(lab.ROOT)])
        env = {**os.environ, "PYTHONPATH": path, "LD_PRELOAD": str(preload)}
        env |= {"PC_ROOT": str(folder), "PC_LOG": str(log), "PYTHONDONTWRITEBYTECODE": "1"}
        self._volume = Volume(folder)
        done = subprocess.run([sys.executable, "-c", code, *args], env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        self.events: list[Event] = list(read_log(log))

    def images(self, chance: random.Random, *, torn: float) -> Iterator[Image]:
        """One image after every event that makes a difference: killed there, and with the power gone there.

        A share of the power cuts, `torn`, keep a random part of what was not synced.
        """
        for number, event in enumerate(self.events, 1):
            self._volume.feed(event)
            modes = ["all"] * (event.kind in CHANGES) + ["none"] * (event.kind in SYNCS)
            if event.kind in CHANGES and chance.random() < torn:
                modes.append("random")
            for survive in modes:
                folder = self._folder.with_name("image")
                self._volume.crash_image(folder, survive, chance)
                yield Image(folder, number, len(self.events), survive)
                shutil.rmtree(folder)
