"""The user's folders for settings and data, as platformdirs defines them."""

from __future__ import annotations

import os
import sys
from typing import Literal

_XDG = {"config": ("XDG_CONFIG_HOME", "~/.config"), "data": ("XDG_DATA_HOME", "~/.local/share")}


def user_folder(kind: Literal["config", "data"]) -> str:
    """Clew's folder for settings or data. On Linux it avoids loading platformdirs, which takes as long as `ls`."""
    variable, usual = _XDG[kind]
    named, home = os.environ.get(variable, ""), os.path.expanduser(usual)
    base = named or home
    if sys.platform == "linux" and os.path.isabs(base) and base == base.strip():
        return os.path.join(base, "clew")
    import platformdirs

    find = platformdirs.user_config_dir if kind == "config" else platformdirs.user_data_dir
    return find("clew", appauthor=False)
