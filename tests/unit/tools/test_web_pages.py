"""The encodings that web pages name."""

from __future__ import annotations

import pytest

from libs.egress.outgoing_requests import Answer
from services.tools.adapters.web_pages import decode
from tests.processor_bounds import processor_time


def page(body: bytes, content_type: str = "text/html") -> Answer:
    """An answer with this body."""
    return Answer(200, {"content-type": content_type}, "https://example.com", body)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("windows-1251", "Привет"),
        ("ISO-8859-1", "Café"),
        ("shift_jis", "こんにちは"),
        ("utf-16", "Café"),
        ("nothing-known", "Café"),
    ],
)
def test_a_page_is_read_in_the_encoding_that_it_names(name: str, text: str) -> None:
    body = text.encode("utf-8" if name == "nothing-known" else name)
    assert decode(page(body, f"text/html; charset={name}")) == text


@pytest.mark.parametrize("name", ["punycode", "idna", "zlib", "rot13", "undefined", "base64"])
def test_what_is_no_encoding_of_texts_is_not_decoded(name: str) -> None:
    answer = page(b"a" * (2 << 20), f"text/html; charset={name}")
    with processor_time():
        assert decode(answer) == "a" * (2 << 20)
