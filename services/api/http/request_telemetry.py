"""Telemetry of HTTP: a span for each request, and counts with durations."""

from __future__ import annotations

import asyncio
import re
from functools import cache
from typing import Any

from litestar import Litestar

from libs.telemetry import metrics, span_attributes, tracing
from libs.telemetry.tracing import UNSEEN, Span
from services.api.http.authentication import OPEN_PATHS
from services.api.http.encoded_slashes import routed_path
from services.api.http.error_responses import RETRY_AFTER_SECONDS
from services.api.http.per_path_concurrency_limits import TURN

METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
METRICS_PATH = "/metrics"
UNTRACED = OPEN_PATHS | {METRICS_PATH}
FAILED = 500
CUT_OFF = 499
STOPPED = b'{"detail": "The server is being stopped: try again"}'


class TracedLitestar(Litestar):
    """The application, watched from the first byte of a request to the last of its answer."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        scope["path"] = routed_path(scope)
        status, gone = CUT_OFF, False
        state = scope.setdefault("state", {})

        async def received() -> Any:
            nonlocal gone
            message = await receive()
            gone = gone or message["type"] == "http.disconnect"
            return message

        async def watched(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                if TURN in state:
                    state[TURN].end_with(message["status"])
                if not gone:
                    status = message["status"]
            await send(message)

        method = scope["method"] if scope["method"] in METHODS else metrics.UNKNOWN
        clock = self.state.clock
        began = clock.monotonic()
        with self.serving(scope, method) as span:
            try:
                await super().__call__(scope, received, watched)
            except asyncio.CancelledError:
                # The server is being stopped, and has waited for this as long as it will.
                if status != CUT_OFF or not self.state.stopping.is_set():
                    raise
                await answer_stopping(watched)
            finally:
                if TURN in state:
                    state[TURN].end_with(status)
                route = route_of(scope.get("path_template"))
                metrics.HTTP_REQUESTS.labels(method, route, status).inc()
                metrics.HTTP_SECONDS.labels(method, route).observe(clock.monotonic() - began)
                if span is not UNSEEN:
                    end_span(span, method, route, status)

    def serving(self, scope: Any, method: str) -> Span:
        """The span of a request, below that of the client if it says so. The services' own are
        not of interest: probes and scrapes."""
        tracer: tracing.Tracer | None = self.state.get("tracer")
        if tracer is None or scope["path"] in UNTRACED:
            return UNSEEN
        tracing.current.set(tracer)
        headers = dict(scope["headers"])
        return tracer.span(
            method,
            "server",
            {
                span_attributes.HTTP_METHOD: method,
                span_attributes.URL_PATH: scope["path"],
                span_attributes.URL_SCHEME: scope["scheme"],
            },
            parent=headers.get(b"traceparent", b"").decode("latin-1"),
        )


async def answer_stopping(send: Any) -> None:
    """Answer that the server is being stopped: who asks again may find the next one."""
    headers = [
        (b"content-type", b"application/json"),
        (b"retry-after", RETRY_AFTER_SECONDS.encode()),
    ]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": STOPPED})


def end_span(span: Span, method: str, route: str, status: int) -> None:
    """Add the attributes that are known only at the end of a request."""
    span.rename(f"{method} {route}")
    span.note({span_attributes.HTTP_ROUTE: route, span_attributes.HTTP_STATUS: status})
    if status >= FAILED:
        span.mark_failed(str(status))


@cache
def route_of(template: str | None) -> str:
    """The path of a handler as the documents write it."""
    return re.sub(r":\w+\}", "}", template) if template else metrics.UNKNOWN
