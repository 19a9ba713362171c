"""Texts of files: cut into segments, and those into chunks; nothing lost, each bounded."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.memory.adapters.file_parsing.parser import ProcessParser, Unparsable
from services.memory.adapters.file_texts import lines_of
from services.memory.domain.chunks import BYTES_OF_A_TOKEN, chunks_of, tokens_for
from services.memory.domain.file import with_suffix
from services.memory.domain.text_segments import SEGMENT_CHARS_MAX, Segment, TextSegments
from tests.hostile_files import MIB, archive, deflate_pdf, nested_html, zip_bomb

TEXT = st.text(alphabet="ab #\n\ré漢", max_size=400)


def segments_of(*parts: str) -> tuple[list[Segment], TextSegments]:
    cutter = TextSegments()
    found = [segment for part in parts for segment in cutter.feed(part)]
    return [*found, *cutter.end()], cutter


@given(TEXT, TEXT)
def test_the_lines_of_a_text_are_those_that_its_segments_have(first: str, second: str) -> None:
    segments, cutter = segments_of(first * 300, second * 300)
    text = "".join(segment.text for segment in segments)
    lines = text.removesuffix("\n").split("\n") if text else []

    assert text == (first * 300 + second * 300).replace("\r\n", "\n").replace("\r", "\n")
    assert cutter.lines == len(lines)
    assert cutter.chars == len(text)
    rows = [(segment.first_line, segment.text) for segment in segments if segment.last_line >= 3]
    assert lines_of(rows, 3, 5) == lines[2:5]


@given(TEXT, st.integers(min_value=32, max_value=256))
def test_chunks_are_bounded_and_have_every_word(text: str, tokens: int) -> None:
    [segment, *_], _ = segments_of(text * 5 + "x")
    chunks = chunks_of(segment, tokens)

    assert all(len(chunk.text.encode()) <= tokens * BYTES_OF_A_TOKEN for chunk in chunks)
    assert all(chunk.text.strip() for chunk in chunks)
    shown = "\n".join(chunk.text for chunk in chunks)
    whole = (line for line in segment.text.split("\n") if len(line) < tokens // 2)
    assert {line for line in whole if line.strip()} <= set(shown.split("\n"))
    assert chunks == chunks_of(segment, tokens)


def test_a_heading_begins_a_chunk_and_lines_are_counted() -> None:
    text = "# One\n" + "word " * 60 + "\n\n# Two\nlast\n"
    [segment], _ = segments_of(text)

    chunks = chunks_of(segment, 256)

    assert [(chunk.line, chunk.text.split("\n")[0]) for chunk in chunks] == [
        (1, "# One"),
        (4, "# Two"),
    ]


def test_a_line_of_a_million_characters_is_cut() -> None:
    segments, cutter = segments_of("y" * 1_000_000)

    assert cutter.lines == 1
    assert {(segment.first_line, segment.last_line) for segment in segments} == {(1, 1)}
    assert max(len(segment.text) for segment in segments) == SEGMENT_CHARS_MAX
    assert len(chunks_of(segments[0], tokens_for(None))) > 60


@pytest.mark.parametrize(
    ("name", "suffixed"),
    [("a.txt", "a_(1).txt"), ("a", "a_(1)"), (".env", ".env_(1)"), ("a.tar.gz", "a.tar_(1).gz")],
)
def test_the_number_of_a_name_stands_before_its_ending(name: str, suffixed: str) -> None:
    assert with_suffix(name, 1) == suffixed


def parsed(kind: str, raw: bytes) -> str:
    """The text of a file, as a program of its own reads it."""

    async def read(file: io.BufferedRandom) -> str:
        return "".join([text async for text in ProcessParser().parse(kind, file)])

    import tempfile

    with tempfile.TemporaryFile() as file:
        file.write(raw)
        file.seek(0)
        return asyncio.run(read(file))  # type: ignore[arg-type]


ENTITIES = b'<!DOCTYPE a [<!ENTITY l "lol">]><a>&l;</a>'
HOSTILE: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "nested tags": ("html", lambda: nested_html(10_000), "levels deep"),
    "archive bomb": ("docx", lambda: zip_bomb("docx", 64 * MIB), "unpacks"),
    "workbook bomb": ("xlsx", lambda: zip_bomb("xlsx", 64 * MIB), "unpacks"),
    "slides bomb": ("pptx", lambda: zip_bomb("pptx", 64 * MIB), "unpacks"),
    "deflated page": ("pdf", lambda: deflate_pdf(80 * MIB), "unpacks to far more than it is"),
    "deflated form": ("pdf", lambda: deflate_pdf(80 * MIB, in_form=True), "unpacks to far more"),
    "entities": ("docx", lambda: archive(("word/document.xml", ENTITIES)), "entities"),
    "no archive": ("xlsx", lambda: b"nothing", "save it anew"),
    "broken PDF": ("pdf", lambda: b"%PDF-1.4 nothing", "save or print it as a new PDF"),
    "binary": ("text", lambda: b"\x00\x01" * 100, "no text"),
}


@pytest.mark.parametrize("case", sorted(HOSTILE))
def test_a_hostile_file_is_refused_with_what_to_do(case: str) -> None:
    """A bomb or a broken file ends the program that reads it, with words for a person."""
    kind, made, words = HOSTILE[case]
    with pytest.raises(Unparsable, match=words):
        parsed(kind, made())


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252"])
def test_a_text_is_read_in_its_encoding(encoding: str) -> None:
    assert parsed("text", "Grüße\r\nan alle".encode(encoding)) == "Grüße\r\nan alle"


UNMARKED = {
    "cp1252": "Le garçon a mangé une crêpe près de la forêt où il était né.",
    "cp1250": "Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw.",
    "cp1251": "Все люди рождаются свободными и равными в своем достоинстве и правах.",
    "koi8-r": "Все люди рождаются свободными и равными в своем достоинстве и правах.",
    "cp866": "Все люди рождаются свободными и равными в своем достоинстве и правах.",
    "cp1253": "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια.",
    "shift_jis": "すべての人間は、自由であり、かつ、尊厳と権利とについて平等である。",
    "gb18030": "人人生而自由,在尊严和权利上一律平等。他们赋有理性和良心。",
    "big5": "人人生而自由，在尊嚴和權利上一律平等。他們賦有理性和良心。",
    "euc_kr": "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
    "utf-16-le": "All human beings are born free and equal in dignity and rights.",
    "utf-16-be": "All human beings are born free and equal in dignity and rights.",
}


@pytest.mark.parametrize("encoding", UNMARKED)
def test_the_encoding_of_a_text_is_found_by_what_it_says(encoding: str) -> None:
    text = UNMARKED[encoding]
    assert parsed("text", text.encode(encoding)) == text
    behind = "".join(f"{n} plain words\n" for n in range(10_000)) + text
    if not encoding.startswith("utf-16"):
        assert parsed("text", behind.encode(encoding)) == behind


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"badger \xff\xfe and Gr\xc3\xb6\xc3\x9fe\n", "badger \ufffd\ufffd and Größe\n"),
        (b"Gr\xc3\xb6\xff\xff\xff\xffe", "Grö\ufffd\ufffd\ufffd\ufffde"),
        (b"hello \xff world", "hello \ufffd world"),
        ("Größe ".encode() * 20_000 + b"\x80 \xc3", "Größe " * 20_000 + "\ufffd \ufffd"),
        (b"Gr\xc3\xb6\xc3\x9fe \xf0\x9f\x98", "Größe \ufffd"),
        (b"Caf\xe9", "Café"),
        (b"He said \x93hello\x94 \x96 20 \xb0C", "He said “hello” – 20 °C"),
    ],
)
def test_a_text_with_bytes_that_are_no_utf_8_is_read_as_far_as_it_goes(
    raw: bytes, text: str
) -> None:
    assert parsed("text", raw) == text


def test_the_bound_of_a_workbook_counts_the_cells_that_are_there() -> None:
    from openpyxl import Workbook

    sheet = Workbook()
    sheet.active["A1"], sheet.active["XFD1048576"] = "first", "last"
    file = io.BytesIO()
    sheet.save(file)
    assert parsed("xlsx", file.getvalue()) == "# Sheet\n\nfirst\nXFD1048576: last\n\n"
    wide = Workbook()
    for row in range(1, 1_001):
        wide.active.cell(row, 16_384).number_format = "0.00"
        wide.active.cell(row, 2, row)
    file = io.BytesIO()
    wide.save(file)
    lines = parsed("xlsx", file.getvalue()).splitlines()[2:]
    assert lines == [f",{row}" for row in range(1, 1_001)] + [""]


def test_office_documents_become_text() -> None:
    from docx import Document
    from openpyxl import Workbook
    from pptx import Presentation

    word, sheet, slides = Document(), Workbook(), Presentation()
    word.add_heading("Whales", 1)
    word.add_paragraph("They are blue")
    sheet.active.append(["x", "y,z", 3])
    slides.slides.add_slide(slides.slide_layouts[0]).shapes.title.text = "Hello"
    saved = {}
    for kind, document in (("docx", word), ("xlsx", sheet), ("pptx", slides)):
        file = io.BytesIO()
        document.save(file)
        saved[kind] = parsed(kind, file.getvalue())

    assert saved["docx"] == "# Whales\n\nThey are blue\n\n"
    assert saved["xlsx"] == '# Sheet\n\nx,"y,z",3\n\n'
    assert saved["pptx"] == "# Slide 1\n\nHello\n\n"
    assert json.loads(json.dumps(saved)) == saved
