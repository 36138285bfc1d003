"""Tools: Python functions that a model may call, described to it by their signatures."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec

from clew.base.messages import Text, ToolCall, ToolResult
from clew.errors import Invalid, clip
from clew.snapshots import ToolSnapshot

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
Schema = dict[str, Any]


class Tool:
    """A function that a model may call: its name, its description, and the JSON Schema of its arguments.

    By default these come from the function's name, docstring and signature, in which ``Annotated[str, "what it is"]``
    describes an argument; the arguments of a call are validated. With `parameters`, `handler` gets the model's
    arguments as keywords without validation.
    """

    def __init__(
        self,
        handler: Callable[..., Any] | None,
        *,
        name: str | None = None,
        description: str | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        self.handler = handler
        """The function; None if only the description is known, as after a restore."""
        self.name = str(getattr(handler, "__name__", "")) if name is None else name
        if handler is not None and _NAME.fullmatch(self.name) is None:
            raise Invalid(f"a tool's name is 1 to 64 letters, digits, _ or -, not {clip(self.name)}")
        self.description = description if description is not None else (inspect.getdoc(handler) or "")
        self._arguments = _arguments(handler, self.name) if handler is not None and parameters is None else None
        self.parameters: Schema = schema(self._arguments) if self._arguments else dict(parameters or _NOTHING)
        """Its arguments, as JSON Schema."""

    @property
    def awaited(self) -> bool:
        """True if the function is a coroutine function, which only an async client can run."""
        return inspect.iscoroutinefunction(self.handler)

    def bind(self, call: ToolCall) -> Callable[[], Any]:
        """A function that makes the call. Invalid if the tool has no function, or the arguments do not fit."""
        if self.handler is None:
            raise Invalid(f"the tool {self.name} has no function in this program")
        arguments = call.arguments
        if self._arguments is not None:
            try:
                given = msgspec.convert(arguments, self._arguments)
            except msgspec.ValidationError as error:
                raise Invalid(f"the arguments do not fit: {error}") from None
            arguments = {name: getattr(given, name) for name in self._arguments.__struct_fields__}
        handler = self.handler
        return lambda: handler(**arguments)

    def snapshot(self) -> ToolSnapshot:
        """Its description for a snapshot, without the function."""
        return ToolSnapshot(self.name, self.description, self.parameters)


class Toolbox:
    """The tools of a client, by name."""

    def __init__(self, tools: Iterable[Tool | Callable[..., Any]] = ()) -> None:
        self.tools: dict[str, Tool] = {}
        if not isinstance(tools, Iterable):
            raise Invalid(f"tools are a list of functions, not {type(tools).__name__}")
        for given in tools:
            if not isinstance(given, Tool) and not callable(given):
                raise Invalid(f"a tool is a function, or a Tool, not {type(given).__name__}")
            tool = given if isinstance(given, Tool) else Tool(given)
            if tool.name in self.tools:
                raise Invalid(f"there are two tools named {tool.name}")
            self.tools[tool.name] = tool

    def prepare(self, call: ToolCall, *, can_await: bool) -> Callable[[], Any]:
        """A function that makes the call. Invalid, with a message for the model, if it cannot be made."""
        tool = self.tools.get(call.name)
        if tool is None:
            known = ", ".join(self.tools) or "none"
            raise Invalid(f"there is no tool {clip(call.name)}; there are: {known}")
        if tool.awaited and not can_await:
            raise Invalid(f"the tool {tool.name} can only run in an async program")
        return tool.bind(call)

    def snapshots(self) -> list[ToolSnapshot]:
        """Their descriptions for a snapshot."""
        return [tool.snapshot() for tool in self.tools.values()]

    def merge(self, known: Iterable[ToolSnapshot]) -> Toolbox:
        """These tools, and the other tools of a snapshot, which have a description but no function."""
        own = {tool.name: tool for tool in self.tools.values() if tool.handler is not None}
        others = [
            Tool(None, name=tool.name, description=tool.description, parameters=tool.parameters or _NOTHING)
            for tool in known
            if tool.name not in own
        ]
        return Toolbox([*own.values(), *others])


def to_result(call: ToolCall, value: object) -> ToolResult:
    """The return value of a tool as a result: text unchanged, everything else as JSON."""
    if not isinstance(value, str):
        try:
            value = msgspec.json.encode(value).decode()
        except (TypeError, ValueError, RecursionError, OverflowError):
            value = str(value)
    return _result(call, value)


def error_result(call: ToolCall, error: BaseException) -> ToolResult:
    """The result of a tool that failed: the error, for the model."""
    try:
        why = error.message if isinstance(error, Invalid) else f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - an error of the tool's own that cannot even be shown
        why = type(error).__name__
    return _result(call, why, is_error=True)


def _result(call: ToolCall, text: str, *, is_error: bool = False) -> ToolResult:
    # File names may have lone surrogates, which a request cannot contain.
    sound = text.encode(errors="replace").decode()
    return ToolResult(call_id=call.id, content=(Text(text=sound),), is_error=is_error)


def schema(kind: Any) -> Schema:
    """The JSON Schema of a type. Objects allow no other keys, as providers require. Invalid if there is none."""
    try:
        (found,), parts = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    except TypeError as error:
        raise Invalid(f"there is no JSON Schema for this type: {error}") from None
    reference = found.get("$ref", "")
    if reference.startswith("#/$defs/") and not _mentions(parts, reference):
        found = parts.pop(reference.removeprefix("#/$defs/"))
    whole = {**found, "$defs": parts} if parts else dict(found)
    return _close_objects(whole)  # type: ignore[no-any-return]


_NOTHING: Schema = {"type": "object", "properties": {}, "additionalProperties": False}


def _arguments(handler: Callable[..., Any], name: str) -> type[msgspec.Struct]:
    """A struct with the parameters of a function as its fields."""
    hints = get_type_hints(handler, include_extras=True)
    fields: list[tuple[str, Any, Any]] = []
    for parameter in inspect.signature(handler).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise Invalid(f"the tool {name} has parameters that cannot be given by name")
        hint = _describe(hints.get(parameter.name, Any))
        default = msgspec.NODEFAULT if parameter.default is parameter.empty else parameter.default
        fields.append((parameter.name, hint, _field(default)))
    try:
        return msgspec.defstruct(name.replace("-", "_"), fields, kw_only=True, forbid_unknown_fields=True)
    except TypeError as error:
        raise Invalid(f"the tool {name} cannot be described: {error}") from None


def _field(default: Any) -> Any:
    """A mutable default is copied for every call."""
    if isinstance(default, list | dict | set):
        return msgspec.field(default_factory=default.copy)
    return msgspec.field() if default is msgspec.NODEFAULT else msgspec.field(default=default)


def _describe(hint: Any) -> Any:
    """Converts ``Annotated[int, "how many"]`` to msgspec's form."""
    if get_origin(hint) is not Annotated:
        return hint
    kind, *notes = get_args(hint)
    marks = [msgspec.Meta(description=note) if isinstance(note, str) else note for note in notes]
    return Annotated[(kind, *[mark for mark in marks if isinstance(mark, msgspec.Meta)])]


def _mentions(value: Any, reference: str) -> bool:
    if isinstance(value, dict):
        return value.get("$ref") == reference or any(_mentions(inner, reference) for inner in value.values())
    return isinstance(value, list) and any(_mentions(inner, reference) for inner in value)


def _close_objects(value: Any) -> Any:
    if isinstance(value, list):
        return [_close_objects(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    found = {key: _close_objects(inner) for key, inner in value.items()}
    if found.get("type") == "object" and "properties" in found:
        found.setdefault("additionalProperties", False)
    return found
