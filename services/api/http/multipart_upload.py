"""Read a file that is uploaded as multipart/form-data, as it comes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

import multipart

from services.api.http.error_responses import Problem
from services.api.http.request_parsing import AnyRequest

FIELDS_MAX = 32
FIELD_BYTES_MAX = 4 * 1024
FILE_FIELD = "file"
NO_FORM = (
    "The body must be multipart/form-data with a boundary, and have the file in the field `file`"
)


class FileWriter(Protocol):
    """Takes a file as it comes."""

    async def write(self, data: bytes | bytearray) -> None:
        """Take the next part of the file."""
        ...


@dataclass(slots=True)
class Form:
    """What came besides the file."""

    fields: dict[str, str] = field(default_factory=dict)
    file_name: str = ""
    declared_type: str = ""
    writer: FileWriter | None = None


Begin = Callable[[str, str], Awaitable[FileWriter]]


async def read_form(
    request: AnyRequest, begin: Begin, *, field_bytes_max: int = FIELD_BYTES_MAX
) -> Form:
    """Read the form; the file goes to what `begin` returns for its name and declared type. Raises
    the 422 that says what is wrong with the form."""
    kind, options = multipart.parse_options_header(request.headers.get("content-type", ""))
    if kind != "multipart/form-data" or not options.get("boundary"):
        raise Problem(422, {"detail": NO_FORM})
    form = Form()
    try:
        parser = multipart.PushMultipartParser(
            options["boundary"], max_segment_count=FIELDS_MAX, strict=False
        )
        reader = FormReader(form, begin, field_bytes_max)
        async for data in request.stream():
            if data:
                for event in parser.parse(data):
                    await reader.take(event)
        parser.close()
    except multipart.MultipartError as malformed:
        raise Problem(422, {"detail": f"{NO_FORM}: {malformed}"}) from None
    if form.writer is None:
        raise Problem(422, {"detail": NO_FORM})
    return form


class FormReader:
    """Takes what the parser finds."""

    def __init__(self, form: Form, begin: Begin, field_bytes_max: int) -> None:
        self.form = form
        self.field_bytes_max = field_bytes_max
        self.begin = begin
        self.name = ""
        self.value = bytearray()
        self.in_file = False

    async def take(self, event: multipart.MultipartSegment | bytearray | bytes | None) -> None:
        """A field begins, goes on, or ends."""
        if event is None:
            self.end()
        elif isinstance(event, multipart.MultipartSegment):
            await self.start(event)
        elif self.in_file:
            assert self.form.writer is not None, "a file that began has somebody who takes it"
            await self.form.writer.write(event)
        else:
            self.value += event
            if len(self.value) > self.field_bytes_max:
                words = f"`{self.name[:100]}` may have at most {self.field_bytes_max} bytes"
                raise Problem(422, {"detail": words})

    async def start(self, segment: multipart.MultipartSegment) -> None:
        """A field begins. The first file is the file."""
        self.name, self.value = segment.name or "", bytearray()
        self.in_file = self.name == FILE_FIELD
        if self.in_file:
            if self.form.writer is not None:
                raise Problem(422, {"detail": "Send one `file` in each request"})
            self.form.file_name = segment.filename or ""
            self.form.declared_type = segment.content_type or ""
            self.form.writer = await self.begin(self.form.file_name, self.form.declared_type)

    def end(self) -> None:
        """Keep a field, or end the file."""
        if not self.in_file:
            self.form.fields[self.name] = self.value.decode("utf-8", "replace")
        self.in_file = False
