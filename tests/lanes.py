"""Which tests `make test` leaves to `make test-all`, in one place.

`make test` touches every feature and every promise in a few minutes. What is here repeats one of its tests with another
backend, key, width or fault, or takes long for what it adds. A line is a pattern of node ids, without the parameters or
with them.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

FULL = """
# crashes: `make test` keeps one form of each kind of kill, power cut, failing call and key change
tests/crash/test_rekey.py::test_a_crash_anywhere[[]deep]
tests/crash/test_rekey.py::test_a_crash_anywhere[[]rotate]
tests/crash/test_rekey.py::test_a_crash_anywhere[[]seal]
tests/crash/test_rewind.py::test_a_crash_anywhere*
tests/crash/test_rewind.py::test_a_disk_that_fails[[]*[!C]]
tests/crash/test_power.py::test_an_acknowledged_append_survives_a_power_cut[[]strict]
tests/crash/test_power.py::test_relaxed_durability_still_survives_kill
tests/crash/test_purge.py::test_a_crash_anywhere[[]sealed]
tests/crash/test_purge.py::test_a_process_that_is_killed[[]plain-1]
tests/crash/test_purge.py::test_a_disk_that_fills_up_in_the_middle[[]*[!2]]
tests/crash/test_faults.py::test_a_failing_call_loses_nothing[[]write-SHORT-*
tests/crash/test_faults.py::test_a_failing_call_loses_nothing[[]write-EIO-*
tests/crash/test_faults.py::test_a_failing_call_loses_nothing[[]unlink-*
tests/crash/test_faults.py::test_a_failing_call_loses_nothing[[]truncate-*
tests/crash/test_faults.py::test_a_failing_call_loses_nothing[[]sync-EIO-sticky-*
tests/crash/test_snapshots.py::test_an_autosaved_answer_survives_a_power_cut[[]sealed]
tests/agents/test_mirror.py::test_cut_off_at_each_call[[]openat]
tests/agents/test_mirror.py::test_cut_off_at_each_call[[]fsync]

# exhaustive forms
tests/reliability/test_flips.py::test_a_flipped_bit_is_found_or_changes_nothing[[]plain]
tests/test_scrub.py::test_no_flip_makes_it_change_what_is_read
tests/reliability/test_kinds.py::*[[]sealed*
tests/reliability/test_clock.py::test_under_faketime[[]4]
tests/reliability/test_formats.py::test_first_opens_from_many_processes
tests/reliability/test_rekey.py::test_processes_with_the_old_key_alone_go_on[[]False]
tests/records/test_snapshots.py::test_ten_thousand_messages_are_back_within_two_seconds
tests/records/test_concurrency.py::test_two_services_lose_no_message[[]150]
tests/test_attacks.py::test_searching_a_path_of_many_bends
tests/test_rekey.py::test_passphrases_are_exchanged
tests/test_rekey.py::test_a_passphrase_goes_on_where_it_was
tests/test_quarantine.py::test_an_io_error_is_never_damage[[]plain]

# conformance: variants that differ by one pragma, or by a key
tests/conformance/test_sqlite.py::TestRelaxed::*
tests/postgres/test_conformance.py::TestSealed::*
tests/postgres/test_conformance.py::TestObjects::*
tests/postgres/test_conformance.py::TestDivided::*

# PostgreSQL: storms, partitions, tenants' variants and state machines
tests/postgres/test_batches.py::test_two_sessions_at_the_same_message*
tests/postgres/test_batches.py::*[[]divided]
tests/postgres/test_batches.py::*[[]a tenant's]
tests/postgres/test_batches.py::*[[]sealed]
tests/postgres/test_cli.py::*
tests/postgres/test_copying.py::test_there_and_back[[]plain]
tests/postgres/test_copying.py::test_a_copy_that_was_cut_short
tests/postgres/test_lost_answers.py::test_what_nobody_can_say
tests/postgres/test_page.py::*
tests/postgres/test_partitions.py::test_copied_there_and_back
tests/postgres/test_partitions.py::test_a_session_is_in_one_partition
tests/postgres/test_partitions.py::test_checkpoints_of_a_store_that_was_copied
tests/postgres/test_partitions.py::test_pruning
tests/postgres/test_partitions.py::test_tenants
tests/postgres/test_processes.py::test_a_server_that_is_killed
tests/postgres/test_processes.py::test_twenty_processes_make_the_store_at_once
tests/postgres/test_processes.py::test_threads_on_many_sessions
tests/postgres/test_properties.py::*
tests/postgres/test_search.py::test_nothing_is_passed_over_while_others_write
tests/postgres/test_search.py::test_a_search_beside_a_long_transaction
tests/postgres/test_search.py::*[[]sealed*
tests/postgres/test_together.py::*
tests/postgres/test_upkeep.py::test_keys_are_exchanged[[]deep]
tests/postgres/test_upkeep.py::test_keys_are_exchanged[[]rotate]
tests/postgres/test_upkeep.py::test_keys_are_exchanged[[]unseal]
tests/postgres/test_upkeep.py::test_the_same_as_in_a_file[[]plain]
tests/postgres/test_upkeep.py::test_others_append_while_keys_are_exchanged
tests/postgres/test_watching.py::test_the_server_is_killed
tests/postgres/test_watching.py::test_other_processes
tests/postgres/test_watching.py::test_one_connection_for_all

# object storage: `make test` keeps the plain forms
tests/objects/test_cli.py::*
tests/objects/test_conformance.py::*
tests/objects/test_copying.py::*
tests/objects/test_crash.py::*[[]*sealed]
tests/objects/test_crash.py::test_killed_while_a_blob_is_purged[[]before it is removed]
tests/objects/test_keys.py::*
tests/objects/test_outside.py::test_a_stream_in_parts*
tests/objects/test_outside.py::*[[]sealed]
tests/snapshots/test_object_store.py::TestS3::test_a_conversation_that_grows

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

# documents whose code takes long, and benchmarks, which only have to run
tests/docs/test_pages.py::test_code_runs[[]docs/how-to/write-a-backend.md]
tests/docs/test_pages.py::test_code_runs[[]docs/how-to/retention.md]
tests/docs/test_pages.py::test_code_runs[[]docs/how-to/keys.md]
tests/docs/test_pages.py::test_code_runs[[]docs/how-to/delete.md]
tests/docs/test_pages.py::test_code_runs[[]docs/how-to/talk.md]
tests/docs/test_pages.py::test_code_runs[[]docs/how-to/mcp.md]
tests/docs/test_pages.py::test_code_runs[[]docs/how-to/damage.md]
tests/docs/test_pages.py::test_code_runs[[]docs/how-to/restore.md]
tests/docs/test_pages.py::test_code_runs[[]docs/how-to/object-storage.md]
tests/docs/test_pages.py::test_code_runs[[]docs/how-to/chat.md]
tests/docs/test_pages.py::test_code_runs[[]docs/how-to/snapshots.md]
tests/docs/test_pages.py::test_code_runs[[]docs/how-to/redact.md]
tests/docs/test_pages.py::test_code_runs[[]docs/how-to/checkpoints.md]
tests/docs/test_pages.py::test_code_runs[[]docs/how-to/move-a-project.md]
tests/docs/test_pages.py::test_code_runs[[]docs/how-to/cpe.md]
tests/docs/test_pages.py::test_code_runs[[]docs/how-to/records.md]
tests/docs/test_pages.py::test_code_runs[[]docs/how-to/back-up.md]
tests/benchmarks/test_smoke.py::*
"""

PATTERNS = [line for line in FULL.splitlines() if line and not line.startswith("#")]


def is_full(node_id: str) -> bool:
    """Whether only `make test-all` runs the test."""
    return any(fnmatchcase(node_id, pattern) for pattern in PATTERNS)


def unused(node_ids: list[str]) -> list[str]:
    """Patterns that mean none of these tests."""
    return [pattern for pattern in PATTERNS if not any(fnmatchcase(node_id, pattern) for node_id in node_ids)]
