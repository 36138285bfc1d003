"""A chat of Open WebUI, in an export and in its database."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.sources.made import an_id

CHAT_ID = an_id(730)
START = 1_793_000_000
CALL = (
    '<details type="reasoning" done="true" duration="2">\n<summary>Thought for 2 seconds</summary>\n'
    "&gt; I look.\n> Then I tell.\n</details>\n"
    '<details type="tool_calls" done="true" id="c1" name="weather" arguments="&quot;{\\&quot;city\\&quot;: \\&quot;Rome'
    '\\&quot;}&quot;" result="&quot;sunny&quot;">\n<summary>Tool Executed</summary>\n</details>\nIt is sunny.'
)


def message(id: str, parent: str | None, role: str, content: str, **more: Any) -> dict[str, Any]:
    children = {"u1": ["a1", "a2", "gone"], "a2": ["u2"]}.get(id, [])
    return {"id": id, "parentId": parent, "childrenIds": children, "role": role, "content": content, **more}


MESSAGES = [
    message("u1", None, "user", "Weather in Rome?", timestamp=START + 1, models=["m1", "m2"],
            files=[{"type": "image", "url": "data:image/png;base64,AAAA"}, {"type": "file", "id": "f"}]),
    message("a1", "u1", "assistant", "I do not know.", model="m1", modelIdx=0, timestamp=START + 2, done=True,
            info={"prompt_eval_count": 12, "eval_count": 4}),
    message("a2", "u1", "assistant", CALL, model="m2", modelIdx=1, done=True,
            usage={"prompt_tokens": 20, "completion_tokens": 9}),
    message("u2", "a2", "user", "And Oslo?", timestamp=START + 9),
    message("a3", "u2", "assistant", "Col", model="m2", done=False),
    message("odd", "gone", "assistant", "", model="m2", error={"content": "no connection"}),
]  # fmt: skip
CHAT = {
    "title": "Weather", "models": ["m1", "m2"], "timestamp": START * 1000, "tags": [],
    "history": {"messages": {one["id"]: one for one in MESSAGES}, "currentId": "u2"},
    "messages": [MESSAGES[0], MESSAGES[2], MESSAGES[3]],
}  # fmt: skip
ENTRY = {
    "id": CHAT_ID, "user_id": "u", "title": "Weather in Rome", "chat": CHAT, "created_at": START, "updated_at": START,
    "meta": {"tags": ["x"]},
}  # fmt: skip


def export(*entries: Any, **form: Any) -> bytes:
    return json.dumps(entries or [ENTRY], **form).encode()


def database(path: Path, chat: str | None = None) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "CREATE TABLE chat (id VARCHAR(255) PRIMARY KEY, user_id VARCHAR(255), title TEXT, share_id TEXT,"
            " chat TEXT, created_at BIGINT, updated_at BIGINT, meta JSON)"
        )
        row = (CHAT_ID, "u", "Weather in Rome", None, chat or json.dumps(CHAT), START, START, '{"tags": ["x"]}')
        connection.execute("INSERT INTO chat VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        connection.commit()
