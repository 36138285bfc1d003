"""Messages of other programs in a session of a framework: one table for all adapters.

The framework gets each in its own form, or it is left out with a warning. Either way the session can be read, and the
framework continues it.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import clew

Form = tuple[str, str, str]
"""Role, kind and text of a value as the framework has it: ``("user", "text", "Hello")``."""
IMAGE = clew.Media(mime_type="image/png", modality="image", url="https://example.com/a.png")
CLAUDE = {"role": "assistant", "content": [{"type": "text", "text": "By Claude"}]}


class Case(NamedTuple):
    message: Any
    forms: list[Form]
    """Empty if no framework has a form for it."""


TABLE = {
    "user": Case(clew.user("Hello"), [("user", "text", "Hello")]),
    "assistant": Case(clew.assistant("Hi", model="m"), [("assistant", "text", "Hi")]),
    "thinking": Case(clew.assistant(clew.Thinking(text="hm"), "So"), [("assistant", "text", "So")]),
    "system": Case(clew.system("Be brief"), [("system", "text", "Be brief")]),
    "native": Case(clew.native("anthropic", CLAUDE), [("assistant", "text", "By Claude")]),
    "call": Case(
        clew.assistant(clew.ToolCall(id="c1", name="weather", arguments={"city": "Turin"})),
        [("assistant", "call", "weather")],
    ),
    "result": Case(clew.tool("sunny", call_id="c1"), [("tool", "result", "sunny")]),
    "image": Case(clew.user("See", IMAGE), []),
    "empty": Case(clew.Message("assistant"), []),
}


def check(driver: Any, path: str, forms: Callable[[Any, str], list[Form]], left_out: Collection[str] = ()) -> None:
    """Appends the table to a session that a framework has begun, and the framework continues it.

    `driver` is one of `clew.testing.adapters`; `forms` reads a session with it. `left_out` are the cases that this
    framework has no form for.
    """
    ours = driver(path)
    asyncio.run(ours.append("s", ["first"], ["i1"]))
    expected: list[Form] = [("user", "text", "first")]
    missing = 0
    with clew.open(path) as store:
        for name, case in TABLE.items():
            store.sessions.latest().append(case.message)
            shown = [] if name in left_out else case.forms
            expected += shown
            missing += not shown
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                assert forms(driver(path), "s") == expected, name
            assert len({str(one.message) for one in told if "is left out" in str(one.message)}) == missing, name
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = driver(path)
        asyncio.run(again.append("s", ["last"], ["i2"]))
        assert forms(again, "s") == [*expected, ("user", "text", "last")]
        again.close()
        ours.close()
    with clew.open(path) as store:
        assert len(store.sessions.latest().path()) == len(TABLE) + 2
        assert store.verify().ok
