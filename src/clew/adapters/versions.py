"""The versions of a framework that its adapter was tested with."""

from __future__ import annotations

import warnings
from importlib.metadata import PackageNotFoundError, version


def check_version(package: str, first: str, before: str) -> None:
    """Warns if the installed version is not from `first` up to but not including `before`."""
    try:
        found = version(package)
    except PackageNotFoundError:
        return
    if not _parts(first) <= _parts(found) < _parts(before):
        warnings.warn(
            f"clew was tested with {package} from {first} to before {before}; {found} is installed", stacklevel=3
        )


def _parts(text: str) -> tuple[int, ...]:
    return tuple(int("".join(digit for digit in part if digit.isdecimal()) or 0) for part in text.split("."))
