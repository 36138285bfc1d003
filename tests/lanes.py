"""Which tests `make test` leaves to `make test-all`, in one place.

`make test` touches every feature and every promise in a few minutes. What is here repeats one of its tests with another
backend, key, width or fault, or takes long for what it adds. A line is a pattern of node ids, without the parameters or
with them; the file is written out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from fnmatch import fnmatchcase

import pytest

COLLECTED = pytest.StashKey[list[str]]()
"""The node ids of all tests, before `-m` deselects some."""

FULL = """
# the source as text: `make check` looks at the rooms, too
tests/test_layers.py::test_a_measure_is_within_its_limit*
tests/test_layers.py::test_imports_point_downward
tests/base/test_outside.py::test_files_are_opened_in_one_place
tests/test_private_names.py::test_private_names_become_fewer
tests/test_private_reaches.py::test_no_room_reaches_into_another
tests/providers/test_registry.py::test_no_other_module_names_a_provider
tests/cli/test_chat.py::test_short_names_are_of_models_that_their_makers_know

# longer forms of what others touch
tests/concurrency/test_web_service.py::test_acknowledged_messages_are_stored_once_and_in_order[[]server]
tests/cli/test_unreadable.py::test_a_store_in_a_closed_folder[[]command[2-5]]
tests/cli/test_unreadable.py::test_a_folder_of_histories[[][23]]
tests/cli/test_unreadable.py::test_a_store_that_may_not_be_read[[]command1]
tests/sources/test_import_while_rotating.py::test_a_row_that_was_read_before_a_key_change
tests/crash/test_faults.py::test_a_failing_call_loses_nothing[[]sync-EIO-once-8]
tests/test_coverage.py::test_untested_lines_and_branches_fail*
tests/test_coverage.py::test_a_failing_test_fails_the_gate
tests/test_layers.py::test_every_module_has_its_layer
tests/adapters/test_tenants.py::test_tenants[[]sealed-1]
tests/adapters/test_tenants.py::test_tenants[[]postgres-1]
tests/adapters/test_tenants.py::test_calls[[]sealed]
tests/adapters/pydantic_ai/test_tenants.py::test_tenants[[]sealed]
tests/adapters/pydantic_ai/test_tenants.py::test_tenants[[]postgres]
tests/adapters/pydantic_ai/test_store.py::test_in_the_command_line[[]plain]
tests/test_extras.py::test_the_default_installation_has_what_clew_imports
tests/test_dist.py::test_the_wheel_is_what_users_need
tests/backends/postgres/test_deleting.py::test_deletions_beside_writers[[]undo]
tests/sources/test_identity.py::test_random_claims[[][1-9]]
tests/sources/test_hostile_values.py::test_any_row[[]agno]
tests/sources/test_hostile_values.py::test_any_row[[]llm]
tests/agents/test_deletion.py::test_notes_of_a_mirror_that_is_away_are_bounded
tests/web/test_words.py::test_the_browser_keeps_no_words*
tests/cli/test_help_examples.py::test_another_example_runs*
tests/crash/test_snapshots.py::test_an_autosaved_answer_survives_a_power_cut[[]files]
tests/crash/test_kill.py::test_four_writers_survive_kill
tests/concurrency/test_processes.py::test_a_writer_that_waits_is_next
tests/properties/test_flat_append.py::test_appends_among_other_steps[[]*-120]
tests/crash/test_faults.py::test_a_failing_call_loses_nothing[[]open-EMFILE-once-5]
tests/crash/test_limits.py::test_a_part_that_is_first_used_when_no_file_can_be_opened[[]claude]
tests/backends/postgres/test_failover.py::test_a_standby_that_is_promoted
tests/cli/test_recordings.py::test_what_people_see[[]80]
tests/cli/test_hook_time.py::test_a_path_that_no_file_can_have[[]path0]
tests/cli/test_program.py::test_help_is_quick
tests/test_dist.py::test_two_builds_are_the_same
tests/cli/test_hook_time.py::test_an_agent_that_never_finishes_its_sentence
tests/cli/test_project.py::test_p20_the_watch_sees_what_the_users_own_settings_do
tests/web/test_browser_features.py::test_reading_by_pointer
tests/adapters/pydantic_ai/test_store.py::test_in_the_command_line[[]sealed]
tests/adapters/pydantic_ai/test_tenants.py::test_tenants_at_length*
tests/adapters/test_tenants.py::test_tenants_at_length*
tests/adapters/pydantic_ai/test_store.py::test_in_the_command_line[[]postgres]
tests/docs/test_pages.py::test_code_runs[[]docs/how-to/write-an-adapter.md]
tests/docs/test_pages.py::test_code_runs[[]docs/how-to/back-up.md]
tests/backends/postgres/test_tls.py::test_the_command_line_says_it_in_one_line
tests/cli/test_chat.py::test_whoever_closes_the_terminal_keeps_what_arrived*
tests/cli/test_chat.py::test_a_kill_leaves_the_question_and_a_clean_store
tests/cli/test_first_minute.py::test_the_web_page_is_one_more_choice
tests/cli/test_program.py::test_what_is_told_is_broken_between_words
tests/checkpoints/test_confined.py::test_links_put_in_the_place_of_folders
tests/reliability/test_purged.py::test_a_reader_is_in_the_way_until_the_close[[]sealed]
tests/snapshots/test_autosave.py::test_a_killed_program[[]files]
tests/crash/test_power.py::test_relaxed_durability_is_seen_to_lose
tests/sources/test_import_pairs.py::test_with_attachments_in_a_bucket
tests/sources/test_usage.py::test_made_transcripts[[]200]
tests/aio/test_aio.py::test_the_async_face_is_current
tests/agents/cpe/test_writer.py::test_there_and_back
tests/cli/test_watch.py::test_a_sealed_store
tests/store/test_redact_message.py::test_only_that_value_is_gone[[]sealed]
tests/adapters/opentelemetry/test_hook.py::test_a_store_that_is_gone
tests/adapters/opentelemetry/test_hook.py::test_in_the_command_line*
tests/web/test_browser_features.py::test_windows_come_in_as_they_are_scrolled_to
tests/web/test_browser_features.py::test_find_opens_what_is_folded
tests/web/test_browser_features.py::test_from_here_to_here
tests/web/test_browser.py::test_changes_by_pointer
tests/web/test_browser.py::test_keys_of_a_conversation
tests/web/test_soak.py::test_more_messages_than_a_window
tests/cli/test_serve.py::test_another_port_if_its_own_is_taken
tests/cli/test_import_interrupted.py::test_whole_conversations_stay[[][247]]
tests/checkpoints/test_any_order.py::test_histories_that_once_failed

# crashes: `make test` keeps one form of each kind of kill, power cut, failing call and key change
tests/crash/test_rekey.py::test_a_crash_anywhere[[]deep]
tests/crash/test_rekey.py::test_a_crash_anywhere[[]rotate]
tests/crash/test_rekey.py::test_a_crash_anywhere[[]seal]
tests/crash/test_rewind.py::test_a_crash_anywhere*
tests/crash/test_rewind.py::test_a_disk_that_fails[[]*[!C]]
tests/crash/test_power.py::test_an_acknowledged_append_survives_a_power_cut[[]strict-*]
tests/crash/test_power.py::test_an_acknowledged_append_survives_a_power_cut[[]journaled-2]
tests/crash/test_power.py::test_relaxed_durability_still_survives_kill
tests/crash/test_purge.py::test_a_crash_anywhere[[]sealed]
tests/crash/test_purge.py::test_a_process_that_is_killed[[]plain-1]
tests/crash/test_together.py::test_some_kills[[]sealed]
tests/crash/test_purge.py::test_a_disk_that_fills_up_in_the_middle[[]*[!2]]
tests/crash/test_faults.py::test_a_failing_call_loses_nothing[[]write-SHORT-*
tests/crash/test_faults.py::test_a_failing_call_loses_nothing[[]write-EIO-*
tests/crash/test_faults.py::test_a_failing_call_loses_nothing[[]unlink-*
tests/crash/test_faults.py::test_a_failing_call_loses_nothing[[]truncate-*
tests/crash/test_faults.py::test_a_failing_call_loses_nothing[[]sync-EIO-sticky-*
tests/crash/test_faults.py::test_a_failing_call_loses_nothing[[]write-ENOSPC-once-11]
tests/crash/test_faults.py::test_a_failing_call_loses_nothing[[]sync-EIO-once-3]
tests/crash/test_faults.py::test_a_failing_call_loses_nothing[[]open-EMFILE-once-2]
tests/crash/test_rekey.py::test_a_seal_whose_last_answer_is_lost
tests/crash/test_faults.py::test_a_failing_call_loses_nothing[[]open-EROFS-sticky-3]
tests/crash/test_full_disk.py::test_purging_on_a_full_disk[[]plain-*-9000]
tests/crash/test_full_disk.py::test_purging_on_a_full_disk[[]sealed-*-300]
tests/crash/test_limits.py::test_opening_with_few_descriptors[[][1-4]]
tests/crash/test_limits.py::test_a_part_that_is_first_used_when_no_file_can_be_opened[[]openai]
tests/crash/test_limits.py::test_a_part_that_is_first_used_when_no_file_can_be_opened[[]gemini]
tests/crash/test_limits.py::test_a_part_that_is_first_used_when_no_file_can_be_opened[[]agents]
tests/crash/test_limits.py::test_a_part_that_is_first_used_when_no_file_can_be_opened[[]list*
tests/crash/test_orphans.py::test_a_helper_whose_caller_is_killed[[]seal]
tests/concurrency/test_processes.py::test_a_cold_start_of_many[[]1]
tests/backends/sqlite/test_forked_process.py::test_a_child_that_leaves_its_parents_transaction[[]nested-*
tests/crash/test_limits.py::test_files_that_cannot_grow[[]2097152]
tests/crash/test_limits.py::test_files_that_cannot_grow[[]8388608]
tests/crash/test_snapshots.py::test_an_autosaved_answer_survives_a_power_cut[[]sealed]
tests/agents/test_import.py::test_damaged_metadata_falls_back_to_the_time_of_the_files[[]*[!e]-events]
tests/agents/test_mirror.py::test_cut_off_at_each_call[[]openat]
tests/agents/test_mirror.py::test_cut_off_at_each_call[[]fsync]

# exhaustive forms
tests/reliability/test_flips.py::test_a_flipped_bit_is_found_or_changes_nothing[[]plain]
tests/backends/sqlite/test_scrub.py::test_no_flip_makes_it_change_what_is_read
tests/reliability/test_kinds.py::*[[]sealed*
tests/reliability/test_kinds.py::*[[]plain-[!nr]*
tests/reliability/test_kinds.py::*[[]plain-runs.[!p]*
tests/reliability/test_kinds.py::*[[]plain-refs.[!d]*
tests/reliability/test_tampering.py::test_a_changed_column[[]plain-*
tests/reliability/test_tampering.py::test_any_dropped_row[[]plain-*
tests/reliability/test_rekey.py::test_a_reading_that_is_under_way[[][!d]*
tests/reliability/test_rekey.py::test_a_writer_between_the_steps[[][!d]*
tests/reliability/test_head.py::test_a_rollback_shows[[]*-plain]
tests/reliability/test_names.py::test_sealing_reaches_what_was_searched_by_another_name[[][!s]*
tests/reliability/test_names.py::test_purged_words_are_gone_by_whatever_name_they_were_searched[[][!p]*
tests/reliability/test_names.py::test_one_lock_for_all_names[[][!sp]*
tests/reliability/test_formats.py::test_a_crash_while_creating[[]openat-*
tests/reliability/test_formats.py::test_a_crash_while_creating[[]fdatasync-*
tests/reliability/test_read_only.py::test_verify_*[[]plain-crashed]
tests/reliability/test_read_only.py::test_verify_*[[]sealed-closed]
tests/reliability/test_clock.py::test_under_faketime[[]4]
tests/reliability/test_formats.py::test_first_opens_from_many_processes
tests/reliability/test_rekey.py::test_processes_with_the_old_key_alone_go_on[[]False]
tests/records/test_snapshots.py::test_ten_thousand_messages_are_back_within_two_seconds
tests/records/test_concurrency.py::test_two_services_lose_no_message[[]150]
tests/reliability/test_attacks.py::test_searching_a_path_of_many_bends
tests/upkeep/test_rekey.py::test_passphrases_are_exchanged
tests/upkeep/test_rekey.py::test_a_passphrase_goes_on_where_it_was
tests/upkeep/test_quarantine.py::test_an_io_error_is_never_damage[[]plain]
tests/upkeep/test_rekey.py::test_damage_keeps_the_old_key[[]*-deep]
tests/upkeep/test_rekey.py::test_damage_keeps_the_old_key[[]*-unseal]
tests/upkeep/test_rekey.py::test_damage_keeps_the_old_key[[]*-rotate]
tests/upkeep/test_rekey.py::test_threads_that_share_a_commit[[][!r]*
tests/upkeep/test_rekey.py::test_large_bodies_make_small_batches[[][!d]*
tests/upkeep/test_rekey.py::test_cut_short_inside_a_batch[[][!d]*
tests/upkeep/test_rekey_meanwhile.py::test_writes_between_the_batches[[]*-True]
tests/upkeep/test_quarantine.py::test_a_body_of_another_kind[[]plain-*
tests/upkeep/test_rekey.py::test_one_who_has_it_open_goes_on[[][!d]*
tests/upkeep/test_rekey.py::test_unsealed_and_sealed_again_elsewhere[[][!ac]*
tests/upkeep/test_rekey.py::test_unsealed_elsewhere[[][!ap]*
tests/upkeep/test_rekey.py::test_tasks_that_share_a_commit[[]*-trio]
tests/upkeep/test_rekey.py::test_cut_short_anywhere[[]seal-*]
tests/upkeep/test_rekey.py::test_cut_short_anywhere[[]deep-*]
tests/upkeep/test_rekey.py::test_cut_short_anywhere[[]unseal-*]
tests/engine/test_sealed.py::test_a_changed_field_is_never_believed[[]r*]
tests/engine/test_sealed.py::test_a_changed_field_is_never_believed[[]blobs.*]
tests/agents/test_mirror.py::test_cut_off_at_each_call[[]ftruncate]
tests/agents/test_deletion.py::test_it_goes_from_the_mirror[[]*-plain]
tests/backends/sqlite/test_scrub.py::test_any_shape[[]512-*]
tests/backends/sqlite/test_scrub.py::test_any_shape[[]2048-*]
tests/backends/sqlite/test_scrub.py::test_any_shape[[]8192-*]
tests/backends/sqlite/test_scrub.py::test_any_shape[[]16384-*]
tests/backends/sqlite/test_scrub.py::test_any_shape[[]32768-*]
tests/backends/sqlite/test_scrub.py::test_any_shape[[]*NONE*]
tests/backends/sqlite/test_scrub.py::test_any_shape[[]*FULL*]
tests/cli/test_hook_time.py::test_a_writer_does_not_wait_for_a_transcript
tests/cli/test_hook_time.py::test_a_transcript_without_an_end
tests/concurrency/test_interrupt.py::test_a_storm_of_interrupts_keeps_nobody_waiting
tests/chat/test_turns.py::test_the_sdk_retries[[]gemini]
tests/backends/sqlite/test_scrub.py::test_the_page_for_locks*
tests/cli/test_chat.py::test_whoever_closes_the_terminal_keeps_what_arrived[[]15]

# key changes, purges and deletions: `make test` keeps one kind of each, and a plain store where a sealed one is alike
tests/upkeep/test_rekey.py::test_damage_keeps_the_old_key[[]a session*
tests/upkeep/test_rekey.py::test_damage_keeps_the_old_key[[]the *
tests/upkeep/test_rekey.py::test_damage_keeps_the_old_key[[]a run*
tests/upkeep/test_rekey.py::test_damage_keeps_the_old_key[[]a blob*
tests/upkeep/test_rekey.py::test_damage_keeps_the_old_key[[]*no[bt]*
tests/upkeep/test_rekey.py::test_an_append_that_shares_the_first_step[[]deep]
tests/upkeep/test_rekey.py::test_cut_short_anywhere[[]rotate-[1345]]
tests/upkeep/test_rekey.py::test_everything_is_there_after_it[[][ru]*
tests/upkeep/test_rekey.py::test_going_on_with_another_key[[]key-*
tests/upkeep/test_rekey.py::test_what_was_read_before_can_be_read_after[[][ru]*
tests/upkeep/test_rekey.py::test_unseal_then_seal_again
tests/upkeep/test_rekey.py::test_tasks_that_share_a_commit[[][!s]*
tests/upkeep/test_rekey.py::test_a_reader_in_the_way[[][!d]*
tests/upkeep/test_rekey.py::test_rows_are_kept_the_new_way[[][!d]*
tests/upkeep/test_quarantine.py::test_a_body_of_another_kind[[]*-[!a]*
tests/upkeep/test_quarantine.py::test_w*[[]sealed*
tests/upkeep/test_quarantine.py::test_[asp]*[[]sealed*
tests/upkeep/test_purge.py::*[[]sealed*
tests/reliability/test_purged.py::test_[arw]*[[]sealed]
tests/reliability/test_purged.py::test_the_[ft]*[[]sealed]
tests/reliability/test_rekey.py::test_damage_keeps_both_keys[[]True]
tests/reliability/test_deleted_stays.py::test_what_was_deleted_stays_deleted[[][3-7]]
tests/reliability/test_rekey.py::test_readers_that_were_open_before[[][!d]*
tests/reliability/test_rekey.py::test_a_session_that_was_read_before[[][!d]*
tests/reliability/test_read_only.py::test_verify_leaves_every_byte_as_it_was[[]*-damaged]
tests/reliability/test_deleting.py::test_a_change_between_choosing_and_deleting[[]cleanup-[!h]*
tests/reliability/test_deleting.py::test_a_change_between_choosing_and_deleting[[]sweep-[!a]*
tests/reliability/test_deleting.py::test_a_change_between_choosing_and_deleting[[]trash-[!r]*
tests/reliability/test_deleting.py::test_deletions_beside_writers[[][cp]*
tests/backends/postgres/test_deleting.py::test_deletions_beside_writers[[][cs]*
tests/backends/postgres/test_lost_answers.py::test_a_key_change[[]*-before]
tests/retention/test_retention.py::*[[]sealed]
tests/sources/test_import_while_rotating.py::test_an_import_in_the_middle_of_a_key_change[[][dru]*
tests/sources/test_identity.py::test_random_claims[[]*[4-9]]
tests/sources/test_identity.py::test_random_claims[[]1[01]]
tests/sources/test_outside.py::test_time_grows_with_the_size[[]long]
tests/engine/objects/test_crash.py::test_killed_while_a_blob_is_put[[]in the middle-plain]
tests/engine/test_sealed.py::test_a_changed_field_is_never_believed[[]log*
tests/reliability/test_names.py::test_a_file_beside_the_store_that_leads_elsewhere[[]*-hard link]
tests/reliability/test_names.py::test_a_file_beside_the_store_that_leads_elsewhere[[]-[rs]*nothing]
tests/reliability/test_tampering.py::test_any_dropped_row[[]sealed-l*
tests/crash/test_limits.py::test_a_call_when_no_file_can_be_opened[[][abnq]*
tests/crash/test_limits.py::test_a_call_when_no_file_can_be_opened[[]log]
tests/crash/test_limits.py::test_a_call_when_no_file_can_be_opened[[]put]
tests/crash/test_limits.py::test_a_call_when_no_file_can_be_opened[[]snapshots]
tests/crash/test_limits.py::test_a_call_when_no_file_can_be_opened[[]watch]
tests/adapters/test_tenants.py::test_tenants[[]*-[23]]
tests/engine/test_watch.py::test_tasks_*[[]trio]

# conformance: variants that differ by one pragma, or by a key
tests/backends/conformance/test_sqlite.py::TestRelaxed::*
tests/backends/conformance/test_sqlite.py::TestSealed::*
tests/backends/postgres/test_conformance.py::TestSealed::*
tests/backends/postgres/test_conformance.py::TestObjects::*
tests/backends/postgres/test_conformance.py::TestDivided::*

# PostgreSQL: storms, partitions, tenants' variants and state machines
tests/backends/postgres/test_batches.py::test_two_sessions_at_the_same_message*
tests/backends/postgres/test_batches.py::*[[]divided]
tests/backends/postgres/test_batches.py::*[[]a tenant's]
tests/backends/postgres/test_batches.py::*[[]sealed]
tests/backends/postgres/test_cli.py::*
tests/backends/postgres/test_copying.py::test_there_and_back[[]plain]
tests/backends/postgres/test_copying.py::test_a_copy_that_was_cut_short
tests/backends/postgres/test_lost_answers.py::test_what_nobody_can_say
tests/backends/postgres/test_page.py::*
tests/backends/postgres/test_partitions.py::test_copied_there_and_back
tests/backends/postgres/test_partitions.py::test_a_session_is_in_one_partition
tests/backends/postgres/test_partitions.py::test_checkpoints_of_a_store_that_was_copied
tests/backends/postgres/test_partitions.py::test_pruning
tests/backends/postgres/test_partitions.py::test_tenants
tests/backends/postgres/test_processes.py::test_a_server_that_is_killed
tests/backends/postgres/test_processes.py::test_twenty_processes_make_the_store_at_once
tests/backends/postgres/test_processes.py::test_threads_on_many_sessions
tests/backends/postgres/test_processes.py::test_a_child_that_leaves_its_parents_transaction[[]nested-*]
tests/backends/postgres/test_processes.py::test_a_child_that_leaves_its_parents_transaction[[]-raise*
tests/backends/postgres/test_properties.py::*
tests/backends/postgres/test_search.py::test_nothing_is_passed_over_while_others_write
tests/backends/postgres/test_search.py::test_a_search_beside_a_long_transaction
tests/backends/postgres/test_search.py::*[[]sealed*
tests/backends/postgres/test_together.py::*
tests/backends/postgres/test_upkeep.py::test_keys_are_exchanged[[]deep]
tests/backends/postgres/test_upkeep.py::test_keys_are_exchanged[[]rotate]
tests/backends/postgres/test_upkeep.py::test_keys_are_exchanged[[]unseal]
tests/backends/postgres/test_upkeep.py::test_the_same_as_in_a_file[[]plain]
tests/backends/postgres/test_upkeep.py::test_others_append_while_keys_are_exchanged
tests/backends/postgres/test_watching.py::test_the_server_is_killed
tests/backends/postgres/test_watching.py::test_other_processes
tests/backends/postgres/test_watching.py::test_one_connection_for_all
tests/backends/postgres/test_migrating.py::test_a_reader_that_goes_on_reading[[]migrate]
tests/backends/postgres/test_tenants.py::test_no_tenant_drops_what_others_were_told
tests/backends/postgres/test_watching.py::test_the_link_is_cut
tests/backends/postgres/test_watching.py::test_an_append_that_began_before
tests/backends/postgres/test_watching.py::test_who_may_only_read
tests/backends/postgres/test_migrating.py::test_a_reader_that_goes_on_reading[[]isolate]
tests/backends/postgres/test_migrating.py::test_many_tenants_at_work
tests/backends/postgres/test_migrating.py::test_a_reader_that_does_not_end
tests/backends/postgres/test_failover.py::test_a_commit_that_the_standby_has_not
tests/backends/postgres/test_history.py::test_a_short_history
tests/backends/postgres/test_tenants.py::test_an_older_clew_gave_tenants_more
tests/backends/postgres/test_tenants.py::test_the_oldest_notes_go
tests/backends/postgres/test_batches.py::test_a_plan_that_was_made_when_there_was_much
tests/backends/postgres/test_batches.py::test_two_who_store_the_same_ids
tests/backends/postgres/test_links.py::test_the_same_id_after_an_outage
tests/backends/postgres/test_opening.py::test_a_server_that_stays_away
tests/backends/postgres/test_partitions.py::test_dividing

# object storage: `make test` keeps the plain forms
tests/engine/objects/test_cli.py::*
tests/engine/objects/test_conformance.py::*
tests/engine/objects/test_copying.py::*
tests/engine/objects/test_crash.py::*[[]*sealed]
tests/engine/objects/test_crash.py::test_killed_while_a_blob_is_purged[[]before it is removed]
tests/engine/objects/test_keys.py::*
tests/engine/objects/test_outside.py::test_a_stream_in_parts*
tests/engine/objects/test_outside.py::*[[]sealed]
tests/engine/objects/test_outside.py::test_a_note_that_was_changed[[]*-sealed]
tests/snapshots/test_object_store.py::TestS3::test_a_conversation_that_grows

# imports and exports: `make test` keeps one form of each kind of file, store and seed
tests/exports/test_jsonl.py::test_any_history[[][1-9]]
tests/exports/test_jsonl.py::test_a_file_that_was_cut_off[[]sealed-*
tests/exports/test_jsonl.py::test_again_nothing_is_new[[]sealed]
tests/exports/test_render.py::test_any_part_of_a_call_may_be_huge[[][!W]*
tests/sources/test_apps.py::test_a_file_that_is_cut_in_its_last_line[[]vscode-log]
tests/sources/test_apps.py::test_again_and_in_any_order[[]agno-old]
tests/sources/test_apps.py::test_again_and_in_any_order[[]cursor-[lt]*
tests/sources/test_apps.py::test_again_and_in_any_order[[]librechat-nested]
tests/sources/test_apps.py::test_again_and_in_any_order[[]open-webui-export]
tests/sources/test_apps.py::test_again_and_in_any_order[[]vscode-document]
tests/sources/test_every_format.py::test_a_file_that_is_cut_in_its_last_record[[]codex*
tests/sources/test_every_format.py::test_twice_and_in_two_orders[[]codex-old]
tests/sources/test_growing.py::test_it_is_as_if_all_had_been_read_at_once[[]claude-code-200]
tests/sources/test_growing.py::test_it_is_as_if_all_had_been_read_at_once[[]codex-2]
tests/sources/test_growing.py::test_it_is_as_if_all_had_been_read_at_once[[]codex-old-*
tests/sources/test_growing.py::test_random_trees_that_grow[[][1-9]]
tests/sources/test_hostile_values.py::test_any_row[[][!alo]*
tests/sources/test_hostile_values.py::test_any_row[[]agno-old]
tests/sources/test_hostile_values.py::test_any_row[[]langgraph]
tests/sources/test_hostile_values.py::test_any_row[[]open-webui-database]
tests/sources/test_hostile_values.py::test_any_value[[][!cgov]*
tests/sources/test_hostile_values.py::test_any_value[[]c[!lh]*
tests/sources/test_hostile_values.py::test_any_value[[]cline]
tests/sources/test_hostile_values.py::test_any_value[[]claude-ai]
tests/sources/test_hostile_values.py::test_any_value[[]open-webui-export]
tests/sources/test_hostile_values.py::test_any_value[[]vscode-document]
tests/sources/test_every_format.py::test_forks_are_marked[[][!p]*-reversed]
tests/sources/test_import_pairs.py::test_a_log_that_is_followed_in_several_ways[[][1-9]*
tests/sources/test_import_pairs.py::test_into_a_sealed_store_with_a_bucket
tests/sources/test_import_pairs.py::test_redaction_before_writing[[][!f]*
tests/sources/test_native_export.py::test_any_export_comes_out_as_it_was
tests/sources/test_recorded.py::test_a_document_that_is_cut[[]continue]
tests/sources/test_recorded.py::test_a_log_that_is_cut_in_its_last_line[[]qwen-code]
tests/sources/test_redacted.py::*[[]sealed*
tests/sources/test_redacted.py::test_the_same_history_again[[]plain-again]
tests/sources/test_usage.py::test_tokens_are_counted_once[[]*-old]
tests/sources/test_usage.py::test_tokens_are_counted_once[[]librechat-nested]
tests/sources/test_usage.py::test_tokens_are_counted_once[[]open-webui-export]
tests/sources/test_usage.py::test_tokens_are_counted_once[[]vscode-document]

# the terminal: one width; a passphrase takes a fifth of a second each time
tests/cli/test_recordings.py::test_what_people_see[[]60]
tests/cli/test_recordings.py::test_what_people_see[[]200]
tests/cli/test_recordings.py::test_whatever_happens_to_the_terminal
tests/cli/test_key.py::test_a_key_is_exchanged*
tests/cli/test_key.py::test_a_new_key_comes_from_anywhere
tests/cli/test_key.py::test_it_goes_on_after_an_interrupt
tests/cli/test_key.py::test_a_recovery_key_on_a_terminal
tests/cli/test_key.py::test_a_passphrase_is_chosen_on_a_terminal
tests/cli/test_sources.py::test_a_passphrase_is_asked_for
tests/cli/test_completion.py::test_a_shell_completes[[]zsh]
tests/cli/test_wrong_key.py::test_with_the_right_key_it_is_done[[][f-z]*
tests/cli/test_schema.py::test_a_planted_view_is_an_error_at_once[[][f-z]*
tests/cli/test_terminals.py::test_a_pipe_that_closes_is_no_error[[][!lh]*
tests/cli/test_terminals.py::test_colour_and_width_are_as_asked_for[[][!ls]*
tests/cli/test_terminals.py::test_a_dumb_terminal_gets_no_escapes[[][!l]*
tests/cli/test_hook_time.py::test_a_path_that_no_file_can_have[[]path[12]]
tests/cli/test_completion.py::test_nothing_is_asked_or_told_while_a_shell_waits
tests/cli/test_completion.py::test_fish_completes
tests/cli/test_picker.py::test_another_size[[]size[12]]
tests/cli/test_picker.py::test_keys_in_one_burst_are_handled_in_order[[]directory]
tests/cli/test_import_full_disk.py::test_it_stops_at_once[[]form[12]]
tests/cli/test_wrong_key.py::test_a_wrong_key_changes_nothing[[][f-z]*
tests/cli/test_ids.py::test_an_id_names_what_it_names[[]checkpoint*
tests/cli/test_ids.py::test_an_id_names_what_it_names[[]conversation print]
tests/cli/test_ids.py::test_an_id_names_what_it_names[[]s[hen]*
tests/cli/test_ids.py::test_an_id_names_what_it_names[[]chat]
tests/cli/test_ids.py::test_an_id_names_what_it_names[[]run]
tests/cli/test_ids.py::test_an_id_names_what_it_names[[]tree]
tests/cli/test_ids.py::test_an_id_names_what_it_names[[]rename]
tests/cli/test_ids.py::test_an_id_names_what_it_names[[]append]

# the page in a browser: `make test` keeps one width of the accessibility check, one test of each kind and all
# attacks at once
tests/web/test_sealed.py::*
tests/backends/postgres/test_web_pages.py::*
tests/cli/test_serve.py::test_a_browser_is_opened_on_a_terminal_of_this_machine
tests/web/test_soak.py::test_a_reader_beside_two_writers
tests/web/test_imported.py::*
tests/web/test_hostile.py::test_nothing_runs_and_nothing_is_sent[[][0-8]]
tests/web/test_browser.py::test_axe_finds_nothing[[]1440-dark]
tests/web/test_browser.py::test_axe_finds_nothing[[]640-light]
tests/web/test_browser.py::test_axe_finds_nothing[[]390-dark]
tests/web/test_browser_features.py::test_axe_finds_nothing_on_the_other_pages*
tests/web/test_browser_features.py::test_far_windows_leave_the_page
tests/web/test_browser_features.py::test_a_secret_is_shown_when_it_is_chosen[[]False]
tests/web/test_browser_features.py::test_a_sealed_store_in_a_browser
tests/web/test_browser_features.py::test_a_subagent_is_read_where_it_was_started
tests/web/test_browser_features.py::test_changes_by_keyboard
tests/web/test_browser_features.py::test_prompts_go_on_beyond_the_window
tests/web/test_browser_features.py::test_print_and_less_motion
tests/web/test_browser_features.py::test_the_results_page_follows_its_field
tests/web/test_words.py::test_the_browser_keeps_no_words[[]plain-*
tests/web/test_words.py::test_the_browser_keeps_no_words[[]*-no script]

# documents whose code takes long, what `make check` checks as well, and benchmarks, which only have to run
tests/docs/test_pages.py::test_code_runs[[]docs/how-to/write-a-backend.md]
tests/docs/test_pages.py::test_code_runs[[]docs/how-to/search.md]
tests/docs/test_pages.py::test_code_runs[[]docs/how-to/watch.md]
tests/docs/test_pages.py::test_code_runs[[]docs/how-to/export.md]
tests/docs/test_pages.py::test_code_runs[[]docs/how-to/continue-elsewhere.md]
tests/docs/test_pages.py::test_code_runs[[]docs/how-to/async.md]
tests/docs/test_pages.py::test_code_runs[[]docs/how-to/message-tree.md]
tests/docs/test_pages.py::test_code_runs[[]docs/how-to/delete.md]
tests/docs/test_pages.py::test_code_runs[[]docs/how-to/keys.md]
tests/docs/test_pages.py::test_code_runs[[]docs/how-to/chat-in-a-terminal.md]
tests/docs/test_pages.py::test_code_runs[[]docs/how-to/mcp.md]
tests/docs/test_pages.py::test_code_runs[[]docs/how-to/damage.md]
tests/docs/test_pages.py::test_code_runs[[]docs/how-to/attachments.md]
tests/docs/test_pages.py::test_code_runs[[]docs/how-to/chat.md]
tests/docs/test_pages.py::test_code_runs[[]docs/how-to/snapshots.md]
tests/docs/test_pages.py::test_code_runs[[]docs/how-to/redact.md]
tests/docs/test_pages.py::test_code_runs[[]docs/how-to/checkpoints.md]
tests/docs/test_pages.py::test_code_runs[[]docs/how-to/settings.md]
tests/docs/test_pages.py::test_code_runs[[]docs/how-to/records.md]
tests/docs/test_pages.py::test_code_runs[[]docs/how-to/several-writers.md]
tests/docs/test_pages.py::test_code_runs[[]docs/how-to/agents.md]
tests/docs/test_reference.py::test_all_is_well
tests/benchmarks/test_smoke.py::*

# frameworks: `make test` keeps the short tests of those that are in .venv
tests/adapters/pydantic_ai/test_checks.py::*
tests/adapters/pydantic_ai/test_documents.py::*
tests/adapters/opentelemetry/test_documents.py::*
tests/adapters/pydantic_ai/test_store.py::TestSameAsInMemory::runTest
tests/adapters/pydantic_ai/test_store.py::test_two_processes
tests/adapters/pydantic_ai/test_store.py::test_in_the_command_line[[]sealed]
tests/adapters/pydantic_ai/test_store.py::test_in_the_command_line[[]postgres]
tests/web/test_pages.py::test_conversations_of_frameworks[[]*[!t]]
"""


def by_file(lines: Iterable[str]) -> dict[str, list[str]]:
    """Patterns, or node ids, by the file that they name: only those of one file are compared."""
    found = defaultdict[str, list[str]](list)
    for line in lines:
        found[line.partition("::")[0]].append(line)
    return found


PATTERNS = by_file(line for line in FULL.splitlines() if line and not line.startswith("#"))


def is_full(node_id: str) -> bool:
    """Whether only `make test-all` runs the test."""
    return any(fnmatchcase(node_id, pattern) for pattern in PATTERNS.get(node_id.partition("::")[0], ()))


def unused(node_ids: list[str]) -> list[str]:
    """Patterns that mean none of these tests."""
    known = by_file(node_ids)
    return [
        pattern
        for file, patterns in PATTERNS.items()
        for pattern in patterns
        if not any(fnmatchcase(node_id, pattern) for node_id in known.get(file, ()))
    ]
