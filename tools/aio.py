"""Writes the type stubs of the async twins (src/clew/aio/*.pyi, src/clew/records/aio.pyi) from the sync classes.

    python tools/aio.py           writes the stubs
    python tools/aio.py --check   reports stubs that are not current, and changes nothing

A twin (`clew.aio.proxy.Proxy`) gets its members from its sync class at run time; type checkers and editors read the
stub. A method of the sync class becomes an async method with the same name, arguments and summary, and the classes
that have twins are replaced by them.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pathlib
import subprocess
import sys
from collections.abc import Iterator

from clew.aio.proxy import TWINS as PROXIES

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODULES = ("clew.aio.store", "clew.aio.agents", "clew.aio.checkpoints", "clew.records.aio")
HEADER = '"""Types of the async twins. Written by tools/aio.py."""\n'

Origin = tuple[str, str]
"""A module, and the name of something in it."""

TWINS: dict[Origin, Origin] = {
    ("clew.engine.watch", "Watch"): ("clew.aio.proxy", "Watch"),
}
"""For a sync class, its async one; `main` adds the proxies."""


class Sources:
    """The names that the annotations of one sync module use."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.tree = ast.parse(pathlib.Path(inspect.getfile(importlib.import_module(module))).read_text())
        self.origins: dict[str, Origin] = {}
        self.aliases: dict[str, ast.expr] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom):
                self.origins |= {(one.asname or one.name): (node.module or "", one.name) for one in node.names}
            elif isinstance(node, ast.Import):
                self.origins |= {one.name.partition(".")[0]: (one.name, "") for one in node.names}
        for node in self.tree.body:
            if isinstance(node, ast.ClassDef):
                self.origins[node.name] = (module, node.name)
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                self.origins[node.targets[0].id] = (module, node.targets[0].id)
                self.aliases[node.targets[0].id] = node.value


class Stub:
    """The stub of one module of async twins."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.sources = Sources(module)
        self.imports: dict[str, Origin] = dict(self.sources.origins)
        self.used = {"Awaitable", "AsyncIterator"}
        self.imports |= {name: ("collections.abc", name) for name in self.used}
        self.aliases: dict[str, str] = {}

    def text(self) -> str:
        """The whole stub."""
        body = [line for node in self.sources.tree.body for line in self.statement(node)]
        imports = [
            f"import {module}" if not name else f"from {module} import {name}{f' as {known}' * (known != name)}"
            for known, (module, name) in self.imports.items()
            if module not in (self.module, "__future__")
        ]
        aliases = [f"{name} = {value}" for name, value in self.aliases.items()]
        return "\n".join([HEADER, *imports, "", *body, *aliases, ""])

    def statement(self, node: ast.stmt) -> Iterator[str]:
        """One statement of the module: its classes, functions and type variables."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from self.function(node, self.sources, twin=False)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call | ast.List):
            yield ast.unparse(node)
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from self.class_(node)

    def class_(self, node: ast.ClassDef) -> Iterator[str]:
        """A class, with the members of its sync class if it is a twin."""
        cls = getattr(importlib.import_module(self.module), node.name)
        of = [ast.unparse(word.value) for word in node.keywords if word.arg == "of"]
        yield ""
        yield f"class {node.name}({', '.join([*map(ast.unparse, node.bases), *(f'of={one}' for one in of)])}):"
        yield f"    {summary(inspect.getdoc(cls))}"
        if of and len(node.bases) == 1:
            yield f"    _sync: {of[0]}"
        names = set()
        for member in node.body:
            if isinstance(member, ast.AnnAssign):
                assignment = ast.unparse(member.target), ast.unparse(member.annotation)
                if of:
                    yield from ("    @property", f"    def {assignment[0]}(self) -> {assignment[1]}: ...")
                else:
                    yield f"    {ast.unparse(member)}  # type: ignore[assignment]"
            elif isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef):
                names.add(member.name)
                if not member.name.startswith("_") or member.name.startswith("__"):
                    yield from indent(self.function(member, self.sources, twin=False))
        if of:
            yield from indent(self.members(next(one for one in PROXIES if PROXIES[one] is cls), names))

    def members(self, sync: type, names: set[str]) -> Iterator[str]:
        """The members that the twin of `sync` has of it, apart from `names`, which the twin defines."""
        for kind in reversed(sync.__mro__):
            if kind.__module__.startswith("clew."):
                yield from self.own_members(kind, names, PROXIES[sync]._awaited)

    def own_members(self, kind: type, names: set[str], awaited: frozenset[str]) -> Iterator[str]:
        """The members that one class defines itself."""
        sources = Sources(kind.__module__)
        cls = next(node for node in sources.tree.body if isinstance(node, ast.ClassDef) and node.name == kind.__name__)
        functions = [node for node in cls.body if isinstance(node, ast.FunctionDef)]
        overloaded = {node.name for node in functions if "overload" in marks(node)}
        for node in functions:
            if node.name.startswith("_") or node.name in names:
                continue
            if node.name not in overloaded or "overload" in marks(node):
                yield from self.function(node, sources, twin=True, awaited=node.name in awaited)

    def function(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef, sources: Sources, *, twin: bool, awaited: bool = False
    ) -> Iterator[str]:
        """A function or method without its body."""
        returns = self.resolve(node.returns, sources) if node.returns else "None"
        is_async = isinstance(node, ast.AsyncFunctionDef)
        if twin and awaited:
            returns = f"Awaitable[{returns}]"
        elif twin and returns.startswith("Iterator["):
            returns = f"Async{returns}"
        elif twin and returns != "Watch":
            is_async = not marks(node) & {"property", "cached_property"}
        for mark in sorted(marks(node) & {"property", "cached_property", "overload"}):
            self.imports |= {"overload": ("typing", "overload")} if mark == "overload" else {}
            yield f"@{mark.removeprefix('cached_')}"
        for arg in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]:
            if arg is not None and arg.annotation is not None:
                arg.annotation = ast.parse(self.resolve(arg.annotation, sources), mode="eval").body
        node.args.defaults = [plain(default) for default in node.args.defaults]
        node.args.kw_defaults = [default and plain(default) for default in node.args.kw_defaults]
        yield f"{'async ' * is_async}def {node.name}({ast.unparse(node.args)}) -> {returns}:"
        doc = ast.get_docstring(node)
        yield f"    {summary(doc)}" if doc else "    ..."

    def resolve(self, annotation: ast.expr, sources: Sources) -> str:
        """An annotation of a sync module as the stub says it; imports what it needs."""
        tree = ast.parse(ast.unparse(annotation), mode="eval")
        for name in [node for node in ast.walk(tree) if isinstance(node, ast.Name)]:
            origin = sources.origins.get(name.id)
            if origin is None or sources.module == self.module:
                continue
            alias = sources.aliases.get(name.id)
            if alias is not None and any(
                TWINS.get(sources.origins.get(one.id, ("", ""))) for one in ast.walk(alias) if isinstance(one, ast.Name)
            ):
                self.aliases[name.id] = self.resolve(alias, sources)
                continue
            origin = TWINS.get(origin, origin)
            if origin[0] == self.module:
                name.id = origin[1]
            elif self.imports.setdefault(name.id, origin) != origin:
                name.id = f"_{name.id}"
                self.imports[name.id] = origin
        return ast.unparse(tree)


def name(cls: type) -> Origin:
    """Where a class is defined."""
    return cls.__module__, cls.__name__


def marks(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """The decorators of a function."""
    return {ast.unparse(mark) for mark in node.decorator_list}


def plain(default: ast.expr) -> ast.expr:
    """A default as a stub has it: a constant, or an ellipsis."""
    return default if isinstance(default, ast.Constant) else ast.Constant(...)


def summary(doc: str | None) -> str:
    """The first paragraph of a docstring, which editors show; the whole is there at run time."""
    return f'"""{" ".join(doc.partition(chr(10) * 2)[0].split())}"""' if doc else "..."


def indent(lines: Iterator[str]) -> Iterator[str]:
    """Lines inside a class."""
    for line in lines:
        yield f"    {line}"


def main() -> int:
    """Writes or checks the stubs."""
    for module in MODULES:
        importlib.import_module(module)
    TWINS.update({name(sync): name(twin) for sync, twin in PROXIES.items()})
    for module in MODULES:
        target = ROOT / "src" / f"{module.replace('.', '/')}.pyi"
        text = ruff(
            ["check", "--select", "I,F401,UP,PYI", "--fix", "--exit-zero", "--quiet"], Stub(module).text(), target
        )
        formatted = ruff(["format"], text, target)
        if "--check" not in sys.argv:
            target.write_text(formatted)
        elif not target.exists() or target.read_text() != formatted:
            print(f"{target.relative_to(ROOT)} is not current: run python tools/aio.py", file=sys.stderr)
            return 1
    return 0


def ruff(command: list[str], text: str, target: pathlib.Path) -> str:
    """`text` as ruff leaves it."""
    return subprocess.run(
        [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(target), "-"],
        input=text, capture_output=True, text=True, check=True, cwd=ROOT,
    ).stdout  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
