"""Faces of tools: how a call is named, and what it shows when it is opened, in pieces for every renderer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from clew.base.messages import Media, Opaque, Text, ToolCall, ToolResult
from clew.base.visible import many
from clew.turns import diff
from clew.turns.model import PLAIN, FaceKind, ShowRules, Step
from clew.turns.words import duration, relative

_KINDS: dict[FaceKind, str] = {
    "shell": "bash shell terminal exec exec_command run_command local_shell local_shell_call powershell "
    "execute_command run_shell_command run_commands run_terminal_cmd run_in_terminal run_terminal_command "
    "developer__shell shell_command container.exec",
    "read": "read view cat read_file read_files readfile open_file view_file",
    "edit": "edit multiedit multi_edit write write_file write_to_file create_file edit_file replace replace_in_file "
    "str_replace_editor str_replace_based_edit_tool insert_edit_into_file apply_patch apply_diff notebookedit "
    "notebook_edit patch search_replace developer__text_editor text_editor",
    "todos": "todowrite todo_write update_plan write_todos update_todo_list manage_todo_list todo "
    "taskcreate taskupdate tasklist",
    "plan": "exitplanmode exit_plan_mode plan_mode_respond plan_exit",
    "question": "askuserquestion ask_user_question ask_followup_question ask_user ask_question request_user_input "
    "question",
    "agent": "task agent subagent spawn_agent explore delegate runsubagent new_task invoke_agent",
    "web": "webfetch web_fetch websearch web_search google_web_search fetch fetch_url url_fetch open_url read_url "
    "browse_url open_page read_page browse_page search_web read_url_content web_search_call",
}  # fmt: skip
FACES: dict[str, FaceKind] = {name: kind for kind, names in _KINDS.items() for name in names.split()}
"""The kind of each tool that many programs have, by its name in lower case."""
_MCP = re.compile(r"mcp__(?P<server>.+?)__(?P<tool>.+)")
_GEMINI_MCP = re.compile(r"mcp_(?P<server>[^_]+)_(?P<tool>[^_].*)")
"""A tool of a server in Gemini CLI, which allows no underscore in the name of a server."""
_TELLING = (
    "command", "cmd", "script", "code", "file_path", "filepath", "filePath", "path", "filename", "absolute_path",
    "notebook_path", "files", "pattern", "query", "q", "url", "uri", "subject", "description", "prompt", "task",
    "input", "text", "name",
)  # fmt: skip
"""Names of arguments, the most telling first."""
_BEFORE = ("old_string", "old_str", "old_text", "oldText", "oldString", "old_source")
_AFTER = ("new_string", "new_str", "new_text", "newText", "newString", "new_source")
_WHOLE = ("content", "file_text", "contents")
_PATCH = ("patch", "patchText", "diff", "input", "command", "cmd")
_FILE = ("file_path", "filePath", "path", "filepath", "filename", "absolute_path", "notebook_path")
_HEAD = re.compile(r"(?>[A-Z][\w ]{0,40}(?:: | with code )[^\n]{0,200}\n){1,6}+Output:\n")
"""What Codex writes above the output of a command."""
_EXIT_IN_HEAD = re.compile(r"^(?:Exit code: |Process exited with code )(\d+)$", re.MULTILINE)
_FIRST_LINE = re.compile(r"(?:Exit code|Command failed with exit code) (\d+)\b[^\n]{0,200}(?:\n|\Z)")
"""What Claude Code and Cline write above the output of a command that failed."""
_LAST_LINE = re.compile(r"(?:\A|\n)(?:\[?Command exited with code|<exited with exit code) (\d+)[\]>]?\s{0,9}\Z")
"""What pi, goose, Cline and Copilot write below it."""
_GEMINI = re.compile(
    r"\nExit Code: (\d+)(?:\n(?:Signal|Background PIDs|Process Group PGID): [^\n]{0,200}){0,3}"
    r"(?:\n</untrusted_context>)?\s{0,9}\Z"
)
"""What Gemini and Qwen write below it; above it is a line with a label."""
_LABELLED = ("Command: ", "Output: ", "<untrusted_context>\nOutput: ")
_LABELS = ("</untrusted_context>", "Process Group PGID: ", "Background PIDs: ", "Signal: ", "Exit Code: ", "Error: ")
"""How the lines below the output begin, the last one first."""
_SUBAGENT = re.compile(
    r"<task [^>\n]*>\s*<task_result>(?P<tagged>(?:(?!</task_result>).)*+)</task_result>\s*</task>\s*"
    r"|Subagent '[^'\n]*' finished\.\nTermination Reason: [^\n]*\nResult:\n(?P<plain>.*)",
    re.DOTALL,
)
"""What opencode and Gemini write around the answer of a subagent."""
_TAGGED = re.compile(r"<(tool_use_error|persisted-output)>\n?(?P<text>.*?)\n?</\1>\s*", re.DOTALL)
"""What Claude Code writes around an error of its own, and around the beginning of a long output."""
_TAIL = 1_000
_STATES = {"completed": "done", "done": "done", "in_progress": "now", "in-progress": "now", "cancelled": "dropped",
           "deleted": "dropped"}  # fmt: skip
COUNTED = 5_000
"""Lines of a text that are compared to count what changed."""
WIDE = 160
"""Characters of the line of a call."""


class Terminal(NamedTuple):
    """A command and what it printed."""

    command: str
    output: str


class Diff(NamedTuple):
    """The changes of a file."""

    path: str
    lines: list[diff.DiffLine]


class Code(NamedTuple):
    """The text of a file."""

    path: str
    text: str


class Prose(NamedTuple):
    """Markdown under a label."""

    label: str
    text: str


class Checks(NamedTuple):
    """A list of things to do: for each, ``done``, ``now``, ``dropped`` or ``open``, and its text."""

    items: list[tuple[str, str]]


class Question(NamedTuple):
    """A question to the user, with the options and what was chosen; "" if that is not known."""

    text: str
    options: list[str]
    answer: str


class PageLink(NamedTuple):
    """Where a page is."""

    url: str


class ArgumentTable(NamedTuple):
    """Arguments of a tool without a face of its own."""

    arguments: Mapping[str, Any]

    @property
    def rows(self) -> list[tuple[str, str]]:
        """Names and values as text."""
        return [(name, value if isinstance(value, str) else _json(value)) for name, value in self.arguments.items()]


class Output(NamedTuple):
    """What a tool gave back, as text or as a file."""

    block: Text | Media | Opaque


Panel = Terminal | Diff | Code | Prose | Checks | Question | PageLink | ArgumentTable | Output


def kind_of(call: ToolCall, rules: ShowRules) -> FaceKind:
    """The face of a call."""
    name = call.name.lower()
    found = rules.faces.get(name) or FACES.get(name)
    if found is None and _mcp(call) is not None:
        return "mcp"
    return found or ("edit" if changes(call, 200) else "other")


def label_of(call: ToolCall, kind: FaceKind) -> str:
    """The name of a call: that of a subagent, ``server: tool``, or the tool's own."""
    if kind == "agent":
        return (
            _text(call.arguments, ("subagent_type", "agent_type", "agent_name", "agentName", "agent", "mode"))
            or call.name
        )
    if kind == "mcp" and (found := _mcp(call)) is not None:
        return f"{found[0]}: {found[1]}"
    return call.name


def given_name(result: ToolResult) -> str:
    """The name that Codex gives to the subagent that a call started; empty for other results."""
    text = result_text(result)
    if not text.startswith("{"):
        return ""
    try:
        found = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return ""
    return _text(found, ("nickname",)) or "" if isinstance(found, dict) and "agent_id" in found else ""


def line_of(call: ToolCall, kind: FaceKind, project: str = "") -> str:
    """What a call is about, on one line, with paths relative to the project."""
    arguments = call.arguments
    if kind == "todos" and call.name.lower() in _ONE_TASK:
        return " ".join(filter(None, (_task_name(call), _text(arguments, ("status",)))))
    if kind == "todos":
        items = _todos(call)
        return f"{sum(state == 'done' for state, _ in items)} of {len(items)} done" if items else ""
    if kind == "plan":
        plan = _text(arguments, ("plan", "response", "text")) or ""
        return next((line.lstrip("# ").strip() for line in plan.splitlines() if line.strip("# ")), "")
    if kind == "question":
        return next((one.text for one in _questions(call, None)), "")
    if kind == "agent":
        return _text(arguments, ("description", "task_name", "title", "prompt", "task", "message")) or ""
    if kind == "shell":
        return command_of(call)
    if kind == "edit" and (patch := _patch(call)) is not None:
        return ", ".join(relative(path, project) for path in diff.patched_files(patch, 5_000)) or main_argument(call)
    if kind == "mcp":
        given = arguments.get("arguments")
        return main_argument(ToolCall(id="", name="", arguments=given) if isinstance(given, dict) else call)
    return relative(main_argument(call), project)


def main_argument(call: ToolCall) -> str:
    """The argument that says the most about a call; all of them as JSON if none stands out."""
    arguments = call.arguments
    for name in _TELLING:
        if (shown := _as_line(arguments.get(name))) is not None:
            return shown
    if len(arguments) == 1 and (shown := _as_line(next(iter(arguments.values())))) is not None:
        return shown
    return msgspec.json.encode(arguments).decode() if arguments else ""


def command_of(call: ToolCall) -> str:
    """The command of a shell, without the shell that it is given to."""
    for name in ("command", "cmd", "script", "action", "commands"):
        given = call.arguments.get(name)
        given = given.get("command") if isinstance(given, dict) else given
        if isinstance(given, list) and given and all(isinstance(part, str) for part in given):
            is_wrapped = len(given) == 3 and given[1] in ("-lc", "-c", "/c", "-Command")
            return str(given[2]) if is_wrapped else ("\n" if name == "commands" else " ").join(given)
        if isinstance(given, str) and given.strip():
            return given.strip()
    return main_argument(call)


def tool_line(call: ToolCall, rules: ShowRules = PLAIN, *, project: str = "", width: int = WIDE) -> str:
    """``Bash: npm test``, ``Edit: src/app.py``; the name alone if there are no arguments. Not escaped."""
    kind = kind_of(call, rules)
    label, words = label_of(call, kind), " ".join(line_of(call, kind, project).split())
    line = f"{label}: {words}" if words else label
    return line if len(line) <= width else f"{line[: width - 1]}…"


def summary(step: Step, shown: Sequence[Panel] = ()) -> str:
    """How a call ended, in a few words: ``+8 −4``, ``exit 1``, ``12 lines``. Its panels save a comparison."""
    result = step.result
    if result is None:
        return "no result"
    took = duration(step.seconds)
    lines = [line for panel in shown if isinstance(panel, Diff) for line in panel.lines]
    if step.kind != "edit" or step.call is None or result.is_error:
        lines = []
    elif not lines:
        lines = changes(step.call, COUNTED)
    if lines:
        added, removed = diff.counts(lines)
        return " ".join([*([f"+{added:,}"] if added or not removed else []), *([f"−{removed:,}"] if removed else [])])
    text = result_text(result)
    if step.kind == "shell" and (code := exit_code(result)) is not None:
        words = [f"exit {code}"]
    elif result.is_error:
        words = ["error"]
    elif step.kind == "todos" and (items := _TASK.findall(text)):
        words = [f"{sum(state == 'completed' for state, _ in items)} of {len(items)} done"]
    elif step.kind in ("todos", "plan", "question", "agent") or (step.kind == "web" and not result.content):
        words = ["done"]
    else:
        count = len((_file_text(text) if step.kind == "read" else text).splitlines())
        media = sum(isinstance(block, Media) for block in result.content)
        words = [*([many(count, "line")] if count else []), *([many(media, "attachment")] if media else [])]
    return " · ".join([*(words or ["no output"]), *([took] if took else [])])


def exit_code(result: ToolResult) -> str | None:
    """The exit code that a shell tool writes around the output of a command. What the command prints is not read."""
    text = result_text(result)
    if text.startswith("{"):
        return _exit_in_json(text)
    if head := _HEAD.match(text):
        found = _EXIT_IN_HEAD.search(head[0])
    elif text.startswith(_LABELLED):
        found = _GEMINI.search(text[-_TAIL:])
    elif result.is_error:
        found = _FIRST_LINE.match(text) or _LAST_LINE.search(text[-_TAIL:])
    else:
        found = None
    return None if found is None else found[1]


def _exit_in_json(text: str) -> str | None:
    """The exit code in the JSON that Codex makes of a result."""
    try:
        found = msgspec.json.decode(text)
        code = found["metadata"]["exit_code"] if set(found) == {"output", "metadata"} else None
    except (msgspec.MsgspecError, KeyError, TypeError, RecursionError):
        return None
    return str(code) if type(code) is int else None


def panels(step: Step, read: int | None = None) -> list[Panel]:
    """What a call shows when it is opened: its arguments and its result, by its kind. Compares `read` lines at most."""
    return list(_panels(step, step.call, read)) if step.call is not None else list(_output(step.result))


def changes(call: ToolCall, read: int | None = None) -> list[diff.DiffLine]:
    """The changes that a call makes to a file; empty if it is of another kind."""
    arguments = call.arguments
    edits = arguments.get("edits")
    pairs = [arguments, *(one for one in edits if isinstance(one, dict))] if isinstance(edits, list) else [arguments]
    lines: list[diff.DiffLine] = []
    for one in pairs:
        before, after = _text(one, _BEFORE), _text(one, _AFTER)
        if before is not None or after is not None:
            lines += diff.compare(before or "", after or "", read)
    if lines:
        return lines
    patch = _patch(call)
    if patch is not None:
        return diff.patch(patch, read)
    whole = _text(arguments, _WHOLE)
    if whole is not None and _text(arguments, _FILE) is not None:
        return diff.compare("", whole, read)
    return []


def changed_files(call: ToolCall, read: int | None = None) -> dict[str, list[diff.DiffLine]]:
    """The changes that a call makes, for each file; empty if it is of another kind."""
    lines, path, patch = changes(call, read), _text(call.arguments, _FILE), _patch(call)
    if lines and path is not None:
        return {path: lines}
    return {} if patch is None else diff.patched_files(patch, read)


def result_text(result: ToolResult | None) -> str:
    """The text of a result."""
    return "\n".join(block.text for block in _blocks(result) if isinstance(block, Text))


def _panels(step: Step, call: ToolCall, read: int | None) -> Iterator[Panel]:
    arguments, result = call.arguments, step.result
    path = relative(_text(arguments, _FILE) or "", step.project) or (step.line if step.kind == "read" else "")
    if step.kind in ("edit", "other", "shell") and (files := changed_files(call, read)):
        for name, lines in files.items():
            yield Diff(relative(name, step.project), lines)
        if result is not None and (result.is_error or step.kind == "other"):
            yield from _output(result)
    elif step.kind == "shell":
        yield Terminal(command_of(call), _shell_output(result_text(result)))
        yield from (Output(block) for block in _blocks(result) if not isinstance(block, Text))
    elif step.kind == "read" and path:
        for block in _blocks(result):
            is_text = isinstance(block, Text) and not step.result.is_error  # type: ignore[union-attr]
            yield Code(path, _file_text(block.text)) if isinstance(block, Text) and is_text else Output(block)
    elif step.kind == "todos" and (items := _todos(call) or _task_list(result)):
        yield Checks(items)
        yield from _failure(result)
    elif step.kind == "plan" and (plan := _text(arguments, ("plan", "response", "text"))):
        yield Prose("Plan", plan)
        yield from _failure(result)
    elif step.kind == "question" and (questions := list(_questions(call, result))):
        yield from questions
        if not any(one.answer for one in questions):
            yield from _output(result)
    elif step.kind == "agent":
        if asked := _text(arguments, ("prompt", "task", "message", "description")):
            yield Prose(f"To {step.label}", asked)
        if (answer := result_text(result)) and not (result is not None and given_name(result)):
            found = _SUBAGENT.fullmatch(answer)
            answer = (found["tagged"] or found["plain"] or "").strip() if found else answer
            yield Output(Text(text=answer)) if _is_json(answer) else Prose("Answer", answer)
    elif step.kind == "web":
        yield from _web(arguments, result)
    else:
        given = arguments.get("arguments")
        if shown := given if step.kind == "mcp" and isinstance(given, dict) else arguments:
            yield ArgumentTable(shown)
        yield from _output(result)


def _failure(result: ToolResult | None) -> Iterator[Output]:
    if result is not None and result.is_error:
        yield from _output(result)


def _output(result: ToolResult | None) -> Iterator[Output]:
    yield from map(Output, _blocks(result))


def _blocks(result: ToolResult | None) -> Iterator[Text | Media | Opaque]:
    """What is in a result, without tags that a program writes around it."""
    for block in result.content if result is not None else ():
        found = _TAGGED.fullmatch(block.text) if isinstance(block, Text) else None
        yield block if found is None else Text(text=found["text"])


def _web(arguments: Mapping[str, Any], result: ToolResult | None) -> Iterator[Panel]:
    """A page or a search: its address, what was asked, and the answer."""
    if address := _text(arguments, ("url", "uri")):
        yield PageLink(address)
    action = arguments.get("action")
    asked = [_text(one, ("query", "q", "prompt")) for one in (arguments, action) if isinstance(one, dict)]
    if words := "\n\n".join(filter(None, asked)):
        yield Prose("Asked", words)
    for block in _blocks(result):
        yield Prose("Answer", block.text) if isinstance(block, Text) else Output(block)


def _todos(call: ToolCall) -> list[tuple[str, str]]:
    if call.name.lower() in _ONE_TASK:
        state = _STATES.get(str(call.arguments.get("status")), "open")
        return [(state, _task_name(call))] if {"subject", "status"} & call.arguments.keys() else []
    for name in ("todos", "plan", "items", "todoList", "tasks"):
        given = call.arguments.get(name)
        if isinstance(given, list):
            return [
                (_STATES.get(str(one.get("status")), "open"), _text(one, _TODO) or "")
                for one in given
                if isinstance(one, dict)
            ]
        if isinstance(given, str):
            return [("done" if mark in "xX" else "open", text) for mark, text in _CHECK.findall(given)]
    return []


def _task_name(call: ToolCall) -> str:
    """The subject of a task; its number if a change of it does not say the subject."""
    return _text(call.arguments, ("subject",)) or f"Task #{call.arguments.get('taskId')}"


def _task_list(result: ToolResult | None) -> list[tuple[str, str]]:
    """The tasks that Claude Code lists in a result."""
    return [(_STATES.get(state, "open"), text) for state, text in _TASK.findall(result_text(result))]


_ONE_TASK = ("taskcreate", "taskupdate")
_TASK = re.compile(r"^#\S+ \[(\w+)\] (.+)$", re.MULTILINE)
_TODO = ("content", "step", "title", "description", "text", "activeForm")
_CHECK = re.compile(r"^\s*(?:[-*]|\d+\.)?\s*\[([ xX])\]\s*(.+)$", re.MULTILINE)


def _questions(call: ToolCall, result: ToolResult | None) -> Iterator[Question]:
    """The questions of a call. The answers are in the result, beside the questions that they belong to."""
    given = call.arguments.get("questions")
    text = result_text(result)
    questions = [one for one in given if isinstance(one, dict)] if isinstance(given, list) else [call.arguments]
    answers = _answers(text)
    for number, one in enumerate(questions):
        asked = _text(one, ("question", "text", "prompt", "message"))
        if asked is None:
            continue
        options = [
            option if isinstance(option, str) else _text(option, ("label", "title", "text", "value")) or ""
            for option in (one.get("options") if isinstance(one.get("options"), list) else [])  # type: ignore[union-attr]
            if isinstance(option, str | dict)
        ]
        found = re.search(rf'"{re.escape(asked)}"\s*[=:]\s*"((?:[^"\\]|\\.)*)"', text)
        picked = answers.get(str(one.get("id")), answers.get(str(number)))
        said = ", ".join(map(str, picked)) if isinstance(picked, list) else picked if isinstance(picked, str) else ""
        yield Question(asked, options, said or (found[1] if found else text.strip() if len(questions) == 1 else ""))


def _answers(text: str) -> dict[str, Any]:
    """The answers of Codex and of Gemini CLI: JSON by the id or the number of the question."""
    try:
        found = msgspec.json.decode(text, type=dict[str, dict[str, Any]])
    except (msgspec.MsgspecError, RecursionError):
        return {}
    return {
        name: one.get("answers") if isinstance(one, dict) else one for name, one in found.get("answers", {}).items()
    }


def _is_json(text: str) -> bool:
    """True for a JSON object, as subagents of Gemini CLI answer with."""
    try:
        return text.startswith("{") and isinstance(msgspec.json.decode(text), dict)
    except (msgspec.MsgspecError, RecursionError):
        return False


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _shell_output(text: str) -> str:
    """What a command printed, without what Codex, Gemini and Qwen write around it."""
    if text.startswith(_LABELLED):
        return _labelled_output(text)
    if text.startswith('{"output":'):
        try:
            found = msgspec.json.decode(text)
            return found["output"] if isinstance(found.get("output"), str) else text
        except (msgspec.MsgspecError, AttributeError, RecursionError):
            return text
    found_head = _HEAD.match(text)
    return text[found_head.end() :] if found_head else text


def _file_text(text: str) -> str:
    """The text of a file that was read, without what opencode and Continue write around it."""
    if text.startswith("<path>") and text.endswith("</content>") and "\n<content>\n" in text:
        lines, _, last = text.partition("\n<content>\n")[2].removesuffix("\n</content>").rpartition("\n")
        return lines.rstrip("\n") if last.startswith("(End of file - total ") else f"{lines}\n{last}".lstrip("\n")
    return text.partition("\n")[2] if text.startswith("Content of ") and ":\n" in text[:_TAIL] else text


def _labelled_output(text: str) -> str:
    """The output and the errors of a command that Gemini or Qwen have labelled."""
    lines = text[text.find("Output: ") if not text.startswith("Command: ") else text.find("\nOutput: ") + 1 :]
    lines = lines.removeprefix("Output: ").rstrip()
    error = ""
    for label in _LABELS:
        rest, _, last = lines.rpartition("\n")
        if last.startswith(label):
            lines, error = rest, last.removeprefix(label) if label == "Error: " else ""
    said = [one for one in (lines, error) if one not in ("", "(empty)", "(none)")]
    return "\n".join(said)


def _mcp(call: ToolCall) -> tuple[str, str] | None:
    """The server and the tool of a call by the Model Context Protocol."""
    if found := _MCP.fullmatch(call.name) or _GEMINI_MCP.fullmatch(call.name):
        return found["server"], found["tool"]
    server, tool = call.arguments.get("server_name"), call.arguments.get("tool_name")
    if call.name == "use_mcp_tool" and isinstance(server, str) and isinstance(tool, str):
        return server, tool
    return None


def _patch(call: ToolCall) -> str | None:
    for name in _PATCH:
        text = call.arguments.get(name)
        text = text[-1] if isinstance(text, list) and text and isinstance(text[-1], str) else text
        if not isinstance(text, str):
            continue
        if "*** Begin Patch" in text:
            return text[text.index("*** Begin Patch") :].partition("*** End Patch")[0]
        if name not in ("command", "cmd") and ("\n@@" in text or text.startswith(("@@", "--- "))):
            return text
    return None


def _text(values: object, names: tuple[str, ...]) -> str | None:
    if not isinstance(values, Mapping):
        return None
    return next((value for name in names if isinstance(value := values.get(name), str)), None)


def _as_line(value: Any) -> str | None:
    if isinstance(value, str) and value.strip():
        return value.strip()
    if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
        return " ".join(value)  # a command with its arguments
    paths = [_text(part, _FILE) for part in value] if isinstance(value, list) else []
    return ", ".join(path or "" for path in paths) if paths and all(paths) else None
