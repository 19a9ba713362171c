"""Pages of the web as text, for models: asked through the guard, and converted apart."""

from __future__ import annotations

import asyncio
import re
import sys
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from libs.egress.address_guard import AddressGuard
from libs.egress.failures import EgressFailed, Forbidden
from libs.egress.outgoing_requests import Answer, Bounds, OutgoingRequest
from services.tools.adapters import html_to_markdown_program

if TYPE_CHECKING:
    from libs.egress.guarded_http_client import GuardedHttp

PAGE_SECONDS_MAX = 20.0
PAGE_BYTES_MAX = 2 << 20
REDIRECTS_MAX = 5
BOUNDS = Bounds(seconds=PAGE_SECONDS_MAX, answer_bytes=PAGE_BYTES_MAX, redirects=REDIRECTS_MAX)
CONVERSION_SECONDS_MAX = 15.0
CONVERSIONS_MAX = 2  # at once: each takes a processor for itself
PROGRAM = Path(html_to_markdown_program.__file__)
HTML = ("text/html", "application/xhtml+xml")
# What is text although its type does not begin so.
TEXTUAL = ("application/json", "application/xml", "application/javascript", "application/yaml")
CHARSET = re.compile(r"charset=[\"']?([\w.:-]{1,40})", re.IGNORECASE)
# Where a page says it itself, it does so near its beginning.
CHARSET_BYTES = 2_048
HEADERS = {"Accept": "text/html,text/*;q=0.9,application/json;q=0.8,*/*;q=0.1"}


class PageFailed(Exception):
    """There is no text of a page; the words say why."""


class WebPages:
    """Reads pages. Private hosts only where the guard lets them pass."""

    def __init__(self, guard: AddressGuard) -> None:
        self.guard = guard
        self.converting = asyncio.Semaphore(CONVERSIONS_MAX)

    @cached_property
    def http(self) -> GuardedHttp:
        """The client that fetches the pages."""
        from libs.egress.guarded_http_client import GuardedHttp  # slow to import

        return GuardedHttp(self.guard, BOUNDS)

    async def text(self, url: str) -> str:
        """A page as Markdown, or as the text that it is. Raises PageFailed."""
        try:
            answer = await self.http.send(OutgoingRequest("GET", url, HEADERS))
        except Forbidden as forbidden:
            raise PageFailed(f"this address is not asked: {forbidden}") from None
        except EgressFailed as failed:
            raise PageFailed(str(failed)) from None
        if not 200 <= answer.status < 300:
            raise PageFailed(f"{answer.url} answered with status {answer.status}")
        kind = answer.headers.get("content-type", "text/html").partition(";")[0].strip().lower()
        if kind in HTML:
            return await self.markdown(decode(answer))
        if kind.startswith("text/") or kind in TEXTUAL or kind.endswith(("+json", "+xml")):
            return decode(answer)
        raise PageFailed(f"{answer.url} is {kind}, which is neither a page nor text")

    async def markdown(self, html: str) -> str:
        """A page as Markdown, made by a program of its own. Raises PageFailed."""
        async with self.converting:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", str(PROGRAM)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env={},
            )
            try:
                async with asyncio.timeout(CONVERSION_SECONDS_MAX):
                    text, _ = await process.communicate(html.encode("utf-8", "replace"))
            except TimeoutError:
                raise PageFailed("the page is too intricate to be read as text") from None
            finally:
                with suppress(ProcessLookupError):
                    process.kill()
                await asyncio.shield(process.wait())
        if process.returncode != 0:
            raise PageFailed("the page is too intricate to be read as text")
        return text.decode("utf-8", "replace")


def decode(answer: Answer) -> str:
    """The text of an answer, in the encoding that it names."""
    named = CHARSET.search(answer.headers.get("content-type", ""))
    if named is None:
        beginning = answer.body[:CHARSET_BYTES].decode("ascii", "replace")
        named = CHARSET.search(beginning)
    try:
        return answer.body.decode(named[1] if named else "utf-8", "replace")
    except LookupError:
        return answer.body.decode("utf-8", "replace")
