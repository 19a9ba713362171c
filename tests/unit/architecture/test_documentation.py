"""The pages in docs/: the index lists each, and every link leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[3]
DOCS = CHECKOUT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *CHECKOUT.glob("*.md")])
LINK = re.compile(r"\]\((?!https?://|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")


def anchors(text: str) -> set[str]:
    """The places within a page that a link can name, as GitHub makes them of its headings."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_every_link_leads_to_a_file_and_to_a_heading_in_it(page: Path) -> None:
    for path, anchor in LINK.findall(page.read_text()):
        target = page.parent / path if path else page
        assert target.exists(), path
        assert not anchor or anchor in anchors(target.read_text()), f"{path}#{anchor}"


def test_the_index_has_one_line_for_each_page() -> None:
    lines = (DOCS / "index.md").read_text().splitlines()
    listed = [LINK.findall(line)[0][0] for line in lines if line.startswith("* ")]

    assert len(listed) == len(set(listed))
    pages = {path.name for path in DOCS.glob("*.md")} - {"index.md"}
    assert {path for path in listed if "/" not in path} == pages
    assert {path for path in listed if "/" in path} >= {"../CONTRIBUTING.md", "adr/README.md"}
