"""Features of the page that need no browser: secrets, prompts in parts, ranges, filters, comparisons, rewinds."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlencode

import anyio
import pytest
from starlette.responses import StreamingResponse

import clew
from clew.base.messages import Media, Text, Thinking, ToolCall
from clew.checkpoints import Checkpoints
from clew.exports.render.text import LONGEST, code, conceal, inline, markdown, name_secrets
from clew.redaction import Rules, builtin
from clew.store.redact_message import redact_message
from clew.web.downloads import CHUNK, download
from clew.web.finding import TYPED
from clew.web.outline import AFTER, BATCH, BEFORE, PAGE
from clew.web.secrets import SecretFinder
from clew.web.views import RAW
from tests.web.conftest import Client

KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
"""Has the form of a token; it is none."""


def shown(html: str) -> str:
    """The HTML without the values that stand behind a checkbox."""
    parts = html.split('<span class="on">')
    return parts[0] + "".join(part.partition("</span>")[2] for part in parts[1:])


@pytest.fixture
def secret(store: clew.Store) -> clew.Session:
    session = store.sessions.create(title=f"Token {KEY}", cwd="/src/app")
    session.append(clew.user(f"My staging key is {KEY}, again `{KEY}`"))
    session.append(
        clew.assistant(
            Thinking(text=f"They gave {KEY}"),
            Text(text=f"[link {KEY}](https://example.test/?key={KEY})\n\n```python\nkey = '{KEY}'\n```"),
            ToolCall(id="c1", name="Bash", arguments={"command": f"curl -H 'x: {KEY}'", KEY: [KEY]}),
            ToolCall(id="c2", name="Edit", arguments={"file_path": KEY, "old_string": "a", "new_string": KEY}),
        )
    )
    session.append(clew.tool(f'{{"token": "{KEY}"}}', call_id="c1"))
    session.append(clew.tool(f"\x1b[31m{KEY}\x1b[0m", call_id="c2", is_error=True))
    session.append(clew.user(Media(mime_type="text/plain", modality="document", url="https://example.test", name=KEY)))
    session.append(clew.user(f"Last: {KEY} " + "long " * (LONGEST // 4) + KEY))
    return session


def test_no_page_shows_a_secret_until_it_is_chosen(client: Client, secret: clew.Session) -> None:
    """Messages, raw forms, titles, previews, prompts and matches name a secret; only checkboxes have its value."""
    left = secret.head_id
    secret.rewind(secret.path()[3].id)
    secret.append(clew.user(f"Other way: {KEY}"))
    last = secret.refresh().head_id
    for path in (
        "/", f"/c/{secret.id}", f"/c/{secret.id}?find=key", f"/c/{secret.id}/outline", f"/c/{secret.id}/m/{last}/raw",
        f"/c/{secret.id}/m/{secret.path()[1].id}/raw", "/search?q=gave+OR+key", "/search?q=last",
        f"/c/{secret.id}/compare?b={left}", f"/c/{secret.id}/messages",
    ):  # fmt: skip
        page = client.get(path).text
        assert KEY not in shown(page), path
        assert KEY[8:] not in shown(page), path
        assert KEY.encode().hex() not in shown(page), path
    page = client.get(f"/c/{secret.id}").text
    assert page.count('<label class="secret"><input type="checkbox">') >= 8
    assert "github token, 40 characters" in page
    for path in ("/search.json?typing=1&q=staging", "/conversations.json?typing=1&title=token"):
        assert all(KEY not in one["title"] for one in client.get(path).json["conversations"])
    for match in client.get("/search.json?typing=1&q=a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8").json["conversations"]:
        assert all(KEY[4:] not in one["html"] for one in match["matches"])


def test_a_removed_secret_is_on_no_page(client: Client, store: clew.Store) -> None:
    """A secret that is removed from a message is gone from a page that had rendered the message before."""
    session = store.sessions.create()
    node = session.append(clew.user(f"my key {KEY}"))
    here = [f"/c/{session.id}", f"/c/{session.id}/messages", f"/c/{session.id}/m/{node.id}/raw", "/search?q=key"]
    kept = [path for path in here if KEY in client.get(path).text]
    assert here[0] in kept and here[1] in kept
    session.append(clew.assistant(ToolCall(id="c", name="Bash", arguments={"command": "env"})))
    result = session.append(clew.tool(f"KEY={KEY}", call_id="c"))
    assert client.get(here[0]).text.count(KEY) == 2
    for one in (node, result):
        redact_message(store, one, Rules(builtin()))
    assert [path for path in here if KEY in client.get(path).text] == []


def test_a_part_of_a_secret_is_hidden_in_a_snippet() -> None:
    """A snippet that begins or ends inside a secret does not show that part."""
    finder = SecretFinder()
    whole = f"before {KEY} after"
    for snippet in (
        f"…{KEY[10:]} after", f"before {KEY[:30]}…", f"before {KEY} after", f"…{KEY[5:20]}…",
        f"…{KEY[10:]}  after", f"BEFORE {KEY[:30]}…", f"BEFORE {KEY}",
    ):  # fmt: skip
        spans = finder.in_snippet(snippet, whole)
        left = snippet
        for start, end, rule in reversed(spans):
            assert rule == "github-token"
            left = left[:start] + left[end:]
        assert KEY[10:20] not in left
    assert finder.in_snippet("nothing here", "nothing here") == []


@pytest.mark.parametrize("before", [RAW - 20, RAW - 39, RAW - 1, RAW])
def test_the_raw_form_never_ends_inside_a_secret(client: Client, store: clew.Store, before: int) -> None:
    """A secret at the point where the raw form is cut is left out as a whole, or hidden as a whole."""
    session = store.sessions.create()
    head = len('{"role":"user","content":"')
    node = session.append(
        clew.user("x " * ((before - head) // 2) + "." * ((before - head) % 2) + KEY + " after" * 9_000)
    )
    page = shown(client.get(f"/c/{session.id}/m/{node.id}/raw").text)
    assert "more characters in the file" in page
    assert KEY[:10] not in page
    assert KEY[:10].encode().hex() not in page


def test_a_preview_never_ends_inside_a_secret() -> None:
    """Blanks in a line are shortened after secrets are found: half of a secret behind many of them is not shown."""
    finder = SecretFinder()
    for before in range(3_160, 3_200):
        assert KEY[:10] not in finder.in_line(" " * before + KEY, 3_200)


def test_marks_of_secrets_survive_no_rendering() -> None:
    """A mark is never cut, coloured apart or shown as hex; stored text cannot forge one."""
    finder = SecretFinder()
    text = "x" * (LONGEST - 30) + f" {KEY} " + "y" * 500
    for html in (
        inline(finder.hide(f"a {KEY}")),
        markdown(finder.hide(text)),
        code(finder.hide(f"k = '{KEY}'"), "python"),
    ):
        assert KEY not in shown(html)
        assert KEY.encode().hex()[:20] not in html
        assert "\ue002" not in html
    for size in range(3, 90):
        half = finder.hide(f"a {KEY} b")[:size]
        assert KEY.encode().hex()[:8] not in inline(half) + name_secrets(half) + markdown(half)
    assert "checkbox" not in inline(conceal("\ue002github-token:00\ue003", []))
    assert name_secrets(finder.hide(f"a {KEY} b")) == "a [hidden github token] b"
    assert finder.hide("é " + KEY + " ü").startswith("é ")


def test_prompts_come_in_parts(client: Client, store: clew.Store) -> None:
    """A long conversation shows the prompts around its window; the pages of prompts have each of them once."""
    session = store.sessions.create(title="Long")
    session.append([message for n in range(500) for message in (clew.user(f"question {n}"), clew.assistant("yes"))])
    beside = client.get(f"/c/{session.id}?from=601").text
    assert f'href="/c/{session.id}?from=601#m601"' in beside
    assert f'href="/c/{session.id}?from=551#m599"' in beside
    assert beside.count('data-number="') == BEFORE + AFTER
    seen, start = [], 1
    while start:
        found = client.get(f"/c/{session.id}/outline.json?from={start}").json
        assert len(found["prompts"]) <= PAGE
        seen += [one["number"] for one in found["prompts"]]
        start = found["next"]
    assert seen == list(range(1, 1001, 2))
    assert "- #1 question 0" in client.get(f"/c/{session.id}/outline.md").text
    assert "Later prompts" in client.get(f"/c/{session.id}/outline").text


def test_a_compaction_is_seen_everywhere(client: Client, store: clew.Store) -> None:
    """The messages before it stay readable and are dashed; the summary has its name; prompts and tree show the seam."""
    session = store.sessions.create(title="Compacted")
    session.append([clew.user("one"), clew.assistant("two"), clew.user("three")])
    session.compact(clew.user("In short: two."))
    session.append(clew.assistant("four"))
    page = client.get(f"/c/{session.id}").text
    assert 'class="msg you first old"' in page
    assert 'id="seam4"' in page
    assert ">Summary</h2>" in page
    assert '<li class="gap">' in page
    assert "3 messages, compacted" in page
    assert 'id="m5"' in page


def test_a_range_is_exported(client: Client, store: clew.Store, session: clew.Session) -> None:
    """From here to here as Markdown, HTML and JSON, of any branch; the complete forms are of whole conversations."""
    base = f"/c/{session.id}/export"
    part = client.get(f"{base}/markdown?from=2&to=3")
    assert "handler" in part.text
    assert "1 failed" in part.text
    assert "Why do webhooks" not in part.text
    assert part.headers["content-disposition"].startswith("attachment;")
    assert [one["number"] for one in client.get(f"{base}?as=json&from=2&to=4").json["messages"]] == [2, 3, 4]
    assert "<article" in client.get(f"{base}/html?from=5&to=5").text
    left = session.branches()[0].head_id
    assert "Abandoned question" in client.get(f"{base}/markdown?from=6&head={left}").text
    assert len(client.get(f"{base}/json").json["messages"]) == 6
    assert client.ask(f"{base}/jsonl?from=2&to=3").status == 400
    assert client.ask(f"{base}?as=exe").status == 404


def test_a_message_has_its_forms(client: Client, session: clew.Session) -> None:
    """One message as JSON and as Markdown, and the trash as both."""
    node = session.path()[1].id
    assert client.get(f"/c/{session.id}/m/{node}.json").json["number"] == 2
    assert "**handler**" in client.get(f"/c/{session.id}/m/{node}.md").text
    assert client.get("/trash.json").json == {"conversations": []}
    session.trash()
    assert session.id in client.get("/trash.md").text


def test_a_rare_tool_is_found_behind_many_matches(client: Client, store: clew.Store) -> None:
    """Filters look further than the best matches, also while words are typed."""
    many = store.sessions.create(title="Many")
    many.append([clew.user("needle needle needle") for _ in range(TYPED * 20)])
    rare = store.sessions.create(title="Rare", model="odd model", extra={"source": {"tool": "codex", "id": "r"}})
    rare.append(clew.user("a needle in much other text " + "hay " * 200))
    for words in ("needle tool:codex", 'needle model:"odd model"', "needle tool:codex date:today"):
        query = urlencode({"typing": 1, "q": words})
        found = client.get(f"/search.json?{query}").json
        assert [one["id"] for one in found["conversations"]] == [rare.id], words
    rare.append(clew.assistant(ToolCall(id="n", name="Bash", arguments={"command": "x"})))
    rare.append(clew.tool("needle broke", call_id="n", is_error=True))
    assert client.get("/search.json?q=needle+is:error").json["count"] == 1
    assert "list the conversations with these filters" in client.get("/search?q=tool:codex").text


def test_thinking_is_found_inside_a_conversation(client: Client, session: clew.Session) -> None:
    """Find looks into folded thinking too, and leads to the message with the words to mark."""
    session.append(clew.assistant(Thinking(text="Perhaps a Zebra crossing helps"), Text(text="Done.")))
    found = client.get(f"/c/{session.id}/find.json?q=zebra").json
    assert [(one["number"], one["role"]) for one in found["matches"]] == [(7, "Thinking")]
    assert "<mark>Zebra</mark>" in found["matches"][0]["html"]
    answer = client.ask(f"/c/{session.id}/m/{session.head_id}?find=zebra")
    assert answer.headers["location"] == f"/c/{session.id}?find=zebra#m7"


def test_a_comparison_counts_as_usage_does(client: Client, store: clew.Store) -> None:
    """Tokens in have cached input, and the cost is the list price if no tool noted one."""
    session = store.sessions.create()
    session.append([clew.user("a"), clew.user("b")])
    fork = session.fork(at=session.path()[0])
    used = {"input_tokens": 5, "cache_read_input_tokens": 100_000, "output_tokens": 2}
    raw = {"id": "m", "role": "assistant", "model": "claude-opus-4-5", "content": "x", "usage": used}
    fork.append([clew.native("anthropic", raw)] * 2)
    page = client.get(f"/c/{session.id}/compare?b={fork.head_id}").text
    assert "<td>100,005 in · 2 out</td>" in page
    assert "<td>$0.0501</td>" in page


def test_a_comparison_can_be_chosen_and_swapped(client: Client, session: clew.Session) -> None:
    """Without a choice the first other branch is compared; forms and links lead to the other ones."""
    left = session.branches()[0].head_id
    page = client.get(f"/c/{session.id}/compare").text
    assert f'<option value="{left}"' in page
    assert "Fork of it" in page
    assert "Swap sides" in page
    swapped = client.get(f"/c/{session.id}/compare.json?a={left}&b={session.head_id}").json
    assert (swapped["a"]["messages"], swapped["b"]["messages"]) == (2, 1)
    assert [one["number"] for one in swapped["a"]["shown"]] == [6, 7]
    assert "# B:" in client.get(f"/c/{session.id}/compare.md?b={left}").text
    assert client.ask("/c/" + clew_alone(client) + "/compare").status == 400


def clew_alone(client: Client) -> str:
    """A conversation without branches."""
    one = client.server.site.store.sessions.create(title="Alone")
    one.append(clew.user("only"))
    return one.id


def test_the_resume_command_is_exact(client: Client, store: clew.Store) -> None:
    """In the directory of the conversation, quoted for a shell; in clew if the tool has no command."""
    one = store.sessions.create(cwd="/src/my app", extra={"source": {"tool": "codex", "id": "7f"}})
    assert "cd &#x27;/src/my app&#x27; &amp;&amp; codex resume 7f" in client.get(f"/c/{one.id}").text
    other = store.sessions.create(extra={"source": {"tool": "chatgpt", "id": "7f"}})
    assert f"clew chat -c {other.handle}" in client.get(f"/c/{other.id}").text


def test_a_web_page_is_shown_as_text(client: Client, store: clew.Store) -> None:
    """The address is a link that says where it leads; the answer is Markdown, sanitised."""
    one = store.sessions.create()
    one.append(
        clew.assistant(ToolCall(id="w", name="WebFetch", arguments={"url": "https://example.test/a", "prompt": "p"}))
    )
    one.append(clew.tool("# Title\n\n<img src=x onerror=alert(1)> **bold**", call_id="w"))
    page = client.get(f"/c/{one.id}").text
    assert '<a href="https://example.test/a" rel="noopener noreferrer nofollow">' in page
    assert "<strong>bold</strong>" in page
    assert "<img src=x" not in page


def test_notes_are_removed_one_by_one(writer: Client, session: clew.Session) -> None:
    """A message may have several notes; each can be removed; an empty one is refused."""
    base, node = f"/c/{session.id}", session.path()[0].id
    for text in ("first", "second", "third"):
        writer.write(f"{base}/note", {"message": node, "text": text})
    assert writer.write(f"{base}/note", {"message": node, "remove": 1}).json == {"notes": ["first", "third"]}
    assert writer.write(f"{base}/note", {"message": node, "text": " "}).status == 400


def test_a_rewind_previews_and_restores_files(writer: Client, store: clew.Store, tmp_path: Path) -> None:
    """The preview has what `clew rewind --dry-run` lists; files change only if that is asked for."""
    folder = tmp_path / "work"
    folder.mkdir()
    file = folder / "a.py"
    file.write_text("x = 1\n")
    session = store.sessions.create(title="Files", cwd=str(folder))
    asked = session.append(clew.user("Change it"))
    Checkpoints(session, str(folder)).capture(asked.id, [str(file)])
    file.write_text("x = 2\n")
    session.append([clew.assistant("done"), clew.user("more")])
    plan = writer.write(f"/c/{session.id}/preview-rewind", {"message": asked.id}).json
    assert (plan["number"], plan["left"]) == (1, 2)
    assert plan["files"]["changed"] == ["a.py"]
    assert (plan["files"]["insertions"], plan["files"]["deletions"]) == (1, 1)
    assert file.read_text() == "x = 2\n"
    assert f"clew rewind {session.handle} {asked.id} --files" in writer.get(f"/c/{session.id}").text
    assert writer.write(f"/c/{session.id}/rewind", {"message": asked.id, "files": True}).status == 200
    assert file.read_text() == "x = 1\n"
    assert session.refresh().head_id == asked.id


def test_windows_end_where_they_are_asked_to(client: Client, store: clew.Store) -> None:
    """A window is limited by its last message and by its size."""
    session = store.sessions.create()
    session.append([clew.user(f"word{n}") for n in range(1, 2 * BATCH + 1)])
    assert client.get(f"/c/{session.id}/messages?from=5&to=9").text.count("<article") == 5
    assert client.get(f"/c/{session.id}/messages?from=5&to=99999").text.count("<article") == BATCH
    assert client.get(f"/c/{session.id}.json?from=5&to=9").json["messages"][-1]["number"] == 9
    assert client.get("/state.json").json["locks_in"] is None


def test_scripts_are_small_and_never_inside_a_page(writer: Client, session: clew.Session) -> None:
    """Scripts have at most 60 KB, nothing is loaded from elsewhere, and no page has a script or style of its own."""
    site = writer.server.site
    scripts = [one.body for name, one in site.assets.items() if name.endswith(".js")]
    assert sum(map(len, scripts)) <= 60_000
    assert not any(b"http://" in body.replace(b"http://www.w3.org", b"") or b"https://" in body for body in scripts)
    left = session.branches()[0].head_id
    base = f"/c/{session.id}"
    for path in (
        "/",
        base,
        f"{base}/outline",
        f"{base}/compare?b={left}",
        f"{base}/m/{left}/raw",
        "/search?q=a",
        "/trash",
    ):
        page = writer.get(path).text
        assert re.findall("<script(?! [^>]*src=.?/static/)", page) == [], path
        assert re.findall(r"<[^>]* (?:style|on\w+)=", page) == [], path
        assert "@clew.js@" not in page
        assert re.findall(r'(?:src|href)="(?!/|#|data:,|https://example\.test)', page) == [], path


PATCH = """*** Begin Patch
*** Update File: src/a.py
@@
-old
+new
+more
*** Add File: src/b.py
+first
*** End Patch"""


def test_file_changes_of_a_long_conversation(
    client: Client, store: clew.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page of their own has the files of all messages with links to them, in parts, and every checkpoint."""
    monkeypatch.setattr("clew.web.files.SCANNED", 300)
    session = store.sessions.create(title="Many edits", cwd=str(tmp_path))
    for number in range(1, 421):
        arguments = {"file_path": f"f{number % 3}.py", "old_string": "a", "new_string": "b\nc"}
        call = ToolCall(id=f"c{number}", name="Edit", arguments=arguments)
        session.append(clew.assistant(call) if number % 20 == 0 else clew.user(f"word {number}"))
    session.append(clew.assistant(ToolCall(id="p", name="apply_patch", arguments={"input": PATCH})))
    (tmp_path / "kept.txt").write_text("one")
    points = Checkpoints(session, tmp_path)
    for node in session.path()[:7]:
        points.capture(node.id, ["kept.txt"])
        (tmp_path / "kept.txt").write_text(node.id)
    here = f"/c/{session.id}"
    first = client.get(f"{here}/files.json").json
    second = client.get(f"{here}/files.json?from={first['next']}").json
    assert (first["from"], first["to"], first["total"], second["next"]) == (1, 300, 421, None)
    assert [one["path"] for one in second["files"]] == ["f2.py", "f1.py", "f0.py", "src/a.py", "src/b.py"]
    assert sum(one["added"] for one in first["files"] + second["files"]) == 2 * 21 + 2 + 1
    assert first["files"][0]["messages"] == [20, 80, 140, 200, 260]
    assert len(first["checkpoints"]) == len(client.get(f"{here}/files.md").text.split("checkpoint after")) - 1 == 7
    monkeypatch.setattr("clew.web.files.SECONDS", 0)
    assert client.get(f"{here}/files.json?from=7").json["next"] == 8
    monkeypatch.setattr("clew.web.files.SECONDS", 60)
    page = client.get(f"{here}/files").text
    assert f'href="{here}?from=51#m80">#80</a>' in page
    assert f'href="{here}/files?from=301"' in page
    assert page.count(" --files</code>") == 7
    beside = client.get(f"{here}?from=401").text
    assert "3 on this page" in beside
    assert f'href="{here}/files"' in beside
    assert beside.count(" --files</code>") == 5
    assert f'href="{here}/files#checkpoints"' in beside


def test_file_changes_of_a_short_conversation(client: Client, store: clew.Store) -> None:
    """Beside any page of it are the files of the whole conversation."""
    session = store.sessions.create()
    edit = {"file_path": "early.py", "old_string": "a", "new_string": "b"}
    session.append(clew.assistant(ToolCall(id="c", name="Edit", arguments=edit)))
    session.append([clew.user(f"word {number}") for number in range(120)])
    assert f'href="/c/{session.id}#m1" title="early.py"' in client.get(f"/c/{session.id}?from=101").text


def test_a_recording_has_a_player(client: Client, store: clew.Store) -> None:
    """It loads nothing until it is played, from a path of its own; a document is a link to a download."""
    session = store.sessions.create()
    sound = session.attach(b"ID3\x04", mime_type="audio/mpeg", modality="audio", name='a".mp3')
    paper = session.attach(b"%PDF-1.7", mime_type="application/pdf", modality="document", name="a.pdf")
    session.append(clew.user(sound, paper))
    page = client.get(f"/c/{session.id}").text
    player = re.search("<audio [^>]*>", page)
    assert player is not None
    assert f'src="/c/{session.id}/blob/{sound.blob}?name=a%22.mp3"' in player[0]
    assert 'preload="none"' in player[0]
    assert "autoplay" not in player[0]
    assert f'<a class="attach" href="/c/{session.id}/blob/{paper.blob}?name=a.pdf">' in page


def test_every_key_is_in_the_list(writer: Client, session: clew.Session) -> None:
    """Each key that a script listens to is in the list of shortcuts, and each of the list does something."""
    page = writer.get(f"/c/{session.id}").text
    listed = set(re.findall("<kbd>(.)</kbd>", page[page.index('id="help"') : page.index('id="palette"')]))
    scripts = "".join(writer.get(f"/static/{name}").text for name in re.findall(r'src="/static/([^"]+)"', page))
    tables = re.findall(r"(?:const keys = |Object.assign\(keys, )\{(.*?)\n\}", scripts, re.DOTALL)
    handled = {key for table in tables for key in re.findall(r'^  "?([^\s":(]+)"?: ', table + ",", re.MULTILINE)}
    handled |= {"t"} if re.search(r"^  t: theme", tables[0], re.MULTILINE) else set()
    handled |= set(re.findall(r'\["(\w)", "(?:fork|rewind|note)"\]', scripts))
    named = {"ArrowDown": "↓", "ArrowUp": "↑", "Escape": "Esc"}
    assert {named.get(key, key) for key in handled} - {"Esc"} == listed - {"K"}


def test_every_part_of_a_page_needs_a_script_only_for_comfort(client: Client, session: clew.Session) -> None:
    """What needs the script is marked, and hidden without it."""
    page = client.get(f"/c/{session.id}").text
    for button in re.findall("<button[^>]*>", page):
        alone = "popovertarget" in button or "needs-script" in button or "name=" in button or "formnovalidate" in button
        inside = "data-do=" in button or 'id="ask-ok"' in button  # in a dialog or a bar that the script opens
        assert alone or inside, button


@pytest.mark.parametrize("form", ["markdown", "html", "json"])
def test_a_download_of_many_lines_is_sent_in_large_pieces(client: Client, store: clew.Store, form: str) -> None:
    """The number of pieces of a download grows with its bytes, not with its lines or messages."""
    session = store.sessions.create()
    session.append([clew.user("\n" * 20_000), *(clew.user("x") for _ in range(1_000))])
    answer = download(store, session, form, 1, None)
    whole = client.ask(f"/c/{session.id}/export/{form}")
    assert isinstance(answer, StreamingResponse)

    async def pieces() -> list[bytes]:
        return [one async for one in answer.body_iterator if isinstance(one, bytes)]

    sent = anyio.run(pieces)
    assert b"".join(sent) == whole.body
    assert len(sent) <= len(whole.body) // CHUNK + 1
