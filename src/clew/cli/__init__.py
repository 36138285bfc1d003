"""The command line: the store's own words, for people and for scripts.

Data goes to stdout, everything else to stderr. Each module of commands is imported when it is used: `clew --help` reads
none of them.
"""

from __future__ import annotations

import io
import sys
import warnings


def main() -> int:
    """Runs one command line and returns its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that cannot write a letter still shows the rest
    warnings.showwarning = _warn
    try:
        from clew.cli.root import cli
    except KeyboardInterrupt:
        return 130
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        sys.stderr.write("clew: the command line needs click\n  hint: pip install 'clew[cli]'\n")
        return 1
    return cli.run()


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    """A warning of the library's in one line, without the place in the source that Python names."""
    sys.stderr.write(f"clew: warning: {message}\n")
