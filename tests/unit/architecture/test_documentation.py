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


# Words with a private meaning, and the word of the field for each.
PRIVATE_WORDS = {
    r"turns?": "run",
    r"drives?|driven|drivers?": "attempt",
    r"twins?": "in-memory implementation",
    r"told|retold|pieces?": "chunk; or say who gets what",
    r"tellings?|tellers?|deltas?": "run stream; `delta` only in subjects of NATS",
    r"(?<!dead )(?<!dead-)letters?": "dead letter",
    r"bells?|rings?": "notification",
    r"patience|patient": "retry, deadline",
    r"solitude|doubtful": "quarantine, suspect",
    r"innocent": "transient error",
    r"excuses?|excused": "uncount",
    r"vitals": "process metrics",
    r"crowds?|gather(s|ed|ing)?": "group commit, batching, concurrent",
    r"given up|gives? up|giving up": "attempt limits, fails, is abandoned",
    r"silences?": "idle timeout",
    r"warmest": "LIFO pool",
    r"whoever": "the process, the client, the user: a subject that the reader can name",
    r"(seen|held) by (an |the |its |other )?agents?": "attached",
}
GENERATED = {"cli.md", "compatibility.md", "limits.md"}
# What is no prose: blocks and spans of code, the targets of links, and generated tables.
NO_PROSE = re.compile(
    r"```.*?```|`[^`\n]*`|\]\([^)\s]*\)|<!-- score: begin -->.*?<!-- score: end -->", re.DOTALL
)


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.name not in GENERATED | {"CHANGELOG.md"}],
    ids=lambda page: str(page.relative_to(CHECKOUT)),
)
def test_pages_use_the_words_of_the_field(page: Path) -> None:
    text = page.read_text()
    if page.name == "glossary.md":  # which names them, to say that they are not used
        text = text.partition("## Names that are not used")[0].replace("| delta |", "")
    prose = NO_PROSE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), text)
    found = [
        f"{page.name}:{prose.count('\n', 0, match.start()) + 1}: {match[0]!r}: say {instead}"
        for private, instead in PRIVATE_WORDS.items()
        for match in re.finditer(rf"\b(?:{private})\b", prose, re.IGNORECASE)
    ]
    assert not found


def test_the_architecture_names_the_aggregates_of_each_service() -> None:
    text = (DOCS / "architecture.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+?) \| [^|]+ \|$", text, re.MULTILINE))
    for folder in (CHECKOUT / "services").iterdir():
        if (folder / "app.py").exists():
            modules = "".join(path.read_text() for path in folder.rglob("domain/**/*.py"))
            classes = set(
                re.findall(r"^class (\w+)\((?:Aggregate\[|UniqueName\))", modules, re.MULTILINE)
            )
            row = rows.get(folder.name, "")
            assert set(re.findall(r"`(\w+)`", row)) == classes, (
                f"the table in docs/architecture.md says what {folder.name} owns"
            )


def test_the_architecture_names_every_library_and_every_folder_of_the_language() -> None:
    named = set(re.findall(r"`([\w/.*]+)`", (DOCS / "architecture.md").read_text()))
    packages = {path.parent for path in CHECKOUT.glob("[ldc]*/**/__init__.py")}
    folders = {path.relative_to(CHECKOUT).as_posix() for path in packages}
    rooms = {name for name in folders if re.fullmatch(r"libs/\w+|deploy/\w+|cli", name)}
    language = {Path(name).name for name in folders if re.fullmatch(r"libs/contracts/\w+", name)}
    assert len(rooms) > 10
    assert (rooms | language) - named == set()


def test_the_architecture_names_nothing_that_is_not_there() -> None:
    paths = re.findall(
        r"`((?:libs|services|cli|deploy|tests|docs)/[\w/.]+)`",
        (DOCS / "architecture.md").read_text(),
    )
    assert len(paths) > 40
    assert [path for path in paths if not (CHECKOUT / path).exists()] == []


def test_the_index_says_which_pages_are_generated_and_each_names_what_writes_it() -> None:
    lines = (DOCS / "index.md").read_text().splitlines()
    said = {
        LINK.findall(line)[0][0] for line in lines if line.startswith("* ") and "(generated" in line
    }
    written = {page.name: page.read_text() for page in DOCS.glob("*.md")}
    generated = {name for name, text in written.items() if "This page is generated" in text}
    assert said == generated
    assert len(generated) > 5
    for name in generated:
        [module] = set(re.findall(r"`python -m ((?:deploy|cli)\.\w+)`", written[name][:600]))
        assert (CHECKOUT / f"{module.replace('.', '/')}.py").is_file(), name
