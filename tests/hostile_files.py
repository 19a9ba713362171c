"""Files that are made to take all memory or all time of whoever reads them, small as they are."""

from __future__ import annotations

import io
import zipfile
import zlib

MIB = 1 << 20
PARTS = {"docx": "word/document.xml", "xlsx": "xl/workbook.xml", "pptx": "ppt/presentation.xml"}
LINE = b"BT /F1 9 Tf (x) Tj ET\n"


def deflate_pdf(unpacked_bytes: int, *, in_form: bool = False) -> bytes:
    """A PDF of one page whose text unpacks to so many bytes; `in_form` it stands in a form that the
    page shows, as logos do."""
    packed = deflated(LINE, unpacked_bytes)
    shown = b"<</Length 6>>stream\n/X1 Do\nendstream"
    bomb = b"/Filter/FlateDecode/Length %d>>stream\n%s\nendstream" % (len(packed), packed)
    font = b"/Font<</F1<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>"
    form = b"<</Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<<%s>>%s" % (font, bomb)
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R/Resources<<%s%s>>>>"
    return pdf_of(
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        page % (font, b"/XObject<</X1 5 0 R>>" if in_form else b""),
        shown if in_form else b"<<" + bomb,
        form if in_form else b"null",
    )


def pdf_of(*objects: bytes) -> bytes:
    """A PDF of these objects, of which the first is its catalogue."""
    file = io.BytesIO()
    file.write(b"%PDF-1.4\n")
    places = []
    for number, body in enumerate(objects, start=1):
        places.append(file.tell())
        file.write(b"%d 0 obj\n%s\nendobj\n" % (number, body))
    table = file.tell()
    file.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(places) + 1))
    file.writelines(b"%010d 00000 n \n" % place for place in places)
    file.write(b"trailer<</Size %d/Root 1 0 R>>\n" % (len(places) + 1))
    file.write(b"startxref\n%d\n%%%%EOF" % table)
    return file.getvalue()


def deflated(line: bytes, unpacked_bytes: int) -> bytes:
    """The same line again and again, packed without ever being there as a whole."""
    packing = zlib.compressobj(9)
    block = line * (MIB // len(line))
    packed = b"".join(packing.compress(block) for _ in range(unpacked_bytes // len(block) + 1))
    return packed + packing.flush()


def archive(*members: tuple[str, bytes]) -> bytes:
    """An archive with these members."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, data in members:
            zipped.writestr(name, data)
    return file.getvalue()


def zip_bomb(kind: str, unpacked_bytes: int) -> bytes:
    """An office document whose main part unpacks to so many bytes."""
    file = io.BytesIO()
    block = b" " * MIB
    with (
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as zipped,
        zipped.open(PARTS[kind], "w") as part,
    ):
        for _ in range(unpacked_bytes // MIB):
            part.write(block)
    return file.getvalue()


def nested_html(levels: int) -> bytes:
    """A page of tags within tags."""
    return b"<div>" * levels + b"deep" + b"</div>" * levels
