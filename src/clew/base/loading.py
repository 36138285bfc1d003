"""Wraps imports inside functions, which fail if the process has too many open files."""

from __future__ import annotations

import errno
import os

from clew.errors import Unavailable

NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE})
"""The limit on open files is reached, of the process or of the machine."""
CLOSE_SOME = "Close some files or raise the limit on open files (ulimit -n), then make the same call again."


class _Loading:
    """Raises Unavailable if an import fails because no file can be opened. The next call imports again."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ImportError | OSError) and _no_descriptor(error):
            raise Unavailable("a part of clew cannot be loaded: too many open files", hint=CLOSE_SOME) from error


def _no_descriptor(error: ImportError | OSError) -> bool:
    """True if the cause is the limit on open files. The ImportError of an extension module has it only in its text."""
    if isinstance(error, OSError):
        return error.errno in NO_DESCRIPTOR
    return any(os.strerror(number) in str(error) for number in NO_DESCRIPTOR)


loading = _Loading()
