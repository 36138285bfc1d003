"""The JSON Schemas of what commands print with --json, from the types. tools/docs.py writes them to docs/reference."""

from __future__ import annotations

import json
from typing import Any, get_args, get_origin

import msgspec

from clew.cli.output.text import SCHEMA_VERSION
from tools.documents import COMMANDS

NAME = "json.schema.json"
"""The file: one definition for each command, by its words, and for each type."""
INTRODUCTION = f"""\
# JSON output

`--json` prints one object. It has `schema_version`, now {SCHEMA_VERSION}, and the fields below, or `items`, a list.
`--jsonl` prints the items, or the object, one per line and without the version. An error is one line on stderr:
`{{"schema_version": {SCHEMA_VERSION}, "error": {{"type", "message", "hint", "exit_code"}}}}`.

A new release can add fields: ignore those you do not know. If a field is renamed, is removed or changes its meaning,
`schema_version` increases. Times are ISO 8601 in UTC, costs are millionths of a US
dollar, and null means: not known.

The [JSON Schema]({NAME}) has a definition for each command, such as `#/$defs/ls`. `clew snapshot show --json` prints
the snapshot itself, which has a `version` of its own; `clew hook install --dry-run` prints settings of Claude Code.

```console
$ echo '{{"text": "Why is the build failing?"}}' | clew append --title "Build fails"
…
$ clew ls --json
{{
  "schema_version": {SCHEMA_VERSION},
  "sessions": [
…
```

| command | document |
|---|---|"""


def schema() -> dict[str, Any]:
    """One schema with a definition for each command and each type."""
    kinds = [_element(kind) for alternatives in COMMANDS.values() for kind in alternatives]
    _, parts = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    commands = {name: _document(name) for name in COMMANDS}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What the commands of clew print with --json",
        "$defs": {**commands, **parts},
    }


def page() -> str:
    """docs/reference/json.md."""
    lines = [INTRODUCTION]
    for name, kinds in COMMANDS.items():
        lines.append(f"| `clew {name}` | {', or '.join(map(_link, kinds))} |")
    lines += ["", "## Types"]
    for name, part in sorted(schema()["$defs"].items()):
        if name in COMMANDS:
            continue
        lines += ["", f"### {name}", "", part.get("description", ""), "", "| field | type |", "|---|---|"]
        required = part.get("required", [])
        for field, kind in part["properties"].items():
            optional = "" if field in required else " (optional)"
            lines.append(f"| `{field}`{optional} | {_words(kind)} |")
    return "\n".join(lines) + "\n"


def text() -> str:
    """The file of the schema."""
    return json.dumps(schema(), indent=1) + "\n"


def _element(kind: Any) -> Any:
    return get_args(kind)[0] if get_origin(kind) is list else kind


def _document(name: str) -> dict[str, Any]:
    found = [_alternative(kind) for kind in COMMANDS[name]]
    return {
        "title": f"clew {name} --json",
        "type": "object",
        "properties": {"schema_version": {"const": SCHEMA_VERSION}},
        "required": ["schema_version"],
        **(found[0] if len(found) == 1 else {"anyOf": found}),
    }


def _alternative(kind: Any) -> dict[str, Any]:
    ref = {"$ref": f"#/$defs/{_element(kind).__name__}"}
    if get_origin(kind) is not list:
        return {"allOf": [ref]}
    return {"allOf": [{"properties": {"items": {"type": "array", "items": ref}}, "required": ["items"]}]}


def _link(kind: Any) -> str:
    name = _element(kind).__name__
    link = f"[{name}](#{name.lower()})"
    return f"`items`: {link}" if get_origin(kind) is list else link


def _words(kind: dict[str, Any]) -> str:
    """A type in a few words."""
    if "$ref" in kind:
        name = kind["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in kind:
        return " or ".join(map(_words, kind["anyOf"]))
    if "enum" in kind:
        return " or ".join(f"`{value}`" for value in kind["enum"])
    if kind.get("type") == "array":
        return f"list of {_words(kind.get('items', {}))}" if kind.get("items") else "list"
    if kind.get("type") == "object":
        values = kind.get("additionalProperties")
        return f"object of {_words(values)}" if isinstance(values, dict) and values else "object"
    return str(kind.get("type", "any value"))
