"""Histories that genuine programs wrote are shown as in the program."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from clew.sources.registry import rules_for
from clew.turns.derive import items
from clew.turns.model import entry
from tests.sources.samples.recorded import CLAUDE_CODE, RECORDED
from tests.sources.test_apps import all_sessions
from tests.sources.test_recorded import imported
from tests.turns.outline import outline

JOURNEY = [
    "You: 'Where are we going?'",
    "AI: thinking 'Which one?' | Rome. [10 in, 5 out]",
    "You: 'What is in a.txt?'",
    "AI: Let me look. | read<a.txt> done, 1 line: Code [10 in, 5 out]",
    "AI: It says alpha. [10 in, 5 out]",
]
SPOKEN = re.compile(r"(\((?:reminder: (?:In the background|Rejected)|summary: Summary) /) .*$", re.DOTALL)
"""What Claude Code wrote for the model."""
TWO = "Bash<echo one; exit 3> failed, exit 3: Terminal | Bash<echo two> done, 1 line: Terminal"
WAIT = "Bash<python3 -c 'import time; time.sleep(50)'> failed, error · 6 s: Terminal"
USED = "[10 in, 5 out]"
NONE = "<none.txt> failed, error: Output [10 in, 5 out]"
SHOWN = {
    "claude-code": [
        "You: 'Run both of them:\\n  web-1 timeout\\n  fix src/__init__.py and *them*, a &amp; b\\n'",
        f"AI: thinking 'Two commands at once.' | I look at both. | {TWO} {USED}",
        f"AI: One failed, the other\nprinted **two**.\n\n- [x] one\n- [ ] two\n\n```python\nprint(1)\n``` {USED}",
        "You: 'Ask me something'",
        f"AI: AskUserQuestion<Which colour?> done, done · 5 s: Question {USED}",
        f"AI: Red it is. {USED}",
        "You: 'Write the app and change it'",
        f"AI: Write<src/app.py> done, +2: Diff {USED}",
        f"AI: Edit<src/app.py> done, +1 −1: Diff {USED}",
        f"AI: It returns 2. {USED}",
        "You: 'What is in pixel.png?'",
        f"AI: Read<pixel.png> done, 1 attachment: Output {USED}",
        f"AI: A red pixel. {USED}",
        "You: 'Let an agent count the files'",
        "AI: Explore<Count the files> done, done: Prose(reminder: In the background / …)",
        f"AI: An agent counts. {USED}",
        '(reminder: Agent "Count the files" finished / One file: src/app.py.)',
        f"AI: The agent found one file. {USED}",
        "You: 'Wait a minute'",
        f"AI: I wait. | {WAIT}(reminder: Rejected / …)",
        "(interruption: Interrupted / [Request interrupted by user for tool use])",
        "(shell: ls src / app.py)",
        f"AI: One file there. {USED}",
        "(compaction: )",
        "(summary: Summary / …)",
        "(command: /compact / \x1b[2mCompacted (ctrl+o to see full summary)\x1b[22m)",
        "You: 'And now?'",
        f"AI: After the compaction. {USED}",
        "(command: /model claude-haiku-4-5-20251001 / Kept model as `Opus 4.5`)",
        "You: 'And this?' <image/png>",
        "(reminder: Image / 1.png)",
        f"AI: A red pixel, too. {USED}",
    ],
    "gemini-cli": [
        "(instructions: Environment / Workspace Directories:** - /home/user/work)",
        "You: 'Send an agent'",
        f"AI: codebase_investigator<Look around> done, done: Prose Output {USED}",
        f"AI: The agent found one file. {USED}",
    ],
    "pi": [
        "(instructions: System prompt / Be brief. <cwd> /home/user/work </cwd>)",
        *JOURNEY,
        "You: 'Do it all'",
        f"AI: Both at once. | bash<exit 3> failed, exit 3: Terminal | read{NONE}",
        "AI: Both failed. [10 in, 5 out]",
    ],
    "opencode": [
        *JOURNEY[:3],
        "AI: Let me look. | read<a.txt> done, 1 line: Code [10 in, 5 out]",
        JOURNEY[4],
        "You: 'Do it all'",
        f"AI: Both at once. | bash<exit 3> failed, error: Terminal | read{NONE}",
        "AI: Both failed. [10 in, 5 out]",
    ],
    "goose": [
        "You: 'Where are we going?'",
        "AI: thinking 'Which one?' | Rome.",
        "You: 'What is in a.txt?'",
        "AI: Let me look. | shell<cat a.txt> done, 1 line: Terminal",
        "AI: It says alpha.",
        "You: 'Do it all'",
        "AI: Both at once. | shell<exit 3> failed, exit 3: Terminal",
        "AI: shell<echo hi> done, 1 line: Terminal",
        "AI: One of them failed.",
    ],
    "qwen-code": [
        *JOURNEY[:3],
        "AI: Let me look. | read_file<a.txt> done, 1 line: Code [10 in, 5 out]",
        JOURNEY[4],
        "You: 'Do it all'",
        f"AI: Both at once. | run_shell_command<echo hi> done, exit 0: Terminal | read_file{NONE}",
        "AI: One of them failed. [10 in, 5 out]",
    ],
}


@pytest.mark.parametrize("name", SHOWN)
def test_a_conversation_is_shown_as_in_its_program(name: str, tmp_path: Path) -> None:
    """Prompts, answers, calls with their results and system prompts, with paths in the project."""
    sample = next(one for one in [CLAUDE_CODE, *RECORDED] if one.name == name)
    with imported(sample, tmp_path) as store:
        found = [
            outline(items(map(entry, session.history()), rules_for(session), project=session.cwd or ""))
            for session in all_sessions(store)
        ]
    assert SHOWN[name] in [[SPOKEN.sub(r"\1 …)", line) for line in lines] for lines in found]


def test_an_error_is_a_note(tmp_path: Path) -> None:
    """An answer that failed is an error, and not a block of an unknown kind."""
    sample = next(one for one in RECORDED if one.name == "pi")
    with imported(sample, tmp_path) as store:
        found = [outline(items(map(entry, one.history()), rules_for(one))) for one in all_sessions(store)]
    (failed,) = [lines for lines in found if "You: 'This one fails'" in lines]
    assert failed[-1].startswith("(error: Error / ")
