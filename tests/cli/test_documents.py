"""What `--json` prints has a version and a type, for every command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tools.documents import COMMANDS
from tools.schemas import schema, text

from tests.cli import schemas
from tests.cli.conftest import Run, leaves

SCHEMA = Path(__file__).parents[2] / "docs/reference/json.schema.json"


def test_every_document_has_a_type() -> None:
    """The one exception prints a document that has a version of its own."""
    asked = {name for name, one in leaves().items() if any("--json" in param.opts for param in one.params)}
    assert asked - set(COMMANDS) == {"snapshot show"}
    assert set(COMMANDS) - asked == set()


def test_the_published_schema_is_current() -> None:
    """The file in the reference is what the types make, with a definition for each command."""
    assert SCHEMA.read_text(encoding="utf-8") == text()
    assert set(COMMANDS) < set(schema()["$defs"])


def test_a_wrong_document_is_noticed() -> None:
    """A field that the type does not have, one that is missing, and a missing version are each named."""
    good = {"schema_version": 1, "path": "copy.db", "size": 1}
    assert schemas.problems(["backup", "copy.db", "--json"], good) == []
    assert schemas.problems(["backup", "copy.db", "--json"], {**good, "more": 1}) != []
    assert schemas.problems(["backup", "copy.db", "--json"], {"schema_version": 1, "path": "copy.db"}) != []
    assert schemas.problems(["backup", "copy.db", "--json"], {"path": "copy.db", "size": 1}) != []
    assert schemas.problems(["completion", "bash"], {}) == []


def test_lists_are_items(clew_cli: Run, db: str) -> None:
    """A list is never at the top: an object has room for the version, and for what comes later."""
    done = clew_cli("append", "--title", "T", input='{"text": "lint"}')
    assert done.code == 0
    for command in (["search", "lint"], ["tree"], ["receipts"], ["doctor"]):
        document = json.loads(clew_cli(*command, "--json").out)
        assert (document["schema_version"], type(document["items"])) == (1, list)
    error = json.loads(clew_cli("show", "zzzzzz", "--json").err)
    assert (error["schema_version"], error["error"]["exit_code"]) == (1, 3)


def test_the_schema_accepts_what_is_printed(clew_cli: Run, db: str) -> None:
    """A validator of JSON Schema finds nothing wrong, and finds what is wrong."""
    jsonschema = pytest.importorskip("jsonschema")
    clew_cli("append", "--title", "T", input='{"text": "lint"}')
    for command in ("ls", "search lint", "tree", "stats", "usage", "doctor", "verify", "config show"):
        name = command.removesuffix(" lint")
        validator = jsonschema.Draft202012Validator({**schema(), "$ref": f"#/$defs/{name}"})
        document = json.loads(clew_cli(*command.split(), "--json").out)
        assert [error.message for error in validator.iter_errors(document)] == []
        assert not validator.is_valid({})
