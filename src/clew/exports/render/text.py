"""Text as safe HTML: Markdown, code and plain text, with hidden characters made visible.

Stored text is hostile. Markdown is rendered without raw HTML and without images, then the result is sanitised by an
allow-list; nothing is added after that but marks of a fixed form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, lru_cache
from html import escape
from math import inf
from time import thread_time
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from clew.base import visible
from clew.base.loading import loading
from clew.errors import MissingPackage

LONGEST = 100_000
"""Characters of one text that are rendered. The rest is in the raw form: a browser stalls on a line of megabytes."""
HIGHLIGHTED = 10_000
"""Characters of one code block that are coloured."""
COLOURING = 0.1
"""Seconds of processor time for the colours of one code block: hostile code takes many lexers very long."""
LINE = 2_000
"""Characters of a name, of a path or of a line of a diff that are rendered."""
CHIPS = 1_000
"""Hidden characters of one text that are shown by their number; each takes sixty characters of HTML."""
BRACKETS = 5_000
"""Opening brackets of a text that is read as Markdown: the time to read it grows with their square."""
SCHEMES = frozenset({"http", "https", "mailto"})
"""Schemes that become links. Others could start programs, or hide where they lead."""
_OPEN, _CLOSE = "\ue000", "\ue001"
"""Around the code of a hidden character while Markdown is rendered. In stored text both are hidden characters too."""
_SECRET_OPEN, _SECRET_CLOSE = "\ue002", "\ue003"
"""Around a secret: the id of the rule that found it, and its characters as hex."""
_SECRET = re.compile(f"{_SECRET_OPEN}([a-z0-9._-]+):((?:[0-9a-f]{{2}})*){_SECRET_CLOSE}")
_HALF_SECRET = re.compile(f"{_SECRET_OPEN}[a-z0-9._-]*:?[0-9a-f]*")
"""A mark that was cut."""
_SECRET_MARKS = re.compile(f"[{_SECRET_OPEN}{_SECRET_CLOSE}]")
_SECRET_IN_URL = "%EE%80%82"
_LINK = re.compile("<a [^>]*>.*?</a>", re.DOTALL)
_MARKED = re.compile(f"{_OPEN}(U\\+[0-9A-F]{{4,6}}){_CLOSE}")
_OWN_MARKS = re.compile(f"[{_OPEN}{_CLOSE}]")
_SCHEME = re.compile(r"https?://[^/\\]|mailto:", re.IGNORECASE)
"""Without a host, a browser reads ``http:x`` as a path of the page itself, and ``https:x`` as another site."""


class RenderLimits(NamedTuple):
    """How much of a message is rendered, and where the rest is."""

    text: float
    """Characters of one text."""
    line: float
    """Characters of a name, of a path or of a line of a diff."""
    lines: float
    """Lines of one diff."""
    read: int | None
    """Lines of a text that are compared; None for all."""
    rest: str
    """Where the rest is."""


PAGE = RenderLimits(LONGEST, LINE, 2_000, 50_000, "in the raw form")
SHORT = PAGE._replace(rest="that are not in this file")
WHOLE = RenderLimits(inf, inf, inf, None, "")
_limits: ContextVar[RenderLimits] = ContextVar("limits", default=PAGE)


def limits() -> RenderLimits:
    """The limits in force."""
    return _limits.get()


@contextmanager
def limited(to: RenderLimits) -> Iterator[None]:
    """Renders with these limits. A context instead of arguments: every function below would only pass it on."""
    before = _limits.set(to)
    try:
        yield
    finally:
        _limits.reset(before)


_BOX = re.compile(r"(<li>\s*(?:<p>)?)\[([ xX])\] ")
_TYPED_FENCE = re.compile(
    r"^ {0,3}(?P<fence>`{3,}|~{3,})(?P<info>[^`\n]*)\n(?P<code>.*?)(?:^ {0,3}(?P=fence)[`~]* *$\n?|\Z)",
    re.DOTALL | re.MULTILINE,
)
"""A fence in a prompt."""
_SIGNS = {"+": "p", "-": "d", "@": "h"}
_TAGS = {
    "a", "blockquote", "br", "code", "del", "div", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p",
    "pre", "s", "span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
_ATTRIBUTES = {
    "a": {"href"}, "div": {"tabindex", "role", "aria-label"}, "ol": {"start"}, "pre": {"tabindex"},
}  # fmt: skip
_CLASSES = {
    "span": {"target", "noimg", "k", "s", "m", "f", "c", "p", "d", "h", "todo"}, "div": {"tbl", "code", "code-h"},
    "td": {"r"}, "th": {"r"},
}  # fmt: skip

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
    if len(shown) > LONGEST:  # some Markdown takes time that grows with the square of its length
        return f'<pre tabindex="0">{plain(text)}</pre>'
    if shown.count("[") > BRACKETS:
        return f"<p>{plain(text)}</p>"
    html = _BOX.sub(_check_box, _reader().render(_hide(shown.replace("\r\n", "\n")), {}))
    clean = nh3.clean(
        html,
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        allowed_classes=_CLASSES,
        url_schemes=SCHEMES,
        link_rel="noopener noreferrer nofollow",
    )
    return _show_secrets(_LINK.sub(lambda found: name_secrets(found[0]), _MARKED.sub(_chip, clean))) + more(rest)


def prompt(text: str) -> str:
    """A prompt as it was typed: line breaks, indentation and every character stay; only fences are styled."""
    parts, at = [], 0
    shown, rest = cut(text)
    for found in _TYPED_FENCE.finditer(shown.replace("\r\n", "\n")):
        parts += [
            _plain_part(found.string[at : found.start()]),
            _fence(_hide(found["code"]), _hide(found["info"]).strip()),
        ]
        at = found.end()
    parts.append(_plain_part(shown.replace("\r\n", "\n")[at:]) if at or shown.strip() else "")
    return _show_secrets(_MARKED.sub(_chip, "".join(parts))) + more(rest)


def _plain_part(text: str) -> str:
    return f'<p class="typed">{escape(_hide(text.strip(chr(10))))}</p>' if text.strip() else ""


def _fence(text: str, info: str) -> str:
    """A block of code under the name of its language. Hidden characters are marks already."""
    language = info.split(" ", maxsplit=1)[0].strip("{}.")
    head = f'<div class="code-h">{escape(language)}</div>' if language else ""
    shown = _diff_lines(text) if language in ("diff", "patch") else _highlight(text, language)
    return f'<div class="code">{head}<pre tabindex="0"><code>{shown}</code></pre></div>'


def _diff_lines(text: str) -> str:
    return "\n".join(
        f'<span class="{name}">{escape(line)}</span>' if (name := _SIGNS.get(line[:1])) else escape(line)
        for line in text.split("\n")
    )


def plain(text: str) -> str:
    """Text with line breaks kept, for `pre`."""
    shown, rest = cut(text)
    return inline(shown) + more(rest)


def inline(text: str) -> str:
    """Escaped text; hidden characters become chips."""
    return _show_secrets(_MARKED.sub(_chip, escape(_hide(text.replace("\r\n", "\n")))))


def conceal(text: str, spans: Iterable[tuple[int, int, str]]) -> str:
    """`text` with marks in place of the secrets at `spans`, each with the id of a rule.

    `markdown`, `inline`, `plain` and `code` render a mark as a control that shows the secret when it is chosen.
    """
    parts, at = [], 0
    for start, end, rule in spans:
        secret = text[start:end].encode(errors="surrogatepass").hex()
        parts += [_unmark(text[at:start]), f"{_SECRET_OPEN}{rule}:{secret}{_SECRET_CLOSE}"]
        at = end
    return "".join([*parts, _unmark(text[at:])])


def name_secrets(text: str) -> str:
    """`text` with the kind of each concealed secret instead of a mark."""
    if _SECRET_OPEN not in text:
        return text
    return _HALF_SECRET.sub("[hidden]", _SECRET.sub(lambda found: f"[hidden {_kind(found[1])}]", text))


def one_line(text: str) -> str:
    """A name or a path on one line, not escaped yet."""
    return visible.plain(text) if len(text) <= limits().line else f"{visible.plain(text[:LINE])}…"


def attribute(text: str) -> str:
    """A name or a path as the value of an attribute, where a chip cannot be: secrets are named instead of shown."""
    return escape(_OWN_MARKS.sub("\ufffd", one_line(name_secrets(text))))


def code(text: str, language: str) -> str:
    """Code with the five classes of the stylesheet: keyword, string, number, name, comment."""
    shown, rest = cut(text)
    html = _MARKED.sub(_chip, _highlight(_hide(shown.replace("\r\n", "\n")), language))
    return _show_secrets(html) + more(rest)


def cut(text: str) -> tuple[str, int]:
    """The part of a text that is rendered, and the number of characters left out."""
    if len(text) <= limits().text:
        return text, 0
    shown = text[:LONGEST]
    opened = shown.rfind(_SECRET_OPEN)
    if opened > shown.rfind(_SECRET_CLOSE):  # half of a mark would show a part of the secret
        shown = shown[:opened]
    return shown, len(text) - len(shown)


def more(rest: int) -> str:
    """A notice for what was left out."""
    return f'<span class="mute"> … {rest:,} more characters {limits().rest}</span>' if rest else ""


def language_of(path: str) -> str:
    """The name of a lexer for a file, by its name; empty if there is none."""
    with loading:
        lexers = _package("pygments.lexers")
    found = lexers.find_lexer_class_for_filename(path.rpartition("/")[2])
    return str(found.aliases[0]) if found is not None and found.aliases else ""


def _hide(text: str) -> str:
    left = CHIPS

    def show(char: str) -> str:
        nonlocal left
        if char in "\t\n":
            return char
        left -= 1
        return _code(char) if left >= 0 else "\ufffd"

    return visible.escape(_OWN_MARKS.sub(lambda found: show(found[0]), text), show)


def _code(char: str) -> str:
    return f"{_OPEN}U+{ord(char):04X}{_CLOSE}"


def _chip(found: re.Match[str]) -> str:
    return f'<span class="ctl" title="Hidden character {found[1]}">{found[1]}</span>'


def _unmark(text: str) -> str:
    return _SECRET_MARKS.sub(lambda found: f"U+{ord(found[0]):04X}", text)


def _kind(rule: str) -> str:
    return rule.replace("-", " ")


def _show_secrets(html: str) -> str:
    return _HALF_SECRET.sub("[hidden]", _SECRET.sub(_secret, html)) if _SECRET_OPEN in html else html


def _secret(found: re.Match[str]) -> str:
    """A checkbox: hidden until it is chosen, also without script."""
    value = bytes.fromhex(found[2]).decode(errors="surrogatepass")
    return (
        '<label class="secret"><input type="checkbox"><span class="i i-eye" aria-hidden="true"></span>'
        f'<span class="off"><span class="vh">Show </span>{_kind(found[1])}, {len(value):,} characters</span>'
        f'<span class="on">{_MARKED.sub(_chip, escape(_hide(value)))}</span></label>'
    )


@cache
def _reader() -> Any:
    with loading:
        make = _package("markdown_it").MarkdownIt
    reader = make("commonmark", {"html": False, "linkify": False, "breaks": True})
    reader.enable(["table", "strikethrough"])
    reader.validateLink = lambda url: _SCHEME.match(url) is not None and _SECRET_IN_URL not in url
    reader.normalizeLinkText = lambda url: url  # decoded, an address could have hidden characters
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
    return _fence(tokens[at].content, (tokens[at].info or "").strip())


def _check_box(found: re.Match[str]) -> str:
    return f'{found[1]}<span class="todo">{"☐" if found[2] == " " else "☑"}</span> '


def _highlight(text: str, language: str) -> str:
    if not language or len(text) > HIGHLIGHTED or _OPEN in text or _SECRET_OPEN in text:  # colours would split a mark
        return escape(text)
    lexer = _lexer(language)
    if lexer is None:
        return escape(text)
    parts, done, until = [], 0, thread_time() + COLOURING
    for kind, value in lexer.get_tokens(text):
        name = _class_of(kind)
        parts.append(f'<span class="{name}">{escape(value)}</span>' if name and value.strip() else escape(value))
        done += len(value)
        if thread_time() > until:
            break
    return "".join([*parts, escape(text[done:])])


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
        raise MissingPackage(f"HTML needs the package {name}", name.partition(".")[0].replace("_", "-")) from None
