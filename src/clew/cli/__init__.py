"""The command line: commands/, setup/, output/, chat/, picker/, importing/, agent_hook/.

Data goes to stdout, everything else to stderr. A command's module is imported when the command runs: `clew --help`
imports none of them.
"""

from __future__ import annotations

import gc
import io
import sys
import warnings

from clew.errors import install_hint

GARBAGE = 50_000
"""Objects between two garbage collections: loading modules creates many objects, but no garbage."""


def main() -> int:
    """Runs one command line and returns its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # print the rest if the terminal lacks a character
    warnings.showwarning = _warn
    gc.set_threshold(GARBAGE)
    if sys.argv[1:] == ["statusline"] and None not in (sys.stdin, sys.stdout):
        from clew.cli.output.statusline import main as print_status

        return print_status()  # it runs after every answer: click alone would take half of its time
    try:
        from clew.cli.root import cli
    except KeyboardInterrupt:
        return 130
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        sys.stderr.write(f"clew: the command line needs the package click\n  hint: {install_hint('click')}\n")
        return 1
    return cli.run()


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    """Prints a warning of the library on one line, without file name and line number."""
    sys.stderr.write(f"clew: warning: {message}\n")
