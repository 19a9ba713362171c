"""Pages of the web as text, for models: asked through the guard, and converted apart."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from libs.bus.fair_semaphore import NoPlace
from libs.contracts.outside_texts import declared_encoding
from libs.egress.address_guard import AddressGuard
from libs.egress.failures import EgressFailed, Forbidden
from libs.egress.outgoing_requests import Answer, Bounds, OutgoingRequest
from libs.work.fork_server import ProcessLimits
from libs.work.limited_processes import LimitedProcesses, LimitReached
from services.tools.adapters.html_to_markdown import markdown_of

if TYPE_CHECKING:
    from libs.egress.guarded_http_client import GuardedHttp

PAGE_SECONDS_MAX = 20.0
PAGE_BYTES_MAX = 2 << 20
REDIRECTS_MAX = 5
BOUNDS = Bounds(seconds=PAGE_SECONDS_MAX, answer_bytes=PAGE_BYTES_MAX, redirects=REDIRECTS_MAX)
LIBRARIES = ("bs4", "markdownify")  # which the processes have imported already
CONVERSION_LIMITS = ProcessLimits(processor_seconds_max=10, memory_bytes_max=1 << 30)
HTML = ("text/html", "application/xhtml+xml")
# What is text although its type does not begin so.
TEXTUAL = ("application/json", "application/xml", "application/javascript", "application/yaml")
CHARSET = re.compile(r"charset=[\"']?([\w.:-]{1,40})", re.IGNORECASE)
UTF_16 = ("utf-16", "utf-16le", "utf-16be")
# Where a page says it itself, it does so near its beginning.
CHARSET_BYTES = 2_048
HEADERS = {"Accept": "text/html,text/*;q=0.9,application/json;q=0.8,*/*;q=0.1"}


class PageFailed(Exception):
    """There is no text of a page; the words say why."""


class WebPages:
    """Reads pages. Private hosts only where the guard lets them pass."""

    def __init__(self, guard: AddressGuard) -> None:
        self.guard = guard
        self.processes = LimitedProcesses(markdown_of.__module__, *LIBRARIES)

    @cached_property
    def http(self) -> GuardedHttp:
        """The client that fetches the pages."""
        from libs.egress.guarded_http_client import GuardedHttp  # slow to import

        return GuardedHttp(self.guard, BOUNDS)

    async def text(self, url: str, org: str) -> str:
        """A page as Markdown, or as the text that it is, for an organisation. Raises PageFailed."""
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
            return await self.markdown(decode(answer), org)
        if kind.startswith("text/") or kind in TEXTUAL or kind.endswith(("+json", "+xml")):
            return decode(answer)
        raise PageFailed(f"{answer.url} is {kind}, which is neither a page nor text")

    async def markdown(self, html: str, org: str) -> str:
        """A page as Markdown, made in a process of its own. Raises PageFailed."""
        try:
            return await self.processes.run(markdown_of, html, org=org, limits=CONVERSION_LIMITS)
        except LimitReached:
            raise PageFailed("the page is too intricate to be read as text") from None
        except NoPlace as full:
            raise PageFailed(full.reason) from None


def decode(answer: Answer) -> str:
    """The text of an answer, in the encoding that it names; UTF-8 where that is none of texts."""
    named = CHARSET.search(answer.headers.get("content-type", ""))
    if named is None:
        beginning = answer.body[:CHARSET_BYTES].decode("ascii", "replace")
        named = CHARSET.search(beginning)
    name = named[1].lower() if named else ""
    encoding = name if name in UTF_16 else declared_encoding(name)
    return answer.body.decode(encoding or "utf-8", "replace")
