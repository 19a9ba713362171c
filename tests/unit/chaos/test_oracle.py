"""When the oracle of chaos finds that a model was asked too often."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.chaos.oracle import Oracle
from tests.chaos.workload import Request

REQUEST = Request("agent-1", 0, "r-1", None)
ANSWERED_AT = 1_000.0


class World:
    """A model that was asked for a step twice, and a log that has its answer, or has it not."""

    def __init__(self, asked_at: float, answers: list[float]) -> None:
        self.asked_at = asked_at
        self.answers = answers
        self.kills: list[Any] = []
        self.model = self

    def client(self) -> None:
        return None

    async def stats(self) -> dict[str, Any]:
        return {
            "validation_errors": 0,
            "refusals": [],
            "by_text": {REQUEST.text: {"0": 2}},
            "last_asked_by_text": {REQUEST.text: {"0": self.asked_at}},
        }

    async def sql(self, statement: str) -> list[tuple[str, list[float]]]:
        return [(REQUEST.text, self.answers)]


async def wrong(world: World, **options: bool) -> list[str]:
    workload: Any = SimpleNamespace(requests=[REQUEST])
    oracle = Oracle(world, workload, "R16", **options)  # type: ignore[arg-type]
    await oracle.check_model()
    return oracle.verdict.wrong


@pytest.mark.parametrize(
    ("asked_at", "answers", "right"),
    [
        (ANSWERED_AT - 1, [ANSWERED_AT], True),
        (ANSWERED_AT + 1, [ANSWERED_AT], False),
        (ANSWERED_AT - 1, [], False),
    ],
)
async def test_where_leases_run_out_a_step_may_be_asked_again_before_its_answer_is_recorded(
    asked_at: float, answers: list[float], right: bool
) -> None:
    found = await wrong(World(asked_at, answers), leases_run_out=True)
    assert bool(found) != right


async def test_elsewhere_it_takes_a_death() -> None:
    assert await wrong(World(ANSWERED_AT - 1, [ANSWERED_AT]))
