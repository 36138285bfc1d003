"""The MCP server, driven by the official client: over stdio, over HTTP, and in this process."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp.client.streamable_http import streamable_http_client

import clew
import clew.mcp
from clew.base.messages import Opaque
from clew.mcp.answers import ANSWER, MESSAGE, NOTICE, STEPS, escape_hidden, words
from mcp import Client, MCPError, StdioServerParameters
from tests.mcp.conftest import HIDDEN, TOKEN, Stored

READS = {"search_conversations", "list_conversations", "get_overview", "get_messages"}
WRITES = {"fork", "tag", "append_note"}
Work = Callable[[Client], Awaitable[Any]]


def drive(server: Any, work: Work) -> Any:
    """Runs `work` with a client of this server."""

    async def main() -> Any:
        with anyio.fail_after(60):
            async with Client(server) as client:
                return await work(client)

    return anyio.run(main)


@pytest.fixture
def ask(stored: Stored) -> Callable[..., Any]:
    """Calls a tool of a server in this process; returns its answer, or its error as text."""

    def call(tool: str, allow_write: bool = False, **arguments: Any) -> Any:
        with clew.open(stored.path) as store:

            async def work(client: Client) -> Any:
                done = await client.call_tool(tool, arguments)
                if done.is_error:
                    return done.content[0].text  # type: ignore[union-attr]
                assert json.loads(done.content[0].text) == done.structured_content  # type: ignore[union-attr]
                return done.structured_content

            return drive(clew.mcp.server(store, allow_write=allow_write), work)

    return call


async def tour(client: Client) -> tuple[set[str], Any, Any, Any, Any]:
    """An agent lists, searches and reads conversations, and reads a resource."""
    tools = {tool.name for tool in (await client.list_tools()).tools}
    found = await client.call_tool("search_conversations", {"query": "lint"})
    assert found.structured_content is not None
    id = found.structured_content["hits"][0]["conversation"]["id"]
    read = await client.call_tool("get_messages", {"conversation": id})
    resources = (await client.list_resources()).resources
    content = await client.read_resource(next(one.uri for one in resources if one.uri.endswith(id)))
    return tools, id, read.structured_content, resources, json.loads(content.contents[0].text)  # type: ignore[union-attr]


def check(stored: Stored, seen: tuple[set[str], Any, Any, Any, Any]) -> None:
    tools, id, read, resources, resource = seen
    assert tools == READS
    assert id == stored.build
    assert [one["text"] for one in read["messages"]] == [
        "Why does the lint step fail?", "", "An import is unused.",
    ]  # fmt: skip
    assert len(resources) == 3
    assert resource == read


def test_over_stdio(stored: Stored, environment: dict[str, str]) -> None:
    """A client starts the program, and speaks to it."""
    server = StdioServerParameters(command=sys.executable, args=["-m", "clew", "mcp"], env=environment)
    check(stored, drive(server, tour))


def test_over_http(stored: Stored, url: str) -> None:
    """The server needs the token of this start, and refuses web pages and other host names."""

    async def main() -> Any:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with httpx2.AsyncClient(headers=headers) as http:
            async with Client(streamable_http_client(url, http_client=http)) as client:
                seen = await tour(client)
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
            accept = {"Accept": "application/json, text/event-stream"}
            codes = [
                (await http.post(url, json=body, headers={**accept, **more})).status_code
                for more in (
                    {"Authorization": "Bearer wrong"},
                    {"Authorization": ""},
                    {"Origin": "http://evil.test"},
                    {"Host": "evil.test"},
                    {"Host": f"evil.127.0.0.1:{httpx2.URL(url).port}"},
                    {"Sec-Fetch-Site": "cross-site"},
                    {"Sec-Fetch-Site": "same-site"},
                )
            ]
        return seen, codes

    seen, codes = anyio.run(main)
    check(stored, seen)
    assert codes == [401, 401, 403, 421, 421, 403, 403]
    assert url.startswith("http://127.0.0.1:")


def test_writing_has_to_be_allowed(stored: Stored, ask: Callable[..., Any]) -> None:
    """Fork, tag and append_note are there only then; nothing that deletes, and nothing about keys, ever is."""

    async def names(client: Client) -> dict[str, bool | None]:
        tools = (await client.list_tools()).tools
        return {tool.name: tool.annotations.read_only_hint if tool.annotations else None for tool in tools}

    with clew.open(stored.path) as store:
        assert drive(clew.mcp.server(store), names) == dict.fromkeys(READS, True)
        allowed = drive(clew.mcp.server(store, allow_write=True), names)
    assert allowed == {**dict.fromkeys(READS, True), **dict.fromkeys(WRITES, False)}
    assert "Unknown tool" in ask("append_note", conversation=stored.build, text="x")
    made = ask("fork", allow_write=True, conversation=stored.build, title="Other")["conversation"]
    assert (made["title"], made["messages"]) == ("Other", 4)
    assert ask("tag", allow_write=True, conversation=made["id"], add=["a"], remove=["work"])["conversation"][
        "labels"
    ] == ["a"]
    note = ask("append_note", allow_write=True, conversation=made["id"], text="Checked.")
    with clew.open(stored.path) as store:
        node = store.nodes.get(note["message"])[0]
        assert (node.role, node.text, node.message.label) == ("assistant", "Checked.", "note")
        assert store.sessions.get(stored.build).counters.messages == 4


def test_a_note_is_redacted_as_the_settings_say(stored: Stored, environment: dict[str, str]) -> None:
    """As everything is that the program stores."""
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "clew", "mcp", "--allow-write"],
        env={**environment, "CLEW_REDACT": "secrets"},
    )

    async def note(client: Client) -> str:
        said = {"conversation": stored.build, "text": "It is " + "ghp_" + "a1B2" * 9}
        done = await client.call_tool("append_note", said)
        assert done.structured_content is not None
        return str(done.structured_content["message"])

    id = drive(server, note)
    with clew.open(stored.path) as store:
        node = store.nodes.get(id)[0]
    assert (node.text, node.redactions) == ("It is ***", ("github-token",))


def test_reading_changes_nothing(stored: Stored, ask: Callable[..., Any]) -> None:
    """The bytes of the store are the same after all that can be asked."""
    before = stored.path.read_bytes()
    ask("list_conversations")
    ask("get_overview", conversation=stored.build)
    ask("get_messages", conversation=stored.build)
    ask("search_conversations", query="lint")
    assert stored.path.read_bytes() == before


def test_answers_are_bounded_and_say_how_to_go_on(stored: Stored, ask: Callable[..., Any]) -> None:
    """Each page says what it leaves out; following it reads everything once, and no answer is long."""
    texts: list[str] = []
    more: dict[str, Any] = {}
    for _ in range(30):
        answer = ask("get_messages", conversation=stored.long, last=50, **more)
        assert len(json.dumps(answer)) < ANSWER + MESSAGE + 2000
        texts = [one["text"] for one in answer["messages"]] + texts
        if answer["left_out"] is None:
            break
        more = answer["left_out"]["go_on_with"]
        assert answer["left_out"]["earlier_messages"] == 201 - len(texts)
    assert [text.split()[1] for text in texts[:-1]] == [str(number) for number in range(200)]
    last = ask("get_messages", conversation=stored.long, last=1)["messages"][0]
    assert (len(last["text"]), last["left_out"]["characters"]) == (MESSAGE, 100_000 - MESSAGE)
    whole, offset = "", 0
    while True:
        (part,) = ask("get_messages", conversation=stored.long, message=stored.big, offset=offset)["messages"]
        whole += part["text"]
        if "left_out" not in part:
            break
        offset = part["left_out"]["go_on_with"]["offset"]
    assert whole == "b" * 100_000


def test_pages_of_conversations(stored: Stored, ask: Callable[..., Any]) -> None:
    """A page says where the rest is; filters count."""
    first = ask("list_conversations", limit=2)
    assert len(first["conversations"]) == 2
    rest = ask("list_conversations", limit=2, **first["left_out"]["go_on_with"])
    assert rest["left_out"] is None
    ids = [one["id"] for one in (*first["conversations"], *rest["conversations"])]
    assert sorted(ids) == sorted([stored.build, stored.long, stored.hostile])
    assert [one["id"] for one in ask("list_conversations", label="work")["conversations"]] == [stored.build]
    hits = ask("search_conversations", query="message", limit=5)
    assert (len(hits["hits"]), hits["left_out"]["more_hits"]) == (5, True)


def test_an_overview(stored: Stored, ask: Callable[..., Any]) -> None:
    """The overview has the first message, the last ones, and the number in between."""
    answer = ask("get_overview", conversation=stored.long)
    about = answer["conversation"]
    assert (about["messages"], about["turns"], answer["left_out"]["messages_between"]) == (201, 200, 197)
    assert about["first"]["text"].startswith("message 0 ")
    assert len(about["last"]) == 3
    build = ask("get_messages", conversation=stored.build)["messages"]
    assert build[1]["steps"] == [{"name": "run", "arguments": "make lint", "state": "done", "text": "unused import"}]
    assert build[1]["left_out"] == {"characters_of_thinking": 200}


def test_stored_text_is_marked_and_cannot_hide(stored: Stored, ask: Callable[..., Any]) -> None:
    """Every answer says what is untrusted; what steers a terminal or cannot be seen is shown."""
    answers = [
        ask("list_conversations"),
        ask("get_overview", conversation=stored.hostile),
        ask("get_messages", conversation=stored.hostile),
        ask("search_conversations", query="canary"),
    ]
    for answer in answers:
        assert answer["notice"] == NOTICE
        text = json.dumps(answer, ensure_ascii=False)
        assert not set(text) & {"\x1b", "\x07", "\u202e", "\U000e0041"}
        assert "\\u001b" not in json.dumps(answer)
        assert "\\\\u{1b}" in text
    assert escape_hidden("a\tb\nc") == "a\tb\nc"
    assert words("x" * 500) == "x" * 200 + "…"


def test_what_is_in_the_trash_is_not_shown(stored: Stored, ask: Callable[..., Any]) -> None:
    """Not found, not listed, not reached by the id of a message."""
    assert "not found" in ask("get_messages", conversation=stored.gone)
    assert "not found" in ask("get_messages", conversation=stored.build, message=stored.gone_node)
    assert [hit["conversation"]["id"] for hit in ask("search_conversations", query="canary")["hits"]] == [
        stored.hostile
    ]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("list_conversations", {"limit": 1000}),
        ("list_conversations", {"cursor": "nonsense"}),
        ("get_messages", {"conversation": "zzzzzz"}),
        ("get_messages", {"conversation": "x" * 1000}),
        ("get_messages", {}),
        ("search_conversations", {"query": "x", "role": "root"}),
        ("get_overview", {"conversation": HIDDEN}),
    ],
)
def test_a_wrong_call_is_told(tool: str, arguments: dict[str, Any], ask: Callable[..., Any]) -> None:
    """As text that an agent can act on."""
    error = ask(tool, **arguments)
    assert isinstance(error, str)
    assert "\x1b" not in error


def test_a_resource_that_is_not_there(stored: Stored) -> None:
    """Is an error of the protocol."""

    async def work(client: Client) -> None:
        with pytest.raises(MCPError, match="not found"):
            await client.read_resource("clew://conversation/zzzzzz")

    with clew.open(stored.path) as store:
        drive(clew.mcp.server(store), work)


def test_a_token_has_to_be_a_good_one(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A short token is refused; without one, a new token is created and shown at each start."""
    from click.testing import CliRunner

    from clew.cli.root import cli
    from clew.mcp import http

    monkeypatch.chdir(tmp_path)
    given: list[str] = []
    monkeypatch.setattr(http, "serve", lambda _server, _opened, token: given.append(token))

    def start(token: str) -> Any:
        return CliRunner().invoke(cli, ["mcp", "--http", "0"], env={**environment, "CLEW_MCP_TOKEN": token})

    refused = start("short")
    assert (refused.exit_code, "CLEW_MCP_TOKEN" in refused.stderr, given) == (2, True, [])
    told = [start("").stderr.splitlines()[1] for _ in range(2)]
    assert told == [f"Authorization: Bearer {token}" for token in given]
    assert len(set(given)) == 2
    assert min(map(len, given)) >= 40
    assert TOKEN not in start(TOKEN).stderr


def test_a_port_that_is_taken_is_told() -> None:
    """And every socket is on the loopback address."""
    from clew.mcp import http

    with http.listen(0) as opened:
        assert opened.getsockname()[0] == "127.0.0.1"
        with pytest.raises(clew.Unavailable, match="cannot be used"):
            http.listen(opened.getsockname()[1])


@pytest.mark.parametrize("module", ["sys.modules['mcp'] = None", "sys.modules['mcp.server'] = type(sys)('mcp.server')"])
def test_without_the_sdk_it_says_what_to_install(environment: dict[str, str], module: str) -> None:
    """In one line, also if the SDK is so old that it lacks what the server needs."""
    import subprocess

    code = f"import sys; {module}; from clew.cli import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", code, "mcp"], env=environment, capture_output=True, text=True)
    assert (done.returncode, "pip install 'mcp>=2.1'" in done.stderr) == (1, True)


def test_a_message_has_all_its_blocks(stored: Stored, ask: Callable[..., Any]) -> None:
    """One whole message lists its calls with all arguments, its attachments and unknown blocks, and counts the rest."""
    image = clew.Media(mime_type="image/png", modality="image", url="https://a.test/x.png", name="x.png")
    call = clew.ToolCall(id="1", name="write", arguments={"path": "a", "content": "x" * 1_000})
    with clew.open(stored.path) as store:
        session = store.sessions.create(title="Blocks")
        asked = session.append(clew.user("See", image, Opaque(kind="audio_note", data={"a": 1}))).id
        called = session.append(clew.assistant(clew.Thinking(text="hm" * 5), call, Opaque(kind="citation"))).id
        done = session.append(clew.Message("tool", (clew.ToolResult(call_id="1", content=(image,)),))).id
        large = clew.ToolCall(id="2", name="write", arguments={"content": "y" * 2 * ANSWER})
        huge = session.append(clew.assistant(large)).id

    def read(id: str) -> Any:
        (message,) = ask("get_messages", conversation=session.id, message=id)["messages"]
        return {name: value for name, value in message.items() if name not in ("id", "handle", "created_at")}

    media = [{"modality": "image", "name": "x.png"}]
    assert read(asked) == {"role": "user", "text": "See", "media": media, "unknown_blocks": ["audio_note"]}
    assert read(called) == {
        "role": "assistant", "text": "", "unknown_blocks": ["citation"], "left_out": {"characters_of_thinking": 10},
        "steps": [{"name": "write", "arguments": json.dumps(call.arguments, separators=(",", ":"))}],
    }  # fmt: skip
    assert read(done) == {"role": "tool", "text": "", "media": media}
    cut = read(huge)
    assert len(cut["steps"][0]["arguments"]) == ANSWER
    assert cut["left_out"] == {"characters_of_arguments": ANSWER + len('{"content":""}')}
    prompt, answer = ask("get_messages", conversation=session.id)["messages"][:2]
    assert (prompt["unknown_blocks"], answer["unknown_blocks"]) == (["audio_note"], ["citation"])


def test_many_steps_are_left_out_with_their_messages(stored: Stored, ask: Callable[..., Any]) -> None:
    """Calls of an answer beyond the limit are counted, and the messages with them can be read."""
    calls = [clew.ToolCall(id=str(number), name="run", arguments={"n": number}) for number in range(STEPS + 5)]
    with clew.open(stored.path) as store:
        session = store.sessions.create(title="Steps")
        node = session.append(clew.assistant(*calls))
    (answer,) = ask("get_messages", conversation=session.id)["messages"]
    go_on = {"tool": "get_messages", "message": node.id}
    assert answer["left_out"]["steps"] == {"count": 5, "messages": [node.id], "go_on_with": go_on}
    (message,) = ask("get_messages", conversation=session.id, message=node.id)["messages"]
    assert [step["arguments"] for step in message["steps"]][-1] == f'{{"n":{STEPS + 4}}}'


def test_a_call_at_the_end_of_a_page_has_its_result(stored: Stored, ask: Callable[..., Any]) -> None:
    """The result on the next page belongs to it; results of other calls there are not taken."""
    with clew.open(stored.path) as store:
        session = store.sessions.create(title="Pages")
        first = session.append(clew.user("Go")).id
        session.append(clew.assistant(*(clew.ToolCall(id=id, name="run", arguments={"x": id}) for id in "ab")))
        before = session.append(clew.tool("done a", call_id="a")).id
        session.append(clew.tool("done b", call_id="b"))
        session.append(clew.assistant(clew.ToolCall(id="c", name="run", arguments={"x": "c"})))
        session.append(clew.tool("done c", call_id="c"))
    _, answer = ask("get_messages", conversation=session.id, before=before)["messages"]
    assert [(step["state"], step["text"]) for step in answer["steps"]] == [("done", "done a"), ("done", "done b")]
    assert ask("get_messages", conversation=session.id, before=first)["messages"] == []
