"""A secret does not belong in a file of settings: files are copied, shared and committed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from clew.errors import Invalid, clip

_NAME = re.compile(r"(?:^|_)(?:(?:api_?key|token|secret|password|passphrase|credentials?)(?:_|$)|key$)")
_VALUE = re.compile(
    r"\b(?:sk-[\w-]{16,}|AIza[\w-]{30,}|gsk_\w{20,}|xai-\w{20,}|hf_\w{20,}|gh[oprsu]_\w{30,}|github_pat_\w{20,})"
    r"|://[^/@\s]+@"
)
_PASSWORD = re.compile(r"://[^/@\s:]*:[^/@\s]+@|[?&]password=", re.IGNORECASE)
"""In the URL of a server a name is no secret; a password is."""
_STORAGE = "the variables of your object storage (such as AWS_SECRET_ACCESS_KEY)"
_VARIABLES = (
    ("anthropic", "ANTHROPIC_API_KEY"),
    ("claude", "ANTHROPIC_API_KEY"),
    ("sk-ant-", "ANTHROPIC_API_KEY"),
    ("openai", "OPENAI_API_KEY"),
    ("sk-", "OPENAI_API_KEY"),
    ("gemini", "GEMINI_API_KEY"),
    ("google", "GEMINI_API_KEY"),
    ("AIza", "GEMINI_API_KEY"),
    ("passphrase", "CLEW_PASSPHRASE"),
    ("password", "CLEW_PASSPHRASE"),
)
_OWN = {"key": "CLEW_KEY", "db": "PGPASSWORD", "blobs": _STORAGE}
_ANY = "ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY"


def refuse(values: dict[str, Any], path: str, *, project: bool) -> None:
    """Invalid if something in a file is a secret, by its name or by its look; the error does not say what it is."""
    unset = "clew config unset --project" if project else "clew config unset"
    for name, value in _leaves(values):
        if is_secret(name, value):
            variable = variable_of(name, value, values.get("provider"))
            hint = f"Take it out ('{unset} {name}'), and set {variable} in the environment instead."
            raise Invalid(f"{path} has a secret under {clip(name)}: secrets are not read from files", hint=hint)


def is_secret(name: str, value: object) -> bool:
    """True if this does not belong in a file."""
    if name == "db":
        return isinstance(value, str) and _PASSWORD.search(value) is not None
    if isinstance(value, str) and _VALUE.search(value):
        return True
    last = name.rpartition(".")[2].lower().replace("-", "_")
    return not name.startswith("aliases.") and _NAME.search(last) is not None


def variable_of(name: str, value: object, provider: object = None) -> str:
    """The variable of the environment in which such a secret belongs."""
    if name in _OWN:
        return _OWN[name]
    for text in (name.lower(), str(value), str(provider).lower()):
        for part, variable in _VARIABLES:
            if text.startswith(part) if part.endswith(("-", "AIza")) else part in text:
                return variable
    return _ANY


def _leaves(values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every value that is no table, with its name from the top; without recursion, whatever the depth."""
    left: list[tuple[str, Any]] = list(values.items())
    while left:
        name, value = left.pop()
        if isinstance(value, dict):
            left += [(f"{name}.{inner}", below) for inner, below in value.items()]
        elif isinstance(value, list):
            left += [(name, below) for below in value]
        else:
            yield name, value
