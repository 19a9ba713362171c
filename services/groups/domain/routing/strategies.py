"""The strategy of each pattern."""

from __future__ import annotations

from collections.abc import Mapping

from libs.contracts.groups.routing import Pattern
from services.groups.domain.routing.contract_net import ContractNet
from services.groups.domain.routing.one import One
from services.groups.domain.routing.pipeline import Pipeline
from services.groups.domain.routing.plans import Strategy
from services.groups.domain.routing.to_all import AskAll, Publish

STRATEGIES: Mapping[Pattern, Strategy] = {
    "one": One(),
    "scatter_gather": AskAll(),
    "publish": Publish(),
    "pipeline": Pipeline(),
    "contract_net": ContractNet(),
}
