"""A collector of spans that speaks OTLP over HTTP, and the trees that its spans make."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan


@dataclass(frozen=True)
class Seen:
    """A span as the collector got it."""

    service: str
    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    attributes: dict[str, Any] = field(compare=False, hash=False)
    failed: bool
    began: int
    ended: int


class Collector:
    """`with Collector() as collector: collector.endpoint`."""

    def __init__(self) -> None:
        self.spans: list[Seen] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                assert self.path == "/v1/traces"
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                outer.spans += spans_of(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    def trace(self, trace_id: str) -> list[Seen]:
        """The spans of a trace, in the order in which they began."""
        found = [span for span in list(self.spans) if span.trace_id == trace_id]
        return sorted(found, key=lambda span: span.began)


def spans_of(request: ExportTraceServiceRequest) -> Iterator[Seen]:
    """The spans of one batch."""
    for of_resource in request.resource_spans:
        resource = {
            attribute.key: value_of(attribute.value)
            for attribute in of_resource.resource.attributes
        }
        for of_scope in of_resource.scope_spans:
            for span in of_scope.spans:
                yield Seen(
                    service=resource["service.name"],
                    name=span.name,
                    kind=WireSpan.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_").lower(),
                    trace_id=span.trace_id.hex(),
                    span_id=span.span_id.hex(),
                    parent_id=span.parent_span_id.hex(),
                    attributes={
                        attribute.key: value_of(attribute.value) for attribute in span.attributes
                    },
                    failed=span.status.code == 2,
                    began=span.start_time_unix_nano,
                    ended=span.end_time_unix_nano,
                )


def value_of(value: AnyValue) -> Any:
    """The plain value of an attribute."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [value_of(each_value) for each_value in value.array_value.values]
    return getattr(value, str(kind))


def drawn(spans: list[Seen]) -> str:
    """A trace as an indented list, each span below its parent."""
    known = {span.span_id for span in spans}

    def below(parent: str, depth: int) -> Iterator[str]:
        for span in spans:
            if span.parent_id == parent or (not depth and span.parent_id not in known):
                yield f"{'  ' * depth}{span.name} [{span.service} {span.kind}]"
                yield from below(span.span_id, depth + 1)

    return "\n".join(below("", 0))
