"""What models cost: the list prices, and an operator's own file."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from libs.contracts.environment_parsing import WrongSetting
from libs.eventstore.ports import StoreUnavailable
from services.agent.adapters.models.prices import (
    LIST_PRICES,
    PublishedPrices,
    price_tables,
    table_of,
)

OWN = """
version = "own-1"
[[prices]]
model = "openai/gpt-4o"
input = 1
output = 2.5
[[prices]]
model = "openai/gpt-4o"
input = 3
output = 4
since = 2026-10-07
"""


def own(tmp_path: Path, text: str) -> dict[str, str]:
    path = tmp_path / "prices.toml"
    path.write_text(text)
    return {"HEELER_PRICES": str(path)}


def test_every_list_price_names_its_source() -> None:
    table = table_of(LIST_PRICES.read_bytes())
    assert table.prices
    for price in table.prices:
        assert price.source in table.sources, price.model
        assert price.cached_input is None or 0 < price.cached_input <= price.input < price.output


def test_list_prices_are_for_providers_at_their_own_address() -> None:
    [table] = price_tables({"OPENAI_API_KEY": "k", "OPENAI_API_BASE": "http://localhost:1/v1"})
    assert {model.partition("/")[0] for model in table.models} == {"anthropic"}
    [table] = price_tables({"OPENAI_API_KEY": "k", "ANTHROPIC_BASE_URL": ""})
    assert {model.partition("/")[0] for model in table.models} == {"anthropic", "openai"}


def test_a_file_of_the_operator_goes_before_the_list(tmp_path: Path) -> None:
    listed, mine = price_tables(own(tmp_path, OWN))
    assert "openai/gpt-4o" not in listed.models
    assert "openai/gpt-4o-mini" in listed.models
    assert [(price.input, price.output) for price in mine.prices] == [(1, Decimal("2.5")), (3, 4)]
    assert [str(price.since) for price in mine.prices] == ["None", "2026-10-07"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[[prices]]", "version"),
        ('version = "1"\nmodels = 3', "models"),
        (OWN.replace("since = 2026-10-07", ""), "two prices from the same day on"),
        (OWN.replace("output = 4", ""), "prices.1.output"),
        (OWN.replace("output = 4", "output = -4"), "prices.1.output"),
        (OWN.replace("output = 4", "output = nan"), "prices.1.output"),
        (OWN.replace("output = 4", 'output = "dear"'), "prices.1.output"),
        (OWN.replace("output = 4", "output = 4\noutputs = 4"), "prices.1.outputs"),
        (OWN.replace("openai/gpt-4o", "gpt-4o"), "prices.0.model"),
        ("version = ", "no table of prices"),
    ],
)
def test_a_file_that_is_no_table_of_prices_is_refused_at_the_start(
    tmp_path: Path, text: str, problem: str
) -> None:
    with pytest.raises(WrongSetting, match="HEELER_PRICES") as refused:
        price_tables(own(tmp_path, text))
    assert problem in str(refused.value)


async def test_prices_are_published_when_the_database_is_there_and_then_no_more() -> None:
    class Away:
        """Is away for the first two statements."""

        def __init__(self) -> None:
            self.rows: list[Any] = []
            self.asked = 0

        async def fetch(self, _: str, values: dict[str, str]) -> None:
            self.asked += 1
            if self.asked <= 2:
                raise StoreUnavailable("away")
            self.rows.append(json.loads(values["rows"]))

    database: Any = Away()
    prices = PublishedPrices(database, price_tables({}))
    for _ in range(5):
        await prices.sweep()
    [rows] = database.rows
    [nano] = [row for row in rows if row["model"] == "openai/gpt-5-nano"]
    assert nano == {
        "model": "openai/gpt-5-nano",
        "since": "-infinity",
        "version": nano["version"],
        "input": "0.05",
        "cached_input": "0.005",
        "cache_write": "0.05",
        "output": "0.40",
    }


def test_a_file_that_cannot_be_read_is_refused_at_the_start(tmp_path: Path) -> None:
    for name, problem in (
        ("prices.toml", "whole path"),
        (str(tmp_path / "none.toml"), "No such file"),
        (str(tmp_path), "Is a directory"),
    ):
        with pytest.raises(WrongSetting, match="HEELER_PRICES") as refused:
            price_tables({"HEELER_PRICES": name})
        assert problem in str(refused.value)
