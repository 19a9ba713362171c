"""Spans: none without an exporter, the right ones with, and never in anybody's way."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from libs.bus.in_memory import InMemoryBus, InMemoryNetwork
from libs.bus.message_telemetry import observe
from libs.bus.ports import IncomingCommand
from libs.contracts.bus_messages import Accepted, Context
from libs.contracts.memory.blocks import DeleteBlock
from libs.eventstore.query_batching import Batched
from libs.telemetry import tracing
from libs.telemetry.settings import TelemetrySettings, trace_service
from libs.telemetry.sql_span_names import summary_of
from libs.telemetry.tracing import UNSEEN
from tests.clock_and_ids import ManualClock
from tests.collector import Collector, drawn
from tests.servers import wait_until

CLIENT = f"00-{'1' * 32}-{'2' * 16}-01"
NOBODY = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}


@pytest.fixture(autouse=True)
def _nothing_goes_on_afterwards() -> Iterator[None]:
    """What still tries to export draws random numbers, which Hypothesis takes for those of a test
    of its own."""
    before = set(threading.enumerate())
    yield
    wait_until("its threads end", lambda: set(threading.enumerate()) <= before, 60)


def test_without_an_exporter_nobody_is_asked_for_spans() -> None:
    with trace_service("agent", {}):
        assert tracing.tracer() is None
        assert tracing.statement("select 1 from agent.agents") is UNSEEN
        assert UNSEEN.traceparent == ""


@pytest.mark.parametrize(
    ("environment", "endpoint"),
    [
        ({}, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, "http://c:4318/v1/traces"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318/"}, "http://c:4318/v1/traces"),
        ({"LETTA_OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, "http://c:4318/v1/traces"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c/mine"}, "http://c/mine"),
        (NOBODY | {"OTEL_SDK_DISABLED": "true"}, None),
        (NOBODY | {"OTEL_TRACES_EXPORTER": "none"}, None),
    ],
)
def test_the_standard_variables_say_where_spans_go(
    environment: dict[str, str], endpoint: str | None
) -> None:
    assert TelemetrySettings.from_environment("agent", environment).endpoint == endpoint


def test_the_service_is_named_and_content_is_asked_for() -> None:
    plain = TelemetrySettings.from_environment("agent", {})
    assert (plain.service, plain.content) == ("heeler-agent", False)
    asked = {
        "OTEL_SERVICE_NAME": "mine",
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true",
    }
    told = TelemetrySettings.from_environment("agent", asked)
    assert (told.service, told.content) == ("mine", True)


@pytest.mark.parametrize(
    ("sql", "summary"),
    [
        ("select id from agent.agents where id = %s", "SELECT agent.agents"),
        (
            "with gate as (select 1 from (select 1 from agent.leases l) c), appended as"
            " (insert into agent.events (x) select x from gate), rows_0 as"
            " (update agent.runs t set fields = 1) select null from gate",
            "INSERT agent.events; UPDATE agent.runs",
        ),
        ("delete from agent.inbox where message_id in (select 1)", "DELETE agent.inbox"),
        ("select 1", "select 1"),
    ],
)
def test_a_statement_is_named_by_what_it_does(sql: str, summary: str) -> None:
    assert summary_of(sql) == summary


async def test_a_command_is_one_trace_from_its_sender_to_its_handler() -> None:
    async def answer(incoming: IncomingCommand) -> Accepted:
        seen.append(incoming.context)
        with tracing.statement("select id from memory.blocks"):
            return Accepted()

    seen: list[Context] = []
    with Collector() as collector:
        with trace_service("memory", {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint}):
            bus = InMemoryBus(InMemoryNetwork())
            await bus.serve("memory", observe(answer, ManualClock()))
            context = Context("m-1", traceparent=CLIENT)
            assert await bus.request(DeleteBlock(block_id="block-1"), context) == Accepted()
        spans = collector.trace("1" * 32)
    assert drawn(spans).splitlines() == [
        "send memory.block.delete [heeler-memory producer]",
        "  process memory.block.delete [heeler-memory consumer]",
        "    SELECT memory.blocks [heeler-memory client]",
    ]
    assert seen[0].traceparent == f"00-{'1' * 32}-{spans[1].span_id}-01"
    assert spans[1].attributes["heeler.command.outcome"] == "accepted"


async def test_questions_that_are_asked_together_stay_in_their_own_traces() -> None:
    async def ask(questions: list[str]) -> list[str]:
        batches.append(questions)
        with tracing.statement("select all from agent.events"):
            await asyncio.sleep(0)
        return questions

    async def one(trace: str) -> None:
        tracer = tracing.tracer()
        assert tracer is not None
        with tracer.span("asker", "internal", {}, parent=f"00-{trace * 32}-{'2' * 16}-01"):
            await gathered.answer(trace)

    batches: list[list[str]] = []
    gathered = Batched(ask, called=lambda question: f"load {question}")
    with Collector() as collector:
        with trace_service("agent", {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint}):
            await asyncio.gather(*(one(trace) for trace in "abcd"))
        assert len(batches) < 4, "some were asked together"
        for trace in "abcd":
            assert [span.name for span in collector.trace(trace * 32)] == ["asker", f"load {trace}"]


def test_what_raises_is_a_failed_span() -> None:
    with Collector() as collector:
        with trace_service("agent", {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint}):
            tracer = tracing.tracer()
            assert tracer is not None
            with (
                pytest.raises(ValueError, match="no"),
                tracer.span("a", "internal", {}, parent=CLIENT),
            ):
                raise ValueError("no")
        wait_until("it is there", lambda: bool(collector.spans), 10)
    [span] = collector.spans
    assert (span.failed, span.attributes["error.type"]) == (True, "ValueError")


def test_a_collector_that_is_away_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    began = time.monotonic()
    with trace_service("agent", NOBODY):
        tracer = tracing.tracer()
        assert tracer is not None
        for _ in range(5_000):
            with tracer.span("a", "internal", {}, parent=""):
                pass
    assert time.monotonic() - began < 30, "a hang guard, not a target"
