"""Encrypt a store, remove secrets before they are stored, and delete a conversation for good."""

import tempfile
from pathlib import Path

import clew
from clew.redaction import Rules, builtin


def main(folder: Path) -> None:
    """Stores two conversations encrypted, and purges one."""
    key = clew.keys.from_file(folder / "store.key", create=True)  # keep a second copy in another place
    path = folder / "private.db"
    with clew.open(path, key=key, redact=Rules(builtin())) as store:
        offer = store.sessions.create(title="Offer")
        offer.append(clew.user("The price is 42."))
        other = store.sessions.create(title="Deployment")
        node = other.append(clew.user("The token is ghp_0123456789abcdefghijABCDEFGHIJ012345."))
        print("stored as:", node.text)

        receipt = store.sessions.purge(offer.id)
        print("purged:", receipt.messages, "message; left to clean:", list(receipt.pending))
    print("the price is in the file:", b"The price" in path.read_bytes())

    try:
        clew.open(path, key=clew.keys.generate())
    except clew.WrongKey as error:
        print("another key:", type(error).__name__)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary))
