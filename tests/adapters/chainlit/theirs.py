"""Chainlit's own data layer on SQLite, with the tables that its documents say to create."""

from __future__ import annotations

from typing import Any

from chainlit.data.sql_alchemy import SQLAlchemyDataLayer
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

TABLES = {
    "users": "id identifier metadata createdAt",
    "threads": "id createdAt name userId userIdentifier tags metadata",
    "steps": "id name type threadId parentId streaming waitForAnswer isError metadata tags input output createdAt start"
    " end generation showInput language",
    "elements": "id threadId type url chainlitKey name display objectKey size page language forId mime props",
    "feedbacks": "id forId threadId value comment",
}


async def sql_layer(folder: str) -> Any:
    """A new data layer in a folder."""
    address = f"sqlite+aiosqlite:///{folder}/theirs.db"
    engine = create_async_engine(address)
    async with engine.begin() as connection:
        for table, names in TABLES.items():
            columns = ", ".join(f'"{name}"' for name in names.split()[1:])
            await connection.execute(text(f'CREATE TABLE IF NOT EXISTS {table} ("id" PRIMARY KEY, {columns})'))
    await engine.dispose()
    return SQLAlchemyDataLayer(address)
