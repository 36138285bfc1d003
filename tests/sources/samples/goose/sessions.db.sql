CREATE TABLE messages (
                id INTEGER PRIMARY KEY AUTOINCREMENT,
                message_id TEXT,
                session_id TEXT NOT NULL REFERENCES sessions(id),
                role TEXT NOT NULL,
                content_json TEXT NOT NULL,
                created_timestamp INTEGER NOT NULL,
                timestamp TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
                tokens INTEGER,
                metadata_json TEXT
            );
INSERT INTO "messages" VALUES(1,'msg_20261118_1_cba27973-4534-48b9-8b19-f488bef93b47','20261118_1','user','[{"type":"text","text":"Where are we going?"}]',1794962860,'2026-11-18 00:47:40',NULL,'{"userVisible":true,"agentVisible":true}');
INSERT INTO "messages" VALUES(2,'msg_1','20261118_1','assistant','[{"type":"thinking","thinking":"Which one?","signature":"c2lnbmVk"},{"type":"text","text":"Rome."}]',1794962861,'2026-11-18 00:47:41',NULL,'{"userVisible":true,"agentVisible":true}');
INSERT INTO "messages" VALUES(3,'msg_20261118_1_b18661b7-39ef-495b-985b-325f688c2a9c','20261118_1','user','[{"type":"text","text":"What is in a.txt?"}]',1794962861,'2026-11-18 00:47:41',NULL,'{"userVisible":true,"agentVisible":true}');
INSERT INTO "messages" VALUES(4,'msg_1','20261118_1','assistant','[{"type":"text","text":"Let me look."}]',1794962861,'2026-11-18 00:47:41',NULL,'{"userVisible":true,"agentVisible":true}');
INSERT INTO "messages" VALUES(5,'msg_dca25e26-0dc3-4f1b-900d-c2aed08dea3d','20261118_1','assistant','[{"type":"toolRequest","id":"toolu_1","toolCall":{"status":"success","value":{"name":"shell","arguments":{"command":"cat a.txt"}}},"_meta":{"goose_extension":"developer"}}]',1794962861,'2026-11-18 00:47:41',NULL,'{"userVisible":true,"agentVisible":true}');
INSERT INTO "messages" VALUES(6,'msg_f6104f78-b81f-4580-8f88-e3591cf74d3b','20261118_1','user','[{"type":"toolResponse","id":"toolu_1","toolResult":{"status":"success","value":{"content":[{"type":"text","text":"alpha","annotations":{"priority":0.0}}],"structuredContent":{"stdout":"alpha","stderr":"","exit_code":0},"isError":false}}}]',1794962861,'2026-11-18 00:47:41',NULL,'{"userVisible":true,"agentVisible":true}');
INSERT INTO "messages" VALUES(7,'msg_1','20261118_1','assistant','[{"type":"text","text":"It says alpha."}]',1794962861,'2026-11-18 00:47:41',NULL,'{"userVisible":true,"agentVisible":true}');
INSERT INTO "messages" VALUES(8,'msg_20261118_1_401b9cd0-ae79-4477-9845-9ecadbedaf67','20261118_1','user','[{"type":"text","text":"Do it all"}]',1794962861,'2026-11-18 00:47:41',NULL,'{"userVisible":true,"agentVisible":true}');
INSERT INTO "messages" VALUES(9,'msg_1','20261118_1','assistant','[{"type":"text","text":"Both at once."}]',1794962861,'2026-11-18 00:47:41',NULL,'{"userVisible":true,"agentVisible":true}');
INSERT INTO "messages" VALUES(10,'msg_10700c74-b69a-4190-be8e-a849c7cd87e3','20261118_1','assistant','[{"type":"toolRequest","id":"toolu_2","toolCall":{"status":"success","value":{"name":"shell","arguments":{"command":"exit 3"}}},"_meta":{"goose_extension":"developer"}}]',1794962861,'2026-11-18 00:47:41',NULL,'{"userVisible":true,"agentVisible":true}');
INSERT INTO "messages" VALUES(11,'msg_cd6cef4b-3128-4bc7-aacb-e86b16b6de11','20261118_1','user','[{"type":"toolResponse","id":"toolu_2","toolResult":{"status":"success","value":{"content":[{"type":"text","text":"(no output)\n\nCommand exited with code 3","annotations":{"priority":0.0}}],"structuredContent":{"stdout":"","stderr":"","exit_code":3},"isError":true}}}]',1794962861,'2026-11-18 00:47:41',NULL,'{"userVisible":true,"agentVisible":true}');
INSERT INTO "messages" VALUES(12,'msg_ec46241d-122e-457b-a7c0-772b644d7c62','20261118_1','assistant','[{"type":"toolRequest","id":"toolu_3","toolCall":{"status":"success","value":{"name":"shell","arguments":{"command":"echo hi"}}},"_meta":{"goose_extension":"developer"}}]',1794962861,'2026-11-18 00:47:41',NULL,'{"userVisible":true,"agentVisible":true}');
INSERT INTO "messages" VALUES(13,'msg_6dac5fa1-d207-42f2-b520-2adb11833d36','20261118_1','user','[{"type":"toolResponse","id":"toolu_3","toolResult":{"status":"success","value":{"content":[{"type":"text","text":"hi","annotations":{"priority":0.0}}],"structuredContent":{"stdout":"hi","stderr":"","exit_code":0},"isError":false}}}]',1794962861,'2026-11-18 00:47:41',NULL,'{"userVisible":true,"agentVisible":true}');
INSERT INTO "messages" VALUES(14,'msg_1','20261118_1','assistant','[{"type":"text","text":"One of them failed."}]',1794962861,'2026-11-18 00:47:41',NULL,'{"userVisible":true,"agentVisible":true}');
INSERT INTO "messages" VALUES(15,'msg_20261118_2_edcaa27d-e64f-4763-9aee-345114c9250e','20261118_2','user','[{"type":"text","text":"Kill me"}]',1794962861,'2026-11-18 00:47:41',NULL,'{"userVisible":true,"agentVisible":true}');
CREATE TABLE schema_version (
                version INTEGER PRIMARY KEY,
                applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP
            );
INSERT INTO "schema_version" VALUES(13,'2026-11-18 00:47:40');
CREATE TABLE sessions (
                id TEXT PRIMARY KEY,
                name TEXT NOT NULL DEFAULT '',
                description TEXT NOT NULL DEFAULT '',
                user_set_name BOOLEAN DEFAULT FALSE,
                session_type TEXT NOT NULL DEFAULT 'user',
                working_dir TEXT NOT NULL,
                created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
                updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
                extension_data TEXT DEFAULT '{}',
                total_tokens INTEGER,
                input_tokens INTEGER,
                output_tokens INTEGER,
                accumulated_total_tokens INTEGER,
                accumulated_input_tokens INTEGER,
                accumulated_output_tokens INTEGER,
                accumulated_cost REAL,
                schedule_id TEXT,
                recipe_json TEXT,
                user_recipe_values_json TEXT,
                provider_name TEXT,
                model_config_json TEXT,
                goose_mode TEXT NOT NULL DEFAULT 'auto',
                archived_at TIMESTAMP,
                project_id TEXT
            );
INSERT INTO "sessions" VALUES('20261118_1','A journey','',1,'user','/home/user/work','2026-11-18 00:47:40','2026-11-18 00:47:41','{"enabled_extensions.v0":{"extensions":[{"type":"platform","name":"apps","description":"Create and manage custom Goose apps through chat. Apps are HTML/CSS/JavaScript and run in sandboxed windows.","display_name":"Apps","bundled":true,"available_tools":[]},{"type":"platform","name":"Extension Manager","description":"Enable extension management tools for discovering, enabling, and disabling extensions","display_name":"Extension Manager","bundled":true,"available_tools":[]},{"type":"platform","name":"skills","description":"Discover and provide skill instructions from filesystem and builtins","display_name":"Skills","bundled":true,"available_tools":[]},{"type":"platform","name":"tom","description":"Inject custom context into every turn via GOOSE_MOIM_MESSAGE_TEXT and GOOSE_MOIM_MESSAGE_FILE environment variables","display_name":"Top Of Mind","bundled":true,"available_tools":[]},{"type":"platform","name":"summon","description":"Load knowledge and delegate tasks to subagents","display_name":"Summon","bundled":true,"available_tools":[]},{"type":"platform","name":"analyze","description":"Analyze code structure with tree-sitter: directory overviews, file details, symbol call graphs","display_name":"Analyze","bundled":true,"available_tools":[]},{"type":"platform","name":"todo","description":"Enable a todo list for goose so it can keep track of what it is doing","display_name":"Todo","bundled":true,"available_tools":[]},{"type":"platform","name":"developer","description":"developer","display_name":null,"bundled":null,"available_tools":[]}]}}',15,10,5,75,50,25,NULL,NULL,NULL,NULL,'anthropic','{"model_name":"a-model","context_limit":null,"temperature":null,"max_tokens":null,"toolshim":false,"toolshim_model":null}','auto',NULL,NULL);
INSERT INTO "sessions" VALUES('20261118_2','A kill','',1,'user','/home/user/work','2026-11-18 00:47:41','2026-11-18 00:47:41','{"enabled_extensions.v0":{"extensions":[{"type":"platform","name":"tom","description":"Inject custom context into every turn via GOOSE_MOIM_MESSAGE_TEXT and GOOSE_MOIM_MESSAGE_FILE environment variables","display_name":"Top Of Mind","bundled":true,"available_tools":[]},{"type":"platform","name":"Extension Manager","description":"Enable extension management tools for discovering, enabling, and disabling extensions","display_name":"Extension Manager","bundled":true,"available_tools":[]},{"type":"platform","name":"summon","description":"Load knowledge and delegate tasks to subagents","display_name":"Summon","bundled":true,"available_tools":[]},{"type":"platform","name":"todo","description":"Enable a todo list for goose so it can keep track of what it is doing","display_name":"Todo","bundled":true,"available_tools":[]},{"type":"platform","name":"skills","description":"Discover and provide skill instructions from filesystem and builtins","display_name":"Skills","bundled":true,"available_tools":[]},{"type":"platform","name":"analyze","description":"Analyze code structure with tree-sitter: directory overviews, file details, symbol call graphs","display_name":"Analyze","bundled":true,"available_tools":[]},{"type":"platform","name":"developer","description":"developer","display_name":null,"bundled":null,"available_tools":[]},{"type":"platform","name":"apps","description":"Create and manage custom Goose apps through chat. Apps are HTML/CSS/JavaScript and run in sandboxed windows.","display_name":"Apps","bundled":true,"available_tools":[]}]}}',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'anthropic','{"model_name":"a-model","context_limit":null,"temperature":null,"max_tokens":null,"toolshim":false,"toolshim_model":null}','auto',NULL,NULL);
