"""Metrics: named as Prometheus wants it, documented, and merged over processes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from libs.telemetry import prometheus_exposition
from libs.telemetry.metrics import REGISTRY
from libs.telemetry.prometheus_exposition import families, merge_families

PAGE = Path(__file__).parents[3] / "docs" / "telemetry.md"


def counted(process: str, value: int) -> dict[str, tuple[str, str]]:
    registry = CollectorRegistry()
    Counter("things", "Things.", ["kind"], registry=registry).labels('a "b"\\\n').inc(value)
    return families(process, registry)


def test_several_processes_make_one_text_with_each_family_once() -> None:
    text = merge_families([counted("one:1", 3), counted("two:2", 4)])
    [family] = text_string_to_metric_families(text)
    assert {sample.labels["process"]: sample.value for sample in family.samples} == {
        "one:1": 3,
        "two:2": 4,
    }
    assert {sample.labels["kind"] for sample in family.samples} == {'a "b"\\\n'}


def test_the_text_is_what_the_client_library_writes() -> None:
    registry = CollectorRegistry()
    requests = Counter("requests", "Requests.", ["route"], registry=registry)
    took = Histogram("took_seconds", "How long.", ["route"], registry=registry, buckets=(0.1, 1.0))
    waiting = Gauge("waiting", "Who waits.", ["line"], registry=registry)
    Counter("plain", "Without labels.", registry=registry).inc()
    for turn in range(3):
        for route in ("/a", "/b")[: turn + 1]:
            requests.labels(route).inc()
            took.labels(route).observe(turn)
        waiting.labels("one").set(turn)
        if turn == 2:
            requests.remove("/a")
            waiting.clear()

        text = merge_families([families("one:1", registry)])

        without = re.sub(r'\{process="one:1"\}|process="one:1",|,process="one:1"', "", text)
        assert without == generate_latest(registry).decode()


def test_what_has_not_counted_since_is_not_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = CollectorRegistry()
    took = Histogram("took_seconds", "How long.", ["route"], registry=registry)
    for number in range(100):
        took.labels(f"/{number}").observe(1)
    families("one:1", registry)
    written = []
    generate = prometheus_exposition.generate_latest

    def generate_and_count(part: CollectorRegistry) -> bytes:
        text = generate(part)
        written.append(text.count(b'_count{process="one:1"'))
        return text

    monkeypatch.setattr(prometheus_exposition, "generate_latest", generate_and_count)
    took.labels("/7").observe(1)

    text = merge_families([families("one:1", registry)])

    assert sum(written) == 1
    assert 'took_seconds_count{process="one:1",route="/7"} 2.0' in text
    assert 'took_seconds_count{process="one:1",route="/8"} 1.0' in text


def test_every_metric_is_documented_and_named_by_its_unit() -> None:
    page = PAGE.read_text()
    for family in REGISTRY.collect():
        name = family.name + ("_total" if family.type == "counter" else "")
        if not name.startswith("heeler_"):
            continue
        assert f"`{name}" in page, f"{name} is not in docs/telemetry.md"
        if family.type == "histogram":
            assert name.endswith(("_seconds", "_bytes"))
        assert not re.search("milli|minute|percent", name)


def test_no_label_names_an_agent_a_run_or_a_person() -> None:
    for metric in REGISTRY._collector_to_names:
        labels = set(getattr(metric, "_labelnames", ()))
        assert not labels & {"agent", "agent_id", "run", "run_id", "conversation", "user", "org"}
