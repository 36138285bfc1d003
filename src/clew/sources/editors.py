"""Where VS Code and the editors made from it keep their data."""

from __future__ import annotations

import os
from collections.abc import Iterator

from clew.sources.contract import Home

EDITORS = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf", "Trae")


def user_folders(home: Home, editors: tuple[str, ...] = EDITORS) -> Iterator[str]:
    """The folder ``User`` of each editor."""
    if home.system == "darwin":
        root = os.path.join(home.path, "Library", "Application Support")
    elif home.system == "win32":
        root = home.env.get("APPDATA") or os.path.join(home.path, "AppData", "Roaming")
    else:
        root = home.env.get("XDG_CONFIG_HOME") or os.path.join(home.path, ".config")
    for editor in editors:
        yield os.path.join(root, editor, "User")
