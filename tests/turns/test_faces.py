"""Tools that people use hourly have a face of their own."""

from __future__ import annotations

from time import process_time
from typing import Any

import pytest

import clew
from clew.base.messages import Text, ToolCall
from clew.turns.faces import (
    ArgumentTable,
    Checks,
    Code,
    Diff,
    Output,
    PageLink,
    Panel,
    Prose,
    Question,
    Terminal,
    panels,
    summary,
    tool_line,
)
from clew.turns.words import relative, short_model
from tests.turns.outline import made, steps


def face(name: str, arguments: dict[str, Any], result: str | None = None, **more: Any) -> tuple[str, list[Panel]]:
    """The line of a call, and what it shows."""
    messages: list[Any] = [clew.assistant(ToolCall(id="a", name=name, arguments=arguments))]
    if result is not None:
        messages.append(clew.tool(result, call_id="a", **more))
    (step,) = steps(made(*messages, project="/src/app"))
    return f"{step.label}: {step.line}", panels(step)


def diff_text(panel: Panel) -> str:
    assert isinstance(panel, Diff)
    return "\n".join(f"{line.kind}{line.text}" for line in panel.lines if line.kind != "@")


def test_todo_lists() -> None:
    """A todo list is a list with check marks, in the forms of Claude Code, Codex, Gemini and Cline."""
    done = [("done", "Read"), ("now", "Write"), ("open", "Test")]
    states = ("completed", "in_progress", "pending")
    for name, arguments in (
        (
            "TodoWrite",
            {"todos": [{"content": text, "status": state} for (_, text), state in zip(done, states, strict=True)]},
        ),
        (
            "update_plan",
            {"plan": [{"step": text, "status": state} for (_, text), state in zip(done, states, strict=True)]},
        ),
        (
            "write_todos",
            {"todos": [{"description": text, "status": state} for (_, text), state in zip(done, states, strict=True)]},
        ),
    ):
        assert face(name, arguments, "ok") == (f"{name}: 1 of 3 done", [Checks(done)])
    assert face("update_todo_list", {"todos": "- [x] Read\n- [ ] Test"}, "ok")[1] == [
        Checks([("done", "Read"), ("open", "Test")])
    ]


def test_tasks_of_claude_code() -> None:
    """A task that is added, changed or listed is shown with its check mark."""
    assert face("TaskCreate", {"subject": "Read", "description": "All of it"}, "Task #1 created") == (
        "TaskCreate: Read", [Checks([("open", "Read")])],
    )  # fmt: skip
    assert face("TaskUpdate", {"taskId": "1", "status": "completed"}, "Updated task #1 status") == (
        "TaskUpdate: Task #1 completed", [Checks([("done", "Task #1")])],
    )  # fmt: skip
    assert face("TaskUpdate", {"taskId": "1", "addBlocks": ["2"]}, "Updated")[1][0] == ArgumentTable(
        {"taskId": "1", "addBlocks": ["2"]}
    )
    listed = "#1 [completed] Read\n#2 [in_progress] Write (me)\n#3 [pending] Test [blocked by #2]"
    shown = [("done", "Read"), ("now", "Write (me)"), ("open", "Test [blocked by #2]")]
    assert face("TaskList", {}, listed) == ("TaskList: ", [Checks(shown)])
    call = clew.assistant(ToolCall(id="a", name="TaskList", arguments={}))
    assert summary(steps(made(call, clew.tool(listed, call_id="a")))[0]) == "1 of 3 done"


def test_plans() -> None:
    """A plan is Markdown, and its first line stands on the line of the call."""
    assert face("ExitPlanMode", {"plan": "# Move it\n\n1. Copy"}, "approved") == (
        "ExitPlanMode: Move it", [Prose("Plan", "# Move it\n\n1. Copy")],
    )  # fmt: skip


def test_questions_have_their_answers() -> None:
    """A question to the user shows its options and what was chosen."""
    asked = {"questions": [{"question": "Which one?", "options": [{"label": "Red"}, {"label": "Blue"}]}]}
    answer = 'User has answered your questions: "Which one?"="Blue". You can now continue.'
    assert face("AskUserQuestion", asked, answer) == (
        "AskUserQuestion: Which one?", [Question("Which one?", ["Red", "Blue"], "Blue")],
    )  # fmt: skip
    assert face("ask_followup_question", {"question": "Why?"}, "Because")[1] == [Question("Why?", [], "Because")]


@pytest.mark.parametrize(
    "answer", ['{"answers":{"db":{"answers":["Blue"]}}}', '{"answers":{"0":"Blue"}}', '{"answers":{"db":"Blue"}}']
)
def test_answers_in_json(answer: str) -> None:
    """The answers that Codex and Gemini CLI write by the id or the number of a question belong to it."""
    asked = {"questions": [{"id": "db", "question": "Which one?", "options": [{"label": "Red"}, {"label": "Blue"}]}]}
    assert face("request_user_input", asked, answer)[1] == [Question("Which one?", ["Red", "Blue"], "Blue")]


@pytest.mark.parametrize("answer", ['{"answers":[1]}', '{"answers":{"0":7}}', "[" * 2000, '{"answers":{"x":"Blue"}}'])
def test_answers_in_another_form(answer: str) -> None:
    """A result that has no answer to a question is shown as it is."""
    asked = {"question": "Which one?", "options": ["Red"]}
    assert face("ask_user", asked, answer)[1] == [Question("Which one?", ["Red"], answer)]


def test_subagents_have_their_name_and_task() -> None:
    """A subagent is called by its kind and the description of its task."""
    asked = {"subagent_type": "Explore", "description": "Find the parser", "prompt": "Look in src"}
    assert face("Task", asked, "In src/x.py") == (
        "Explore: Find the parser", [Prose("To Explore", "Look in src"), Prose("Answer", "In src/x.py")],
    )  # fmt: skip
    assert face("invoke_agent", {"agent_name": "investigator", "prompt": "Look"})[0] == "investigator: Look"


def test_web() -> None:
    """A fetch shows the address; a search what was searched for."""
    assert face("WebFetch", {"url": "https://a.test", "prompt": "Sum up"}, "It is.") == (
        "WebFetch: https://a.test", [PageLink("https://a.test"), Prose("Asked", "Sum up"), Prose("Answer", "It is.")],
    )  # fmt: skip
    assert face("google_web_search", {"query": "sqlite wal"})[1] == [Prose("Asked", "sqlite wal")]


def test_servers_of_tools() -> None:
    """A tool of a server is "server: tool", and its arguments are a table."""
    line, shown = face("mcp__github__create_issue", {"title": "Bug", "labels": ["a"]}, "done")
    assert line.startswith("github: create_issue: ")
    assert shown[0] == ArgumentTable({"title": "Bug", "labels": ["a"]})
    assert face("mcp_github_create_issue", {"title": "Bug"})[0] == "github: create_issue: Bug"
    wrapped = {"server_name": "github", "tool_name": "get", "arguments": {"number": 3}}
    assert face("use_mcp_tool", wrapped)[1] == [ArgumentTable({"number": 3})]


def test_patches_of_codex() -> None:
    """A patch is a diff for each file, also inside a command."""
    patch = (
        "*** Begin Patch\n*** Update File: /src/app/a.py\n@@\n-x = 1\n+x = 2\n*** Add File: b.py\n+new\n*** End Patch"
    )
    for name, arguments in (
        ("apply_patch", {"input": patch}),
        ("shell", {"command": ["apply_patch", patch]}),
        ("shell", {"command": ["bash", "-lc", f"apply_patch <<'EOF'\n{patch}\nEOF"]}),
    ):
        _, shown = face(name, arguments, "Success")
        assert [(one.path, diff_text(one)) for one in shown if isinstance(one, Diff)] == [
            ("a.py", "-x = 1\n+x = 2"), ("b.py", "+new"),
        ], name  # fmt: skip
    assert face("apply_patch", {"input": patch})[0] == "apply_patch: a.py, b.py"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("Edit", {"file_path": "/src/app/a.py", "old_string": "x = 1", "new_string": "x = 2"}),
        ("edit", {"filePath": "/src/app/a.py", "oldString": "x = 1", "newString": "x = 2"}),
        ("replace", {"file_path": "/src/app/a.py", "old_string": "x = 1", "new_string": "x = 2", "instruction": "i"}),
        ("MultiEdit", {"file_path": "/src/app/a.py", "edits": [{"old_string": "x = 1", "new_string": "x = 2"}]}),
        ("NotebookEdit", {"notebook_path": "/src/app/a.py", "old_source": "x = 1", "new_source": "x = 2"}),
    ],
)
def test_edits(name: str, arguments: dict[str, Any]) -> None:
    """Edits of Claude Code, opencode and Gemini, and of notebooks, are diffs with the path in the project."""
    line, shown = face(name, arguments, "ok")
    assert line == f"{name}: a.py"
    assert isinstance(shown[0], Diff)
    assert (shown[0].path, diff_text(shown[0])) == ("a.py", "-x = 1\n+x = 2")


def test_shells() -> None:
    """A shell shows its command as typed and its output without the head that Codex writes."""
    output = "Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code 3\nOutput:\nno such file"
    assert face("exec_command", {"cmd": "cat x"}, output) == (
        "exec_command: cat x", [Terminal("cat x", "no such file")],
    )  # fmt: skip
    assert face("run_commands", {"commands": ["exit 3"]})[1] == [Terminal("exit 3", "")]


def test_files_that_are_read() -> None:
    """What was read is code of that file; an error is output."""
    assert face("Read", {"file_path": "/src/app/a.py"}, "x")[1] == [Code("a.py", "x")]
    assert isinstance(face("Read", {"file_path": "/src/app/a.py"}, "gone", is_error=True)[1][0], Output)


def test_unknown_tools() -> None:
    """Arguments of an unknown tool are a small table, and its result is below it."""
    line, shown = face("frobnicate", {"depth": 3, "name": "x"}, "done")
    assert line == "frobnicate: x"
    assert shown[0] == ArgumentTable({"depth": 3, "name": "x"})
    assert shown[0].rows == [("depth", "3"), ("name", "x")]
    assert isinstance(shown[1], Output)


def test_summaries() -> None:
    """A call ends with an exit code, a count of lines, an error, or nothing."""
    shell = ToolCall(id="a", name="Bash", arguments={"command": "x"})
    for messages, words in (
        ([clew.assistant(shell)], "no result"),
        ([clew.assistant(shell), clew.tool("Exit code 2\nno", call_id="a", is_error=True)], "exit 2"),
        ([clew.assistant(shell), clew.tool("a\nb", call_id="a")], "2 lines"),
        ([clew.assistant(shell), clew.tool("", call_id="a")], "no output"),
    ):
        (step,) = steps(made(*messages))
        assert summary(step) == words


def shell_result(text: str, *, failed: bool = False) -> str:
    """The summary of a shell command with this result."""
    call = ToolCall(id="a", name="Bash", arguments={"command": "x"})
    (step,) = steps(made(clew.assistant(call), clew.tool(text, call_id="a", is_error=failed)))
    return summary(step)


@pytest.mark.parametrize(
    "output",
    [
        "test -f x || exit 1", "echo\nexit code 3\necho", "Exit code 3", "it exited with code 2\nOutput:\n",
        "x\n\nCommand exited with code 3", '{"exit_code":3}', '{"log": {"metadata": {"exit_code":3}}}',
        "Exit Code: 3\nSignal: (none)", '"exit_code":3',
    ],
)  # fmt: skip
def test_an_exit_code_in_the_output_is_not_that_of_the_command(output: str) -> None:
    """A command that succeeded and printed words about exit codes is counted by its lines."""
    assert shell_result(output).endswith((" line", " lines"))


@pytest.mark.parametrize(
    ("output", "failed"),
    [
        ("Exit code 3\nno", True),
        ("Exit code 3", True),
        ("Command failed with exit code 3", True),
        ("(no output)\n\nCommand exited with code 3", True),
        ("[Command exited with code 3]", True),
        ("no\n<exited with exit code 3>", True),
        ("Exit code: 3\nWall time: 0.1 seconds\nOutput:\nexit 1", False),
        ("Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code 3\nOutput:\nexit 1", False),
        ('{"output":"exit 1","metadata":{"exit_code":3,"duration_seconds":0.1}}', False),
        ("<untrusted_context>\nOutput: (empty)\nExit Code: 3\nProcess Group PGID: 6\n</untrusted_context>", False),
        ("Command: x\nDirectory: (root)\nOutput: exit 1\nError: (none)\nExit Code: 3\nSignal: (none)", False),
    ],
)
def test_exit_codes_of_tools(output: str, failed: bool) -> None:
    """The exit code is read where each tool writes it."""
    assert shell_result(output, failed=failed) == "exit 3"


def test_a_head_that_never_ends_takes_linear_time() -> None:
    """A line that could be split in many ways does not stall a page."""
    begun = process_time()
    shell_result("A with code with code with code with code with code\n" * 1_000)
    shell_result("A" + " with code" * 100_000)
    assert process_time() - begun < 1


def test_lines_are_short() -> None:
    """A line is cut with a mark."""
    assert tool_line(ToolCall(id="a", name="Bash", arguments={"command": "x" * 500}), width=40).endswith("x…")
    assert tool_line(ToolCall(id="a", name="Bash")) == "Bash"


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("claude-opus-4-5-20251101", "Opus 4.5"),
        ("claude-sonnet-4-20250514", "Sonnet 4"),
        ("claude-3-5-sonnet-20241022", "Sonnet 3.5"),
        ("claude-3-haiku-20240307", "Haiku 3"),
        ("us.anthropic.claude-opus-4-1-20250805-v1:0", "Opus 4.1"),
        ("anthropic/claude-haiku-4-5@20251001", "Haiku 4.5"),
        ("anthropic/claude-sonnet-4.5", "Sonnet 4.5"),
        ("gpt-5.1-codex", "gpt-5.1-codex"),
        ("gpt-4o-2024-08-06", "gpt-4o"),
        ("models/gemini-2.5-pro", "gemini-2.5-pro"),
        ("claude-x", "claude-x"),
        (None, ""),
    ],
)
def test_models_have_short_names(name: str | None, short: str) -> None:
    """A model is named as people call it."""
    assert short_model(name) == short


def test_paths_are_relative() -> None:
    """A path in the project loses the directory of the project, and no other path changes."""
    assert relative("/src/app/a/b.py", "/src/app/") == "a/b.py"
    assert relative("/src/apple/b.py", "/src/app") == "/src/apple/b.py"
    assert relative("/src/app", "/src/app") == "/src/app"
    assert relative("C:\\src\\a.py", "C:\\src") == "a.py"
    assert relative("a.py", None) == "a.py"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<untrusted_context>\nOutput: (empty)\nExit Code: 3\nProcess Group PGID: 6\n</untrusted_context>", ""),
        ("Output: a\nError: b\nExit Code: 1", "a\nb"),
        ("Command: a\nb\nDirectory: (root)\nOutput: a\nSignal: b\nc\nError: (none)\nSignal: (none)", "a\nSignal: b\nc"),
        ("Output: a\nError: (none)\nExit Code: 2\nExit Code: 0", "a\nError: (none)\nExit Code: 2"),
        ("Command: none", "Command: none"),
    ],
)
def test_labels_of_gemini_and_qwen_are_not_shown(text: str, shown: str) -> None:
    """What a command printed is shown without the lines that the program wrote around it."""
    _, (panel,) = face("run_shell_command", {"command": "x"}, text)
    assert panel == Terminal("x", shown)


@pytest.mark.parametrize(
    "text",
    [
        '<task id="ses_1" state="completed">\n<task_result>\nOne file.\n</task_result>\n</task>',
        "Subagent 'investigator' finished.\nTermination Reason: GOAL\nResult:\nOne file.",
        "One file.",
    ],
)
def test_answers_of_subagents_are_shown_alone(text: str) -> None:
    """What opencode and Gemini write around the answer of a subagent is left out."""
    _, shown = face("task", {"subagent_type": "general", "prompt": "Count"}, text)
    assert shown == [Prose("To general", "Count"), Prose("Answer", "One file.")]


def test_the_json_of_a_subagent_is_not_prose() -> None:
    """It keeps its lines; Markdown would join them."""
    text = '{\n  "SummaryOfFindings": "One file."\n}'
    wrapped = f"Subagent 'investigator' finished.\nTermination Reason: GOAL\nResult:\n{text}"
    _, shown = face("task", {"subagent_type": "general", "prompt": "Count"}, wrapped)
    assert shown == [Prose("To general", "Count"), Output(Text(text=text))]


@pytest.mark.parametrize(
    ("result", "name"),
    [
        ('{"agent_id":"01a1ec18-75d7","nickname":"Rawls"}', "Rawls"),
        ('{"agent_id":"01a1ec18-75d7"}', "spawn_agent"),
        ('{"nickname":"Rawls"}', "spawn_agent"),
        ("{no JSON", "spawn_agent"),
    ],
)
def test_a_subagent_of_codex_has_the_name_that_it_was_given(result: str, name: str) -> None:
    """The name is in the result, which says nothing else for the user."""
    line, shown = face("spawn_agent", {"message": "Count the files"}, result)
    assert line == f"{name}: Count the files"
    assert len(shown) == (1 if name == "Rawls" else 2)


@pytest.mark.parametrize(
    "text",
    [
        "<path>/src/app/a.py</path>\n<type>file</type>\n<content>\nx = 1\n\n(End of file - total 1 lines)\n</content>",
        "<path>/src/app/a.py</path>\n<type>file</type>\n<content>\nx = 1\n</content>",
        "Content of /src/app/a.py:\nx = 1",
        "x = 1",
    ],
)
def test_a_file_is_shown_without_what_is_written_around_it(text: str) -> None:
    """opencode and Continue name the file again in the result."""
    _, shown = face("read", {"filePath": "/src/app/a.py"}, text)
    assert shown == [Code("a.py", "x = 1")]


@pytest.mark.parametrize("tag", ["tool_use_error", "persisted-output"])
def test_tags_around_a_result_are_not_shown(tag: str) -> None:
    """Claude Code writes tags around its own errors and around the beginning of a long output, and shows none."""
    text = f"<{tag}>\nFile has not been read yet.\n</{tag}>"
    for name, arguments in (
        ("Edit", {"file_path": "/src/app/a.py", "old_string": "a", "new_string": "b"}),
        ("Read", {"file_path": "/src/app/a.py"}),
        ("Grep", {"pattern": "a"}),
    ):
        _, shown = face(name, arguments, text, is_error=True)
        assert shown[-1] == Output(Text(text="File has not been read yet."))
    assert face("Bash", {"command": "x"}, text)[1] == [Terminal("x", "File has not been read yet.")]
    printed = f"a <{tag}>b</{tag}>"
    assert face("Bash", {"command": "x"}, printed)[1] == [Terminal("x", printed)]


def test_files_of_cline_are_read() -> None:
    """A file that Cline's list of files names is shown as code, without a table."""
    line, shown = face("read_files", {"files": [{"path": "/src/app/a.py"}]}, "1 | x = 1")
    assert line == "read_files: a.py"
    assert shown == [Code("a.py", "1 | x = 1")]
