"""Whether spans are wanted, and where they go: the standard variables of OpenTelemetry."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from libs.contracts.environment_parsing import WrongSetting, address
from libs.telemetry import tracing

TRACES_PATH = "/v1/traces"
SCHEMES = ("http", "https")
ENDPOINTS = (
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "LETTA_OTEL_EXPORTER_OTLP_ENDPOINT",
)


@dataclass(frozen=True, slots=True)
class TelemetrySettings:
    """Where spans go (None: nowhere), as whose, and whether they may say what people said."""

    endpoint: str | None
    service: str
    content: bool

    @classmethod
    def from_environment(
        cls, service: str, environment: Mapping[str, str] = os.environ
    ) -> TelemetrySettings:
        """OTEL_EXPORTER_OTLP_ENDPOINT (or LETTA_OTEL_EXPORTER_OTLP_ENDPOINT), or the full
        OTEL_EXPORTER_OTLP_TRACES_ENDPOINT; OTEL_SERVICE_NAME;
        OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT. OTEL_SDK_DISABLED and
        OTEL_TRACES_EXPORTER=none turn all off. What is neither true nor false counts as false, as
        the standard has it. What else there is, OpenTelemetry reads itself. Raises WrongSetting.
        """
        exact, base, older = (address(environment, name, SCHEMES) for name in ENDPOINTS)
        base = base or older
        endpoint = exact or (base.rstrip("/") + TRACES_PATH if base else None)
        unwanted = environment.get("OTEL_TRACES_EXPORTER") == "none"
        if unwanted or is_true(environment, "OTEL_SDK_DISABLED"):
            endpoint = None
        return cls(
            endpoint,
            environment.get("OTEL_SERVICE_NAME") or f"heeler-{service}",
            is_true(environment, "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"),
        )


@contextmanager
def trace_service(service: str, environment: Mapping[str, str] = os.environ) -> Iterator[None]:
    """Make spans of whatever is started meanwhile, if the environment says where they go. Raises
    WrongSetting."""
    settings = TelemetrySettings.from_environment(service, environment)
    if settings.endpoint is None:
        yield
        return
    logging.getLogger("opentelemetry").setLevel(logging.ERROR)
    try:
        from libs.telemetry.otlp_tracer import OtlpTracer

        tracer = OtlpTracer(settings.service, settings.endpoint, content=settings.content)
    except ValueError as problem:
        raise WrongSetting(f"OpenTelemetry cannot use what its OTEL_* say: {problem}") from problem
    before = tracing.current.set(tracer)
    try:
        yield
    finally:
        tracing.current.reset(before)
        tracer.close()


def is_true(environment: Mapping[str, str], name: str) -> bool:
    """Whether a variable says yes."""
    return environment.get(name, "").strip().lower() == "true"
