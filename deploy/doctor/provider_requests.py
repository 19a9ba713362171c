"""Requests to providers of models: short, without redirects, and with no key in what is told."""

from __future__ import annotations

import json
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import HTTPRedirectHandler, Request, build_opener

from libs.egress.provider_endpoints import Endpoint

ANSWER_SECONDS_MAX = 5.0
BODY_BYTES_MAX = 8 << 20
ANTHROPIC = "anthropic"
ANTHROPIC_VERSION = "2023-06-01"


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request: a status with a document, or an error. `date` is the header, which
    was written between `asked_at` and `read_at`."""

    status: int = 0
    document: Any = None
    error: Exception | None = None
    date: str = ""
    asked_at: float = 0.0
    read_at: float = 0.0

    @property
    def is_untrusted(self) -> bool:
        """Whether the certificate, or something else of TLS, was at fault."""
        return isinstance(self.error, ssl.SSLError)

    @property
    def reason(self) -> str:
        """Why there was no answer, in words."""
        match self.error:
            case ssl.SSLCertVerificationError():
                return f"its certificate is not trusted ({_say(self.error, 'verify_message')})"
            case ssl.SSLError():
                return f"TLS fails ({_say(self.error, 'reason')})"
            case socket.gaierror():
                return "its name is not known"
            case TimeoutError():
                return f"it does not answer within {ANSWER_SECONDS_MAX:g} s"
            case ConnectionRefusedError():
                return "nothing listens there"
            case _:
                return f"it cannot be reached ({type(self.error).__name__})"


def _say(error: Exception, field: str) -> str:
    """The words of a TLS error."""
    return str(getattr(error, field, "") or "no reason given")


class _NoRedirects(HTTPRedirectHandler):
    """A redirect would carry the key to another place."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """None, which makes an error of it."""
        return None


def ask(
    endpoint: Endpoint,
    path: str,
    *,
    kind: str,
    base: str = "",
    body: Mapping[str, Any] | None = None,
) -> Answer:
    """GET a path below the base of an endpoint (or another base), or POST a JSON document."""
    query = f"?{urlencode(endpoint.query)}" if endpoint.query else ""
    request = Request(
        f"{base or endpoint.base_url}{path}{query}",
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json", **headers(endpoint, kind)},
    )
    asked_at = time.time()
    try:
        with build_opener(_NoRedirects).open(request, timeout=ANSWER_SECONDS_MAX) as answer:
            read_at = time.time()
            return Answer(
                answer.status,
                _document(answer.read(BODY_BYTES_MAX)),
                date=answer.headers.get("Date", ""),
                asked_at=asked_at,
                read_at=read_at,
            )
    except HTTPError as refused:
        with refused:
            date = refused.headers.get("Date", "")
            return Answer(refused.code, date=date, asked_at=asked_at, read_at=time.time())
    except URLError as failed:
        reason = failed.reason
        return Answer(error=reason if isinstance(reason, Exception) else failed)
    except (OSError, HTTPException, ValueError) as failed:
        return Answer(error=failed)


def headers(endpoint: Endpoint, kind: str) -> dict[str, str]:
    """The headers that authenticate, as the agent service sends them."""
    if kind == ANTHROPIC:
        keys = {"x-api-key": endpoint.api_key, "anthropic-version": ANTHROPIC_VERSION}
    else:
        keys = {"Authorization": f"Bearer {endpoint.api_key}"}
    return {**keys, **endpoint.headers}


def _document(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None
