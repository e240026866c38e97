"""The documentation: make docs, then open docs/_build/html/index.html.  Nothing is fetched, not even by the pages."""

import re
from pathlib import Path

import compvae

project, author, release = "compvae", "the compvae authors", compvae.__version__
copyright = "the compvae authors, Apache-2.0"  # noqa: A001
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
exclude_patterns = ["_build"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"compvae {release}"
html_show_sphinx = False

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_use_unqualified_type_names = True

LITERAL_OR_ROLE = re.compile(r"(``.+?``|:\w+:`.+?`)")


def plain_text(app: object, what: str, name: str, value: object, options: object, lines: list[str]) -> None:
    """Docstrings are plain text with ``literals``: what reStructuredText would take for markup is escaped, and
    indented equations become literal blocks."""
    paragraphs = "\n".join(lines).strip().split("\n\n")
    lines[:] = "\n\n".join(_paragraph(text) for text in paragraphs).split("\n")


def _paragraph(text: str) -> str:
    rows = text.split("\n")
    if rows[0].startswith((" ", ">>>")):
        return "::\n\n" + "\n".join("    " + row for row in rows)
    if rows[0].startswith("* "):
        return "\n".join(_escaped(row, keep=2 if row.startswith("* ") else 0) for row in rows)
    return "\n".join(_escaped(row.strip()) for row in rows)


def _escaped(row: str, keep: int = 0) -> str:
    pieces = LITERAL_OR_ROLE.split(row[keep:])
    pieces[::2] = [re.sub(r"([*|_`\\])", r"\\\1", piece) for piece in pieces[::2]]
    return row[:keep] + "".join(pieces)


def links_of_contributing(app: object, path: Path, parent: str, content: list[str]) -> None:
    """CONTRIBUTING.md stands one directory above these pages, and so its links begin elsewhere."""
    if path.name == "CONTRIBUTING.md":
        here = re.sub(r"\]\(docs/", "](", content[0])
        content[0] = re.sub(r"\]\((examples/|LICENSE)", r"](../\1", here)


def setup(app: object) -> None:
    """Sphinx calls this."""
    app.connect("autodoc-process-docstring", plain_text)  # type: ignore[attr-defined]
    app.connect("include-read", links_of_contributing)  # type: ignore[attr-defined]
