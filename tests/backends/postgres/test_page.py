"""The pages about PostgreSQL: their code runs, against a server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.backends.postgres.server import Server

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "postgresql.md"


def test_the_code_of_the_page_runs(server: Server, tmp_path: Path) -> None:
    """From top to bottom, printing what the page says it prints, with a server in place of the one it names."""
    text = PAGE.read_text(encoding="utf-8")
    assert text.count("```py\n") == 4
    with server.connect() as conn:
        if not conn.execute("SELECT 1 FROM pg_roles WHERE rolname = 'acme_app'").fetchone():
            conn.execute("CREATE ROLE acme_app")
    copy = tmp_path / "page.md"
    text = text.replace("```py\n", "```python\n")
    for name in ("app", "large"):
        text = text.replace(f"postgresql://app@db.example/{name}", server.url())
    copy.write_text(text)
    command = [sys.executable, "-m", "tests.docs.page", str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
