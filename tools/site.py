"""Builds the documentation as a site, from the Markdown files of docs/: `make docs`.

    python tools/site.py [FOLDER]      writes the site to FOLDER, by default site/

The site has every page as HTML and as Markdown, a search that needs no server, and llms.txt, a list of the pages for
programs. The navigation is docs/README.md. Zensical builds it: it reads plain Markdown, checks links and headings, and
stops at the first that is wrong. It is by the authors of Material for MkDocs, whose support ended in November 2026.
tools/site.toml configures it, tools/site-requirements.txt fixes its version; `make docs` installs it in .venv-site.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
OTHERS = {ROOT / "examples/README.md": "examples.md", ROOT / "CHANGELOG.md": "changelog.md"}
"""Pages from outside docs/, and their names in the site."""
SHIM = "https://unpkg.com/iframe-worker/shim"
"""A script that pages would load from a server, for a search in files."""
_LINK = re.compile(r"(!?)\[([^\]]*(?:\[[^\]]*\][^\]]*)?)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


class Section(NamedTuple):
    """A part of the navigation: its title, and the pages in it, each a title and a name in the site."""

    title: str
    pages: list[tuple[str, str]]


def pages() -> dict[Path, str]:
    """Every page, by its file; with its name in the site."""
    found = {page: page.relative_to(DOCS).as_posix() for page in sorted(DOCS.rglob("*.md"))}
    found[DOCS / "README.md"] = "index.md"
    return {**found, **OTHERS}


def text_of(page: Path, names: dict[Path, str]) -> str:
    """A page as the site has it. A link to a file that the site does not have becomes plain text."""

    def link(found: re.Match[str]) -> str:
        image, words, target = found.groups()
        name, _, anchor = target.partition("#")
        if not name or re.match(r"[a-z]+:", target):
            return found[0]
        there = (page.parent / name).resolve()
        new = names.get(there) or (there.relative_to(DOCS).as_posix() if there.is_relative_to(DOCS) else None)
        if new is None:
            return words
        here = os.path.dirname(names[page]) or "."
        return f"{image}[{words}]({os.path.relpath(new, here)}{f'#{anchor}' if anchor else ''})"

    parts = _FENCE.split(page.read_text(encoding="utf-8"))
    return "".join(part if part.startswith("```") else _LINK.sub(link, part) for part in parts)


def sections(names: dict[Path, str]) -> Iterator[Section]:
    """The navigation, as docs/README.md has it: a heading for each section, a list of links below it."""
    for part in (DOCS / "README.md").read_text(encoding="utf-8").split("\n## ")[1:]:
        title, _, rest = part.partition("\n")
        found = list[tuple[str, str]]()
        for line in rest.splitlines():
            if line.startswith("- "):
                for _, words, target in _LINK.findall(line):
                    name = names.get((DOCS / target).resolve())
                    if name is not None:
                        found.append((words.strip("`"), name))
        yield Section(title, found)


def configuration(names: dict[Path, str]) -> str:
    """tools/site.toml with the navigation."""
    lines = ["nav = [", '  { "Start" = "index.md" },']
    for section in sections(names):
        lines.append(f"  {{ {_quoted(section.title)} = [")
        lines += [f"    {{ {_quoted(words)} = {_quoted(name)} }}," for words, name in section.pages]
        lines.append("  ] },")
    lines.append("]")
    text = (ROOT / "tools/site.toml").read_text(encoding="utf-8").replace("nav = []", "\n".join(lines))
    tomllib.loads(text)
    return text


def llms(names: dict[Path, str]) -> str:
    """llms.txt: what clew is, and every page in its Markdown form."""
    files = {name: page for page, name in names.items()}
    lines = ["# clew", "", f"> {_first((ROOT / 'README.md').read_text(encoding='utf-8'))}"]
    for section in sections(names):
        lines += ["", f"## {section.title}", ""]
        for words, name in section.pages:
            about = _first(files[name].read_text(encoding="utf-8"))
            lines.append(f"- [{words}]({name}): {about}")
    return "\n".join(lines) + "\n"


def _first(text: str) -> str:
    """The first sentence of a page."""
    text = re.sub(r"<!--.*?-->", "", _FENCE.sub("", text), flags=re.DOTALL)
    for part in text.split("\n\n"):
        plain = " ".join(_LINK.sub(r"\2", part).replace("**", "").split())
        if plain and plain[0] not in "#|!-<":
            return re.split(r"(?<=[.:]) ", plain)[0]
    return ""


def _quoted(text: str) -> str:
    return '"' + text.replace('"', "'") + '"'


def keep_inside(site: Path) -> None:
    """Replaces the one script that pages load from elsewhere by our own, so that the search works without a network."""
    shutil.copy(ROOT / "tools/site-worker.js", site / "assets/worker.js")
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        ours = os.path.relpath(site / "assets/worker.js", page.parent)
        assert text.count(SHIM) == 1, page
        page.write_text(text.replace(SHIM, ours), encoding="utf-8")


def build(target: Path) -> None:
    """Writes the site. CalledProcessError if a link is wrong."""
    names = pages()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "docs"
        shutil.copytree(DOCS, source, ignore=shutil.ignore_patterns("*.md"))
        for page, name in names.items():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_text(text_of(page, names), encoding="utf-8")
        shutil.copy(ROOT / "tools/site.css", source)
        (Path(folder) / "zensical.toml").write_text(configuration(names), encoding="utf-8")
        subprocess.run([sys.executable, "-m", "zensical", "build", "--strict", "--clean"], cwd=folder, check=True)
        built = Path(folder) / "site"
        for name in names.values():
            shutil.copy(source / name, built / name)
        keep_inside(built)
        (built / "llms.txt").write_text(llms(names), encoding="utf-8")
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(built, target)


if __name__ == "__main__":
    build(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "site"))
