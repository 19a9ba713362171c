"""Texts of files: cut into segments, and those into chunks; nothing lost, each bounded."""

from __future__ import annotations

import asyncio
import io
import json
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.memory.adapters.file_parsing.formats import text_of
from services.memory.adapters.file_parsing.parser import ProcessParser, Unparsable
from services.memory.adapters.file_parsing.unreadable import Unreadable
from services.memory.adapters.file_parsing.word_documents import W as IN_W
from services.memory.adapters.file_parsing.workbooks import has_uncomputed
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


def read_here(kind: str, raw: bytes) -> str:
    """The text of a file, as the program itself reads it."""
    return "".join(text_of(kind, io.BytesIO(raw)))


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
    assert read_here("text", "Grüße\r\nan alle".encode(encoding)) == "Grüße\r\nan alle"


def test_a_program_of_its_own_reads_it_just_so() -> None:
    text = "".join(f"{n} plain words\n" for n in range(10_000)) + UNMARKED["koi8-r"]
    assert parsed("text", text.encode("koi8-r")) == text


UNMARKED = {
    "cp1252": "Le garçon a mangé une crêpe près de la forêt où il était né.",
    "cp1250": "Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw.",
    "cp1251": "Все люди рождаются свободными и равными в своем достоинстве и правах.",
    "koi8-r": "Все люди рождаются свободными и равными в своем достоинстве и правах.",
    "iso8859-5": "Все люди рождаются свободными и равными в своем достоинстве и правах.",
    "iso8859-2": "Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw.",
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
    assert read_here("text", text.encode(encoding)) == text
    behind = "".join(f"{n} plain words\n" for n in range(10_000)) + text
    if not encoding.startswith("utf-16"):
        assert read_here("text", behind.encode(encoding)) == behind


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("text", ["Hi", "Grüße\r\n", "Привет, мир", "“Γειά” – 1"])
def test_a_short_text_of_two_bytes_a_character_is_read(encoding: str, text: str) -> None:
    assert read_here("text", text.encode(encoding)) == text


@pytest.mark.parametrize("raw", [b"\x00", b"\x01\x00\x02\x00", b"a\x00\x00b", bytes(range(64))])
def test_bytes_that_are_no_text_are_not_read_as_a_short_one(raw: bytes) -> None:
    with pytest.raises(Unparsable, match="no text"):
        parsed("text", raw)


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
    assert read_here("text", raw) == text


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


W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
ANYWHERE = f"""<w:body {W} xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006">
<w:sdt><w:sdtPr/><w:sdtContent><w:p><w:r><w:t>Cover page</w:t></w:r></w:p></w:sdtContent></w:sdt>
<w:p><w:r><w:t>Name: </w:t></w:r>
 <w:sdt><w:sdtContent><w:r><w:t>Ada</w:t></w:r></w:sdtContent></w:sdt>
 <w:ins w:id="1"><w:r><w:t> Lovelace</w:t></w:r></w:ins>
 <w:del w:id="2"><w:r><w:delText> Byron</w:delText></w:r></w:del>
 <w:hyperlink><w:r><w:tab/><w:t>link</w:t></w:r></w:hyperlink></w:p>
<w:sdt><w:sdtContent><w:tbl><w:tr><w:tc><w:p><w:r><w:t>one</w:t></w:r></w:p>
 <w:p><w:r><w:t>more</w:t></w:r></w:p></w:tc>
 <w:sdt><w:sdtContent><w:tc><w:p><w:r><w:t>two</w:t></w:r></w:p></w:tc></w:sdtContent></w:sdt>
 </w:tr></w:tbl></w:sdtContent></w:sdt>
<w:p><w:r><mc:AlternateContent>
 <mc:Choice><w:drawing><w:txbxContent><w:p><w:r><w:t>In a box</w:t></w:r></w:p></w:txbxContent>
 </w:drawing></mc:Choice>
 <mc:Fallback><w:pict><w:txbxContent><w:p><w:r><w:t>In a box</w:t></w:r></w:p></w:txbxContent>
 </w:pict></mc:Fallback></mc:AlternateContent></w:r></w:p>
<w:p><w:r><w:fldChar/><w:instrText>PAGE</w:instrText><w:t>7</w:t></w:r></w:p></w:body>"""


def test_a_document_of_word_is_read_in_its_order_wherever_its_text_stands() -> None:
    from docx import Document
    from docx.oxml import parse_xml

    word = Document()
    word.sections[0].header.paragraphs[0].text = "Top"
    word.sections[0].footer.paragraphs[0].text = "Bottom"
    body = word.element.body
    for element in reversed(list(parse_xml("".join(ANYWHERE.splitlines())))):
        body.insert(0, element)
    file = io.BytesIO()
    word.save(file)

    text = parsed("docx", file.getvalue())

    blocks = ["Top", "Cover page", "Name: Ada Lovelace\tlink", "one  more | two", "In a box", "7"]
    assert [block for block in text.split("\n") if block] == [*blocks, "Bottom"]


def word_document(*body: str) -> bytes:
    """A document of Word whose body has these elements, and nothing else."""
    from docx import Document
    from docx.oxml import parse_xml

    word = Document()
    for number, element in enumerate(parse_xml(f"<w:body {NAMES}>{''.join(body)}</w:body>")):
        word.element.body.insert(number, element)
    file = io.BytesIO()
    word.save(file)
    return file.getvalue()


def field(codes: str, result: str | None = None, options: str = "") -> str:
    """A field of a document: its codes and its result, which may have fields too."""
    shown = "" if result is None else f'<w:fldChar w:fldCharType="separate"/>{result}'
    begin = f'<w:fldChar w:fldCharType="begin">{options}</w:fldChar>'
    return f'{begin}{codes}{shown}<w:fldChar w:fldCharType="end"/>'


NAMES = (
    f'{W} xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
    ' xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
)
BOX = "<w:txbxContent><w:p><w:r><w:t>box</w:t></w:r></w:p></w:txbxContent>"
OPTIONS = '<w:listEntry w:val="red"/><w:listEntry w:val="blue"/></w:ddList></w:ffData>'
LIST = f'<w:ffData><w:ddList><w:result w:val="1"/>{OPTIONS}'
UNCHOSEN = f"<w:ffData><w:ddList>{OPTIONS}"
MERGE = "<w:instrText>MERGEFIELD x</w:instrText>"
IN_WORD = {
    "a tick": ('<w:p><w:r><w:sym w:font="Wingdings" w:char="F0FC"/></w:r></w:p>', "✓"),
    "a letter": ('<w:p><w:r><w:sym w:font="Symbol" w:char="F061"/></w:r></w:p>', "α"),
    "an arrow": ('<w:p><w:r><w:sym w:font="Arial" w:char="2192"/></w:r></w:p>', "→"),
    "a sign": ('<w:p><w:r><w:sym w:font="Odd" w:char="F0AA"/><w:sym/></w:r></w:p>', "□□"),
    "half a sign": ('<w:p><w:r><w:sym w:font="Odd" w:char="D800"/></w:r></w:p>', "□"),
    "a list": (f"<w:p><w:r>{field('', None, LIST)}</w:r></w:p>", "blue"),
    "the first": (f"<w:p><w:r>{field('', None, UNCHOSEN)}</w:r></w:p>", "red"),
    "a list shown": (f"<w:p><w:r>{field('', '<w:t>blue</w:t>', LIST)}</w:r></w:p>", "blue"),
    "a formula": ("<m:oMathPara><m:oMath><m:r><m:t>x+1</m:t></m:r></m:oMath></m:oMathPara>", "x+1"),
    "an empty form": (
        "<w:p><w:r><mc:AlternateContent><mc:Choice><w:drawing/></mc:Choice>"
        "<mc:Fallback><w:t>old</w:t></mc:Fallback></mc:AlternateContent></w:r></w:p>",
        "old",
    ),
    "two forms": (
        f"<w:p><w:r><mc:AlternateContent><mc:Choice>{BOX}</mc:Choice>"
        f"<mc:Choice>{BOX}</mc:Choice></mc:AlternateContent></w:r></w:p>",
        "box",
    ),
    "forms of blocks": (
        "<mc:AlternateContent><mc:Choice/><mc:Fallback><w:p><w:r><w:t>old</w:t></w:r></w:p>"
        "</mc:Fallback></mc:AlternateContent>",
        "old",
    ),
    "a field in codes": (
        f"<w:p><w:r>{field(field(MERGE, '<w:t>INNER</w:t>'), '<w:t>res</w:t>')}</w:r></w:p>",
        "res",
    ),
    "a field in a result": (
        f"<w:p><w:r>{field('', field(MERGE, '<w:t>in</w:t>') + '<w:t>ner</w:t>')}</w:r></w:p>",
        "inner",
    ),
    "a field without an end": (
        '<w:p><w:r><w:fldChar w:fldCharType="begin"/><w:t>kept</w:t></w:r></w:p>',
        "kept",
    ),
    "an end without a field": (
        '<w:p><w:r><w:t>kept</w:t><w:fldChar w:fldCharType="end"/></w:r></w:p>',
        "kept",
    ),
    "a part in HTML": ("<w:altChunk/>", "[A part of the document is in another format"),
}


@pytest.mark.parametrize("case", IN_WORD)
def test_what_stands_in_a_document_of_word_in_its_own_way_is_read(case: str) -> None:
    body, text = IN_WORD[case]
    lines = [line for line in read_here("docx", word_document(body)).split("\n") if line]
    assert len(lines) == 1
    assert lines[0].startswith(text)
    assert lines[0] == text or text.startswith("[")


STYLES = {
    "heading 2": "## ",
    "Heading 9": "######### ",
    "Heading ²": "",
    "Heading 9999999": "",
    "heading 0": "",
    "Body": "",
}


@pytest.mark.parametrize("name", STYLES)
def test_a_heading_of_a_document_is_one_by_its_style(name: str) -> None:
    from docx import Document

    word = Document()
    style = word.styles.add_style("Own", 1)
    style.element.find(f"{IN_W}name").set(f"{IN_W}val", name)
    style.element.set(f"{IN_W}styleId", 'it\'s "own"')
    paragraph = word.add_paragraph("words")
    paragraph._p.get_or_add_pPr()._add_pStyle().val = 'it\'s "own"'
    file = io.BytesIO()
    word.save(file)
    assert read_here("docx", file.getvalue()) == f"{STYLES[name]}words\n\n"


def test_the_styles_of_a_document_are_looked_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from docx import Document
    from docx.styles.styles import Styles

    word, asked = Document(), 0
    for number in range(500):
        word.add_paragraph(f"p {number}")
    file = io.BytesIO()
    word.save(file)
    made = Styles.__init__

    def counted(styles: Styles, element: Any) -> None:
        nonlocal asked
        asked += 1
        made(styles, element)

    monkeypatch.setattr(Styles, "__init__", counted)
    assert read_here("docx", file.getvalue()).count("\n\n") == 500
    assert asked == 1


@pytest.mark.parametrize("target", ["NULL", "media/gone.png", "footer9.xml", "../../x"])
def test_a_relation_to_a_part_that_is_not_there_is_passed_over(target: str) -> None:
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/footer"
    broken = f'<Relationship Id="rId99" Type="{kind}" Target="{target}"/></Relationships>'.encode()
    document = io.BytesIO(word_document("<w:p><w:r><w:t>words</w:t></w:r></w:p>"))
    members = members_of(document)
    name = "word/_rels/document.xml.rels"
    members[name] = members[name].replace(b"</Relationships>", broken)
    assert read_here("docx", archive(*members.items())) == "words\n\n"


@pytest.mark.parametrize("encoding", ["iso8859-2", "cp1250"])
@pytest.mark.parametrize(
    "text",
    [
        "Zażółć gęślą jaźń. Dziś jest piękny dzień, a jutro będzie deszcz. Wczoraj też padało.",
        "Příliš žluťoučký kůň úpěl ďábelské ódy. Dnes je krásné počasí a zítra má pršet.",
    ],
    ids=["Polish", "Czech"],
)
def test_the_two_encodings_of_central_europe_are_told_apart(text: str, encoding: str) -> None:
    assert read_here("text", text.encode(encoding)) == text


def test_signs_at_the_end_of_words_speak_for_no_other_encoding() -> None:
    text = "Wszyscy ludzie© rodzą się «wolni» i równi pod względem ±5 swej godności i swych praw."
    assert read_here("text", text.encode("cp1250")) == text


def test_a_shape_that_has_several_forms_is_read_in_the_first_with_words() -> None:
    from pptx import Presentation

    presentation, written = Presentation(), io.BytesIO()
    slide = presentation.slides.add_slide(presentation.slide_layouts[6])
    for text in ("before", "inside", "behind"):
        slide.shapes.add_textbox(0, 0, 9, 9).text_frame.text = text
    presentation.save(written)
    changed = io.BytesIO()
    with zipfile.ZipFile(written) as saved, zipfile.ZipFile(changed, "w") as anew:
        for name in saved.namelist():
            part = saved.read(name)
            if name == "ppt/slides/slide1.xml":
                head, before, inside, behind = part.split(b"<p:sp>")
                shape, form = b"<p:sp>" + inside, b'<mc:Choice Requires="a14">'
                empty = shape.replace(b"inside", b" ")
                part = b"".join((
                    head, b"<p:sp>", before,
                    b'<mc:AlternateContent xmlns:mc="http://schemas.openxmlformats.org/',
                    b'markup-compatibility/2006">', form, empty, b"</mc:Choice>", form, shape,
                    b"</mc:Choice><mc:Fallback>", shape, b"</mc:Fallback></mc:AlternateContent>",
                    b"<p:sp>", behind,
                ))  # fmt: skip
            anew.writestr(name, part)
    text = read_here("pptx", changed.getvalue())
    assert text == "# Slide 1\n\nbefore\n\ninside\n\nbehind\n\n"


@pytest.mark.parametrize("kind", ["docx", "xlsx", "pptx"])
def test_an_office_document_of_the_strict_form_is_refused_with_what_to_do(kind: str) -> None:
    strict = (
        b'<Relationships><Relationship Type="http://purl.oclc.org/ooxml/officeDocument/'
        b'relationships/officeDocument" Target="xl/workbook.xml"/></Relationships>'
    )
    with pytest.raises(Unreadable, match="Strict Open XML: save it as the usual"):
        read_here(kind, archive(("_rels/.rels", b" " * 65_500 + strict)))


DECLARED = {
    "koi8-r": "Привет, как дела?",
    "windows-1251": "Привет, как дела?",
    "iso8859-5": "Привет, как дела?",
    "iso-8859-7": "Γειά σου",
    "windows-1256": "مرحبا",
    "shift_jis": "こんにちは",
    "gb2312": "你好",
    "iso-8859-1": "Café",
}
DECLARATIONS = (
    '<html><head><meta charset="{}"></head><body>',
    '<html><head><META http-equiv=Content-Type content="text/html; charset={}"></head><body>',
    '<?xml version="1.0" encoding="{}"?><html><body>',
)


@pytest.mark.parametrize("declaration", DECLARATIONS)
@pytest.mark.parametrize("encoding", DECLARED)
def test_a_page_is_read_in_the_encoding_that_it_declares(encoding: str, declaration: str) -> None:
    page = f"{declaration.format(encoding)}<p>{DECLARED[encoding]}</p>"
    assert DECLARED[encoding] in read_here("html", page.encode(encoding))
    assert DECLARED[encoding] in read_here("html", page.encode())  # which is valid UTF-8


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<html><head><title>T</title><p>one<p>two", "# T\n\none\n\ntwo"),
        ("<head><title>T</title><style>s</style><body>one</body>", "# T\n\none"),
        ("<head><title>T</title><meta name=a></head><body>one", "# T\n\none"),
        ("<body>one</body><body>two</body>", "onetwo"),
        ("<!doctype html><body><p>one</body></html>\n<p>two<!-- no -->", "one\n\ntwo"),
        ('<?xml version="1.0"?><html><body>one</body></html>', "one"),
    ],
    ids=["no-body", "open-head", "whole", "two-bodies", "behind-the-end", "xml"],
)
def test_all_that_a_browser_shows_of_a_page_is_read(page: str, text: str) -> None:
    assert read_here("html", page.encode()).strip() == text


@pytest.mark.parametrize("name", ["utf-16", "utf-7", "punycode", "undefined", "hex", "klingon"])
def test_a_page_that_declares_what_no_page_is_in_is_read_all_the_same(name: str) -> None:
    page = f'<meta charset="{name}"><p>Caf'.encode() + b"\xe9</p>"
    assert read_here("html", page).strip() == "Café"


def test_footnotes_of_a_document_stand_behind_its_text() -> None:
    from docx import Document
    from docx.opc.constants import RELATIONSHIP_TYPE
    from docx.opc.packuri import PackURI
    from docx.opc.part import Part
    from docx.oxml import parse_xml

    notes = f"""<w:footnotes {W}><w:footnote w:type="separator" w:id="0"><w:p/></w:footnote>
<w:footnote w:id="2"><w:p><w:r><w:footnoteRef/><w:t>As he wrote.</w:t></w:r></w:p></w:footnote>
</w:footnotes>"""
    word = Document()
    word.add_paragraph("He knew").runs[0]._r.append(
        parse_xml(f'<w:footnoteReference {W} w:id="2"/>')
    )
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml.footnotes+xml"
    part = Part(PackURI("/word/footnotes.xml"), kind, notes.encode(), word.part.package)
    word.part.relate_to(part, RELATIONSHIP_TYPE.FOOTNOTES)
    file = io.BytesIO()
    word.save(file)
    assert parsed("docx", file.getvalue()) == "He knew[^2]\n\n[^2]: As he wrote.\n\n"


def test_a_formula_that_nobody_has_computed_is_shown_itself() -> None:
    from openpyxl import Workbook

    book = Workbook()
    book.active.append([1, "=SUM(A1:A3)"])
    book.active.append(['=A1&"x"', 2])
    book.create_sheet("Plain").append(["words"])
    file = io.BytesIO()
    book.save(file)
    text = parsed("xlsx", file.getvalue())
    assert text == ('# Sheet\n\n1,=SUM(A1:A3)\n"=A1&""x""",2\n\n# Plain\n\nwords\n\n')
    computed = archive(*with_value(file, b"<f>SUM(A1:A3)</f><v", b"<f>SUM(A1:A3)</f><v>6</v><v"))
    assert parsed("xlsx", computed).startswith("# Sheet\n\n1,6\n")


CELLS = {
    "an empty result": ('<c r="A1" t="str"><f>IF(B1="","",1)</f><v></v></c>', ",5"),
    "no result": ('<c r="A1"><f>B1+1</f><v/></c>', "=B1+1,5"),
    "a line break": ("<c r='A1'><f\n>B1+1</f\n></c>", "=B1+1,5"),
    "an array": ('<c r="A1"><f t="array" ref="A1">B1+1</f></c>', "=B1+1,5"),
    "a table": ('<c r="A1"><f t="dataTable" ref="A1" r1="B1"/></c>', "[data table],5"),
    "an orphan": ('<c r="A1"><f t="shared" si="7"/></c>', ",5"),
    "nothing": ('<c r="A1"><f></f></c>', ",5"),
    "a value": ('<c r="A1"><f>B1+1</f>\n <v>6</v></c>', "6,5"),
    "a text": ('<c r="A1" t="str"><f>B1</f><v xml:space="preserve"> x</v></c>', " x,5"),
}


@pytest.mark.parametrize("case", CELLS)
def test_a_cell_is_shown_as_its_value_or_as_its_formula(case: str) -> None:
    cell, line = CELLS[case]
    assert read_here("xlsx", workbook(cell)) == f"# Sheet\n\n{line}\n\n"


@pytest.mark.parametrize(
    ("cell", "twice"),
    [
        ('<c r="A1"><f>B1+1</f><v>6</v></c>', False),
        ('<c r="A1"><f t="shared" si="0"/>\n<v>6</v></c>', False),
        ('<x:c xmlns:x="y" r="A1"><x:f>B1</x:f><x:v>6</x:v></x:c>', False),
        ('<c r="A1"><f>B1+1</f><v></v></c>', True),
        ('<c r="A1"><f t="shared" si="0"/></c>', True),
    ],
)
def test_formulas_are_read_where_one_has_no_value(cell: str, twice: bool) -> None:
    """Wherever a sheet is cut in two as it is read."""
    for spaces in (0, *range(65_000, 65_600, 11)):
        sheet = archive(("xl/worksheets/sheet1.xml", b" " * spaces + cell.encode()))
        assert has_uncomputed(io.BytesIO(sheet)) is twice


def workbook(cell: str) -> bytes:
    """A workbook with this cell, and a 5 beside it."""
    from openpyxl import Workbook

    book = Workbook()
    book.active["B1"] = 5
    file = io.BytesIO()
    book.save(file)
    return archive(*with_value(file, b'<c r="B1"', cell.encode() + b'<c r="B1"'))


def with_value(file: io.BytesIO, old: bytes, new: bytes) -> list[tuple[str, bytes]]:
    """The members of an archive, with other bytes in one of them."""
    read = members_of(file)
    assert sum(old in raw for raw in read.values()) == 1
    return [(name, raw.replace(old, new)) for name, raw in read.items()]


def members_of(file: io.BytesIO) -> dict[str, bytes]:
    """The members of an archive, each by its name."""
    with zipfile.ZipFile(file) as members:
        return {name: members.read(name) for name in members.namelist()}
