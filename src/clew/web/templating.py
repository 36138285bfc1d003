"""The templates of the pages: compiled once in a process, before the first request."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import Any

import jinja2

from clew.errors import ClewError
from clew.exports.render.text import markdown
from clew.sources.registry import sources
from clew.web.secrets import SecretFinder
from clew.web.site import Site
from clew.web.views import dot, many, to_line, to_tip, tool

_SAMPLE = (
    "**a**\n\n```python\ndef a():\n    return 1\n```\n\n```bash\nls\n```\n\n```json\n{}\n```\n\n| a |\n|---|\n| b |"
)
"""Loads the packages for Markdown and for colours, and the usual lexers."""


def render(site: Site, name: str, **values: Any) -> str:
    """A page."""
    return templates().get_template(name).render(site=site, **values)


def warm() -> None:
    """Loads what the first pages need. This takes half a second, which a user waiting for a page would notice."""
    for name in templates().list_templates():
        templates().get_template(name)
    with suppress(ClewError):  # too many open files: the page that needs it reports the error
        markdown(_SAMPLE)
        sources()


@cache
def templates() -> jinja2.Environment:
    """The templates with their filters. They do not depend on a site."""
    secrets = SecretFinder()
    found = jinja2.Environment(
        loader=jinja2.PackageLoader("clew.web"), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        auto_reload=False,
    )  # fmt: skip
    found.filters |= {
        "shown": lambda text: to_line(secrets.in_line(text or "")),
        "tip": lambda text: to_tip(secrets.in_line(text or "")),
        "line": to_line,
        "n": lambda number: f"{number:,}",
        "many": many,
        "dot": dot,
    }
    found.globals["tool"] = tool
    return found
