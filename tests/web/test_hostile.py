"""Hostile text in every field of a store, in a real Chromium: nothing runs, nothing is asked for, nothing is hidden."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.base.messages import Media, Opaque, Text, Thinking, ToolCall
from clew.checkpoints import Checkpoints
from clew.web.server import Server, listen
from tests.web.test_browser import visit

FOREIGN = "https://evil.test/pixel"
ATTACKS = [
    '"><script>window.ran=1</script>',
    f'"><img src="{FOREIGN}" onerror="window.ran=1">',
    "'\"><svg onload=window.ran=1><style>@import 'https://evil.test/x'</style>",
    f"![x]({FOREIGN}) [x](javascript:window.ran=1) <https://evil.test>",
    "{{ 7*7 }}{% raw %}</textarea></title></script><base href=https://evil.test/>",
    "</pre></code></details><iframe srcdoc='<script>parent.ran=1</script>'></iframe>",
    'x" autofocus onfocus="window.ran=1" style="background:url(https://evil.test/x)',
    "\ue000U+0041\ue001<b onmouseover=window.ran=1>\u202e\x1b]8;;https://evil.test\x07",
    "<https://evil.test/%E2%80%AEgpj> [x](http:/c/x) [x](https:evil.test) x\rok",
]
HIDDEN = re.compile("[\u202a-\u202e\u2066-\u2069\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
PNG = b"\x89PNG\r\n\x1a\n" + bytes(50)
SVG = b"<svg xmlns='http://www.w3.org/2000/svg' onload='window.ran=1'><script>window.ran=1</script></svg>"


def fill(store: clew.Store, folder: Path, evil: str) -> clew.Session:
    """A conversation with this text wherever text can be."""
    source = {"tool": evil, "id": evil, "branch": evil, "version": evil}
    folder.mkdir()
    session = store.sessions.create(
        title=evil, cwd=str(folder), model=evil, labels=[evil, "pinned"], extra={"source": source}
    )
    first = session.append(clew.user(f"words {evil}"))
    checkpoints = Checkpoints(session, folder)
    name = re.sub("[/\0]", "_", evil)[:120]
    (folder / name).write_text("a")
    checkpoints.capture(first.id, [name])
    for content, kind in ((PNG, evil[:80]), (SVG, evil[:80]), (SVG, f"audio/{evil[:80]}")):
        media = session.attach(content, mime_type=kind, modality="image", name=evil)
        session.append(clew.user(media))
    session.append(clew.user(Media(modality="image", mime_type=evil, url=FOREIGN, name=evil)))
    calls = [
        ToolCall(id=f"{tool}{evil}", name=tool, arguments=arguments)
        for tool, arguments in (
            ("Bash", {"command": evil}),
            ("Edit", {"file_path": evil, "old_string": evil, "new_string": f"{evil}!"}),
            ("Task", {"prompt": evil}),
            ("Read", {"file_path": evil}),
            (evil, {evil: [evil, {evil: evil}]}),
        )
    ]
    session.append(
        clew.assistant(Thinking(text=evil), Text(text=f"{evil}\n\n```{evil}\n{evil}\n```"), *calls, model=evil)
    )
    for call in calls:
        session.append(clew.tool(evil, call_id=call.id, is_error=True))
    session.append(clew.tool(f'{{"x": "{FOREIGN}"}}', call_id=evil))
    session.append(clew.assistant(Opaque(kind=evil, data={"x": evil})))
    trace = store.sessions.create(agent=evil, owner=session, extra={"call_id": calls[2].id})
    trace.append(clew.user(evil))
    session.update(extra={**session.extra, "notes": {first.id: [evil]}})
    session.fork(at=first.id, title=evil).append(clew.user(evil))
    session.append(clew.user(evil))
    session.rewind(session.path()[-2].id)
    session.append(clew.user("end"))
    return session


@pytest.mark.parametrize("evil", ["".join(ATTACKS), *ATTACKS], ids=["all", *map(str, range(len(ATTACKS)))])
def test_nothing_runs_and_nothing_is_sent(browser: Any, tmp_path: Path, evil: str) -> None:
    """Titles, labels, projects, models, tools, branches, files, checkpoints, notes and messages stay text."""
    path = tmp_path / "a.db"
    with clew.open(path) as store:
        session = fill(store, tmp_path / "work", evil)
        store.sessions.create(title=evil).trash()
        server = Server(lambda _: clew.open(path), listen(0), allow_write=True)
        with server.in_background():
            page = visit(browser, server)
            base = f"http://127.0.0.1:{server.port}"
            asked: list[str] = []
            page.context.on("request", lambda request: asked.append(request.url))
            page.on("dialog", lambda dialog: asked.append(f"dialog {dialog.message}"))
            for where in pages(session):
                page.goto(base + where)
                page.evaluate("() => document.querySelectorAll('details').forEach(d => { d.open = true })")
                check(page, where)
            page.goto(base)
            page.keyboard.press("/")
            page.keyboard.type("words")
            page.wait_for_selector(".hit")
            check(page, "typing")
            assert [url for url in asked if not url.startswith((f"{base}/", "data:,"))] == []
            assert [line for line in page.problems if "404" not in line and "423" not in line] == []
            page.context.close()


def pages(session: clew.Session) -> list[str]:
    left = session.branches()[0].head_id
    (trace,) = session.subagents()
    here = f"/c/{session.id}"
    return [
        "/", here, f"{here}?find=words", f"{here}?head={left}", f"{here}/compare?b={left}", f"/c/{trace.id}",
        f"{here}/m/{session.path()[0].id}/raw", "/search?q=words", "/trash", "/?title=words", "/c/nothing",
        f"{here}/files", f"{here}/outline",
    ]  # fmt: skip


def check(page: Any, where: str) -> None:
    page.wait_for_timeout(50)
    assert page.evaluate("() => window.ran") is None, where
    found = page.evaluate(
        "() => [...document.querySelectorAll('*')].filter(e => e.matches('iframe, object, embed, base, style,'"
        " + ' link[href^=http],"
        ' script:not([src^="/static/"]), img:not([src^="/c/"])\')'
        " || e.getAttributeNames().some(name => name === 'style' || name.startsWith('on'))).map(e => e.outerHTML)"
    )
    assert found == [], where
    forms = page.evaluate("() => [...document.forms].map(f => new URL(f.action).origin)")
    links = page.evaluate("() => [...document.links].map(a => a.protocol)")
    assert set(forms) <= {page.evaluate("() => location.origin")}, where
    assert set(links) <= {"http:", "https:", "mailto:"}, where
    shown = page.evaluate(
        "() => document.body.innerText + [...document.querySelectorAll('[title], [aria-label], [alt]')]"
        ".map(e => [e.title, e.ariaLabel, e.alt].join(' ')).join(' ')"
    )
    assert HIDDEN.findall(shown) == [], where
