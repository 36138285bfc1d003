"""Text as safe HTML: Markdown, code and plain text, with hidden characters made visible.

Stored text is hostile. Markdown is rendered without raw HTML and without images, then the result is sanitised by an
allow-list; nothing is added after that but marks of a fixed form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, MutableMapping, Sequence
from functools import cache, lru_cache
from html import escape
from typing import Any
from urllib.parse import urlsplit

from clew.base import visible
from clew.base.loading import loading
from clew.errors import MissingPackage

LONGEST = 100_000
"""Characters of one text that are rendered. The rest is in the raw form: a browser stalls on a line of megabytes."""
HIGHLIGHTED = 30_000
"""Characters of one code block that are coloured."""
SCHEMES = frozenset({"http", "https", "mailto"})
"""Schemes that become links. Others could start programs, or hide where they lead."""
_OPEN, _CLOSE = "\ue000", "\ue001"
"""Around the code of a hidden character while Markdown is rendered. In stored text both are hidden characters too."""
_MARKED = re.compile(f"{_OPEN}(U\\+[0-9A-F]{{4,6}}){_CLOSE}")
_OWN_MARKS = re.compile(f"[{_OPEN}{_CLOSE}]")
_SCHEME = re.compile("(https?|mailto):", re.IGNORECASE)

_TAGS = {
    "a", "blockquote", "br", "code", "del", "div", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p",
    "pre", "s", "span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
_ATTRIBUTES = {
    "a": {"href"}, "div": {"tabindex", "role", "aria-label"}, "ol": {"start"}, "pre": {"tabindex"},
}  # fmt: skip
_CLASSES = {"span": {"target", "noimg", "k", "s", "m", "f", "c"}, "div": {"tbl"}, "td": {"r"}, "th": {"r"}}

_GROUPS = {
    "c": ("Token.Comment",),
    "s": ("Token.Literal.String",),
    "m": ("Token.Literal.Number",),
    "k": ("Token.Keyword",),
    "f": ("Token.Name.Function", "Token.Name.Class", "Token.Name.Tag"),
}


def markdown(text: str) -> str:
    """Markdown as HTML that cannot run, load or hide anything."""
    with loading:
        nh3 = _package("nh3")
    shown, rest = cut(text)
    html = _reader().render(_hide(shown.replace("\r\n", "\n")), {})
    clean = nh3.clean(
        html,
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        allowed_classes=_CLASSES,
        url_schemes=SCHEMES,
        link_rel="noopener noreferrer nofollow",
    )
    return _MARKED.sub(_chip, clean) + more(rest)


def plain(text: str) -> str:
    """Text with line breaks kept, for `pre`."""
    shown, rest = cut(text)
    return inline(shown) + more(rest)


def inline(text: str) -> str:
    """Escaped text; hidden characters become chips."""
    return _MARKED.sub(_chip, escape(_hide(text.replace("\r\n", "\n"))))


def code(text: str, language: str) -> str:
    """Code with the five classes of the stylesheet: keyword, string, number, name, comment."""
    shown, rest = cut(text)
    return _MARKED.sub(_chip, _highlight(_hide(shown.replace("\r\n", "\n")), language)) + more(rest)


def cut(text: str) -> tuple[str, int]:
    """The part of a text that is rendered, and the number of characters left out."""
    return (text, 0) if len(text) <= LONGEST else (text[:LONGEST], len(text) - LONGEST)


def more(rest: int) -> str:
    """A notice for what was left out."""
    return f'<span class="mute"> … {rest:,} more characters in the raw form</span>' if rest else ""


def language_of(path: str) -> str:
    """The name of a lexer for a file, by its name; empty if there is none."""
    with loading:
        lexers = _package("pygments.lexers")
    found = lexers.find_lexer_class_for_filename(path.rpartition("/")[2])
    return str(found.aliases[0]) if found is not None and found.aliases else ""


def _hide(text: str) -> str:
    text = _OWN_MARKS.sub(lambda found: _code(found[0]), text)
    return visible.escape(text, lambda char: char if char in "\t\n" + _OPEN + _CLOSE else _code(char))


def _code(char: str) -> str:
    return f"{_OPEN}U+{ord(char):04X}{_CLOSE}"


def _chip(found: re.Match[str]) -> str:
    return f'<span class="ctl" title="Hidden character {found[1]}">{found[1]}</span>'


@cache
def _reader() -> Any:
    with loading:
        make = _package("markdown_it").MarkdownIt
    reader = make("commonmark", {"html": False, "linkify": False})
    reader.enable(["table", "strikethrough"])
    reader.validateLink = lambda url: _SCHEME.match(url) is not None
    rules: dict[str, Callable[..., str]] = {
        "image": _image,
        "link_open": _link_open,
        "link_close": _link_close,
        "table_open": lambda *_: '<div class="tbl" tabindex="0" role="region" aria-label="Table"><table>',
        "table_close": lambda *_: "</table></div>",
        "fence": _block,
        "code_block": _block,
        **{f"heading_{end}": _heading for end in ("open", "close")},
        **{f"{cell}_open": _cell for cell in ("td", "th")},
    }
    reader.renderer.rules.update(rules)
    return reader


def _image(tokens: Sequence[Any], at: int, options: Any, env: MutableMapping[str, Any]) -> str:
    """An image is never loaded: its description, and where it is."""
    token = tokens[at]
    source = str(token.attrGet("src") or "")
    label = escape(token.content or "image")
    if not _SCHEME.match(source):
        return f'<span class="noimg">image: {label}</span>'
    link = f'<a href="{escape(source)}">image: {label}</a>'
    return f'<span class="noimg">{link}</span> <span class="target">{escape(_host(source))}</span>'


def _link_open(tokens: Sequence[Any], at: int, options: Any, env: MutableMapping[str, Any]) -> str:
    target = str(tokens[at].attrGet("href") or "")
    inside = tokens[at + 1].content if tokens[at + 1].type == "text" else ""
    env.setdefault("links", []).append("" if inside in (target, target.removeprefix("mailto:")) else target)
    return f'<a href="{escape(target)}">'


def _link_close(tokens: Sequence[Any], at: int, options: Any, env: MutableMapping[str, Any]) -> str:
    target = env["links"].pop() if env.get("links") else ""
    return "</a>" + (f' <span class="target">{escape(_host(target))}</span>' if target else "")


def _host(url: str) -> str:
    """Where a link leads: its host, in ASCII, or the address of a mail."""
    try:
        parts = urlsplit(url)
        return parts.netloc.rpartition("@")[2] or parts.path
    except ValueError:
        return url


def _heading(tokens: Sequence[Any], at: int, options: Any, env: MutableMapping[str, Any]) -> str:
    """Headings of a message stand below the headings of the page."""
    level = min(6, int(tokens[at].tag[1]) + 2)
    return f"<h{level}>" if tokens[at].nesting > 0 else f"</h{level}>"


def _cell(tokens: Sequence[Any], at: int, options: Any, env: MutableMapping[str, Any]) -> str:
    right = "right" in str(tokens[at].attrGet("style") or "")
    return f"<{tokens[at].tag}{' class=' + chr(34) + 'r' + chr(34) if right else ''}>"


def _block(tokens: Sequence[Any], at: int, options: Any, env: MutableMapping[str, Any]) -> str:
    token = tokens[at]
    language = (token.info or "").strip().split(" ")[0]
    return f'<pre tabindex="0"><code>{_highlight(token.content, language)}</code></pre>'


def _highlight(text: str, language: str) -> str:
    if not language or len(text) > HIGHLIGHTED or _OPEN in text:  # colours would split the mark of a hidden character
        return escape(text)
    lexer = _lexer(language)
    if lexer is None:
        return escape(text)
    parts = []
    for kind, value in lexer.get_tokens(text):
        name = _class_of(kind)
        parts.append(f'<span class="{name}">{escape(value)}</span>' if name and value.strip() else escape(value))
    return "".join(parts)


@lru_cache(64)  # the names come from messages
def _lexer(language: str) -> Any:
    with loading:
        lexers, unknown = _package("pygments.lexers"), _package("pygments.util").ClassNotFound
    try:
        return lexers.get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except unknown:
        return None


def _class_of(kind: Any) -> str:
    """The class of a token, by the path of its type: ``Token.Literal.String.Double``."""
    path = str(kind)
    for name, group in _GROUPS.items():
        if path.startswith(group):
            return name
    return ""


def _package(name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ModuleNotFoundError:
        raise MissingPackage(f"HTML needs the package {name}", "html") from None
