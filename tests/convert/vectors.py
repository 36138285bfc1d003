"""Conversations as each provider has them: everything that their documents show, and something that they do not."""

from __future__ import annotations

import json
from typing import Any

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
PDF = "JVBERi0xLjQKJSVFT0YK"
WAV = "UklGRiQAAABXQVZFZm10IA=="

ANTHROPIC: list[dict[str, Any]] = [
    {"role": "user", "content": "Why is the build failing?"},
    {
        "id": "msg_01", "type": "message", "model": "claude-x", "stop_reason": "tool_use",
        "usage": {"input_tokens": 812, "output_tokens": 61},
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "The log will say.", "signature": "EqQBCkYIBxgCKkA"},
            {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3p"},
            {"type": "text", "text": "I look at two files."},
            {"type": "tool_use", "id": "toolu_01A", "name": "read_file",
             "input": {"path": "setup.cfg", "n": 12345678901234567890123}},
            {"type": "tool_use", "id": "toolu_01B", "name": "screenshot", "input": {}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "toolu_01A", "content": "no such file", "is_error": True},
            {
                "type": "tool_result", "tool_use_id": "toolu_01B",
                "content": [
                    {"type": "text", "text": "the screen"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
                ],
            },
            {"type": "text", "text": "And this?", "cache_control": {"type": "ephemeral"}},
            {"type": "image", "source": {"type": "url", "url": "https://pictures.test/a.jpg"}},
            {
                "type": "document", "title": "report.pdf", "citations": {"enabled": True},
                "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
            },
            {"type": "document", "source": {"type": "url", "url": "https://papers.test/paper.pdf"}},
            {"type": "document", "title": "Notes",
             "source": {"type": "text", "media_type": "text/plain", "data": "plain words"}},
            {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "a chunk"}]}},
            {"type": "document", "source": {"type": "file", "file_id": "file_011"}},
        ],
    },
    {
        "role": "assistant",
        "content": [
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "lint E501"}},
            {
                "type": "web_search_tool_result", "tool_use_id": "srvtoolu_1",
                "content": [{
                    "type": "web_search_result", "title": "Line length", "url": "https://lint.test/E501",
                    "encrypted_content": "EqgfCioIARgB", "page_age": None,
                }],
            },
            {
                "type": "text", "text": "The lint step fails.",
                "citations": [{
                    "type": "web_search_result_location", "cited_text": "E501", "url": "https://lint.test/E501",
                    "title": "Line length", "encrypted_index": "Eo8B",
                }],
            },
            {"type": "container_upload", "file_id": "file_012"},
            {"type": "block_of_next_year", "z": 1},
        ],
    },
    {"role": "user", "content": [{"type": "text", "text": "Fix it."}]},
]  # fmt: skip

OPENAI: list[dict[str, Any]] = [
    {"role": "system", "content": "You are terse."},
    {"role": "user", "content": "Why is the build failing?", "name": "ada"},
    {
        "role": "assistant", "content": None, "refusal": None, "annotations": [],
        "tool_calls": [
            {"id": "call_A", "type": "function",
             "function": {"name": "read_file", "arguments": '{"path": "setup.cfg"}'}},
            {"id": "call_B", "type": "function", "function": {"name": "list", "arguments": "{not json"}},
            {"id": "call_C", "type": "custom", "custom": {"name": "python", "input": "print(1)"}},
        ],
    },
    {"role": "tool", "tool_call_id": "call_A", "content": "max-line-length = 79"},
    {"role": "tool", "tool_call_id": "call_B", "content": [{"type": "text", "text": "a.py"}]},
    {"role": "tool", "tool_call_id": "call_C", "content": "1"},
    {"role": "assistant", "content": "Lint.", "reasoning_content": "Line length, so lint."},
    {"role": "developer", "content": "Answer in French from now on."},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "Look and listen."},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}", "detail": "high"}},
            {"type": "image_url", "image_url": {"url": "https://pictures.test/a"}},
            {"type": "input_audio", "input_audio": {"data": WAV, "format": "wav"}},
            {"type": "file", "file": {"filename": "report.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}},
            {"type": "file", "file": {"file_id": "file-abc"}},
            {"type": "part_of_next_year", "z": 1},
        ],
    },
    {"role": "assistant", "content": None, "refusal": "I cannot help with that."},
    {
        "role": "assistant", "content": None,
        "audio": {"id": "audio_1", "expires_at": 1, "data": WAV, "transcript": "Bonjour."},
    },
    {"role": "assistant", "content": None, "function_call": {"name": "old_way", "arguments": "{}"}},
    {"role": "function", "name": "old_way", "content": "still works"},
    {"role": "assistant", "content": [{"type": "text", "text": "Fin."}, {"type": "refusal", "refusal": "Non."}]},
    {"role": "user", "content": "Merci."},
]  # fmt: skip

RESPONSES: list[dict[str, Any]] = [
    {"role": "user", "content": [{"type": "input_text", "text": "Why is the build failing?"}]},
    {
        "type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Look at the log."}],
        "encrypted_content": "gAAAAABo",
    },
    {
        "type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "phase": "commentary",
        "content": [{
            "type": "output_text", "text": "I look.",
            "annotations": [
                {"type": "url_citation", "url": "https://lint.test", "title": "L", "start_index": 0, "end_index": 1}
            ],
        }],
    },
    {"type": "function_call", "id": "fc_1", "call_id": "call_A", "name": "read_file",
     "arguments": '{"path":"a"}', "status": "completed"},
    {"type": "function_call", "id": "fc_2", "call_id": "call_B|fc_0123456789", "name": "screenshot", "arguments": ""},
    {"type": "function_call_output", "call_id": "call_A", "output": "max-line-length = 79"},
    {
        "type": "function_call_output", "call_id": "call_B|fc_0123456789",
        "output": [
            {"type": "input_text", "text": "the screen"},
            {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
        ],
    },
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "E501"}},
    {
        "type": "code_interpreter_call", "id": "ci_1", "code": "print(1)", "container_id": "c", "status": "completed",
        "outputs": [{"type": "logs", "logs": "1"}],
    },
    {"type": "image_generation_call", "id": "ig_1", "result": PNG, "status": "completed"},
    {"type": "shell_call", "call_id": "call_S", "action": {"commands": ["ls"]}, "status": "completed"},
    {
        "type": "shell_call_output", "call_id": "call_S",
        "output": [{"stdout": "a.py", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
    },
    {"type": "custom_tool_call", "call_id": "call_P", "name": "python", "input": "print(1)"},
    {"type": "custom_tool_call_output", "call_id": "call_P", "output": "1"},
    {
        "type": "message", "id": "msg_2", "role": "assistant", "status": "completed",
        "content": [{"type": "refusal", "refusal": "I cannot help with that."}],
    },
    {"type": "compaction", "encrypted_content": "gQQcompact"},
    {"type": "item_of_next_year", "z": 1},
    {
        "type": "message", "role": "user",
        "content": [
            {"type": "input_image", "detail": "low", "image_url": "https://pictures.test/a.png"},
            {"type": "input_file", "filename": "report.pdf", "file_data": f"data:application/pdf;base64,{PDF}"},
            {"type": "input_file", "file_url": "https://papers.test/paper.pdf"},
            {"type": "input_file", "file_id": "file-abc"},
            {"type": "input_image", "detail": "auto", "file_id": "file-abd"},
        ],
    },
]  # fmt: skip

GEMINI: list[dict[str, Any]] = [
    {"role": "user", "parts": [{"text": "Why is the build failing?"}]},
    {
        "role": "model",
        "parts": [
            {"text": "The log will say.", "thought": True},
            {"text": "I look.", "thoughtSignature": "AVSoXO4="},
            {"functionCall": {"name": "read_file", "args": {"path": "a"}}, "thoughtSignature": "AVSoXO5="},
            {"functionCall": {"name": "read_file", "args": {"path": "b"}}},
            {"functionCall": {"id": "x/1", "name": "default_api:screenshot", "args": {}}},
        ],
    },
    {
        "role": "user",
        "parts": [
            {"functionResponse": {"name": "read_file", "response": {"output": "79"}}},
            {"functionResponse": {"name": "read_file", "response": {"error": "no such file"}}},
            {
                "functionResponse": {
                    "id": "x/1", "name": "default_api:screenshot", "response": {"width": 1, "height": 1},
                    "parts": [{"inlineData": {"mimeType": "image/png", "data": PNG}}],
                }
            },
        ],
    },
    {
        "role": "model",
        "parts": [
            {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
            {"text": "Lint."},
            {"inlineData": {"mimeType": "image/png", "data": PNG.replace("+", "-").replace("/", "_")}},
        ],
    },
    {
        "role": "user",
        "parts": [
            {"inlineData": {"mimeType": "audio/wav", "data": WAV}},
            {"inlineData": {"mimeType": "application/pdf", "data": PDF, "displayName": "report.pdf"}},
            {"inlineData": {"mimeType": "text/csv", "data": "YSxiCjEsMgo="}},
            {"fileData": {"mimeType": "video/mp4", "fileUri": "https://www.youtube.com/watch?v=1"},
             "videoMetadata": {"fps": 1.0}},
            {"fileData": {"mimeType": "image/png", "fileUri": "https://generativelanguage.googleapis.com/v1beta/files/abc"}},
            {"fileData": {"mimeType": "image/png", "fileUri": "gs://bucket/a.png"}},
            {"partOfNextYear": {"z": 1}},
            {"text": "And these?"},
        ],
    },
    {"role": "model", "parts": [{"functionCall": {"name": "never_answered", "args": {}}}]},
]  # fmt: skip

CONVERSATIONS = {"anthropic": ANTHROPIC, "openai": OPENAI, "openai-responses": RESPONSES, "gemini": GEMINI}


def raw(provider: str) -> list[bytes]:
    """The messages of a provider as bytes with unusual whitespace."""
    return [json.dumps(message, indent=1).encode() for message in CONVERSATIONS[provider]]
