"""Other stores of conversations on PostgreSQL, through their public faces; see `peers`."""

from __future__ import annotations

from typing import Any, ClassVar

from psycopg.conninfo import conninfo_to_dict

from benchmarks import peers
from benchmarks.bench import Bench


class OpenAI(peers.OpenAI):
    """A session over SQLAlchemy and asyncpg, as its documentation has it."""

    label, package, module = "openai-agents SQLAlchemySession", "openai-agents", "agents.extensions.memory"
    needs = ("sqlalchemy", "asyncpg")

    def _opened(self, path: str) -> Any:
        from agents.extensions.memory import SQLAlchemySession
        from sqlalchemy import URL

        known: dict[str, Any] = conninfo_to_dict(path)
        local = str(known.get("host", "")).startswith("/")
        url = URL.create(
            "postgresql+asyncpg", username=known.get("user"), password=known.get("password"),
            host=None if local else known.get("host"), port=int(known["port"]) if "port" in known else None,
            database=known.get("dbname"), query={"host": known["host"]} if local else {},
        )  # fmt: skip
        settings = {"search_path": str(known["options"]).rpartition("=")[2]}
        connect = {"connect_args": {"server_settings": settings}}
        return SQLAlchemySession.from_url(
            "bench", url=url.render_as_string(hide_password=False), engine_kwargs=connect, create_tables=True
        )

    def durability(self) -> str:
        """How durable what it commits is, asked on a connection of its own."""
        return self._runner.run(self._asked())

    async def _asked(self) -> str:
        from sqlalchemy import text

        async with self._session.engine.connect() as conn:
            names = ("synchronous_commit", "fsync")
            found = [(await conn.execute(text(f"SHOW {name}"))).scalar_one() for name in names]
        return "synchronous_commit={} fsync={}".format(*found)

    def close(self) -> None:
        self._runner.run(self._session.engine.dispose())
        self._runner.close()


class LangGraph(peers.LangGraph):
    label, package = "langgraph PostgresSaver", "langgraph-checkpoint-postgres"
    module = "langgraph.checkpoint.postgres"
    notes: ClassVar = peers.LangGraph.notes
    needs = ()

    def _opened(self, path: str) -> Any:
        from langgraph.checkpoint.postgres import PostgresSaver

        return PostgresSaver.from_conn_string(path)

    def _set_up(self) -> None:
        self._saver.setup()

    def durability(self) -> str:
        """How durable what it commits is, asked on its own connection."""
        names = ("synchronous_commit", "fsync")
        found = [self._saver.conn.execute(f"SHOW {name}").fetchone()[name] for name in names]
        return "synchronous_commit={} fsync={}".format(*found)


ALL: tuple[type[OpenAI | LangGraph], ...] = (OpenAI, LangGraph)


def installed(bench: Bench) -> list[type[OpenAI | LangGraph]]:
    """The peers that can be measured here."""
    return [peer for peer in ALL if bench.peers and all(map(peers.there, (peer.module, *peer.needs)))]
