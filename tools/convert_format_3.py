"""Converts a store file from before the first release (formats 1 to 3) into format 1.

    python tools/convert_format_3.py FILE

The tables are the same; only the number of the format differs, and the first of the three had no table of objects. The
old file is copied to FILE.old first. Close the store in every program before. A store on a server: copy it to a file
with the clew that wrote it, convert the file, and copy it back.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from contextlib import closing

from clew.backends.sql import migrations
from clew.backends.sqlite.connection import APPLICATION_ID
from clew.backends.sqlite.migrate import statements
from clew.backends.sqlite.schema import differences, schema_of

LAST = 3
"""The last format before the first release."""


def convert(path: str) -> str:
    """Converts a file, and returns the name of the copy of the old one. ValueError if it is not such a file."""
    if not os.path.isfile(path):
        raise ValueError(f"{path} is not a file")
    kept = f"{path}.old"
    if os.path.exists(kept):
        raise ValueError(f"{kept} exists already: move it away first")
    with closing(sqlite3.connect(path, isolation_level=None, timeout=5)) as conn:
        conn.execute("BEGIN EXCLUSIVE")
        try:
            found = _check(conn, path)
            with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(kept)) as copy:
                source.backup(copy)
            os.chmod(kept, os.stat(path).st_mode & 0o777)
            if not any(row[1] == "objects" for row in schema_of(conn)):
                for statement in statements(migrations("sqlite")[0][1]):
                    if "objects" in statement.split("(")[0]:
                        conn.execute(statement)
            wrong = [f"{name} {how}" for name, how in differences(schema_of(conn))]
            if wrong:
                raise ValueError(f"{path} has another schema: {wrong[0]}")
            # The secrets of a sealed store are bound to the difference of both numbers.
            conn.execute("UPDATE epoch SET number = number - ?, format = 1", (found - 1,))
            conn.execute("PRAGMA user_version = 1")
            conn.execute("COMMIT")
        except BaseException:
            conn.execute("ROLLBACK")
            raise
    return kept


def _check(conn: sqlite3.Connection, path: str) -> int:
    """The format of the file."""
    (application,) = conn.execute("PRAGMA application_id").fetchone()
    (found,) = conn.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID or not 1 <= found <= LAST:
        raise ValueError(f"{path} is not a store of format 1 to {LAST}")
    if found == 1 and any(row[1] == "objects" for row in schema_of(conn)):
        raise ValueError(f"{path} is converted already")
    return int(found)


def main() -> None:
    """Converts the file that is named."""
    if len(sys.argv) != 2:
        sys.exit("usage: python tools/convert_format_3.py FILE")
    try:
        kept = convert(sys.argv[1])
    except (ValueError, OSError, sqlite3.Error) as error:
        sys.exit(f"error: {error}")
    print(f"{sys.argv[1]} has format 1 now. The old file is {kept}; delete it once `clew verify` finds no damage.")


if __name__ == "__main__":
    main()
