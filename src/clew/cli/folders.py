"""Where the system has folders for a user's settings and data: as platformdirs says."""

from __future__ import annotations

import os
import sys
from typing import Literal

_XDG = {"config": ("XDG_CONFIG_HOME", "~/.config"), "data": ("XDG_DATA_HOME", "~/.local/share")}


def user_folder(kind: Literal["config", "data"]) -> str:
    """The folder of ours for settings, or for data. On Linux platformdirs is not loaded: it takes as long as `ls`."""
    variable, usual = _XDG[kind]
    named, home = os.environ.get(variable, ""), os.path.expanduser(usual)
    base = named or home
    if sys.platform == "linux" and os.path.isabs(base) and base == base.strip():
        return os.path.join(base, "clew")
    import platformdirs

    find = platformdirs.user_config_dir if kind == "config" else platformdirs.user_data_dir
    return find("clew", appauthor=False)
