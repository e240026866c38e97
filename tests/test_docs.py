"""The documentation builds without a warning and without a network; its code runs, its commands and links exist."""

from __future__ import annotations

import functools
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import typer

import compvae
from compvae.cli import app
from meter_files import write_all

ROOT = Path(__file__).parent.parent
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS]
SMALL = {"steps": 4, "batch": 16, "held_out": 8, "watch": 0, "threads": 1}

FENCE = re.compile(r"(?P<before>[^\n]*)\n```(?P<language>sh|python)\n(?P<text>.*?)```", re.DOTALL)
NOT_RUN = re.compile(r"<!-- not run: \S.* -->")


class Block(NamedTuple):
    """A fenced block of code; run is False where the line before it says why not."""

    language: str
    text: str
    run: bool


def blocks(page: Path) -> list[Block]:
    found = FENCE.finditer(page.read_text())
    return [Block(m["language"], m["text"], not NOT_RUN.fullmatch(m["before"].strip())) for m in found]


def run_shell(text: str) -> None:
    """Lines that call compvae, in this process; any other line has no place in a block that is run."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words:
            assert words[0] == "compvae", f"{line!r} is not run; say so before its block"
            assert app(words[1:], standalone_mode=False) in (None, 0), line


@pytest.mark.parametrize(
    "page", [page for page in DOCS if any(b.run for b in blocks(page))], ids=lambda page: page.stem
)
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From top to bottom, in a directory with meter readings; training is cut to a few steps if no number is said."""
    write_all(tmp_path, homes=40, days=20)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(compvae, "fit", functools.partial(compvae.fit, **SMALL))
    names: dict[str, object] = {}
    for block in blocks(page):
        if block.run and block.language == "python":
            exec(compile(block.text, str(page), "exec"), names)
        elif block.run:
            run_shell(block.text)


def test_every_block_says_what_it_is() -> None:
    """A block without a language would be neither run nor excused."""
    for page in PAGES:
        opened = re.findall(r"^```(.*)$", page.read_text(), re.MULTILINE)[::2]
        assert "" not in opened, page.name


def test_the_harness_sees_blocks_and_what_fails_in_them(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("a\n```sh\ncompvae sample\n```\n<!-- not run: too slow -->\n```python\n1 / 0\n```\n")
    shell, python = blocks(page)
    assert shell == ("sh", "compvae sample\n", True)
    assert python == ("python", "1 / 0\n", False)
    with pytest.raises(Exception, match="model"):
        run_shell(shell.text)
    with pytest.raises(AssertionError, match="is not run"):
        run_shell("curl example.org")


def commands() -> Iterator[tuple[str, list[str]]]:
    """Every command line of ours in any page: in a sentence, a table or a block."""
    for page in PAGES:
        text = page.read_text().replace("\\\n", " ")
        for line in re.findall(
            r"`((?:compvae|python) [^`\n]+)`|^(?: {4})?((?:compvae|python) .+)$", text, re.MULTILINE
        ):
            yield page.name, shlex.split("".join(line).replace("...", ""), comments=True)


def unknown(words: list[str]) -> str:
    """What a command line names that is not there, or nothing."""
    if words[0] == "python":
        return "" if words[1] in ("-m", "-c") or (ROOT / words[1]).is_file() else words[1]
    known = typer.main.get_command(app)
    flags = {flag for parameter in known.params for flag in parameter.opts} | {"--help"}
    if not words[1].startswith("-"):
        command = known.commands.get(words[1])  # type: ignore[attr-defined]
        if command is None:
            return words[1]
        flags = {flag for one in command.params for flag in (*one.opts, *one.secondary_opts)} | {"--help"}
    given = [re.split("[=/]", word)[0] for word in words[1:] if re.match("--?[a-z]", word)]
    return next((flag for flag in given if flag not in flags), "")


def test_every_command_in_the_pages_exists_with_its_flags() -> None:
    seen = list(commands())
    assert len(seen) > 40
    assert [(page, shlex.join(words), unknown(words)) for page, words in seen if unknown(words)] == []
    assert unknown(["compvae", "sample", "--prats", "3:2"]) == "--prats"
    assert unknown(["compvae", "smaple"]) == "smaple"
    assert unknown(["python", "benchmarks/none.py"]) == "benchmarks/none.py"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documentation as ``make docs`` builds it: a warning is an error."""
    pytest.importorskip("sphinx", reason="the extra docs is not installed")
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", str(ROOT / "docs"), str(out)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return out


def test_the_pages_fetch_nothing(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > len(DOCS)
    for page in pages:
        tags = re.findall(r"<(?:script|link|img|iframe|source)\b[^>]*>", page.read_text())
        assert not [tag for tag in tags if re.search(r"(?:src|href)=[\"'](?:https?:)?//", tag)], page.name
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?https?:|@import [\"']http", sheet.read_text()), sheet.name


def test_links_of_the_pages_resolve_with_their_anchors(site: Path) -> None:
    texts = {page.resolve(): page.read_text() for page in site.rglob("*.html")}
    ids = {page: set(re.findall(r"id=\"([^\"]+)\"", text)) for page, text in texts.items()}
    for page, text in texts.items():
        for target, anchor in re.findall(r"<a [^>]*href=\"(?!https?:|mailto:)([^\"#]*)#?([^\"]*)\"", text):
            other = (page.parent / target).resolve() if target else page
            assert other.exists(), f"{page.name} links to {target}"
            assert not anchor or other not in ids or anchor in ids[other], f"{page.name} links to {target}#{anchor}"


def test_every_formula_leads_to_its_code(site: Path) -> None:
    page = (site / "mathematics.html").read_text()
    named = re.findall(r"\{py:\w+\}`([\w.]+)`", (ROOT / "docs" / "mathematics.md").read_text())
    assert len(named) > 25
    assert [name for name in named if f'#{name}"' not in page] == []


def test_three_questions_are_answered_within_two_clicks_of_the_index(site: Path) -> None:
    index = (site / "index.html").read_text()
    for question, page in {"on my data": "meters", "model is good": "report", "not do with it": "limits"}.items():
        assert re.search(rf"{question}\? <a class=\"[^\"]*\" href=\"{page}.html\"", index), question
