"""Whoever changes what the state of an aggregate is, or means, cannot forget to say so (ADR 18)."""

from __future__ import annotations

import json
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import pytest
from pydantic import BaseModel, create_model

from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import Event
from libs.contracts.memory.blocks import BlockDeleted
from libs.contracts.service_registry import names
from services.memory.domain.block import Block
from tests.contract.examples import EVENTS
from tests.contract.golden_states import FOLDER, meaning_changed, path_of, recorded, text_of
from tests.contract.histories import HISTORIES

KINDS = {kind.__name__: kind for kind, _ in HISTORIES.values()}
FIELDS = [(name, field) for name, kind in KINDS.items() for field in kind.State.model_fields]
WRITE = "python -m tests.contract.golden_states --write"


def version_with(kind: type[Aggregate[Any]], state: type[BaseModel]) -> str:
    """The version of an aggregate's state if that were another model."""
    other = type(kind.__name__, (kind,), {"State": state})
    return other.state_version()  # type: ignore[attr-defined, no-any-return]


def named(kind: type[Aggregate[Any]], names: dict[str, str]) -> type[BaseModel]:
    """The model of an aggregate's state, with other names of some fields."""
    fields: dict[str, Any] = {
        names.get(name, name): (field.annotation, field)
        for name, field in kind.State.model_fields.items()
    }
    return create_model("State", **fields)


def aggregates(service: str) -> list[str]:
    """The names of the aggregates that a service's domain defines."""
    path = import_module(f"services.{service}").__path__
    modules = [each.name for each in walk_packages(path, f"services.{service}.")]
    domain = [import_module(name) for name in modules if name.split(".")[2] == "domain"]
    return [
        value.__name__
        for module in domain
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Aggregate)
        and value.__module__ == module.__name__
    ]


def test_each_aggregate_has_a_history_and_each_event_happens_in_one() -> None:
    known = sorted(kind for service in names() for kind in aggregates(service))
    assert sorted(KINDS) == known, "write a history in tests/contract/histories.py"
    happened = {type(event) for _, events in HISTORIES.values() for event in events}
    assert happened == {type(event) for event in EVENTS}


@pytest.mark.parametrize("name", HISTORIES)
def test_the_same_events_make_the_same_states_as_long_as_their_version_is_the_same(
    name: str,
) -> None:
    text = path_of(name).read_text()
    kind = HISTORIES[name][0].__name__
    assert not meaning_changed(name, json.loads(text)), f"raise {kind}.state_revision, then {WRITE}"
    assert text == text_of(recorded(name)), f"after a review: {WRITE}"


def test_no_file_is_of_a_history_that_is_gone() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == HISTORIES.keys()


def test_a_changed_meaning_under_the_same_version_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Undeletable(Block):
        """Its state has the form of a block's, and the same events make another one."""

        def when(self, event: Event) -> None:
            if not isinstance(event, BlockDeleted):
                super().when(event)

    class Revised(Undeletable):
        state_revision = Block.state_revision + 1

    file = json.loads(path_of("Block").read_text())
    assert not meaning_changed("Block", file)
    monkeypatch.setitem(HISTORIES, "Block", (Undeletable, HISTORIES["Block"][1]))
    assert meaning_changed("Block", file)
    monkeypatch.setitem(HISTORIES, "Block", (Revised, HISTORIES["Block"][1]))
    assert not meaning_changed("Block", file), "what it said of another version says nothing now"
    assert text_of(file) != text_of(recorded("Block")), "so it has to be written anew"


@pytest.mark.parametrize("name", KINDS)
def test_a_raised_revision_is_another_version(name: str) -> None:
    kind = KINDS[name]
    revised = type(name, (kind,), {"state_revision": kind.state_revision + 1})
    assert revised.state_version() != kind.state_version()  # type: ignore[attr-defined]


@pytest.mark.parametrize(("name", "field"), FIELDS, ids=".".join)
def test_a_renamed_field_is_another_version(name: str, field: str) -> None:
    kind = KINDS[name]
    assert version_with(kind, named(kind, {})) == kind.state_version()
    assert version_with(kind, named(kind, {field: f"{field}_renamed"})) != kind.state_version()


def test_a_renamed_field_of_what_is_in_a_state_is_another_version() -> None:
    class Part(BaseModel):
        amount: int = 0

    class RenamedPart(BaseModel):
        sum: int = 0

    class State(BaseModel):
        parts: list[Part] = []

    class RenamedState(BaseModel):
        parts: list[RenamedPart] = []

    assert version_with(Block, State) != version_with(Block, RenamedState)


def test_another_type_or_default_of_a_field_is_another_version() -> None:
    class Number(BaseModel):
        amount: int = 0

    class Text(BaseModel):
        amount: str = ""

    class One(BaseModel):
        amount: int = 1

    assert len({version_with(Block, state) for state in (Number, Text, One)}) == 3
