"""The first worlds have every fault that the simulator knows, often enough to find something."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import fields
from pathlib import Path

from tests.sim import faults
from tests.sim.network import Weather
from tests.sim.plan import MODEL_FAILURES, plan_of

KINDS = set(re.findall(r'case "([\w ]+)":', Path(faults.__file__).read_text()))
PLANS = [plan_of(seed) for seed in range(1, 301)]
# The parts of the weather that are named otherwise in a plan, where they are.
OF_WEATHER = {field.name for field in fields(Weather)} - {"slow_seconds"} | {"slow"}


def test_every_kind_of_fault_is_in_several_of_the_first_300_worlds() -> None:
    planned = Counter(fault.kind for plan in PLANS for fault in plan.faults)
    assert len(KINDS) > 10
    assert {kind for kind in KINDS if planned[kind] < 5} == set()
    weather = Counter(f.how for plan in PLANS for f in plan.faults if f.kind == "weather")
    assert {how for how in OF_WEATHER if weather[how] < 5} == set()


def test_faults_by_chance_are_as_likely_as_one_in_ten_to_one_in_two() -> None:
    amounts = {f.amount for plan in PLANS for f in plan.faults if f.kind == "weather"}
    assert amounts <= {0.1, 0.3, 0.5}
    assert len(amounts) == 3


def test_models_fail_in_every_way() -> None:
    failures = Counter(say.fails_with for plan in PLANS for say in plan.says)
    kinds = {*MODEL_FAILURES, "garbage arguments", "unknown tool", "bug", "unstorable"}
    assert {kind for kind in kinds if failures[kind] < 5} == set()
