CREATE TABLE "conversations" (
   "id" TEXT PRIMARY KEY,
   "name" TEXT,
   "model" TEXT
);
CREATE TABLE "attachments" (
   "id" TEXT PRIMARY KEY,
   "type" TEXT,
   "path" TEXT,
   "url" TEXT,
   "content" BLOB
);
CREATE TABLE "prompt_attachments" (
   "response_id" TEXT REFERENCES "responses"("id"),
   "attachment_id" TEXT REFERENCES "attachments"("id"),
   "order" INTEGER,
   PRIMARY KEY ("response_id", "attachment_id")
);
CREATE TABLE "schemas" (
   "id" TEXT PRIMARY KEY,
   "content" TEXT
);
CREATE TABLE "responses" (
   "id" TEXT PRIMARY KEY,
   "model" TEXT,
   "prompt" TEXT,
   "system" TEXT,
   "prompt_json" TEXT,
   "options_json" TEXT,
   "response" TEXT,
   "response_json" TEXT,
   "conversation_id" TEXT REFERENCES "conversations"("id"),
   "duration_ms" INTEGER,
   "datetime_utc" TEXT,
   "input_tokens" INTEGER,
   "output_tokens" INTEGER,
   "token_details" TEXT,
   "schema_id" TEXT REFERENCES "schemas"("id")
, "resolved_model" TEXT, "reasoning" TEXT);
CREATE TABLE "fragments" (
   "id" INTEGER PRIMARY KEY,
   "hash" TEXT,
   "content" TEXT,
   "datetime_utc" TEXT,
   "source" TEXT
);
CREATE TABLE "fragment_aliases" (
   "alias" TEXT PRIMARY KEY,
   "fragment_id" INTEGER REFERENCES "fragments"("id")
);
CREATE TABLE "prompt_fragments" (
   "response_id" TEXT REFERENCES "responses"("id"),
   "fragment_id" INTEGER REFERENCES "fragments"("id"),
   "order" INTEGER,
   PRIMARY KEY ("response_id", "fragment_id", "order")
);
CREATE TABLE "system_fragments" (
   "response_id" TEXT REFERENCES "responses"("id"),
   "fragment_id" INTEGER REFERENCES "fragments"("id"),
   "order" INTEGER,
   PRIMARY KEY ("response_id", "fragment_id", "order")
);
CREATE TABLE "tools" (
   "id" INTEGER PRIMARY KEY,
   "hash" TEXT,
   "name" TEXT,
   "description" TEXT,
   "input_schema" TEXT
, "plugin" TEXT);
CREATE TABLE "tool_responses" (
   "tool_id" INTEGER REFERENCES "tools"("id"),
   "response_id" TEXT REFERENCES "responses"("id"),
   PRIMARY KEY ("tool_id", "response_id")
);
CREATE TABLE "tool_calls" (
   "id" INTEGER PRIMARY KEY,
   "response_id" TEXT REFERENCES "responses"("id"),
   "tool_id" INTEGER REFERENCES "tools"("id"),
   "name" TEXT,
   "arguments" TEXT,
   "tool_call_id" TEXT
);
CREATE TABLE "tool_instances" (
   "id" INTEGER PRIMARY KEY,
   "plugin" TEXT,
   "name" TEXT,
   "arguments" TEXT
);
CREATE TABLE "tool_results" (
   "id" INTEGER PRIMARY KEY,
   "response_id" TEXT REFERENCES "responses"("id"),
   "tool_id" INTEGER REFERENCES "tools"("id"),
   "name" TEXT,
   "output" TEXT,
   "tool_call_id" TEXT,
   "instance_id" INTEGER REFERENCES "tool_instances"("id")
, "exception" TEXT);
CREATE TABLE "tool_results_attachments" (
   "tool_result_id" INTEGER REFERENCES "tool_results"("id"),
   "attachment_id" TEXT REFERENCES "attachments"("id"),
   "order" INTEGER,
   PRIMARY KEY ("tool_result_id", "attachment_id")
);
CREATE TABLE "messages" (
   "hash" TEXT PRIMARY KEY,
   "parent_hash" TEXT REFERENCES "messages"("hash"),
   "role" TEXT,
   "provider_metadata" TEXT
);
CREATE TABLE "parts" (
   "id" INTEGER PRIMARY KEY,
   "message_hash" TEXT REFERENCES "messages"("hash"),
   "position" INTEGER,
   "type" TEXT,
   "tool_name" TEXT,
   "text" TEXT,
   "payload" TEXT
);
CREATE TABLE "part_attachments" (
   "part_id" INTEGER REFERENCES "parts"("id"),
   "attachment_id" TEXT REFERENCES "attachments"("id"),
   "order" INTEGER,
   PRIMARY KEY ("part_id", "attachment_id", "order")
);
CREATE TABLE "part_fragments" (
   "part_id" INTEGER REFERENCES "parts"("id"),
   "fragment_id" INTEGER REFERENCES "fragments"("id"),
   "order" INTEGER,
   PRIMARY KEY ("part_id", "fragment_id", "order")
);
CREATE TABLE "threads" (
   "id" TEXT PRIMARY KEY,
   "name" TEXT,
   "tip_message_hash" TEXT REFERENCES "messages"("hash"),
   "forked_from" TEXT REFERENCES "threads"("id"),
   "datetime_utc" TEXT
);
CREATE TABLE "turns" (
   "id" TEXT PRIMARY KEY,
   "thread_id" TEXT REFERENCES "threads"("id"),
   "parent_message_hash" TEXT REFERENCES "messages"("hash"),
   "tip_message_hash" TEXT REFERENCES "messages"("hash"),
   "model" TEXT,
   "resolved_model" TEXT,
   "options_json" TEXT,
   "schema_id" TEXT REFERENCES "schemas"("id"),
   "input_tokens" INTEGER,
   "output_tokens" INTEGER,
   "token_details" TEXT,
   "duration_ms" INTEGER,
   "datetime_utc" TEXT
, "response_json" TEXT);
CREATE TABLE "turn_fragments" (
   "turn_id" TEXT REFERENCES "turns"("id"),
   "fragment_id" INTEGER REFERENCES "fragments"("id"),
   "order" INTEGER,
   "kind" TEXT,
   PRIMARY KEY ("turn_id", "fragment_id", "kind", "order")
);
CREATE TABLE "turn_search" (
   "id" INTEGER PRIMARY KEY,
   "turn_id" TEXT REFERENCES "turns"("id"),
   "prompt" TEXT,
   "response" TEXT
);
CREATE TABLE "turn_tools" (
   "turn_id" TEXT REFERENCES "turns"("id"),
   "tool_id" INTEGER REFERENCES "tools"("id"),
   "instance_id" INTEGER REFERENCES "tool_instances"("id"),
   PRIMARY KEY ("turn_id", "tool_id")
);
CREATE TABLE "tool_instantiations" (
   "turn_id" TEXT REFERENCES "turns"("id"),
   "tool_call_id" TEXT,
   "instance_id" INTEGER REFERENCES "tool_instances"("id"),
   PRIMARY KEY ("turn_id", "tool_call_id")
);
INSERT INTO "conversations" VALUES ('01m7p1waxrnpazfaz05c12xt0w', 'Capital of Italy? (old)', 'local');
INSERT INTO "conversations" VALUES ('01m7p1wcztx7v82aakcrzfxjse', 'Run both (old)', 'local');
INSERT INTO "conversations" VALUES ('01m7p1wk3g5djwxz3g8k53918e', 'What is this? (old)', 'local');
INSERT INTO "conversations" VALUES ('01m7p1wnj7re1j2rzxkjp63xkn', 'Rivers run to the sea. What is …', 'local');
INSERT INTO "attachments" VALUES ('b1ff9c8ea3a780bad09b346c423d2d0e46815926879b18e841d928376a946640', 'image/png', '/home/user/work/pixel.png', NULL, NULL);
INSERT INTO "prompt_attachments" VALUES ('01m7p1wjrzzcm3dq6qrad6jmfp', 'b1ff9c8ea3a780bad09b346c423d2d0e46815926879b18e841d928376a946640', 0);
INSERT INTO "responses" VALUES ('01m7p1wan5x9njmgz9z3ys33yb', 'local', 'Capital of Italy? (old)', 'Be brief.', '{"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Capital of Italy? (old)"}]}', '{}', 'Rome.', '{"content": {"$": "r:01m7p1wan5x9njmgz9z3ys33yb"}, "finish_reason": "stop", "usage": {"completion_tokens": 5, "prompt_tokens": 10, "total_tokens": 15}, "id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "a-model", "created": 1}', '01m7p1waxrnpazfaz05c12xt0w', 275, '2026-11-18T00:46:02.405296+00:00', 10, 5, NULL, NULL, NULL, NULL);
INSERT INTO "responses" VALUES ('01m7p1wczxskyqk2aw35gvertt', 'local', 'Run both (old)', NULL, '{"messages": [{"role": "user", "content": "Run both (old)"}]}', '{}', 'I compute.', '{"content": {"$": "r:01m7p1wczxskyqk2aw35gvertt"}, "finish_reason": "tool_calls", "usage": {"completion_tokens": 5, "prompt_tokens": 10, "total_tokens": 15}, "id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "a-model", "created": 1}', '01m7p1wcztx7v82aakcrzfxjse', 142, '2026-11-18T00:46:04.797572+00:00', 10, 5, NULL, NULL, NULL, NULL);
INSERT INTO "responses" VALUES ('01m7p1wd4ckf4718qhekderd93', 'local', '', NULL, '{"messages": [{"role": "user", "content": "Run both (old)"}, {"role": "assistant", "content": "I compute."}, {"role": "assistant", "tool_calls": [{"type": "function", "id": "call_a", "function": {"name": "double", "arguments": "{\"n\": 21}"}}, {"type": "function", "id": "call_b", "function": {"name": "broken", "arguments": "{\"n\": 1}"}}]}, {"role": "tool", "tool_call_id": "call_a", "content": "42"}, {"role": "tool", "tool_call_id": "call_b", "content": "Error: it is broken"}]}', '{}', '42, and one is broken.', '{"content": {"$": "r:01m7p1wd4ckf4718qhekderd93"}, "finish_reason": "stop", "usage": {"completion_tokens": 5, "prompt_tokens": 10, "total_tokens": 15}, "id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "a-model", "created": 1}', '01m7p1wcztx7v82aakcrzfxjse', 38, '2026-11-18T00:46:04.940314+00:00', 10, 5, NULL, NULL, NULL, NULL);
INSERT INTO "responses" VALUES ('01m7p1wg3fnvrj3jhaws0cfzm1', 'local', 'And again?', NULL, '{"messages": [{"role": "user", "content": "Run both (old)"}, {"role": "assistant", "content": "I compute."}, {"role": "assistant", "tool_calls": [{"type": "function", "id": "call_a", "function": {"name": "double", "arguments": "{\"n\": 21}"}}, {"type": "function", "id": "call_b", "function": {"name": "broken", "arguments": "{\"n\": 1}"}}]}, {"role": "tool", "tool_call_id": "call_a", "content": "42"}, {"role": "tool", "tool_call_id": "call_b", "content": "Error: it is broken"}, {"role": "assistant", "content": "42, and one is broken."}, {"role": "user", "content": "And again?"}]}', '{}', 'As before.', '{"content": {"$": "r:01m7p1wg3fnvrj3jhaws0cfzm1"}, "finish_reason": "stop", "usage": {"completion_tokens": 5, "prompt_tokens": 10, "total_tokens": 15}, "id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "a-model", "created": 1}', '01m7p1wcztx7v82aakcrzfxjse', 204, '2026-11-18T00:46:07.984039+00:00', 10, 5, NULL, NULL, NULL, NULL);
INSERT INTO "responses" VALUES ('01m7p1wjrzzcm3dq6qrad6jmfp', 'local', 'What is this? (old)', NULL, '{"messages": [{"role": "user", "content": [{"type": "text", "text": "What is this? (old)"}, {"type": "image_url", "image_url": {"url": "data:..."}}]}]}', '{}', 'A red pixel.', '{"content": {"$": "r:01m7p1wjrzzcm3dq6qrad6jmfp"}, "finish_reason": "stop", "usage": {"completion_tokens": 5, "prompt_tokens": 10, "total_tokens": 15}, "id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "a-model", "created": 1}', '01m7p1wk3g5djwxz3g8k53918e', 323, '2026-11-18T00:46:10.724154+00:00', 10, 5, NULL, NULL, NULL, NULL);
INSERT INTO "responses" VALUES ('01m7p1wn8ghkm2307ns6bh91gw', 'local', 'What is it about? (old)', NULL, '{"messages": [{"role": "user", "content": {"$r": [{"$": "f1"}, "\nWhat is it about? (old)"]}}]}', '{}', 'About rivers.', '{"content": {"$": "r:01m7p1wn8ghkm2307ns6bh91gw"}, "finish_reason": "stop", "usage": {"completion_tokens": 5, "prompt_tokens": 10, "total_tokens": 15}, "id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "a-model", "created": 1}', '01m7p1wnj7re1j2rzxkjp63xkn', 310, '2026-11-18T00:46:13.265005+00:00', 10, 5, NULL, NULL, NULL, NULL);
INSERT INTO "fragments" VALUES (1, '4f6121a6a86c633841efce3cc200b21fb491d1d0b24dfbb8978b6e9bd230567b', 'Rivers run to the sea.
', '2026-11-18 00:46:13', '/home/user/work/note.txt');
INSERT INTO "prompt_fragments" VALUES ('01m7p1wn8ghkm2307ns6bh91gw', 1, 0);
INSERT INTO "tools" VALUES (1, '3eb77b6097b1a538a029f76355e367ccb858491f8ec513095b67d4f5d61a6288', 'double', 'Twice a number', '{"properties": {"n": {"type": "integer"}}, "required": ["n"], "type": "object"}', NULL);
INSERT INTO "tools" VALUES (2, 'df42ec4eb69b26c13fff99257675902342727c9eb6febfff85d4b94948c82705', 'broken', 'Never works', '{"properties": {"n": {"type": "integer"}}, "required": ["n"], "type": "object"}', NULL);
INSERT INTO "tool_responses" VALUES (1, '01m7p1wczxskyqk2aw35gvertt');
INSERT INTO "tool_responses" VALUES (2, '01m7p1wczxskyqk2aw35gvertt');
INSERT INTO "tool_responses" VALUES (1, '01m7p1wd4ckf4718qhekderd93');
INSERT INTO "tool_responses" VALUES (2, '01m7p1wd4ckf4718qhekderd93');
INSERT INTO "tool_calls" VALUES (1, '01m7p1wczxskyqk2aw35gvertt', 1, 'double', '{"n": 21}', 'call_a');
INSERT INTO "tool_calls" VALUES (2, '01m7p1wczxskyqk2aw35gvertt', 2, 'broken', '{"n": 1}', 'call_b');
INSERT INTO "tool_results" VALUES (1, '01m7p1wd4ckf4718qhekderd93', 1, 'double', '42', 'call_a', NULL, NULL);
INSERT INTO "tool_results" VALUES (2, '01m7p1wd4ckf4718qhekderd93', 2, 'broken', 'Error: it is broken', 'call_b', NULL, 'ValueError: it is broken');
INSERT INTO "messages" VALUES ('b2:f2bb336498a2eb3e0010d266709b7a0e', NULL, 'user', NULL);
INSERT INTO "messages" VALUES ('b2:63aa7bfa48d2874966bcee87c71be747', 'b2:f2bb336498a2eb3e0010d266709b7a0e', 'assistant', NULL);
INSERT INTO "messages" VALUES ('b2:b59f29174defdd13dd27087f9f8661ca', 'b2:63aa7bfa48d2874966bcee87c71be747', 'user', NULL);
INSERT INTO "messages" VALUES ('b2:ded7e53d62f9ea9423a2ca887b70762b', 'b2:b59f29174defdd13dd27087f9f8661ca', 'assistant', NULL);
INSERT INTO "messages" VALUES ('b2:074dea0bd0259e0d5dca16426a45e4f5', NULL, 'system', NULL);
INSERT INTO "messages" VALUES ('b2:b9b5b321b9ae822b002227e64f1e5d46', 'b2:074dea0bd0259e0d5dca16426a45e4f5', 'user', NULL);
INSERT INTO "messages" VALUES ('b2:8f9a96a5b59b2d88452c80e59f6a4c5f', 'b2:b9b5b321b9ae822b002227e64f1e5d46', 'assistant', NULL);
INSERT INTO "messages" VALUES ('b2:6a57aef11d14a3eab6c2fbd589406aac', NULL, 'user', NULL);
INSERT INTO "messages" VALUES ('b2:a71ae7cdbd7014d822ed7c90a2834894', 'b2:6a57aef11d14a3eab6c2fbd589406aac', 'assistant', NULL);
INSERT INTO "messages" VALUES ('b2:4314964dd2447f5f717ad1b9318add6b', 'b2:a71ae7cdbd7014d822ed7c90a2834894', 'tool', NULL);
INSERT INTO "messages" VALUES ('b2:a7aa02d6988a9b123da2ef9099530740', 'b2:4314964dd2447f5f717ad1b9318add6b', 'assistant', NULL);
INSERT INTO "messages" VALUES ('b2:a8af8c1819cfa5a3c09e09151cba5360', 'b2:a7aa02d6988a9b123da2ef9099530740', 'user', NULL);
INSERT INTO "messages" VALUES ('b2:09b3b20db195f0d10a40247cc53502ad', 'b2:a8af8c1819cfa5a3c09e09151cba5360', 'assistant', NULL);
INSERT INTO "messages" VALUES ('b2:1aa362628c472dd7ad756874b702a507', NULL, 'user', NULL);
INSERT INTO "messages" VALUES ('b2:be97a75b296f922aef7123926c8e4ea1', 'b2:1aa362628c472dd7ad756874b702a507', 'assistant', NULL);
INSERT INTO "messages" VALUES ('b2:4e3ef544df16996a80ceda4038f0bda4', NULL, 'user', NULL);
INSERT INTO "messages" VALUES ('b2:b717a31af23de1354966fa29dcd16a97', 'b2:4e3ef544df16996a80ceda4038f0bda4', 'assistant', NULL);
INSERT INTO "parts" VALUES (1, 'b2:f2bb336498a2eb3e0010d266709b7a0e', 0, 'text', NULL, 'Rivers run to the sea.

What is it about? (old)', NULL);
INSERT INTO "parts" VALUES (2, 'b2:63aa7bfa48d2874966bcee87c71be747', 0, 'text', NULL, 'About rivers.', NULL);
INSERT INTO "parts" VALUES (3, 'b2:b59f29174defdd13dd27087f9f8661ca', 0, 'text', NULL, 'What was it about?', NULL);
INSERT INTO "parts" VALUES (4, 'b2:ded7e53d62f9ea9423a2ca887b70762b', 0, 'text', NULL, 'It was about rivers.', NULL);
INSERT INTO "parts" VALUES (5, 'b2:074dea0bd0259e0d5dca16426a45e4f5', 0, 'text', NULL, 'Be brief.', NULL);
INSERT INTO "parts" VALUES (6, 'b2:b9b5b321b9ae822b002227e64f1e5d46', 0, 'text', NULL, 'Capital of Italy? (new)', NULL);
INSERT INTO "parts" VALUES (7, 'b2:8f9a96a5b59b2d88452c80e59f6a4c5f', 0, 'text', NULL, 'Rome.', NULL);
INSERT INTO "parts" VALUES (8, 'b2:6a57aef11d14a3eab6c2fbd589406aac', 0, 'text', NULL, 'Run both (new)', NULL);
INSERT INTO "parts" VALUES (9, 'b2:a71ae7cdbd7014d822ed7c90a2834894', 0, 'text', NULL, 'I compute.', NULL);
INSERT INTO "parts" VALUES (10, 'b2:a71ae7cdbd7014d822ed7c90a2834894', 1, 'tool_call', 'double', NULL, '{"name": "double", "arguments": {"n": 21}, "tool_call_id": "call_a"}');
INSERT INTO "parts" VALUES (11, 'b2:a71ae7cdbd7014d822ed7c90a2834894', 2, 'tool_call', 'broken', NULL, '{"name": "broken", "arguments": {"n": 1}, "tool_call_id": "call_b"}');
INSERT INTO "parts" VALUES (12, 'b2:4314964dd2447f5f717ad1b9318add6b', 0, 'tool_result', 'double', NULL, '{"name": "double", "output": "42", "tool_call_id": "call_a"}');
INSERT INTO "parts" VALUES (13, 'b2:4314964dd2447f5f717ad1b9318add6b', 1, 'tool_result', 'broken', NULL, '{"name": "broken", "output": "Error: it is broken", "tool_call_id": "call_b", "exception": "ValueError: it is broken"}');
INSERT INTO "parts" VALUES (14, 'b2:a7aa02d6988a9b123da2ef9099530740', 0, 'text', NULL, '42, and one is broken.', NULL);
INSERT INTO "parts" VALUES (15, 'b2:a8af8c1819cfa5a3c09e09151cba5360', 0, 'text', NULL, 'And again?', NULL);
INSERT INTO "parts" VALUES (16, 'b2:09b3b20db195f0d10a40247cc53502ad', 0, 'text', NULL, 'As before.', NULL);
INSERT INTO "parts" VALUES (17, 'b2:1aa362628c472dd7ad756874b702a507', 0, 'text', NULL, 'What is this? (new)', NULL);
INSERT INTO "parts" VALUES (18, 'b2:1aa362628c472dd7ad756874b702a507', 1, 'attachment', NULL, NULL, '{"attachment": {"id": "b1ff9c8ea3a780bad09b346c423d2d0e46815926879b18e841d928376a946640"}}');
INSERT INTO "parts" VALUES (19, 'b2:be97a75b296f922aef7123926c8e4ea1', 0, 'text', NULL, 'A red pixel.', NULL);
INSERT INTO "parts" VALUES (20, 'b2:4e3ef544df16996a80ceda4038f0bda4', 0, 'text', NULL, NULL, '{"text_ref": [{"fragment": 1}, {"literal": "\nWhat is it about? (new)"}]}');
INSERT INTO "parts" VALUES (21, 'b2:b717a31af23de1354966fa29dcd16a97', 0, 'text', NULL, 'About rivers.', NULL);
INSERT INTO "part_attachments" VALUES (18, 'b1ff9c8ea3a780bad09b346c423d2d0e46815926879b18e841d928376a946640', 0);
INSERT INTO "part_fragments" VALUES (20, 1, 0);
INSERT INTO "threads" VALUES ('01m7p1wnj7re1j2rzxkjp63xkn', 'What was it about?', 'b2:ded7e53d62f9ea9423a2ca887b70762b', NULL, '2026-11-18 00:46:24.183085+00:00');
INSERT INTO "threads" VALUES ('01m7p1x1dmvf9dhez4czwyfkwq', 'Capital of Italy? (new)', 'b2:8f9a96a5b59b2d88452c80e59f6a4c5f', NULL, '2026-11-18 00:46:25.898061+00:00');
INSERT INTO "threads" VALUES ('01m7p1x347pdrsknwedysw7arh', 'Run both (new)', 'b2:09b3b20db195f0d10a40247cc53502ad', NULL, '2026-11-18 00:46:27.806683+00:00');
INSERT INTO "threads" VALUES ('01m7p1x6pedzna77jh53e5zpmp', 'What is this? (new)', 'b2:be97a75b296f922aef7123926c8e4ea1', NULL, '2026-11-18 00:46:31.331386+00:00');
INSERT INTO "threads" VALUES ('01m7p1x8awxa2twd8tdy03e4jd', 'Rivers run to the sea. What is …', 'b2:b717a31af23de1354966fa29dcd16a97', NULL, '2026-11-18 00:46:33.014731+00:00');
INSERT INTO "threads" VALUES ('01m7p1xjgmghhe67zrsb0abt5d', 'A fork', 'b2:a71ae7cdbd7014d822ed7c90a2834894', '01m7p1x347pdrsknwedysw7arh', '2026-11-18 00:46:43.220467+00:00');
INSERT INTO "turns" VALUES ('01m7p1wzq2fd0pqfpm6hah2x0j', '01m7p1wnj7re1j2rzxkjp63xkn', 'b2:b59f29174defdd13dd27087f9f8661ca', 'b2:ded7e53d62f9ea9423a2ca887b70762b', 'local', NULL, NULL, NULL, 10, 5, NULL, 211, '2026-11-18T00:46:23.970574+00:00', '{"content": "It was about rivers.", "finish_reason": "stop", "usage": {"completion_tokens": 5, "prompt_tokens": 10, "total_tokens": 15}, "id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "a-model", "created": 1}');
INSERT INTO "turns" VALUES ('01m7p1x1dnymhw18d1g9fkkyjq', '01m7p1x1dmvf9dhez4czwyfkwq', 'b2:b9b5b321b9ae822b002227e64f1e5d46', 'b2:8f9a96a5b59b2d88452c80e59f6a4c5f', 'local', NULL, NULL, NULL, 10, 5, NULL, 175, '2026-11-18T00:46:25.717505+00:00', '{"content": "Rome.", "finish_reason": "stop", "usage": {"completion_tokens": 5, "prompt_tokens": 10, "total_tokens": 15}, "id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "a-model", "created": 1}');
INSERT INTO "turns" VALUES ('01m7p1x34dgnt5xxhtf29xhk9a', '01m7p1x347pdrsknwedysw7arh', 'b2:6a57aef11d14a3eab6c2fbd589406aac', 'b2:a71ae7cdbd7014d822ed7c90a2834894', 'local', NULL, NULL, NULL, 10, 5, NULL, 236, '2026-11-18T00:46:27.469642+00:00', '{"content": "I compute.", "finish_reason": "tool_calls", "usage": {"completion_tokens": 5, "prompt_tokens": 10, "total_tokens": 15}, "id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "a-model", "created": 1}');
INSERT INTO "turns" VALUES ('01m7p1x3bt4x20pqdwwwss11rq', '01m7p1x347pdrsknwedysw7arh', 'b2:4314964dd2447f5f717ad1b9318add6b', 'b2:a7aa02d6988a9b123da2ef9099530740', 'local', NULL, NULL, NULL, 10, 5, NULL, 99, '2026-11-18T00:46:27.706754+00:00', '{"content": "42, and one is broken.", "finish_reason": "stop", "usage": {"completion_tokens": 5, "prompt_tokens": 10, "total_tokens": 15}, "id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "a-model", "created": 1}');
INSERT INTO "turns" VALUES ('01m7p1x51dwk5dqra0w6dbjtyh', '01m7p1x347pdrsknwedysw7arh', 'b2:a8af8c1819cfa5a3c09e09151cba5360', 'b2:09b3b20db195f0d10a40247cc53502ad', 'local', NULL, NULL, NULL, 10, 5, NULL, 144, '2026-11-18T00:46:29.421934+00:00', '{"content": "As before.", "finish_reason": "stop", "usage": {"completion_tokens": 5, "prompt_tokens": 10, "total_tokens": 15}, "id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "a-model", "created": 1}');
INSERT INTO "turns" VALUES ('01m7p1x6ph0eqpzr0hzg0ep48z', '01m7p1x6pedzna77jh53e5zpmp', 'b2:1aa362628c472dd7ad756874b702a507', 'b2:be97a75b296f922aef7123926c8e4ea1', 'local', NULL, NULL, NULL, 10, 5, NULL, 209, '2026-11-18T00:46:31.121091+00:00', '{"content": "A red pixel.", "finish_reason": "stop", "usage": {"completion_tokens": 5, "prompt_tokens": 10, "total_tokens": 15}, "id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "a-model", "created": 1}');
INSERT INTO "turns" VALUES ('01m7p1x8aye73cecayk9vrg4dw', '01m7p1x8awxa2twd8tdy03e4jd', 'b2:4e3ef544df16996a80ceda4038f0bda4', 'b2:b717a31af23de1354966fa29dcd16a97', 'local', NULL, NULL, NULL, 10, 5, NULL, 215, '2026-11-18T00:46:32.798556+00:00', '{"content": "About rivers.", "finish_reason": "stop", "usage": {"completion_tokens": 5, "prompt_tokens": 10, "total_tokens": 15}, "id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "a-model", "created": 1}');
INSERT INTO "turn_fragments" VALUES ('01m7p1x8aye73cecayk9vrg4dw', 1, 0, 'prompt');
INSERT INTO "turn_search" VALUES (1, '01m7p1wzq2fd0pqfpm6hah2x0j', 'What was it about?', 'It was about rivers.');
INSERT INTO "turn_search" VALUES (2, '01m7p1x1dnymhw18d1g9fkkyjq', 'Capital of Italy? (new)', 'Rome.');
INSERT INTO "turn_search" VALUES (3, '01m7p1x34dgnt5xxhtf29xhk9a', 'Run both (new)', 'I compute.');
INSERT INTO "turn_search" VALUES (4, '01m7p1x3bt4x20pqdwwwss11rq', '', '42, and one is broken.');
INSERT INTO "turn_search" VALUES (5, '01m7p1x51dwk5dqra0w6dbjtyh', 'And again?', 'As before.');
INSERT INTO "turn_search" VALUES (6, '01m7p1x6ph0eqpzr0hzg0ep48z', 'What is this? (new)', 'A red pixel.');
INSERT INTO "turn_search" VALUES (7, '01m7p1x8aye73cecayk9vrg4dw', '
What is it about? (new)', 'About rivers.');
INSERT INTO "turn_tools" VALUES ('01m7p1x34dgnt5xxhtf29xhk9a', 1, NULL);
INSERT INTO "turn_tools" VALUES ('01m7p1x34dgnt5xxhtf29xhk9a', 2, NULL);
INSERT INTO "turn_tools" VALUES ('01m7p1x3bt4x20pqdwwwss11rq', 1, NULL);
INSERT INTO "turn_tools" VALUES ('01m7p1x3bt4x20pqdwwwss11rq', 2, NULL);
