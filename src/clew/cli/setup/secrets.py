"""Refuses secrets in settings files, which are copied, shared and committed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from clew.errors import Invalid, clip
from clew.providers.registry import PROVIDERS, key_variables

_NAME = re.compile(r"(?:^|_)(?:(?:api_?key|token|secret|password|passphrase|credentials?)(?:_|$)|key$)")
_VALUE = re.compile(
    r"\b(?:sk-[\w-]{16,}|AIza[\w-]{30,}|gsk_\w{20,}|xai-\w{20,}|hf_\w{20,}|gh[oprsu]_\w{30,}|github_pat_\w{20,})"
    r"|://[^/@\s]+@"
)
_PASSWORD = re.compile(r"://[^/@\s:]*:[^/@\s]+@|[?&]password=", re.IGNORECASE)
"""A URL may contain a user name, but no password."""
_STORAGE = "the variables of your object storage (such as AWS_SECRET_ACCESS_KEY)"
_OWN = {"key": "CLEW_KEY", "db": "PGPASSWORD", "blobs": _STORAGE}


def refuse(values: dict[str, Any], path: str, *, project: bool) -> None:
    """Invalid if a file contains a secret, judged by its name or its form; the error does not contain the value."""
    unset = "clew config unset --project" if project else "clew config unset"
    for name, value in _leaves(values):
        if is_secret(name, value):
            variable = variable_of(name, value, values.get("provider"))
            hint = f"Remove it with '{unset} {name}', and set {variable} in the environment instead."
            raise Invalid(f"{path} contains a secret ({clip(name)}); secrets are not read from files", hint=hint)


def is_secret(name: str, value: object) -> bool:
    """True if a setting must not be stored in a file."""
    if name == "db":
        return isinstance(value, str) and _PASSWORD.search(value) is not None
    if isinstance(value, str) and _VALUE.search(value):
        return True
    last = name.rpartition(".")[2].lower().replace("-", "_")
    return not name.startswith("aliases.") and _NAME.search(last) is not None


def variable_of(name: str, value: object, provider: object = None) -> str:
    """The environment variable to use for such a secret."""
    if name in _OWN:
        return _OWN[name]
    for text in (name.lower(), str(value), str(provider).lower()):
        for row in PROVIDERS.values():
            if row.key_prefix and (
                text.startswith(row.key_prefix) or any(known in text for known in (row.name, row.sdk.partition(".")[0]))
            ):
                return row.api_keys[0]
        if "passphrase" in text or "password" in text:
            return "CLEW_PASSPHRASE"
    return key_variables()


def _leaves(values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every value that is not a table, with its dotted name; without recursion, because tables may be deeply nested."""
    left: list[tuple[str, Any]] = list(values.items())
    while left:
        name, value = left.pop()
        if isinstance(value, dict):
            left += [(f"{name}.{inner}", below) for inner, below in value.items()]
        elif isinstance(value, list):
            left += [(name, below) for below in value]
        else:
            yield name, value
