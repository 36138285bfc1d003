"""The import of a framework, which may be missing."""

from __future__ import annotations

from clew.errors import MissingPackage


class framework:  # noqa: N801  used like a function: ``with framework("langgraph"): import langgraph``
    """Around the imports of a framework: MissingPackage if it is not installed. `extra` installs it."""

    def __init__(self, extra: str) -> None:
        self._extra = extra

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ModuleNotFoundError) and error.name and error.name.partition(".")[0] != "clew":
            raise MissingPackage(f"this adapter needs the package {error.name}", f"clew[{self._extra}]") from error
