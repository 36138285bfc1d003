"""Keyrings to test with: real ones as far as the keyring package can tell, kept in a file of the test's."""

from __future__ import annotations

import json
import time
from pathlib import Path

from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked, PasswordSetError


class FileKeyring(KeyringBackend):
    """One line for each entry that was ever set; the last one counts. `KEYRING_PROPERTY_PATH` names the file."""

    priority = 1.0
    path = ""

    def get_password(self, service: str, username: str) -> str | None:
        found = None
        for line in self.lines():
            if line[:2] == [service, username]:
                found = line[2]
        time.sleep(0.02)  # whoever looks and then sets without a lock is overtaken here
        return found

    def set_password(self, service: str, username: str, password: str) -> None:
        with Path(self.path).open("a") as file:
            file.write(json.dumps([service, username, password]) + "\n")

    def delete_password(self, service: str, username: str) -> None:
        raise AssertionError("clew deletes no key")

    def lines(self) -> list[list[str]]:
        if not Path(self.path).exists():
            return []
        return [json.loads(line) for line in Path(self.path).read_text().splitlines()]


class Locked(FileKeyring):
    """Nobody unlocks it."""

    def get_password(self, service: str, username: str) -> str | None:
        raise KeyringLocked("Failed to unlock the keyring!")


class Full(FileKeyring):
    """It takes nothing, and says too much."""

    def set_password(self, service: str, username: str, password: str) -> None:
        raise PasswordSetError(f"cannot store {password}")


class Forgetful(FileKeyring):
    """It takes everything and keeps nothing, as the null keyring does, and is not the null keyring."""

    def set_password(self, service: str, username: str, password: str) -> None:
        pass


class Overtaken(FileKeyring):
    """A program that takes no lock sets the entry at the same moment."""

    def set_password(self, service: str, username: str, password: str) -> None:
        super().set_password(service, username, password)
        super().set_password(service, username, "A" * 43 + "=")


class PlaintextKeyring(FileKeyring):
    """Of the name that keyrings.alt gives to the one that does not encrypt."""
