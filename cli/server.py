"""The server that a command speaks to: the public SDK, and plain requests where it has no call."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, urlsplit
from uuid import uuid4

from cli import remotes
from cli.exit_codes import CommandError, ExitCode
from cli.options import OPTIONS

if TYPE_CHECKING:
    from letta_client import Letta

URL_DEFAULT = "http://127.0.0.1:8283"
PAGE = 200  # how many entries of a list are asked for at once
SECONDS_MAX = 600.0  # an answer may take as long as a model does


@dataclass(frozen=True)
class Address:
    """Where a server is, what lets one in, and what said so."""

    url: str
    key: str | None
    origin: str
    has_name: bool = False  # one of `heeler remote list`, which has its own key


def address(environment: Mapping[str, str] = os.environ) -> Address:
    """Of --url, --remote, HEELER_URL, LETTA_BASE_URL, `heeler remote use`, and the server of this
    machine, the first that there is. A key of the environment goes to no remote that has a name.
    """
    key = environment.get("HEELER_API_KEY") or environment.get("LETTA_API_KEY")
    if OPTIONS.url and OPTIONS.remote:
        raise CommandError("Give --url or --remote, not both", ExitCode.USAGE)
    if OPTIONS.url:
        return Address(base_url_of(OPTIONS.url), key, "--url")
    if OPTIONS.remote:
        return _remote(OPTIONS.remote, "--remote")
    for name in ("HEELER_URL", "LETTA_BASE_URL"):
        if url := environment.get(name):
            return Address(base_url_of(url), key, name)
    if used := remotes.read(environment).use:
        return _remote(used, "heeler remote use")
    return Address(_local_url(environment), key or _local_password(environment), "this machine")


def base_url_of(url: str) -> str:
    """The address without what clients of others write behind it: their paths begin after `/v1`."""
    url = url.strip()
    if not url.startswith(("http://", "https://")) or not _has_host(url):
        raise CommandError(
            f"'{url}' is no address of a server: write it as {URL_DEFAULT}", ExitCode.USAGE
        )
    return url.rstrip("/").removesuffix("/v1").rstrip("/")


def _has_host(url: str) -> bool:
    """Whether an address names a host that can be asked."""
    import httpx

    try:
        parts = urlsplit(url)
        return bool(parts.hostname and parts.port != 0 and httpx.URL(url).host)
    except (ValueError, httpx.InvalidURL):
        return False


def _remote(name: str, origin: str) -> Address:
    remote = remotes.remote_of(name)
    return Address(base_url_of(remote.url), remote.key, origin, has_name=True)


def _local_url(environment: Mapping[str, str]) -> str:
    """As the running server's state says, else as the environment asks for."""
    from deploy.embedded.settings import read_settings_of_home

    settings = read_settings_of_home(environment)
    try:
        state: Any = json.loads((settings.home / "state.json").read_text())
        return str(state["urls"]["api"])
    except (OSError, ValueError, KeyError, TypeError):
        return settings.api_url


def _local_password(environment: Mapping[str, str]) -> str | None:
    from deploy.embedded.settings import read_settings_of_home

    environment = read_settings_of_home(environment).environment
    return environment.get("HEELER_PASSWORD") or environment.get("LETTA_SERVER_PASSWORD")


class Server:
    """One server. Its methods raise the SDK's errors, which `cli.api_problems` puts into words."""

    def __init__(self, where: Address) -> None:
        self.where = where

    @cached_property
    def letta(self) -> Letta:
        """The public SDK; it retries what may be retried."""
        from letta_client import DefaultHttpxClient, Letta

        from cli.proxies import client_of

        if self.where.key and not (self.where.key.isascii() and self.where.key.isprintable()):
            raise CommandError(
                "The key or password has characters that cannot be sent: is HEELER_API_KEY right?",
                ExitCode.USAGE,
            )
        client = Letta(
            base_url=self.where.url,
            timeout=SECONDS_MAX,
            http_client=client_of(self.where.url, DefaultHttpxClient),
        )
        client.api_key = self.where.key  # without one it has taken LETTA_API_KEY
        if self.where.has_name:
            client._custom_headers = {}  # LETTA_CUSTOM_HEADERS may have a key, too
        return client

    def get(self, path: str, **query: Any) -> Any:
        """The JSON document at a path; parameters that are None are left out."""
        return self._document(
            self.letta.get(path, cast_to=object, options={"params": given(query)})
        )

    def post(self, path: str, body: Any = None, **query: Any) -> Any:
        """The JSON answer; parameters that are None are left out. The SDK sends a request again
        that is not answered: by its key it has one effect."""
        options = cast(Any, {"params": given(query), "headers": idempotency_key()})
        return self._document(self.letta.post(path, cast_to=object, body=body, options=options))

    def patch(self, path: str, body: Any = None, **query: Any) -> Any:
        """The JSON answer; parameters that are None are left out."""
        options = cast(Any, {"params": given(query)})
        return self._document(self.letta.patch(path, cast_to=object, body=body, options=options))

    def put(self, path: str, body: Any = None, **query: Any) -> Any:
        """The JSON answer; parameters that are None are left out."""
        options = cast(Any, {"params": given(query)})
        return self._document(self.letta.put(path, cast_to=object, body=body, options=options))

    def delete(self, path: str, **query: Any) -> Any:
        """The JSON answer; parameters that are None are left out."""
        options = cast(Any, {"params": given(query)})
        return self._document(self.letta.delete(path, cast_to=object, options=options))

    def _document(self, answer: Any) -> Any:
        """The answer, which is no page for a browser. Raises CommandError."""
        if isinstance(answer, str) and answer.lstrip().startswith("<"):
            raise self._no_heeler()
        return answer

    def _no_heeler(self) -> CommandError:
        from cli.api_problems import no_heeler

        return no_heeler(self.where.url)

    def stream(self, path: str, body: Any, headers: Mapping[str, str]) -> Iterator[Any]:
        """The server-sent events of an answer, each as its JSON document."""
        from letta_client import Stream

        options = cast(Any, {"headers": {"Accept": "text/event-stream", **headers}})
        with self.letta.post(
            path, cast_to=object, body=body, options=options, stream=True, stream_cls=Stream[object]
        ) as events:
            yield from events

    def pages(self, path: str, limit: int | None = None, **query: Any) -> Iterator[Any]:
        """Each entry of a list that has cursors, the newest first, at most `limit` of them."""
        return self.entries_after(None, path, query, limit)

    def entries_after(
        self, after: str | None, path: str, query: Mapping[str, Any], limit: int | None = None
    ) -> Iterator[Any]:
        """The same, only what stands behind the entry with the id `after`. A page is short where
        its entries are large: the last one is empty."""
        left = limit
        while left is None or left > 0:
            size = PAGE if left is None else min(PAGE, left)
            page = self.get(path, limit=size, after=after, **query)
            if not isinstance(page, list):
                raise self._no_heeler()
            # A server that knows no `after` sends all again.
            if not page or page[-1]["id"] == after:
                return
            yield from page
            after = page[-1]["id"]
            left = None if left is None else left - len(page)

    def numbered_pages(
        self, path: str, inside: str, limit: int | None = None, **query: Any
    ) -> Iterator[Any]:
        """Each entry of a list in an object's field, that is read by offsets."""
        offset = 0
        while limit is None or offset < limit:
            size = PAGE if limit is None else min(PAGE, limit - offset)
            page = self.get(path, limit=size, offset=offset, **query)[inside]
            yield from page
            offset += len(page)
            if len(page) < size:
                return


def given(query: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is None: what was not said."""
    return {name: value for name, value in query.items() if value is not None}


def idempotency_key() -> dict[str, str]:
    """The header by which a server knows a request that it gets again."""
    return {"Idempotency-Key": str(uuid4())}


def segment(text: str) -> str:
    """A typed text as one part of a path."""
    return quote(text, safe="")


@cache
def _server(where: Address) -> Server:
    return Server(where)


def server() -> Server:
    """The server that this call of the command is for."""
    return _server(address())


def server_at(place: str, environment: Mapping[str, str] = os.environ) -> Server:
    """The server at an address, or of a name of `heeler remote`, that a file names; --url and
    --remote say more than a file does."""
    if OPTIONS.url or OPTIONS.remote:
        return server()
    if "://" not in place:
        return _server(_remote(place, "the environment"))
    key = environment.get("HEELER_API_KEY") or environment.get("LETTA_API_KEY")
    return _server(Address(base_url_of(place), key, "the environment"))


def home() -> Path:
    """The state folder of the server on this machine."""
    from deploy.embedded.settings import home_of

    return home_of(os.environ)
