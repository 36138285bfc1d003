"""Tools are described by the signatures of functions, and their arguments are checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
import pytest

from clew import ToolCall, ToolResult
from clew.chat import Tool
from clew.errors import Invalid
from clew.providers.tools import Toolbox, error_result, schema, to_result
from clew.snapshots import ToolSnapshot


@dataclass
class NodeLocation:
    name: str
    zip: int = 0


def weather(
    place: Annotated[NodeLocation, "where"],
    days: Annotated[int, msgspec.Meta(ge=1, le=7), "not a description"] = 3,
    unit: Literal["c", "f"] = "c",
    tags: list[str] = [],  # noqa: B006
) -> Any:
    """The weather of the next days."""
    tags.append("seen")
    return {"place": place.name, "days": days, "unit": unit, "tags": tags}


def call(**arguments: Any) -> ToolCall:
    return ToolCall(id="1", name="weather", arguments=arguments)


def test_a_function_describes_itself() -> None:
    """Name, docstring and signature become name, description and JSON Schema."""
    tool = Tool(weather)
    assert (tool.name, tool.description) == ("weather", "The weather of the next days.")
    properties = tool.parameters["properties"]
    assert tool.parameters["required"] == ["place"]
    assert tool.parameters["additionalProperties"] is False
    assert properties["place"]["description"] == "where"
    assert (properties["days"]["minimum"], properties["days"]["default"]) == (1, 3)
    assert properties["unit"]["enum"] == ["c", "f"]
    assert tool.parameters["$defs"]["NodeLocation"]["required"] == ["name"]
    assert tool.snapshot() == ToolSnapshot("weather", "The weather of the next days.", tool.parameters)


def test_arguments_are_converted_and_checked() -> None:
    """The function gets values of its types; defaults are its own, and fresh each time."""
    tool = Tool(weather)
    for _ in range(2):
        assert tool.bind(call(place={"name": "Rome"}))()["tags"] == ["seen"]
    assert tool.bind(call(place={"name": "Rome"}, days=7))()["days"] == 7
    for wrong in ({}, {"place": "Rome"}, {"place": {"name": "Rome"}, "days": 8}, {"place": {"name": "x"}, "more": 1}):
        with pytest.raises(Invalid, match="do not fit"):
            tool.bind(call(**wrong))


def test_a_schema_of_ones_own() -> None:
    """With parameters given, the function gets what the model wrote."""
    tool = Tool(lambda **given: given, name="raw", description="Anything.", parameters={"type": "object"})
    assert tool.parameters == {"type": "object"}
    assert tool.bind(ToolCall(id="1", name="raw", arguments={"x": [1]}))() == {"x": [1]}


def no_arguments() -> None:
    """Takes none."""


def undescribed(x, *, y=1):
    return x


def test_plain_functions() -> None:
    """A function without arguments, and one without annotations."""
    assert Tool(no_arguments).parameters["properties"] == {}
    tool = Tool(undescribed)
    assert tool.description == ""
    assert tool.bind(ToolCall(id="1", name="undescribed", arguments={"x": [1]}))() == [1]


def variadic(*words: str) -> None: ...


def unschematic(x: complex) -> None: ...


def test_what_cannot_be_a_tool() -> None:
    """Bad names, parameters without names, types without a schema, and two of one name are refused."""
    for wrong in ("", "a b", "x" * 65, "naïve", "a\n"):
        with pytest.raises(Invalid, match="name"):
            Tool(no_arguments, name=wrong)
    with pytest.raises(Invalid, match="by name"):
        Tool(variadic)
    with pytest.raises(Invalid):
        Tool(unschematic)
    with pytest.raises(Invalid, match="two tools"):
        Toolbox([weather, Tool(weather)])


@pytest.mark.parametrize("tools", [None, 5, "add", [None], ["add"], [object()]])
def test_what_are_no_tools(tools: Any) -> None:
    """Tools are a list of functions."""
    with pytest.raises(Invalid, match="function"):
        Toolbox(tools)


def test_results() -> None:
    """Text is given back as it is, everything else as JSON, and what JSON cannot hold as its text."""

    def text(value: object) -> str:
        (block,) = to_result(call(), value).content
        return block.text  # type: ignore[union-attr]

    assert text("words") == "words"
    assert text({"a": [1, None]}) == '{"a":[1,null]}'
    assert text(None) == "null"
    assert text(object()).startswith("<object")
    result = error_result(call(), KeyError("key"))
    assert isinstance(result, ToolResult)
    assert result.is_error
    assert error_result(call(), Invalid("in plain words")).content[0].text == "in plain words"  # type: ignore[union-attr]


def test_a_tool_that_is_only_described() -> None:
    """After a restore a tool is known by its description, and runs nothing."""
    box = Toolbox([weather]).merge([ToolSnapshot("weather", "theirs"), ToolSnapshot("lost", "gone", None)])
    assert list(box.tools) == ["weather", "lost"]
    assert list(box.merge([ToolSnapshot("name.space:tool")]).tools)[-1] == "name.space:tool"
    assert box.tools["weather"].handler is weather
    assert box.tools["lost"].parameters["properties"] == {}
    with pytest.raises(Invalid, match="no function"):
        box.prepare(ToolCall(id="1", name="lost"), can_await=False)


async def later() -> str:
    return "later"


def test_a_coroutine_needs_an_async_client() -> None:
    """The sync client cannot await, and says so to the model."""
    with pytest.raises(Invalid, match="async"):
        Toolbox([later]).prepare(ToolCall(id="1", name="later"), can_await=False)


class Tree(msgspec.Struct):
    value: int
    children: list[Tree] = []


def test_schemas() -> None:
    """Objects are closed, definitions are kept, and a type may contain itself."""
    assert schema(str) == {"type": "string"}
    assert schema(NodeLocation)["additionalProperties"] is False
    assert schema(list[NodeLocation])["$defs"]["NodeLocation"]["additionalProperties"] is False
    assert schema(dict[str, int]) == {"type": "object", "additionalProperties": {"type": "integer"}}
    assert schema(Tree)["$ref"] == "#/$defs/Tree"
