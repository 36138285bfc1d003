"""The text of the statements that run on SQLite."""

import re
from pathlib import Path

import clew
from clew.backends.sql import queries

_SOURCE = Path(clew.__file__).parent
_AGAIN = re.compile(r"(?<!\w)LIMIT\s+[?:@$](?!\s*\+\s*0)")


def test_no_bare_limit_parameter() -> None:
    """No statement has a bare parameter as its limit: SQLite 3.47 and newer would prepare it again at every call."""
    assert _AGAIN.search("SELECT 1 LIMIT ?")
    assert _AGAIN.search("SELECT 1 LIMIT ? OFFSET ?+0")
    files = [path for path in _SOURCE.rglob("*") if path.suffix in (".py", ".sql") and ".postgres." not in path.name]
    bare = {
        f"{path.relative_to(_SOURCE)}: {line.strip()}"
        for path in files
        if "postgres" not in path.parts and path.name != "postgres.py"
        for line in path.read_text().splitlines()
        if _AGAIN.search(line) and "`LIMIT ?`" not in line
    }
    assert not bare
    assert (_SOURCE / "backends/sql/queries.sql") in files


def test_placeholders_have_no_numbers() -> None:
    """Python 3.12.0 to 3.12.3 warns of a numbered placeholder with a value from a sequence."""
    texts = [text for dialect in (None, "postgres") for text in queries(dialect).values()]
    assert len(texts) > 100
    assert [text for text in texts if re.search(r"\?\d", text)] == []
