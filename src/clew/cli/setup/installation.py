"""How clew is installed here: the command that adds a package, and packages that are missing for API keys."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from clew.providers.registry import PROVIDERS, Provider


def install_command(extra: str, prefix: str = sys.prefix, base: str = sys.base_prefix) -> str:
    """The command that adds the packages of an extra to the installation at `prefix`."""
    needed = requirements(extra)
    parts = prefix.split(os.sep)
    if "pipx" in parts and "venvs" in parts:
        return shlex.join(["pipx", "inject", parts[-1], *needed])
    if "uv" in parts and "tools" in parts:
        clew, *others = _uv_requirements(prefix)  # uv removes packages that are not named again
        added = [word for one in dict.fromkeys((*others, *needed)) for word in ("--with", one)]
        return shlex.join(["uv", "tool", "install", *added, clew])
    if prefix == base:
        return shlex.join(["python3", "-m", "pip", "install", *needed])
    pip = os.path.join(prefix, "Scripts" if sys.platform == "win32" else "bin", "pip")
    if not os.path.exists(pip):  # uv makes environments without pip
        return shlex.join(["uv", "pip", "install", "--python", _short(prefix), *needed])
    return shlex.join([_short(pip), "install", *needed])


def requirements(extra: str) -> list[str]:
    """The packages that an extra of clew needs and that are not installed, as pip reads them."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        lines = requires("clew") or []
    except PackageNotFoundError:  # run from a folder, not installed
        lines = []
    found = [line.partition(";") for line in lines]
    named = [need.strip() for need, _, marker in found if f"extra == '{extra}'" in marker.replace('"', "'")]
    return [need for need in named if not _is_installed(need)] or named or [f"clew[{extra}]"]


def _is_installed(need: str) -> bool:
    """True if the package of a requirement is installed, in any version."""
    from importlib.metadata import PackageNotFoundError, version

    found = re.match(r"[\w.-]+", need)
    try:
        return found is not None and bool(version(found[0]))
    except PackageNotFoundError:
        return False


def _uv_requirements(prefix: str) -> list[str]:
    """What uv installed: clew from a checkout, a wheel or by its name; then the packages that were added."""
    try:
        with open(os.path.join(prefix, "uv-receipt.toml"), "rb") as file:
            asked = tomllib.load(file)["tool"]["requirements"]
    except (OSError, tomllib.TOMLDecodeError, KeyError):
        asked = []
    return [_uv_requirement(one) for one in asked] or ["clew"]


def _uv_requirement(asked: dict[str, Any]) -> str:
    where = next(
        (str(asked[kind]) for kind in ("directory", "editable", "path", "url") if kind in asked), asked["name"]
    )
    extras = asked.get("extras") or []
    return f"{where}[{','.join(extras)}]" if extras else f"{where}{asked.get('specifier', '')}"


def _short(path: str) -> str:
    """The path relative to the current directory, if it is below it."""
    try:
        here = os.path.relpath(path)
    except (ValueError, OSError):
        return path
    return path if here.startswith(os.pardir) else here


def has_sdk(row: Provider) -> bool:
    """True if a provider's package is installed, or it needs none."""
    try:
        return not row.sdk or find_spec(row.sdk) is not None
    except ModuleNotFoundError:  # the package above it is missing
        return False


def missing_sdks() -> Iterator[str]:
    """One line for each API key that is set and whose package is missing, with the command that installs it."""
    for row in PROVIDERS.values():
        key = next((name for name in row.api_keys if os.environ.get(name)), None)
        if key is not None and row.default_model and not has_sdk(row):
            yield f"{key} is set, but the package for {row.name} is missing. Install it: {install_command(row.extra)}"


def local_model() -> str | None:
    """How to chat with the program `claude`, which needs no API key; None if it is not installed."""
    return None if shutil.which("claude") is None else "clew chat -m claude-local"
