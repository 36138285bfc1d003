"""A link to a server that takes its time: `python -m benchmarks.delay SOCKET MILLISECONDS` prints its port."""

from __future__ import annotations

import asyncio
import sys
from functools import partial


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    while data := await reader.read(1 << 16):
        loop.call_later(seconds, writer.write, data)
    loop.call_later(seconds, writer.close)


async def _serve(socket: str, seconds: float) -> None:
    async def link(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_unix_connection(socket)
        await asyncio.gather(_pump(reader, back, seconds), _pump(there, writer, seconds))

    server = await asyncio.start_server(partial(link), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], float(sys.argv[2]) / 2000))
