"""The text of workbooks of Excel, row by row."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Iterator, Sequence
from itertools import repeat, zip_longest
from typing import IO, Any

from services.memory.adapters.file_parsing.text_encodings import CHUNK_BYTES
from services.memory.adapters.file_parsing.unreadable import Unreadable

CELLS_MAX = 5_000_000  # that have a value
GAPS_MAX = 200
# The end of a formula that no value follows, where enough follows to see that.
UNCOMPUTED = re.compile(
    rb"(?:</(?:[A-Za-z]{1,16}:)?f\s{0,9}>|<(?:[A-Za-z]{1,16}:)?f(?:\s[^<>]{0,300})?/>)"
    rb"(?!\s{0,60}<(?:[A-Za-z]{1,16}:)?v(?:\s[^<>/]{0,60})?>[^<])"
    rb"(?=.{200})",
    re.DOTALL,
)
UNCOMPUTED_BYTES_MAX = 600


def xlsx(file: IO[bytes]) -> Iterator[str]:
    """A workbook of Excel: the rows of each sheet as CSV, without empty ones. Where a program has
    written a formula and nobody has computed it, the formula stands for its value."""
    from openpyxl import load_workbook

    cells, computes = 0, has_uncomputed(file)
    sheets = load_workbook(file, read_only=True, data_only=True).worksheets
    formulas = load_workbook(file, read_only=True).worksheets if computes else sheets
    for sheet, formula_sheet in zip(sheets, formulas, strict=True):
        yield f"# {sheet.title}\n\n"
        sheet.reset_dimensions()  # what a sheet says of its size may be all that there could be
        formula_sheet.reset_dimensions()
        others = formula_sheet.iter_rows() if computes else repeat(())
        for row, formula_row in zip(sheet.iter_rows(), others, strict=False):
            filled = [
                shown
                for cell, formula in zip_longest(row, formula_row)
                if (shown := shown_cell(cell, formula)) is not None
            ]
            cells += len(filled)
            if cells > CELLS_MAX:
                raise Unreadable(
                    f"The workbook has more than {CELLS_MAX} cells: upload it in parts"
                )
            if filled:
                yield row_line(filled)
        yield "\n"


def shown_cell(cell: Any, formula: Any) -> Any:
    """A cell with its value, or else with its formula; None where there is neither. One whose value
    is the empty text has been computed: its formula does not stand for it."""
    if cell.value is not None:
        return cell
    if formula is None or formula.value in (None, "=") or cell.data_type == "str":
        return None
    return formula


def has_uncomputed(file: IO[bytes]) -> bool:
    """Whether a sheet of a workbook has a formula without a value; to read both values and formulas
    takes twice as long."""
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if "worksheets/" not in member.filename or not member.filename.endswith(".xml"):
                continue
            before, raw = b"", b" "
            with archive.open(member) as part:
                while raw:
                    raw = part.read(CHUNK_BYTES)
                    before += raw or b" " * UNCOMPUTED_BYTES_MAX
                    if UNCOMPUTED.search(before):
                        return True
                    before = before[-UNCOMPUTED_BYTES_MAX:]
    return False


def row_line(filled: Sequence[Any]) -> str:
    """The cells of a row as a line of CSV. Where most of it would be commas, each cell has its
    address in front of it."""
    width = filled[-1].column
    if width > GAPS_MAX + 2 * len(filled):
        return csv_line([f"{cell.coordinate}: {value_of(cell)}" for cell in filled])
    values = [""] * width
    for cell in filled:
        values[cell.column - 1] = value_of(cell)
    return csv_line(values)


def value_of(cell: Any) -> str:
    """The value of a cell, or its formula."""
    from openpyxl.worksheet.formula import DataTableFormula

    if isinstance(cell.value, DataTableFormula):
        return "[data table]"
    return str(getattr(cell.value, "text", cell.value))


def csv_line(values: list[str]) -> str:
    """The values as a line of CSV."""
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(values)
    return line.getvalue()
