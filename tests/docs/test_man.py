"""The man page."""

from __future__ import annotations

import subprocess

from tools.man import manual

from clew.cli.command_list import COMMANDS
from tests.reliability.tools import need


def test_the_manual_has_everything() -> None:
    """Each command with its options, and each exit code; and man can read it."""
    page = manual()
    for name in COMMANDS:
        assert f".SS clew {name}".replace("-", "\\-") in page
    assert page.count("\n.TP\n") > 100
    lint = subprocess.run(
        [need("mandoc"), "-T", "lint", "-W", "error"], input=page, capture_output=True, text=True, check=False
    )
    assert (lint.returncode, lint.stdout) == (0, "")
    shown = subprocess.run(
        [need("mandoc"), "-T", "ascii"], input=page, capture_output=True, text=True, check=True
    ).stdout
    plain = shown.replace("_\b", "")
    assert "clew append" in "".join(char for at, char in enumerate(plain) if plain[at + 1 : at + 2] != "\b").replace(
        "\b", ""
    )
