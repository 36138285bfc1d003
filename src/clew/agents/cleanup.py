"""Purges agents' sessions that were not used for long."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from clew.agents import metadata
from clew.agents.cleanup_report import CleanupReport
from clew.agents.mirror import Mirror
from clew.engine.mirrors import PENDING
from clew.retention import RetentionScan, get_policy
from clew.retention.policy import Policy
from clew.store.store import Store
from clew.store.unit import Unit


def clean_up(
    store: Store, mirror: Mirror | None, older_than: timedelta, *, dry_run: bool, force: bool
) -> CleanupReport:
    """See `clew.agents.SessionStore.cleanup`."""
    policy = get_policy(store) or Policy(days=None)
    found = RetentionScan(store, policy, None, (), timedelta(0), only=metadata.is_agents, older_than=older_than)
    if not force:
        found.refuse_doubts()
    would = found.purge_rows(dry_run=True)
    files = {} if mirror is None else _sizes(store, mirror, would.sessions)
    receipt = would if dry_run else found.purge_rows()
    failures = (
        *((one.session, f"it is kept: {one.why}") for one in found.spared),
        *((one.session, one.error) for one in receipt.failures),
    )
    freed = receipt.bytes
    if mirror is not None and PENDING + mirror.root not in receipt.pending:
        freed += sum(files.get(one, 0) for one in receipt.sessions)
    return CleanupReport(receipt.sessions, freed, failures, receipt)


def _sizes(store: Store, mirror: Mirror, sessions: Iterable[str]) -> dict[str, int]:
    """Bytes of sessions and their subagents in a mirror."""

    def families(unit: Unit) -> dict[str, list[str]]:
        found = {id: unit.session(id, subagent=None, trashed=True) for id in sessions}
        return {id: list(metadata.family(one)) for id, one in found.items() if one is not None}

    return {id: mirror.size(family) for id, family in store.read(families).items()}
