"""The site of the documentation has every page, and its own links."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tools import site

from tests.docs.test_pages import ROOT


def test_every_page_is_in_the_navigation() -> None:
    """A page that is not in the navigation cannot be found."""
    names = site.pages()
    shown = [name for section in site.sections(names) for _, name in section.pages]
    assert sorted([*shown, "index.md", "changelog.md"]) == sorted(names.values())
    assert all(section.pages for section in site.sections(names))


def test_links_stay_in_the_site() -> None:
    """Every relative link of every page leads to a page or a file of the site."""
    names = site.pages()
    files = {path.relative_to(site.DOCS).as_posix() for path in site.DOCS.rglob("*") if path.suffix != ".md"}
    for page, name in names.items():
        text = re.sub(r"^```.*?^```$", "", site.text_of(page, names), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if not re.match(r"[a-z]+:|#", target):
                there = (Path("/") / name).parent.joinpath(target.partition("#")[0])
                short = there.resolve().relative_to("/").as_posix()
                assert short in {*names.values(), *files}, f"{name}: {target}"


def test_programs_get_a_list_of_pages() -> None:
    """llms.txt names every page in its Markdown form, with a sentence about it."""
    text = site.llms(site.pages())
    lines = [line for line in text.splitlines() if line.startswith("- ")]
    assert len(lines) == len(site.pages()) - 2
    assert [line for line in lines if not re.fullmatch(r"- \[.+\]\(.+\.md\): \S.+", line)] == []


def test_it_is_built_strictly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every page comes as HTML and as Markdown, nothing is loaded from elsewhere, and a wrong link stops the build."""
    pytest.importorskip("zensical", reason="`make docs` installs it in an environment of its own")
    docs = tmp_path / "docs"
    shutil.copytree(ROOT / "docs", docs)
    monkeypatch.setattr(site, "DOCS", docs)
    site.build(tmp_path / "site")
    for name in site.pages().values():
        assert (tmp_path / "site" / name).exists()
        page = (tmp_path / "site" / name).with_suffix(".html").read_text(encoding="utf-8")
        assert re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="https?:', page) == []
    (docs / "comparison.md").write_text("# Comparison\n\nSee [this](design.md#no-such-heading).\n", encoding="utf-8")
    with pytest.raises(subprocess.CalledProcessError):
        site.build(tmp_path / "site")
