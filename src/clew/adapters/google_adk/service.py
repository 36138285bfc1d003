"""What the three services share: the store, and its address in ``services.yaml``."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import parse_qsl

from clew import keys
from clew.adapters.documents import Documents
from clew.adapters.google_adk.events import TOOL
from clew.adapters.keyed import Adapter, Keyed, Target, unchanged
from clew.adapters.versions import check_version
from clew.errors import Invalid

SCHEME = "clew://"


class Service(Adapter):
    """A service on a store: a path, a URL or an open `Store`. `options` are those of `clew.open`.

    ADK's own command line passes an address instead, ``clew://chats.db``: the rest is the path or URL of the store.
    ``?key=NAME`` at its end names the environment variable that has the key of a sealed store.
    """

    def __init__(
        self, target: Target | None = None, *, uri: str | None = None, agents_dir: str | None = None, **options: Any
    ) -> None:
        check_version("google-adk", "2.10", "3")
        options.pop("per_agent", None)  # ADK's command line passes it to every service
        if uri is not None:
            target, found = parse_uri(uri)
            options = {**found, **options}
        if target is None:
            raise Invalid("a service needs a store", hint="Pass a path, a URL or an open store.")
        self._keyed = Keyed(target, TOOL, options)
        unchanged(self._keyed)
        self._documents = Documents(self._keyed)


def parse_uri(uri: str) -> tuple[str | os.PathLike[str], dict[str, Any]]:
    """The store of an address, and its options. Invalid."""
    if not uri.startswith(SCHEME) or uri == SCHEME:
        raise Invalid("the address of a store begins with clew://", hint="For example clew://chats.db.")
    target, _, query = uri.removeprefix(SCHEME).partition("?")
    if "://" in target:  # a server's own settings stay with its URL
        return uri.removeprefix(SCHEME), {}
    options: dict[str, Any] = {}
    for name, value in parse_qsl(query):
        if name != "key":
            raise Invalid(f"unknown setting {name!r} in the address of a store", hint="Known: key.")
        options["key"] = keys.from_env(value)
    return target, options
