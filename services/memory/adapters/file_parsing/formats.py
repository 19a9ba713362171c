"""Each kind of file as text, little by little. Runs in a program of its own."""

from __future__ import annotations

import codecs
import io
import logging
import re
import zipfile
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from typing import IO, Any

from libs.contracts.outside_texts import declared_encoding
from services.memory.adapters.file_parsing.text_encodings import (
    CHUNK_BYTES,
    TWO_BYTES,
    detect_encoding,
    encoding_of,
    encoding_of_pairs,
)
from services.memory.adapters.file_parsing.unreadable import Unreadable
from services.memory.adapters.file_parsing.word_documents import docx
from services.memory.adapters.file_parsing.workbooks import xlsx

LOOKED_AT_BYTES = 8 * 1024
HTML_BYTES_MAX = 16 << 20
HTML_DEPTH_MAX = 500
PAGES_MAX = 20_000
UNPACKED_BYTES_MAX = 256 << 20
MEMBERS_MAX = 20_000
RATIO_MAX = 200
RATIO_BYTES = 1 << 20  # what is smaller is no bomb
# Where a page says which encoding it is in, and where XML does.
META_CHARSET = re.compile(
    rb"""<meta[^>]{0,200}?charset\s{0,9}=\s{0,9}["']?\s{0,9}([A-Za-z0-9_.:-]{1,40})""", re.I
)
XML_CHARSET = re.compile(
    rb"""\A\s{0,99}<\?xml[^>]{0,200}?encoding\s{0,9}=\s{0,9}["']([A-Za-z0-9_.:-]{1,40})"""
)
# Excel and Word write so on request, and what reads their files here finds nothing in it.
STRICT = re.compile(rb"""(?:Type|xmlns)\s{0,9}=\s{0,9}["']http://purl\.oclc\.org/ooxml/""")
OVERLAP_BYTES = 100
ALTERNATIVES = "{http://schemas.openxmlformats.org/markup-compatibility/2006}AlternateContent"
SLIDE_TEXT = "{http://schemas.openxmlformats.org/drawingml/2006/main}t"
TOO_DENSE_PDF = (
    "The PDF has a page that unpacks to far more than it is, and more than is read: upload it"
    " without that page, or as text"
)
VOID_TAGS = frozenset(
    (
        *("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source"),
        *("track", "wbr", "p", "li", "td", "tr", "th", "dt", "dd", "option"),
    )
)
UNSHOWN = (
    *("script", "style", "noscript", "template", "svg", "iframe", "canvas"),
    *("title", "object", "button", "input", "select", "dialog"),
)


def text_of(kind: str, file: IO[bytes]) -> Iterator[str]:
    """The text of a file, in parts. Raises Unreadable."""
    return READERS[kind](file)


def plain(file: IO[bytes], declared: str | None = None) -> Iterator[str]:
    """A text, in the encoding that it is in: where nothing else tells, the one that it declares."""
    head = file.read(LOOKED_AT_BYTES)
    encoding = marked_encoding(head)
    if encoding is None and b"\x00" in head:
        pairs = head[: len(head) // 2 * 2]
        encoding = detect_encoding(pairs, TWO_BYTES) or encoding_of_pairs(pairs)
        if encoding is None:
            raise Unreadable(
                "It is no text: it has bytes that no text has. Upload a text, or a PDF"
            )
    file.seek(0)
    encoding = encoding or encoding_of(file, declared)
    file.seek(0)
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    while raw := file.read(CHUNK_BYTES):
        yield decoder.decode(raw).removeprefix("\ufeff")
    yield decoder.decode(b"", final=True)


def charset_of(page: bytes) -> str | None:
    """The encoding that a page says in words it is in."""
    said = META_CHARSET.search(page) or XML_CHARSET.search(page)
    return declared_encoding(said[1].decode("ascii")) if said else None


def marked_encoding(head: bytes) -> str | None:
    """The encoding that a text says it is in by its first bytes."""
    for mark, encoding in (
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF32_LE, "utf-32"),
        (codecs.BOM_UTF32_BE, "utf-32"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if head.startswith(mark):
            return encoding
    return None


class Depth(HTMLParser):
    """Raises Unreadable for a page that is nested too deeply."""

    def __init__(self) -> None:
        super().__init__()
        self.depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Count one more level of nesting."""
        self.depth += tag not in VOID_TAGS
        if self.depth > HTML_DEPTH_MAX:
            raise Unreadable(
                f"The HTML has tags within tags, more than {HTML_DEPTH_MAX} levels deep:"
                " save the page as plain text, and upload that"
            )

    def handle_endtag(self, tag: str) -> None:
        """Count one level of nesting less."""
        self.depth -= tag not in VOID_TAGS and self.depth > 0


def html(file: IO[bytes]) -> Iterator[str]:
    """A page as Markdown, what it does not show left out."""
    from bs4 import BeautifulSoup, Declaration, ProcessingInstruction
    from markdownify import MarkdownConverter

    if file.seek(0, io.SEEK_END) > HTML_BYTES_MAX:
        raise Unreadable(
            f"The HTML has more than {HTML_BYTES_MAX >> 20} MiB: upload it in parts, or as text"
        )
    file.seek(0)
    declared = charset_of(file.read(LOOKED_AT_BYTES))
    file.seek(0)
    page = "".join(plain(file, declared))
    Depth().feed(page)
    soup = BeautifulSoup(page, "html.parser")
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    for part in soup(UNSHOWN):
        part.decompose()
    for note in soup.find_all(string=True):
        if isinstance(note, ProcessingInstruction | Declaration):
            note.extract()
    # Browsers show what stands in front of a body, behind it, and in a second one.
    text = MarkdownConverter(heading_style="ATX", bullets="-").convert_soup(soup)
    lines = [line.rstrip() for line in text.strip().split("\n")]
    shown = [line for n, line in enumerate(lines) if line or (n and lines[n - 1])]
    head = [] if not title or f"# {title}" in shown else [f"# {title}", ""]
    yield "\n".join([*head, *shown])


class LimitsReached(logging.Handler):
    """Hears what pypdf leaves out because it unpacks to too much: it says so, and goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.any = False

    def emit(self, record: logging.LogRecord) -> None:
        """Note that the parser has reached a limit."""
        from pypdf.errors import LimitReachedError

        values = record.args
        if isinstance(values, dict) and isinstance(values.get("exception"), LimitReachedError):
            self.any = True


def pdf(file: IO[bytes]) -> Iterator[str]:
    """The text of a PDF, page by page."""
    from pypdf import PdfReader
    from pypdf.errors import LimitReachedError, PyPdfError

    limits = LimitsReached()
    logging.getLogger("pypdf").addHandler(limits)
    try:
        reader = PdfReader(file)
        if reader.is_encrypted and not reader.decrypt(""):
            raise Unreadable("The PDF has a password: remove it, and upload the file again")
        if len(reader.pages) > PAGES_MAX:
            raise Unreadable(f"The PDF has more than {PAGES_MAX} pages: upload it in parts")
        empty = True
        for page in reader.pages:
            text = page.extract_text()
            empty = empty and not text.strip()
            yield f"{text}\n\n"
    except LimitReachedError:
        raise Unreadable(TOO_DENSE_PDF) from None
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, IndexError) as broken:
        if isinstance(broken, Unreadable):
            raise
        raise Unreadable(
            f"The PDF cannot be read ({str(broken)[:200] or type(broken).__name__}):"
            " open it, save or print it as a new PDF, and upload that"
        ) from None
    if empty and limits.any:
        raise Unreadable(TOO_DENSE_PDF)
    if empty:
        raise Unreadable(
            "The PDF has no text, only pictures: have its text recognised (OCR), and upload that"
        )


def office(read: Callable[[IO[bytes]], Iterator[str]]) -> Callable[[IO[bytes]], Iterator[str]]:
    """A reader of what is an archive of XML, which first looks at what is in it."""

    def reader(file: IO[bytes]) -> Iterator[str]:
        try:
            check_archive(file)
            file.seek(0)
            yield from read(file)
        except (Unreadable, MemoryError, RecursionError):
            raise
        except Exception as broken:
            raise Unreadable(
                f"The document cannot be read ({str(broken)[:200] or type(broken).__name__}):"
                " open it, save it anew, and upload that"
            ) from None

    return reader


def check_archive(file: IO[bytes]) -> None:
    """Raise Unreadable for an archive that is made to take all memory."""
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        unpacked = sum(member.file_size for member in members)
        dense = any(
            member.file_size > RATIO_BYTES
            and member.file_size > RATIO_MAX * max(member.compress_size, 1)
            for member in members
        )
        if len(members) > MEMBERS_MAX or unpacked > UNPACKED_BYTES_MAX or dense:
            raise Unreadable(
                "The document unpacks to far more than it is: it has"
                f" {len(members)} parts of {unpacked >> 20} MiB, more than are read."
                " Upload it in parts, or as text"
            )
        for member in members:
            if member.filename.endswith((".xml", ".rels")):
                check_xml(archive, member)


def check_xml(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    """Raise Unreadable for XML that defines entities, as no office program writes it, and for the
    strict form of it."""
    before = b""
    may_be_strict = member.filename.endswith(".rels") or member.filename == "xl/workbook.xml"
    with archive.open(member) as part:
        while raw := part.read(CHUNK_BYTES):
            if b"<!ENTITY" in before + raw or b"<!DOCTYPE" in before + raw:
                raise Unreadable(
                    "The document has XML that defines entities, which none needs: open it, save"
                    " it anew, and upload that"
                )
            if may_be_strict and STRICT.search(before + raw):
                raise Unreadable(
                    "The document is saved as Strict Open XML: save it as the usual .docx, .xlsx or"
                    " .pptx, and upload that"
                )
            before = (before + raw)[-OVERLAP_BYTES:]


def pptx(file: IO[bytes]) -> Iterator[str]:
    """A presentation of PowerPoint: the texts of each slide, and its notes."""
    from pptx import Presentation

    for number, slide in enumerate(Presentation(file).slides, start=1):
        yield f"# Slide {number}\n\n"
        unwrap_alternatives(slide.element)
        for shape in slide.shapes:
            yield from texts_of(shape)
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            yield f"Notes: {slide.notes_slide.notes_text_frame.text}\n\n"


def unwrap_alternatives(slide: Any) -> None:
    """Replace shapes of which a slide has several forms, as those with formulas, by the first form
    that has words: python-pptx passes over them all."""
    for alternatives in list(slide.iter(ALTERNATIVES)):
        texts = ((form, form.iter(SLIDE_TEXT)) for form in alternatives)
        shown = (form for form, words in texts if any((word.text or "").strip() for word in words))
        for shape in list(next(shown, ())):
            alternatives.addprevious(shape)
        alternatives.getparent().remove(alternatives)


def texts_of(shape: Any) -> Iterator[str]:
    """The texts in a shape of a slide."""
    if shape.has_text_frame and shape.text_frame.text.strip():
        yield f"{shape.text_frame.text}\n\n"
    if getattr(shape, "has_table", False):
        for row in shape.table.rows:
            yield " | ".join(cell.text for cell in row.cells) + "\n"
        yield "\n"
    for inner in getattr(shape, "shapes", ()):
        yield from texts_of(inner)


READERS: dict[str, Callable[[IO[bytes]], Iterator[str]]] = {
    "text": plain,
    "html": html,
    "pdf": pdf,
    "docx": office(docx),
    "xlsx": office(xlsx),
    "pptx": office(pptx),
}
