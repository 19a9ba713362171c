"""The text of documents of Word, in the order in which people read it.

python-docx shows the paragraphs and tables that stand in a body themselves. Forms, cover pages and
text boxes have theirs within content controls and drawings, so the elements are walked here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
# Elements whose content stands for themselves.
TRANSPARENT = frozenset(("sdt", "sdtContent", "ins", "moveTo", "customXml", "smartTag"))
# What is not shown: properties, what was deleted, codes of fields.
UNSHOWN = frozenset(
    (
        *("pPr", "rPr", "sdtPr", "sdtEndPr", "tblPr", "tblGrid", "trPr", "tcPr", "sectPr"),
        *("del", "moveFrom", "delText", "instrText", "delInstrText"),
    )
)
HEADING_LEVELS = tuple("123456789")
OTHER_FORMAT = (
    "[A part of the document is in another format and left out: open it in Word, save it anew,"
    " and upload that]"
)
# Where a field has its codes, its result, and its end; no text in XML has these characters. Behind
# `CHOICE` is what was chosen from a list.
FIELD_MARKS = {"begin": "\x13", "separate": "\x14", "end": "\x15"}
CODES, RESULT, END = FIELD_MARKS.values()
CHOICE = "\x16"
# What fonts of symbols show for a letter.
NO_SIGN = "□"
SIGNS = {
    "wingdings": {
        **dict(zip(b"\x6c\x6e\x6f\x9f\xa7\xa8\xd8\xe0", "●■☐•▪☐➢→", strict=True)),
        **dict(zip(b"\xfb\xfc\xfd\xfe", "✗✓☒☑", strict=True)),
    },
    "wingdings 2": dict(zip(b"OPRST\xa3", "✗✓☑☒☒☐", strict=True)),
    "symbol": dict(
        zip(
            b"ABCDEFGHIKLMNOPQRSTUWXYZabcdefghiklmnopqrstuwxyz\xa3\xa5\xae\xb0\xb1\xb3\xb4\xb7\xb9",
            "ΑΒΧΔΕΦΓΗΙΚΛΜΝΟΠΘΡΣΤΥΩΞΨΖαβχδεφγηικλμνοπθρστυωξψζ≤∞→°±≥×•≠",
            strict=True,
        )
    ),
}
NOTES = {"footnoteReference": "", "endnoteReference": "e"}
# Other parts of a document, by how their relation is called: in front of its body, or behind it.
IN_FRONT, BEHIND = ("header",), ("footnotes", "endnotes", "footer")


def docx(file: IO[bytes]) -> Iterator[str]:
    """A document of Word: its headings as in Markdown, its tables row by row; page headers first,
    footnotes and page footers last."""
    from docx import Document

    leave_out_broken_relations()
    document = Document(file)
    marks = heading_marks(document)
    yield from parts_of(document, marks, IN_FRONT)
    yield from blocks_of(document.element.body, marks)
    yield from parts_of(document, marks, BEHIND)


def leave_out_broken_relations() -> None:
    """Have python-docx pass over relations to parts that a document does not have, as Word does:
    programs that convert documents write some."""
    from docx.opc import pkgreader

    opened: Any = pkgreader

    def relations_of(reader: Any, source: Any) -> Any:
        xml = reader.rels_xml_for(source)
        relations = opened._SerializedRelationships.load_from_xml(source.baseURI, xml)
        members = reader._zipf.NameToInfo
        relations._srels = [
            relation
            for relation in relations
            if relation.is_external or relation.target_partname.membername in members
        ]
        return relations

    opened.PackageReader._srels_for = staticmethod(relations_of)


def heading_marks(document: Any) -> dict[str, str]:
    """The marks in front of headings, by the identifier of the style. python-docx would look
    through all styles for each paragraph."""
    marks = {}
    for style in document.styles.element.iter(f"{W}style"):
        name = style.find(f"{W}name")
        said = (name.get(f"{W}val") or "").lower() if name is not None else ""
        level = said.removeprefix("heading ")
        if level != said and level in HEADING_LEVELS:
            marks[style.get(f"{W}styleId") or ""] = "#" * int(level) + " "
    return marks


def parts_of(document: Any, marks: dict[str, str], kinds: tuple[str, ...]) -> Iterator[str]:
    """The texts of other parts of a document."""
    from docx.oxml import parse_xml

    relations = document.part.rels.values()
    for kind in kinds:
        for relation in relations:
            if relation.is_external or relation.reltype.rpartition("/")[2] != kind:
                continue
            root = parse_xml(relation.target_part.blob)
            if kind not in ("footnotes", "endnotes"):
                yield from blocks_of(root, marks)
                continue
            for note in root:
                if (
                    name_of(note) and attribute(note, "type") is None
                ):  # others are lines between text and notes
                    name = f"{'e' if kind == 'endnotes' else ''}{attribute(note, 'id')}"
                    yield f"[^{name}]: {on_one_line(blocks_of(note, marks))}\n\n"


def blocks_of(parent: Any, marks: dict[str, str]) -> Iterator[str]:
    """The paragraphs and tables in an element, and formulas that stand by themselves."""
    for element in shown_in(parent):
        name = name_of(element)
        if name == "tbl":
            for row in shown_in(element):
                cells = [cell for cell in shown_in(row) if name_of(cell) == "tc"]
                if cells:
                    yield " | ".join(on_one_line(blocks_of(cell, marks)) for cell in cells) + "\n"
            yield "\n"
        elif name == "altChunk":
            yield f"{OTHER_FORMAT}\n\n"
        else:
            yield from paragraph(element, marks)


def paragraph(element: Any, marks: dict[str, str]) -> Iterator[str]:
    """A paragraph, and what the text boxes that are anchored in it have. One that only anchors
    them has no line of its own, nor has anything else without words."""
    boxes: list[Any] = []
    text = without_codes(words_of(element, boxes))
    if text or (name_of(element) == "p" and not boxes):
        style = element.find(f"{W}pPr/{W}pStyle")
        mark = marks.get(style.get(f"{W}val") or "", "") if style is not None else ""
        yield f"{mark}{text}\n\n"
    for box in boxes:
        yield from blocks_of(box, marks)


def words_of(parent: Any, boxes: list[Any]) -> Iterator[str]:
    """The words in a paragraph, and the marks of its fields; text boxes are put aside."""
    for element in parent:
        name = name_of(element)
        match name:
            case "t":
                yield element.text or ""
            case "tab" | "ptab":
                yield "\t"
            case "br" | "cr":
                yield "\n" if attribute(element, "type") in (None, "textWrapping") else ""
            case "noBreakHyphen":
                yield "-"
            case "sym":
                yield sign_of(element)
            case "footnoteReference" | "endnoteReference":
                yield f"[^{NOTES[name]}{attribute(element, 'id')}]"
            case "txbxContent":
                boxes.append(element)
            case "fldChar":
                yield FIELD_MARKS.get(attribute(element, "fldCharType") or "", "")
                yield from words_of(element, boxes)
            case "ddList":
                yield f"{CHOICE}{choice_of(element)}"
            case "AlternateContent":
                yield from words_of_one(element, boxes)
            case _ if name not in UNSHOWN:
                yield from words_of(element, boxes)


def words_of_one(alternatives: Any, boxes: list[Any]) -> list[str]:
    """The words of the first of several forms of the same that has any."""
    for form in alternatives:
        inner: list[Any] = []
        words = list(words_of(form, inner))
        if inner or any(word.strip() for word in words):
            boxes += inner
            return words
    return []


def without_codes(words: Iterable[str]) -> str:
    """The text of words without the codes of fields, among which other fields may be. What was
    chosen from a list is shown where its field has no result."""
    shown: list[str] = []
    fields: list[Field] = []
    for word in words:
        if word == CODES:
            fields.append(Field(len(shown)))
        elif word == RESULT:
            if fields and fields[-1].in_codes:
                del shown[fields[-1].start :]
                fields[-1].in_codes = False
        elif word == END:
            if fields:
                fields.pop().end(shown)
        elif not word.startswith(CHOICE):
            shown += [word] if word else []
        elif fields:
            fields[-1].choice = word.removeprefix(CHOICE)
    while fields:  # those that do not end here keep what they have
        fields.pop().show_choice(shown)
    return "".join(shown)


@dataclass(slots=True)
class Field:
    """A field that has begun: where among the words, and what was chosen in it."""

    start: int
    in_codes: bool = True
    choice: str = ""

    def end(self, shown: list[str]) -> None:
        """Take the codes of a field without a result away, and show what was chosen."""
        if self.in_codes:
            del shown[self.start :]
        self.show_choice(shown)

    def show_choice(self, shown: list[str]) -> None:
        """Show what was chosen, unless the field shows something."""
        if self.choice and len(shown) <= self.start:
            shown.append(self.choice)


def choice_of(options: Any) -> str:
    """The choice in a list of a form: by number, or else the first."""
    entries = [attribute(entry, "val") or "" for entry in options if name_of(entry) == "listEntry"]
    said = {name_of(entry): attribute(entry, "val") or "" for entry in options}
    number = said.get("result") or said.get("default") or "0"
    chosen = int(number) if number.isascii() and number.isdigit() and len(number) < 9 else 0
    return entries[chosen] if chosen < len(entries) else ""


def sign_of(symbol: Any) -> str:
    """A sign of a font of symbols: the usual ones as themselves, others as an empty square."""
    try:
        code = int(attribute(symbol, "char") or "", 16)
    except ValueError:
        return NO_SIGN
    signs = SIGNS.get((attribute(symbol, "font") or "").lower(), {})
    if (code < 0x100 or code >> 8 == 0xF0) and code & 0xFF in signs:
        return signs[code & 0xFF]
    return chr(code) if 0 <= code < 0xF000 and chr(code).isprintable() else NO_SIGN


def shown_in(parent: Any) -> Iterator[Any]:
    """The elements in another one, those in content controls and insertions too."""
    for element in parent:
        name = name_of(element)
        if name in TRANSPARENT:
            yield from shown_in(element)
        elif name == "AlternateContent":
            forms = (list(shown_in(form)) for form in element)
            yield from next((elements for elements in forms if elements), [])
        elif name not in UNSHOWN:
            yield element


def on_one_line(blocks: Iterator[str]) -> str:
    """The text of paragraphs without line breaks."""
    return " ".join("".join(blocks).split("\n")).strip()


def name_of(element: Any) -> str:
    """The name of an element without its namespace; empty for a comment."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def attribute(element: Any, name: str) -> str | None:
    """An attribute in the namespace of the element itself; a comment has none."""
    if not isinstance(element.tag, str):
        return None
    value: str | None = element.get(f"{element.tag.rpartition('}')[0]}}}{name}")
    return value
