"""A form is read as it comes: what surrounds it is neither kept nor read on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, ClassVar, cast

import pytest

from services.api.http.error_responses import Problem
from services.api.http.multipart_upload import UNPARSED_BYTES_MAX, Form, read_form
from services.api.http.request_parsing import AnyRequest

PIECE = b"x" * 8_192
FIELD = b'--bb\r\ncontent-disposition: form-data; name="name"\r\n\r\na name\r\n'
FILE = b'--bb\r\ncontent-disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
END = b"\r\n--bb--\r\n"
ENDLESS = 1_000


class Sender:
    """Stands in for a request, and for what takes its file."""

    headers: ClassVar = {"content-type": "multipart/form-data; boundary=bb"}

    def __init__(self, *sent: bytes) -> None:
        self.sent = sent
        self.read_bytes = 0
        self.entered_at: list[int] = []
        self.file = b""

    async def stream(self) -> AsyncIterator[bytes]:
        for data in self.sent:
            self.read_bytes += len(data)
            yield data
        yield b""

    async def enter(self) -> None:
        self.entered_at.append(self.read_bytes)

    async def begin(self, _name: str, _declared: str) -> Sender:
        return self

    async def write(self, data: bytes | bytearray) -> None:
        self.file += data

    async def form(self) -> Form:
        return await read_form(cast(AnyRequest, self), self.enter, self.begin)


async def refused(sender: Sender) -> Any:
    with pytest.raises(Problem) as problem:
        await sender.form()
    assert problem.value.status == 422
    return problem.value


@pytest.mark.parametrize("head", [b"", b"\r\n", b"--bb\r\n"])
async def test_what_comes_before_a_form_is_not_read_on_and_has_no_place(head: bytes) -> None:
    sender = Sender(head, *[PIECE] * ENDLESS)
    await refused(sender)
    assert sender.read_bytes <= len(head) + UNPARSED_BYTES_MAX + len(PIECE)
    assert not sender.entered_at


async def test_what_follows_a_form_is_not_read() -> None:
    body = FIELD + FILE + PIECE + END
    sender = Sender(body[:-4], body[-4:], *[PIECE] * ENDLESS)
    form = await sender.form()
    assert (form.fields, sender.file) == ({"name": "a name"}, PIECE)
    assert sender.read_bytes == len(body)


async def test_a_form_without_a_file_is_not_read_beyond_its_end() -> None:
    sender = Sender(FIELD + b"--bb--", *[PIECE] * ENDLESS)
    await refused(sender)
    assert sender.read_bytes < len(PIECE)


async def test_a_form_has_its_place_once_from_its_first_field() -> None:
    preamble = b"not of it\r\n"
    sender = Sender(preamble, FIELD, FILE, *[PIECE] * 100, END)
    await sender.form()
    assert sender.entered_at == [len(preamble + FIELD)]
    assert sender.file == PIECE * 100


async def test_a_form_that_ends_too_early_is_refused() -> None:
    await refused(Sender(FIELD, FILE, PIECE))


@pytest.mark.parametrize(
    ("sent", "name"),
    [
        (b"filename*=UTF-8''na%C3%AFve.txt", "naïve.txt"),
        (b"filename*=\"utf-8'en'na%C3%AFve.txt\"", "naïve.txt"),
        (b"filename*=ISO-8859-1''na%EFve.txt", "naïve.txt"),
        (b"filename=\"naive.txt\"; filename*=UTF-8''na%C3%AFve.txt", "naïve.txt"),
        (b"filename*=UTF-8''na%C3%AFve.txt; filename=naive.txt", "naïve.txt"),
        (b"filename*=UTF-8''na%EFve.txt; filename=naive.txt", "naive.txt"),
        (b"filename*=UTF-8''na%EFve.txt", "na\ufffdve.txt"),
        (b"filename*=klingon''x; filename=naive.txt", "naive.txt"),
        (b"filename*=; filename=naive.txt", "naive.txt"),
        (b"filename=\"a; filename*=UTF-8''b.txt\"", "a; filename*=UTF-8''b.txt"),
        (b'filename="a\\"b\\\\c.txt"', 'a"b\\c.txt'),
        (b'filename="na\xc3\xafve 100%.txt"', "naïve 100%.txt"),
        (b"filename*=UTF-8''..%2F..%2Fetc%2Fpasswd", "../../etc/passwd"),
        (b"FILENAME*=UTF-8''x.txt; filename=y.txt", "x.txt"),
        (b"filename*=utf8''na%C3%AFve.txt", "naïve.txt"),
        (b"filename*=US-ASCII''a%20b.txt", "a b.txt"),
        (b"filename*=windows-1252''na%EFve.txt", "naïve.txt"),
        (b"filename*=windows-1251''%CF%F0%E8.txt; filename=x.txt", "При.txt"),
        (b"filename*=klingon''na%C3%AFve.txt", "naïve.txt"),
        (b"filename*=punycode''x; filename=y.txt", "y.txt"),
        (b"filename*=UTF-8''" + b"%C3%A9" * 600 + b".txt", "é" * 600 + ".txt"),
        (b"filename*=UTF-8''a%0D%0Ab%00%7F%C2%85c%E2%80%A8.txt", "abc.txt"),
        (b'filename="a\tb.txt"', "ab.txt"),
    ],
)
async def test_the_name_of_a_file_is_read_in_each_form(sent: bytes, name: str) -> None:
    head = b'--bb\r\ncontent-disposition: form-data; name="file"; ' + sent + b"\r\n\r\n"
    form = await Sender(head, PIECE, END).form()
    assert form.file_name == name


@pytest.mark.parametrize("sent", [b'filename="na\xefve.txt"', b'filename="\xed\xa0\x80.txt"'])
async def test_a_head_that_is_not_utf_8_is_refused_in_words(sent: bytes) -> None:
    head = b'--bb\r\ncontent-disposition: form-data; name="file"; ' + sent + b"\r\n\r\n"
    problem = await refused(Sender(head, PIECE, END))
    assert "UTF-8" in problem.body["detail"]
