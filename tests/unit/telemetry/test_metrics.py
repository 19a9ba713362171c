"""Metrics: named as Prometheus wants it, documented, and merged over processes."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.parser import text_string_to_metric_families

from libs.telemetry.metrics import REGISTRY
from libs.telemetry.prometheus_exposition import families, merged

PAGE = Path(__file__).parents[3] / "docs" / "telemetry.md"


def counted(process: str, value: int) -> dict[str, tuple[str, str]]:
    registry = CollectorRegistry()
    Counter("things", "Things.", ["kind"], registry=registry).labels('a "b"\\\n').inc(value)
    return families(process, registry)


def test_several_processes_make_one_text_with_each_family_once() -> None:
    text = merged([counted("one:1", 3), counted("two:2", 4)])
    [family] = text_string_to_metric_families(text)
    assert {sample.labels["process"]: sample.value for sample in family.samples} == {
        "one:1": 3,
        "two:2": 4,
    }
    assert {sample.labels["kind"] for sample in family.samples} == {'a "b"\\\n'}


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
