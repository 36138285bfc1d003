"""Loses the network to a server while an append is under way; run by test_failover in a network of its own.

The URL names the server twice, by its address and by its socket: when the address is dead, the socket is another host.
"""

from __future__ import annotations

import subprocess
import threading
import time

import clew
from tests.backends.postgres.server import Server


def main() -> None:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    server = Server(settings={"listen_addresses": "127.0.0.1"})
    try:
        url = server.url().replace(f"host={server.folder}&port=5432", f"host=127.0.0.1,{server.folder}&port=5432,5432")
        with clew.open(url, timeout=4) as store, server.connect() as other:
            session = store.sessions.create()
            session.append(clew.user("first"))
            schema = url.rpartition("schema=")[2]
            with other.transaction():
                other.execute(f"LOCK TABLE {schema}.nodes")  # reaches the server, and is not answered
                thread = threading.Thread(target=session.append, args=(clew.user("second"),), daemon=True)
                thread.start()
                while other.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone() == (0,):
                    time.sleep(0.02)
                subprocess.run(["ip", "link", "set", "lo", "down"], check=True)
            began = time.monotonic()
            thread.join(120)
            assert not thread.is_alive(), "the dead host is waited for"
            print([node.text for node in session.path()], time.monotonic() - began < 60)
    finally:
        server.stop()


if __name__ == "__main__":
    main()
