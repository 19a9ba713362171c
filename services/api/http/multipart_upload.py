"""Read a file that is uploaded as multipart/form-data, as it comes."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import unquote

import multipart

from services.api.adapters.memory.uploaded_file_store import (
    TooManyUploads,
    UploadAbandoned,
    UploadKnown,
    UploadTooLarge,
)
from services.api.http.error_responses import Problem
from services.api.http.per_path_concurrency_limits import again
from services.api.http.request_parsing import AnyRequest

FIELDS_MAX = 32
FIELD_BYTES_MAX = 4 * 1024
UNPARSED_BYTES_MAX = 64 * 1024  # of which nothing comes: before the form, or of a head in it
FILE_FIELD = "file"
# A parameter of a head: `name=value` or `name="value"`.
PARAMETER = re.compile(
    r';[ \t]{0,9}([\w*-]{1,40})[ \t]{0,9}=[ \t]{0,9}("(?:[^\\"]|\\.){0,4200}"|[^;\s]{0,4200})',
    re.ASCII,
)
# The encodings that names of files come in. Python keeps each name that it is asked for, so it is
# asked for no other.
NAME_ENCODINGS = frozenset(
    (
        *("utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1", "latin1"),
        *(f"windows-{number}" for number in range(1250, 1259)),
    )
)
CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
NO_FORM = (
    "The body must be multipart/form-data with a boundary, and have the file in the field `file`"
)


class FileWriter(Protocol):
    """Takes a file as it comes."""

    async def write(self, data: bytes | bytearray) -> None:
        """Take the next part of the file."""


@dataclass(slots=True)
class Form:
    """The fields that came besides the file."""

    fields: dict[str, str] = field(default_factory=dict)
    file_name: str = ""
    declared_type: str = ""
    writer: FileWriter | None = None


Enter = Callable[[], Awaitable[None]]
Begin = Callable[[str, str], Awaitable[FileWriter]]


async def read_form(
    request: AnyRequest, enter: Enter, begin: Begin, *, field_bytes_max: int = FIELD_BYTES_MAX
) -> Form:
    """Read the form, and nothing that follows it. Its first field waits for `enter`; the file goes
    to what `begin` returns for its name and declared type. Raises the 422 that says what is wrong
    with the form."""
    kind, options = multipart.parse_options_header(request.headers.get("content-type", ""))
    if kind != "multipart/form-data" or not options.get("boundary"):
        raise Problem(422, {"detail": NO_FORM})
    form = Form()
    try:
        parser = multipart.PushMultipartParser(
            options["boundary"], max_segment_count=FIELDS_MAX, strict=False
        )
        reader = FormReader(form, enter, begin, field_bytes_max)
        unparsed_bytes = 0
        async for data in request.stream():
            unparsed_bytes += len(data)
            for event in parser.parse(data):
                unparsed_bytes = 0
                await reader.take(event)
            if parser._state is multipart._COMPLETE:  # nothing public says so
                break
            if unparsed_bytes > UNPARSED_BYTES_MAX:
                raise Problem(422, {"detail": NO_FORM})
        parser.close()
    except multipart.MultipartError as malformed:
        is_text = not isinstance(malformed.__context__, UnicodeDecodeError)
        why = malformed if is_text else "a head in it, maybe the name of the file, is not UTF-8"
        raise Problem(422, {"detail": f"{NO_FORM}: {why}"}) from None
    if form.writer is None:
        raise Problem(422, {"detail": NO_FORM})
    return form


@contextmanager
def upload_problems(again_how: str, known: str) -> Iterator[None]:
    """Within, what goes wrong with an upload becomes the problem that its client is told."""
    try:
        yield
    except TooManyUploads:
        raise again(429, "As many files are uploaded as there is room for") from None
    except UploadTooLarge as refused:
        raise Problem(413, {"detail": str(refused)}) from None
    except UploadAbandoned:
        detail = f"The file came too slowly, and what had come of it was removed: {again_how}"
        raise Problem(408, {"detail": detail}) from None
    except UploadKnown:
        raise Problem(409, {"detail": known}) from None


class FormReader:
    """Takes what the parser finds."""

    def __init__(self, form: Form, enter: Enter, begin: Begin, field_bytes_max: int) -> None:
        self.form = form
        self.field_bytes_max = field_bytes_max
        self.enter = enter
        self.entered = False
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
        if not self.entered:
            self.entered = True
            await self.enter()
        self.name, self.value = segment.name or "", bytearray()
        self.in_file = self.name == FILE_FIELD
        if self.in_file:
            if self.form.writer is not None:
                raise Problem(422, {"detail": "Send one `file` in each request"})
            self.form.file_name = file_name_of(segment)
            self.form.declared_type = segment.content_type or ""
            self.form.writer = await self.begin(self.form.file_name, self.form.declared_type)

    def end(self) -> None:
        """Keep a field, or end the file."""
        if not self.in_file:
            self.form.fields[self.name] = self.value.decode("utf-8", "replace")
        self.in_file = False


def file_name_of(segment: multipart.MultipartSegment) -> str:
    """The name of a file, without control characters: `filename*` (RFC 6266), which names its
    encoding, counts before `filename`, unless it cannot be read."""
    parameters = {
        name.lower(): value
        for name, value in PARAMETER.findall(segment.header("Content-Disposition", "") or "")
    }
    extended = parameters.get("filename*", "").strip('"').split("'", 2)
    plain = segment.filename or ""
    return CONTROLS.sub("", extended_name(extended, plain) if len(extended) == 3 else plain)


def extended_name(parts: list[str], plain: str) -> str:
    """The name that `filename*` has, in the encoding that it names; where it cannot be read in it,
    the plain name, or else what can be read."""
    encoding, _, quoted = parts
    if encoding.lower() in NAME_ENCODINGS:
        with contextlib.suppress(UnicodeDecodeError):
            return unquote(quoted, encoding, "strict")
    return plain or unquote(quoted)
