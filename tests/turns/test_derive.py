"""What is shown is derived from messages: turns, answers, steps and notes."""

from __future__ import annotations

from time import process_time
from typing import Any

import pytest

import clew
from clew.base.messages import Message, Native, Text, Thinking, ToolCall, ToolResult, Usage
from clew.providers.usage import AnswerUsage, Lanes
from clew.sources.aider import Aider
from clew.sources.chatgpt import ChatGPT
from clew.sources.claude_code import RULES, ClaudeCode
from clew.sources.cline import RULES as CLINE
from clew.sources.codex import RULES as CODEX
from clew.sources.codex import Codex
from clew.sources.gemini_cli import RULES as GEMINI
from clew.sources.pi import RULES as PI
from clew.sources.registry import sources
from clew.turns.derive import is_prompt, items, turns, typed_words
from clew.turns.faces import result_text
from clew.turns.model import PLAIN, ModelAnswer, ProgramNote, UserPrompt
from tests.sources.made import SESSION, claude_line, jsonl, titles
from tests.sources.samples.old_codex import THREAD, counted, line, meta, said, turn
from tests.turns.outline import entries, imported, made, outline

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def claude(*lines: dict[str, Any]) -> list[str]:
    """What is shown of a session of Claude Code."""
    (found,) = imported(ClaudeCode(), jsonl(lines), f"projects/p/{SESSION}.jsonl")
    return outline(found)


def answer(number: int, parent: int, content: Any, response: str, **usage: int) -> dict[str, Any]:
    """A line of an answer of Claude Code."""
    about = {"id": response, "model": "claude-opus-4-5-20251101", "usage": usage}
    return claude_line(number, parent, "assistant", content, message=about)


def test_lines_of_a_response_are_one_answer() -> None:
    """Lines of Claude Code with one message id are one answer, with its calls, their results and one usage."""
    used = {"input_tokens": 510, "output_tokens": 6}
    call = {"type": "tool_use", "id": "a", "name": "Read", "input": {"file_path": "/src/app/notes.txt"}}
    other = {"type": "tool_use", "id": "b", "name": "Bash", "input": {"command": "false"}}
    result = [{"type": "tool_result", "tool_use_id": "a", "content": "buy milk"}]
    failed = [{"type": "tool_result", "tool_use_id": "b", "content": "Exit code 1", "is_error": True}]
    assert claude(
        claude_line(1, None, "user", "What is in it?"),
        answer(2, 1, [{"type": "thinking", "thinking": "Look first"}], "msg_1", **used),
        answer(3, 2, [{"type": "text", "text": "I look."}], "msg_1", **used),
        answer(4, 3, [call], "msg_1", **used),
        answer(5, 4, [other], "msg_1", **used),
        claude_line(6, 4, "user", result),
        claude_line(7, 5, "user", failed),
        answer(8, 7, [{"type": "text", "text": "Milk."}], "msg_2", input_tokens=520, output_tokens=2),
    ) == [
        "You: 'What is in it?'",
        (
            "AI: thinking 'Look first' | I look. | Read<notes.txt> done, 1 line · 2 s: Code | "
            "Bash<false> failed, exit 1 · 2 s: Terminal [510 in, 6 out]"
        ),
        "AI: Milk. [520 in, 2 out]",
    ]


def test_machine_text_of_claude_code_is_not_the_user() -> None:
    """Commands, shells, reminders, interruptions, summaries and errors in the user's name are notes."""
    names = "<command-name>/compact</command-name>\n<command-message>compact</command-message>"
    compact = f"{names}\n<command-args>all</command-args>"
    nice = "<system-reminder>be nice</system-reminder>"
    assert claude(
        claude_line(1, None, "user", "<local-command-caveat>Caveat: do not answer</local-command-caveat>", isMeta=True),
        claude_line(2, 1, "user", compact),
        claude_line(3, 2, "user", "<local-command-stdout>Compacted</local-command-stdout>"),
        claude_line(4, 3, "user", "<bash-input>ls -la</bash-input>"),
        claude_line(5, 4, "user", "<bash-stdout>a.txt</bash-stdout><bash-stderr></bash-stderr>"),
        claude_line(6, 5, "user", f"<ide_opened_file>a.py is open</ide_opened_file>\nFix it\n{nice}"),
        claude_line(7, 6, "user", [{"type": "text", "text": "[Request interrupted by user for tool use]"}]),
        claude_line(8, 7, "user", "The skill says", isMeta=True),
        claude_line(9, 8, "assistant", "API Error: 529", isApiErrorMessage=True, message={"model": "<synthetic>"}),
        claude_line(10, 9, "user", "a <system-reminder> is a tag"),
    ) == [
        "(command: /compact all / Compacted)",
        "(shell: ls -la / a.txt)",
        "You: 'Fix it' (reminder: From the editor / a.py is open) (reminder: Reminder / be nice)",
        "(interruption: Interrupted / [Request interrupted by user for tool use])",
        "(reminder: Reminder / The skill says)",
        "(error: Error / API Error: 529)",
        "You: 'a <system-reminder> is a tag'",
    ]  # fmt: skip


def test_the_caveat_before_a_command_is_a_part_of_it() -> None:
    """Claude Code shows the command alone. A caveat that no command follows stays a reminder."""
    caveat = "<local-command-caveat>Caveat: do not answer</local-command-caveat>"
    command, prompt = made(
        clew.user(caveat),
        clew.user("<command-name>/clear</command-name>"),
        clew.user("<local-command-stdout>Cleared</local-command-stdout>"),
        clew.user("Hello"),
        rules=RULES,
    )
    assert isinstance(command, ProgramNote)
    assert (command.kind, command.title, command.text) == ("command", "/clear", "Cleared")
    assert [one.number for one in command.entries] == [1, 2, 3]
    assert isinstance(prompt, UserPrompt)
    assert outline(made(clew.user(caveat), clew.user("Hello"), rules=RULES)) == [
        "(caveat: Reminder / Caveat: do not answer)", "You: 'Hello'",
    ]  # fmt: skip


def test_a_custom_command_has_its_name_and_arguments() -> None:
    """The other order of the tags of a command is read too."""
    running = "<command-message>review is running…</command-message>"
    text = f"{running}\n<command-name>/review</command-name>\n<command-args>12</command-args>"
    (note,) = made(clew.user(text), rules=RULES)
    assert isinstance(note, ProgramNote)
    assert (note.kind, note.title) == ("command", "/review 12")


def test_a_compaction_is_a_seam_and_a_summary() -> None:
    """After a compaction the summary is a note, and the next prompt is a prompt."""
    boundary = {"type": "system", "subtype": "compact_boundary", "message": None, "logicalParentUuid": None}
    lines = [
        claude_line(1, None, "user", "Hello"),
        answer(2, 1, "Hi", "msg_1"),
        claude_line(3, None, "user", "") | boundary | {"logicalParentUuid": claude_line(2, 1, "user", "")["uuid"]},
        claude_line(4, 3, "user", "This session is being continued", isCompactSummary=True),
        claude_line(5, 4, "user", "And now?"),
    ]
    assert claude(*lines) == [
        "You: 'Hello'", "AI: Hi", "(compaction: )", "(summary: Summary / This session is being continued)",
        "You: 'And now?'",
    ]  # fmt: skip


def test_a_prompt_is_what_was_typed() -> None:
    """Line breaks, indentation and characters with a meaning in Markdown stay."""
    text = "web-1 timeout\n    indented\nfix src/__init__.py *them* &amp;"
    (prompt,) = made(clew.user(text))
    assert isinstance(prompt, UserPrompt)
    assert prompt.text == text


def test_items_of_codex_are_one_answer() -> None:
    """Reasoning, calls and text of one response are one answer; its environment and instructions are notes."""
    call = {"type": "function_call", "name": "shell", "call_id": "c1", "arguments": '{"command":["bash","-lc","ls"]}'}
    done = {
        "type": "function_call_output",
        "call_id": "c1",
        "output": '{"output":"a.txt\\n","metadata":{"exit_code":0}}',
    }
    inside = "<command>\npwd\n</command>\n<result>\nExit code: 0\nDuration: 0.1 seconds\nOutput:\n/src\n</result>"
    shell = f"<user_shell_command>\n{inside}\n</user_shell_command>"
    data = jsonl([
        meta(0, THREAD),
        said(0, "user", "<environment_context>\n<cwd>/src</cwd>\n</environment_context>"),
        said(0, "user", "# AGENTS.md instructions for /src\n\n<INSTRUCTIONS>Brief</INSTRUCTIONS>"),
        turn(1, 1),
        said(1, "user", "List it"),
        line(2, "response_item", {"type": "reasoning", "summary": [{"type": "summary_text", "text": "ls"}]}),
        said(2, "assistant", "I list."),
        line(2, "response_item", call),
        line(3, "response_item", done),
        counted(3, 9),
        said(4, "assistant", "One file."),
        counted(4, 18),
        said(5, "user", shell),
        said(6, "user", "<turn_aborted>\nstopped\n</turn_aborted>"),
    ])  # fmt: skip
    (found,) = imported(Codex(), data, f"sessions/2025/10/01/rollout-2025-10-01T10-00-00-{THREAD}.jsonl")
    assert outline(found) == [
        "(instructions: Environment / <cwd>/src</cwd>)",
        "(instructions: Project instructions / # AGENTS.md instructions for /src <INSTRUCTIONS>Brief</INSTRUCTIONS>)",
        "You: 'List it'",
        "AI: thinking 'ls' | I list. | shell<ls> done, exit 0 · 1 s: Terminal [7 in, 2 out]",
        "AI: One file. [7 in, 2 out]",
        "(shell: pwd / /src)",
        "(interruption: Interrupted / <turn_aborted> stopped </turn_aborted>)",
    ]


def test_an_answer_for_a_compaction_is_a_note() -> None:
    """What Codex let the model write for a compaction is no part of the answer before it."""
    data = jsonl([
        meta(0, THREAD),
        turn(1, 1),
        said(1, "user", "List it"),
        said(2, "assistant", "One file."),
        counted(2, 9),
        said(3, "assistant", "SUMMARY: a file."),
        counted(3, 18),
        line(4, "compacted", {"message": "A summary by another model:\nSUMMARY: a file."}),
        said(5, "user", "And now?"),
    ])  # fmt: skip
    (found,) = imported(Codex(), data, f"sessions/2025/10/01/rollout-2025-10-01T10-00-00-{THREAD}.jsonl")
    assert outline(found) == [
        "You: 'List it'",
        "AI: One file. [7 in, 2 out]",
        "(summary: Summary written / SUMMARY: a file.)",
        "(compaction: )",
        "(summary: Summary / A summary by another model: SUMMARY: a file.)",
        "You: 'And now?'",
    ]


def test_a_turn_of_codex_that_failed_has_its_error() -> None:
    """What the provider answered stands in the place of the answer, also in the middle; a turn without one has none."""
    told = {"type": "task_complete", "error": {"message": '{"error":{"message":"out of order"}}'}}
    data = jsonl([
        meta(0, THREAD),
        turn(1, 1),
        said(1, "user", "List it"),
        line(2, "event_msg", told),
        said(3, "user", "Again"),
        line(4, "event_msg", {**told, "error": {"message": "no JSON"}}),
        line(5, "event_msg", {**told, "error": None}),
        line(6, "event_msg", {**told, "error": {"message": 7}}),
        said(7, "user", "And now?"),
    ])  # fmt: skip
    (found,) = imported(Codex(), data, f"sessions/2025/10/01/rollout-2025-10-01T10-00-00-{THREAD}.jsonl")
    assert outline(found) == [
        "You: 'List it'",
        "(error: Error / out of order)",
        "You: 'Again'",
        "(error: Error / no JSON)",
        "You: 'And now?'",
    ]


def test_a_prompt_about_the_instructions_is_a_prompt() -> None:
    """Words that only begin like the instructions that Codex adds are what the user typed."""
    text = "# AGENTS.md instructions are ignored by the tool, why?"
    (prompt,) = made(clew.user(text), rules=CODEX)
    assert isinstance(prompt, UserPrompt)
    assert prompt.text == text


SPACE, MANY = " " * 100_000, 20_000
RESULTS = "<result></result>"


@pytest.mark.parametrize(
    "text",
    [
        f"<system-reminder>{SPACE}",
        f"<system-reminder>{SPACE}<",
        f"<user_shell_command>{SPACE}<command>{SPACE}</command>{SPACE}<result>{SPACE}</result>{SPACE}<",
        "<user_shell_command><command>" + f"</command>{RESULTS}" * MANY,
        "<command-message></command-message><command-name>" * MANY,
        f"# AGENTS.md instructions for {SPACE}",
        "a" + "<tick></tick>" * MANY,
        "<tick></tick>" * MANY,
        "<" + "user_context_" * MANY,
        f"<task-notification>{SPACE}<summary>{SPACE}",
        "<task-notification>" + "<summary></summary><result>" * MANY,
        f"<task-notification><summary></summary><result>{SPACE}</result>{SPACE}",
    ],
    ids=lambda text: f"{text[:30].strip()}-{len(text)}",
)
def test_any_text_takes_linear_time(text: str) -> None:
    """Tags that stay open, spaces and repetitions of 100,000 characters and more are split in a part of a second."""
    for rules in (getattr(source, "rules", PLAIN) for source in sources()):
        begun = process_time()
        typed_words(text, rules)
        assert process_time() - begun < 1


@pytest.mark.parametrize(
    ("output", "failed"),
    [
        ("Exit code: 1\nWall time: 0.1 seconds\nOutput:\nno", True),
        ("Chunk ID: ab12\nWall time: 0.05 seconds\nProcess exited with code 2\nOutput:\nno", True),
        ('{"output":"no","metadata":{"exit_code":1,"duration_seconds":0.1}}', True),
        ("Exit code: 0\nWall time: 0.1 seconds\nOutput:\nExit code: 1\n", False),
        ("A text: with Exit code: 1", False),
    ],
)
def test_commands_of_codex_fail_by_their_exit_code(output: str, failed: bool) -> None:
    """The exit code in a result of Codex says whether the command failed, where no event does."""
    call = clew.assistant(ToolCall(id="a", name="shell", arguments={"command": "x"}))
    result = clew.native("codex", {"type": "function_call_output", "call_id": "a", "output": output})
    (answer,) = made(call, result, rules=CODEX)
    assert isinstance(answer, ModelAnswer)
    assert [step.state for step in answer.steps] == ["failed" if failed else "done"]


def test_searches_of_the_provider_are_steps() -> None:
    """A web search that the provider made has the face of one, without a result."""
    raw = {"type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "sqlite wal"}}
    assert outline(made(clew.native("codex", raw), rules=CODEX)) == ["AI: web_search<sqlite wal> done, done: Prose"]


def test_what_claude_code_says_in_place_of_a_result_is_a_note() -> None:
    """A rejected call keeps what the user said to it; the same words in a prompt are the user's."""
    text = (
        "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the"
        " new_string was NOT written to the file). To tell you how to proceed, the user said:\nUse tabs"
    )
    call = clew.assistant(ToolCall(id="a", name="Bash", arguments={"command": "x"}))
    prompt, answer = made(clew.user(text), call, clew.tool(text, call_id="a", is_error=True), rules=RULES)
    assert isinstance(prompt, UserPrompt)
    assert prompt.text == text
    assert isinstance(answer, ModelAnswer)
    (step,) = answer.steps
    assert [note.title for note in step.notes] == ["Rejected"]
    assert result_text(step.result) == "Use tabs"


def test_what_stands_behind_the_answer_of_a_subagent_is_a_note() -> None:
    """Claude Code tells the model how to continue the subagent, and does not show it."""
    used = "<usage>total_tokens: 35465\ntool_uses: 15\nduration_ms: 63829</usage>"
    for how in ("for resuming to continue this agent's work if needed", "use SendMessage with to: 'a06' to continue"):
        answer = [Text(text="Two files."), Text(text=f"agentId: a06 ({how})\n{used}")]
        call = clew.assistant(ToolCall(id="a", name="Task", arguments={"subagent_type": "Explore", "prompt": "Count"}))
        (shown,) = made(call, Message("tool", (ToolResult(call_id="a", content=tuple(answer)),)), rules=RULES)
        assert isinstance(shown, ModelAnswer)
        (step,) = shown.steps
        assert [note.title for note in step.notes] == ["Subagent"]
        assert result_text(step.result).strip() == "Two files."


def test_the_file_of_a_pasted_image_is_named() -> None:
    """Claude Code says where it is in a line of its own."""
    for place in ("/tmp/images/1.png", "C:\\images\\1.png", "1.png"):
        assert outline(made(clew.user(f"[Image: source: {place}]"), rules=RULES)) == ["(reminder: Image / 1.png)"]


def test_the_end_of_a_task_in_the_background_is_a_line() -> None:
    """It has the summary as its title, and the result below it."""
    begin, end = (
        "<task-notification>\n<task-id>a</task-id>\n<summary>Agent finished</summary>\n",
        "</task-notification>",
    )
    assert outline(made(clew.user(f"{begin}<result>One\nfile.</result><usage>1</usage>{end}"), rules=RULES)) == [
        "(reminder: Agent finished / One file.)"
    ]
    assert outline(made(clew.user(begin + end), rules=RULES)) == ["(reminder: Agent finished)"]


def test_calls_of_gemini_belong_to_the_answer_before_them() -> None:
    """A message of calls that names no model is no answer of its own; a message with a model is one."""
    call = ToolCall(id="a", name="read_file", arguments={"file_path": "a.txt"})
    first = clew.assistant("Let me look.", model="gemini-2.5-flash")
    loose = Message(role="assistant", blocks=(call, ToolResult(call_id="a", content=(Text("alpha"),))))
    last = clew.assistant("It says alpha.", model="gemini-2.5-flash")
    assert outline(made(first, loose, loose, last, rules=GEMINI)) == [
        "AI: Let me look. | read_file<a.txt> done, 1 line: Code | read_file<a.txt> done, 1 line: Code",
        "AI: It says alpha.",
    ]


def test_pieces_of_reasoning_are_one_part() -> None:
    """Gemini and Codex store a thought as several blocks; hidden ones add nothing."""
    blocks = (Thinking(text="Which"), Thinking(text=""), Thinking(text="one?"), Text("Rome."), Thinking(text="So"))
    assert outline(made(Message("assistant", blocks))) == ["AI: thinking 'Which\\n\\none?' | Rome. | thinking 'So'"]


def test_commands_of_aider_are_commands() -> None:
    """What the user typed to the program and not to the model is a command."""
    lines = ["#### /add a.txt  \n", "> Added  \n", "#### Change it  \n", "Done.\n", "#### End  \n", "Yes.\n"]
    text = "\n# aider chat started at 2026-11-01 10:00:00\n\n" + "\n".join(lines)
    (found,) = imported(Aider(), text.encode(), ".aider.chat.history.md")
    assert outline(found)[0] == "(command: /add a.txt)"
    assert "You: 'Change it'" in outline(found)


def test_a_shell_of_pi_is_a_shell() -> None:
    """A command that the user ran in pi is a shell with its output."""
    raw = {"role": "bashExecution", "command": "ls", "output": "a.txt\nb.txt"}
    assert outline(made(clew.native("pi", raw), rules=PI)) == ["(shell: ls / a.txt b.txt)"]


def test_what_cline_adds_is_a_note() -> None:
    """The surroundings that Cline adds to a prompt are not the user's words."""
    said = [
        {"type": "text", "text": "<task>\nFix it\n</task>"},
        {"type": "text", "text": "# task_progress RECOMMENDED\n\nMake a list."},
        {"type": "text", "text": "<environment_details>\nx\n</environment_details>"},
    ]
    assert outline(made(clew.native("cline", {"role": "user", "content": said}), rules=CLINE)) == [
        ("You: 'Fix it' (reminder: To-do list / # task_progress RECOMMENDED Make a list.) (reminder: Environment / x)")
    ]


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        ('"Fix the \\"first\\" one"', 'Fix the "first" one'),
        ('Fix "it all"', 'Fix "it all"'),
        ('"Fix it" and "that one"', '"Fix it" and "that one"'),
        ('"Fix"', '"Fix"'),
    ],
)
def test_a_prompt_of_opencode_is_what_was_typed(stored: str, shown: str) -> None:
    """``opencode run`` puts quotes around an argument with a space."""
    said = {"info": {"role": "user"}, "parts": [{"type": "text", "text": stored}]}
    (prompt,) = made(clew.native("opencode", said))
    assert isinstance(prompt, UserPrompt)
    assert prompt.text == shown


def chatgpt(content_type: str, **more: Any) -> Native:
    """A message of the assistant in an export of ChatGPT."""
    text = more.pop("text", None)
    content = {"content_type": content_type, **({"parts": [text]} if content_type == "text" else {"content": text})}
    return clew.native("chatgpt", {"author": {"role": "assistant"}, "content": content, **more})


def test_references_in_an_answer_of_chatgpt_are_links() -> None:
    """They have the words that ChatGPT shows for them; a reference without words is left out."""
    cited, group = "\ue200cite\ue202turn0search0\ue201", "\ue200image_group\ue202{}\ue201"
    text = f'Red. {cited} See \ue200entity\ue202["city","Rome","capital"]\ue201.{group}\ue200cite\ue202turn1view0\ue201'
    references = [{"matched_text": cited, "alt": "([Wiki](https://example.org))"}, {"matched_text": group, "alt": None}]
    found = made(chatgpt("text", text=text, metadata={"content_references": references}))
    assert outline(found) == ["AI: Red. ([Wiki](https://example.org)) See Rome."]


def test_thoughts_of_chatgpt_have_their_headings() -> None:
    """A thought is a heading and its words; one of them may be missing."""
    thoughts = [{"summary": "Looking", "content": "It is red."}, {"content": "Done."}, {"summary": "Writing"}]
    said = {"author": {"role": "assistant"}, "content": {"content_type": "thoughts", "thoughts": thoughts}}
    found = made(clew.native("chatgpt", said), rules=ChatGPT.rules)
    words = "**Looking**\n\nIt is red.\n\nDone.\n\nWriting"
    assert outline(found) == [f"AI: thinking {words!r}"]


def test_the_parts_of_an_answer_of_chatgpt_are_one_answer() -> None:
    """Reasoning, how long it took and the answer are messages of their own in the export."""
    found = made(chatgpt("reasoning_recap", text="Thought for 4s"), chatgpt("text", text="Red."), rules=ChatGPT.rules)
    assert outline(found) == ["AI: thinking 'Thought for 4s' | Red."]


def test_an_empty_message_of_chatgpt_is_a_part_of_the_answer_before_it() -> None:
    """ChatGPT ends an answer with one after it has drawn a picture, and shows nothing of it."""
    drawn = {"author": {"role": "tool", "name": "image"}, "content": {"content_type": "text", "parts": ["drawn"]}}
    found = made(
        clew.user("Draw it"),
        chatgpt("text", text="red", recipient="image"),
        clew.native("chatgpt", drawn),
        chatgpt("text", text=""),
        rules=ChatGPT.rules,
    )
    assert outline(found) == ["You: 'Draw it'", "AI: image<red> done, 1 line: ArgumentTable Output"]
    assert [one.number for one in found[-1].entries] == [2, 4]


def test_an_error_of_cline_is_not_an_answer() -> None:
    """Cline stores a failed request as a message of the assistant, which it shows as an error."""
    failed = {
        "role": "assistant",
        "content": [{"type": "text", "text": "bad request"}],
        "metadata": {"displayOnly": True, "displayRole": "error"},
    }
    found = made(clew.user("Hello"), clew.native("cline", failed), rules=CLINE)
    assert outline(found) == ["You: 'Hello'", "(error: Error / bad request)"]


def test_images_are_part_of_a_prompt() -> None:
    """A pasted image stands with the text."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    assert claude(claude_line(1, None, "user", [image, {"type": "text", "text": "What is it?"}])) == [
        "You: 'What is it?' <image/png>"
    ]


def test_titles_are_made_of_typed_words() -> None:
    """A command that a program stores as a prompt gives a conversation no title."""
    lines = ["#### /add a.txt  \n", "> Added  \n", "#### Rename the parser  \n", "Done.\n", "#### End  \n", "Yes.\n"]
    text = "\n# aider chat started at 2026-11-01 10:00:00\n\n" + "\n".join(lines)
    assert titles(Aider(), text.encode(), ".aider.chat.history.md") == ["Rename the parser"]


def test_system_prompts_are_notes() -> None:
    """A system message is a note, whatever the source."""
    assert outline(made(clew.system("Be brief."), clew.user("Hi"))) == [
        "(instructions: System prompt / Be brief.)", "You: 'Hi'",
    ]  # fmt: skip


def test_a_part_of_a_conversation() -> None:
    """The function works on any window: a result whose call is not in it is a step without a call."""
    all_entries = entries([
        clew.user("Go"),
        clew.assistant(ToolCall(id="a", name="Bash", arguments={"command": "ls"})),
        clew.tool("a.txt", call_id="a"),
        clew.assistant("One file."),
    ])  # fmt: skip
    assert outline(items(all_entries[2:])) == ["AI: Result<a> done, 1 line: Output", "AI: One file."]
    assert [len(list(turn)) for turn in turns(all_entries)] == [3]
    assert turns(all_entries[1:])[0].prompt is None


def test_equal_ids_of_calls() -> None:
    """A result belongs to the first call with its id that has none yet: some programs have names as ids."""
    found = made(
        clew.assistant(ToolCall(id="python", name="python", arguments={"input": "1"})),
        clew.tool("one", call_id="python"),
        clew.assistant(ToolCall(id="python", name="python", arguments={"input": "2"})),
        clew.tool("two", call_id="python"),
    )
    results = [step.result for item in found if isinstance(item, ModelAnswer) for step in item.steps]
    assert [one.content[0].text for one in results if one] == ["one", "two"]  # type: ignore[union-attr]


def test_a_change_of_the_model_is_a_note() -> None:
    """Where another model answers, a note says so, with short names."""
    found = made(clew.assistant("a", model="claude-opus-4-5-20251101"), clew.assistant("b", model="gpt-5.1-codex"))
    assert outline(found) == ["AI: a", "(model: Opus 4.5 → gpt-5.1-codex)", "AI: b"]


def test_unknown_usage_is_not_zero() -> None:
    """An answer with zeros, and one without counts, has no tokens to show; lines of one count once."""
    (answer,) = made(clew.assistant("a", usage=Usage(input=0, output=0)))
    assert outline([answer]) == ["AI: a"]
    first, second = ({"id": "m", "role": "assistant", "content": [{"type": "text", "text": "x"}]} for _ in "ab")
    extra = {"usage": {"input": 5, "output": 1, "cached": 7}}
    found = made(
        Native("anthropic", _json(first), extra=extra), Native("anthropic", _json(second), extra=extra), rules=RULES
    )
    assert outline(found) == ["AI: x | x [5 in, 7 cached, 1 out]"]
    assert isinstance(found[0], ModelAnswer)
    assert found[0].usage == AnswerUsage("m", "", Lanes(5, 7, 0, 0, 1), None)
    assert found[0].id == "m"


def test_reminders_in_results_are_set_apart() -> None:
    """What Claude Code adds to the result of a tool is not its output."""
    text = "1→import os\n\n<system-reminder>\nConsider malware.\n</system-reminder>"
    found = made(
        clew.assistant(ToolCall(id="a", name="Read", arguments={"file_path": "a.py"})),
        clew.tool(text, call_id="a"),
        rules=RULES,
    )
    (step,) = found[0].steps  # type: ignore[union-attr]
    assert step.result is not None
    assert step.result.content == (Text(text="1→import os"),)
    assert [note.text for note in step.notes] == ["Consider malware."]


@pytest.mark.parametrize(
    ("text", "rules", "typed"),
    [
        ("<system-reminder>x</system-reminder>", RULES, False),
        ("[Request interrupted by user]", RULES, False),
        ("Explain [Request interrupted by user]", RULES, True),
        ("<environment_context>x</environment_context>", CODEX, False),
        ("<b>x</b>", RULES, True),
        ("", RULES, True),
    ],
)
def test_prompts_are_told_from_machine_text(text: str, rules: Any, typed: bool) -> None:
    """Only text that begins with a whole mark of the program is the program's."""
    (one,) = entries([clew.user(text)])
    assert is_prompt(one, rules) is typed


def test_a_message_with_results_and_words() -> None:
    """Words beside results are a prompt; the results belong to their calls."""
    both = clew.native("anthropic", {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "a", "content": "no"}, {"type": "text", "text": "Do it differently"},
    ]})  # fmt: skip
    found = made(clew.assistant(ToolCall(id="a", name="Bash", arguments={"command": "rm x"})), both)
    assert outline(found) == ["AI: Bash<rm x> done, 1 line: Terminal", "You: 'Do it differently'"]


def test_results_in_the_same_message() -> None:
    """A source that stores a call with its result has both in one step."""
    message = clew.Message("assistant", (
        ToolCall(id="a", name="bash", arguments={"command": "exit 3"}),
        ToolResult(call_id="a", content=(Text(text="(no output)"),), is_error=True),
        Text(text="It failed."),
    ))  # fmt: skip
    assert outline(made(message)) == ["AI: bash<exit 3> failed, error: Terminal | It failed."]


def _json(value: dict[str, Any]) -> bytes:
    import json

    return json.dumps(value).encode()
