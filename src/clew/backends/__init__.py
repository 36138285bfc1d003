"""Databases that store rows in transactions; they know nothing about blocks, keys or policy.

Several threads may use one backend. A transaction (`Tx`) belongs to the thread that runs it, and ends when the function
that received it returns. Every method raises the errors of `clew.errors`, never those of a driver.
"""

from __future__ import annotations

from clew.backends.backend import (
    Backend,
    BackendOptions,
    Backup,
    Durability,
    Loader,
    Maintenance,
    Partitions,
    Progress,
    Reader,
    Tail,
    Tenants,
    Words,
)
from clew.backends.blob_tx import BlobTx
from clew.backends.maintenance_tx import MaintenanceTx
from clew.backends.problems import BROKEN, Problem
from clew.backends.rows import (
    BODY,
    FACTS,
    ID,
    MAX_POS,
    MAX_SEQ,
    POS,
    SEQ_BITS,
    BlobRow,
    BodyRow,
    Growth,
    HeadState,
    InsertPoint,
    LogRow,
    Move,
    NodeLocation,
    NodeRow,
    ObjectRow,
    QuarantineRow,
    RefRow,
    RunRow,
    State,
    creation_counter,
)
from clew.backends.tables import FORMAT, Table
from clew.backends.tx import Tx
from clew.backends.work import Call, EpochChanged, Job, current_call

__all__ = [
    "BODY",
    "BROKEN",
    "FACTS",
    "FORMAT",
    "ID",
    "MAX_POS",
    "MAX_SEQ",
    "POS",
    "SEQ_BITS",
    "Backend",
    "BackendOptions",
    "Backup",
    "BlobRow",
    "BlobTx",
    "BodyRow",
    "Call",
    "Durability",
    "EpochChanged",
    "Growth",
    "HeadState",
    "InsertPoint",
    "Job",
    "Loader",
    "LogRow",
    "Maintenance",
    "MaintenanceTx",
    "Move",
    "NodeLocation",
    "NodeRow",
    "ObjectRow",
    "Partitions",
    "Problem",
    "Progress",
    "QuarantineRow",
    "Reader",
    "RefRow",
    "RunRow",
    "State",
    "Table",
    "Tail",
    "Tenants",
    "Tx",
    "Words",
    "creation_counter",
    "current_call",
]
