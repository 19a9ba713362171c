"""Prices of models: the list that comes with the server, and the operator's own file, published in
a view for readers of steps."""

from __future__ import annotations

import logging
import tomllib
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import to_json

from libs.contracts.environment_parsing import wrong
from libs.contracts.outside_texts import decode_text
from libs.egress.provider_endpoints import OPENAI_BASE
from libs.eventstore.ports import StoreUnavailable
from services.agent.settings import ANTHROPIC_BASE, ProviderSettings

if TYPE_CHECKING:
    from libs.eventstore.connection_pool import Database

log = logging.getLogger(__name__)

SETTING = "HEELER_PRICES"
LIST_PRICES = Path(__file__).with_name("list_prices.toml")
FILE_BYTES_MAX = 1 << 20
PRICES_MAX = 2_000
DOLLARS_MAX = 1_000_000
PROBLEMS_SHOWN_MAX = 5

Dollars = Annotated[Decimal, Field(ge=0, le=DOLLARS_MAX, max_digits=20)]
Words = Annotated[str, Field(min_length=1, max_length=500)]


class Price(BaseModel):
    """The price of a million tokens of a model, in US dollars, from the beginning of `since` (UTC)
    on. A `model` without the date at its end is all its dated versions, too."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: Annotated[str, Field(pattern=r"^[^/\s]+/\S+$", max_length=500)]
    input: Dollars
    output: Dollars
    cached_input: Dollars | None = None
    cache_write: Dollars | None = None
    since: date | None = None
    source: Words | None = None


class PriceTable(BaseModel):
    """A file of prices; `version` is what costs say they were counted by."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Words
    prices: Annotated[list[Price], Field(max_length=PRICES_MAX)] = []
    sources: dict[str, Words] = {}

    @model_validator(mode="after")
    def each_model_once_at_a_time(self) -> Self:
        """Raise ValueError for two prices of one model from the same day on."""
        seen: set[tuple[str, date | None]] = set()
        for price in self.prices:
            if (price.model, price.since) in seen:
                raise ValueError(f"{price.model} has two prices from the same day on")
            seen.add((price.model, price.since))
        return self

    @property
    def models(self) -> set[str]:
        """The models that have a price."""
        return {price.model for price in self.prices}


def price_tables(environment: Mapping[str, str]) -> Sequence[PriceTable]:
    """The tables that count: the list prices of providers that are asked at their own address, and
    the file that HEELER_PRICES names, whose models are in no other table. Raises WrongSetting."""
    listed = table_of(LIST_PRICES.read_bytes())
    elsewhere = providers_elsewhere(ProviderSettings.from_environment(environment))
    own = own_table(environment)
    kept = [
        price
        for price in listed.prices
        if price.model.partition("/")[0] not in elsewhere
        and (own is None or price.model not in own.models)
    ]
    tables = [listed.model_copy(update={"prices": kept})]
    return tables if own is None else [*tables, own]


def providers_elsewhere(settings: ProviderSettings) -> set[str]:
    """The providers that something else stands in for, which asks its own prices."""
    usual = {
        "openai": (settings.openai, OPENAI_BASE),
        "anthropic": (settings.anthropic, ANTHROPIC_BASE),
    }
    return {name for name, (own, base) in usual.items() if own and own.base_url != base}


def own_table(environment: Mapping[str, str]) -> PriceTable | None:
    """The operator's own prices, if there are any. Raises WrongSetting."""
    name = environment.get(SETTING)
    if not name:
        return None
    path = Path(name)
    if not path.is_absolute():
        raise wrong(SETTING, name, "it must be the whole path of a TOML file, from / on")
    try:
        with path.open("rb") as file:
            text = file.read(FILE_BYTES_MAX + 1)
    except OSError as problem:
        raise wrong(SETTING, name, f"it cannot be read: {problem.strerror}") from problem
    if len(text) > FILE_BYTES_MAX:
        raise wrong(SETTING, name, f"it has more than {FILE_BYTES_MAX} bytes")
    try:
        return table_of(text)
    except (ValidationError, ValueError) as problem:
        raise wrong(SETTING, name, f"it is no table of prices: {words_of(problem)}") from problem


def table_of(text: bytes) -> PriceTable:
    """A file's table. Raises ValueError."""
    return PriceTable.model_validate(tomllib.loads(decode_text(text), parse_float=Decimal))


def words_of(problem: ValueError) -> str:
    """The problem with a file, on one line."""
    if not isinstance(problem, ValidationError):
        return str(problem)
    errors = problem.errors(include_url=False, include_input=False)
    return "; ".join(
        f"`{'.'.join(map(str, error['loc'])) or 'the file'}`: {error['msg']}"
        for error in errors[:PROBLEMS_SHOWN_MAX]
    )


class PublishedPrices:
    """Has the prices published, as soon as Postgres is there."""

    def __init__(self, database: Database, tables: Sequence[PriceTable]) -> None:
        self.database = database
        self.tables = tables
        self.published = False

    async def sweep(self) -> None:
        """Publish them, unless that is done."""
        if self.published:
            return
        try:
            await publish_prices(self.database, self.tables)
            self.published = True
        except StoreUnavailable as problem:
            log.warning("prices are not published yet: %s", problem)


async def publish_prices(database: Database, tables: Sequence[PriceTable]) -> None:
    """Let the api read these prices, and no others. Safe to repeat."""
    rows = [
        {
            "model": price.model,
            "since": since(price).isoformat() if price.since else "-infinity",
            "version": table.version,
            "input": str(price.input),
            "cached_input": str(either(price.cached_input, price.input)),
            "cache_write": str(either(price.cache_write, price.input)),
            "output": str(price.output),
        }
        for table in tables
        for price in table.prices
    ]
    await database.fetch(
        "with fresh as (select * from jsonb_populate_recordset(null::agent.prices, %(rows)s)),"
        " gone as (delete from agent.prices p where not exists ("
        "   select from fresh f where f.model = p.model and f.since = p.since))"
        " insert into agent.prices select * from fresh"
        " on conflict (model, since) do update set version = excluded.version,"
        " input = excluded.input, cached_input = excluded.cached_input,"
        " cache_write = excluded.cache_write, output = excluded.output",
        {"rows": to_json(rows).decode()},
    )


def since(price: Price) -> datetime:
    """From when on a price counts."""
    assert price.since is not None
    return datetime.combine(price.since, time.min, UTC)


def either(price: Decimal | None, usual: Decimal) -> Decimal:
    """A price, or the usual one where there is none of its own."""
    return usual if price is None else price
