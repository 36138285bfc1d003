"""The command line: the store's own words, for people and for scripts.

Data goes to stdout, everything else to stderr. Each module here is one group of commands and is imported when it is used:
`clew --help` reads none of them.
"""

from __future__ import annotations

import sys


def main() -> int:
    """Runs one command line and returns its exit code."""
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
