"""Writes docs/compatibility.md: `python -m deploy.compatibility`.

What works is what a test proved, and everything else is listed as missing: the page is made
from the operations of the V1 API, the results of the test suite, and the hand-kept differences.
"""

import csv
import json
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from libs.contracts.tools.base_tools.catalogue import BASE_TOOLS
from libs.contracts.tools.tool_permission_evaluation import ToolPolicies
from services.agent.app import tool_router

ROOT = Path(__file__).parents[1]
OPERATIONS = ROOT / "services/api/http/operations.tsv"
RESULTS = ROOT / "tests/compatibility.json"
DIFFERENCES = ROOT / "docs/differences.toml"
RECORDED = ROOT / "tests/recorded/exchanges.txt"
PAGE = ROOT / "docs/compatibility.md"

# Clients probe these and go without them on a 404; any other error would stop them.
PROBED = ("/v1/environments", "/v1/metadata")

INTRODUCTION = """\
# Compatibility with the Letta V1 REST API

This page is generated (`python -m deploy.compatibility`): do not edit it.

An operation **works** if a test of this repository calls it and it answers as the genuine \
server does, and **differs** if such a test passes but the answer is deliberately another one. \
All others are **missing**: they answer 501, or 404 where clients probe for them. The tests speak \
through the Python SDK 1.12.1 or bare HTTP; **also by** names the other clients, unmodified, that \
tests of their own prove it with.
"""


@dataclass(frozen=True)
class Operation:
    """One row of the V1 API."""

    method: str
    path: str
    group: str
    operation_id: str
    sdk_call: str
    scope: str
    deprecated: bool

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True)
class Result:
    """The test result of one operation."""

    status: str
    why: str = ""
    tests: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()


@dataclass(frozen=True)
class Difference:
    """One thing that we do otherwise than the genuine server, on purpose.

    A planned one is about something that is still missing here.
    """

    area: str
    genuine: str
    ours: str
    planned: bool = False


@dataclass(frozen=True)
class DifferingExchanges:
    """Recorded exchanges whose answers have another shape here, all for the same reason."""

    names: list[str]
    why: str


@dataclass(frozen=True)
class Ignored:
    """Fields of a request body that are accepted, and what little they do."""

    body: str
    fields: list[str]
    effect: str


def main() -> None:
    PAGE.write_text(current_page())


def current_page() -> str:
    """The page as it has to be."""
    return render(
        read_operations(),
        read_results(),
        read_differences(),
        read_ignored(),
        read_exchanges(),
    )


def read_operations() -> list[Operation]:
    with OPERATIONS.open() as table:
        rows = csv.DictReader(table, delimiter="\t")
        return [_operation(row) for row in rows]


def _operation(row: Mapping[str, str]) -> Operation:
    return Operation(
        method=row["method"],
        path=row["path"],
        group=row["group"],
        operation_id=row["operation_id"],
        sdk_call=row["sdk_call"],
        scope=row["scope"],
        deprecated=row["deprecated"] == "yes",
    )


def read_results() -> dict[str, Result]:
    results = json.loads(RESULTS.read_text())
    return {
        name: Result(entry["status"], entry["why"], tuple(entry["tests"]), tuple(entry["clients"]))
        for name, entry in results.items()
    }


def read_differences() -> list[Difference]:
    listed = tomllib.loads(DIFFERENCES.read_text())["difference"]
    return [Difference(**entry) for entry in listed]


def read_exchanges() -> list[DifferingExchanges]:
    listed = tomllib.loads(DIFFERENCES.read_text())["exchange"]
    return [DifferingExchanges(**entry) for entry in listed]


def read_ignored() -> list[Ignored]:
    listed = tomllib.loads(DIFFERENCES.read_text())["ignored"]
    return [Ignored(**entry) for entry in listed]


def render(
    operations: Sequence[Operation],
    results: Mapping[str, Result],
    differences: Sequence[Difference],
    ignored: Sequence[Ignored] = (),
    exchanges: Sequence[DifferingExchanges] = (),
) -> str:
    """The whole page as Markdown."""
    unknown = results.keys() - {operation.name for operation in operations}
    assert not unknown, f"results for operations that the V1 API does not have: {sorted(unknown)}"
    proven = {operation: _result(operation, results) for operation in operations}
    sections = [
        INTRODUCTION,
        _summary(proven),
        _differences(differences),
        _exchanges(exchanges),
        _ignored(ignored),
        _tools_without_effect(),
        *(_group(group, proven) for group in dict.fromkeys(o.group for o in operations)),
    ]
    return "\n".join(sections)


def _result(operation: Operation, results: Mapping[str, Result]) -> Result:
    probed = any(part in operation.path for part in PROBED)
    missing = Result(f"missing ({404 if probed else 501})")
    return results.get(operation.name, missing)


def _summary(proven: Mapping[Operation, Result]) -> str:
    kinds = {
        "in the SDK": [o for o in proven if o.sdk_call],
        "server only": [o for o in proven if not o.sdk_call and o.scope != "cloud-only"],
        "cloud only": [o for o in proven if not o.sdk_call and o.scope == "cloud-only"],
    }
    lines = ["| operations | all | work | differ | missing |", "|---|---|---|---|---|"]
    for kind, operations in kinds.items():
        counts = Counter(proven[o].status.split()[0] for o in operations)
        row = (kind, len(operations), counts["works"], counts["differs"], counts["missing"])
        lines.append("| " + " | ".join(map(str, row)) + " |")
    return "\n".join([*lines, ""])


def _differences(differences: Sequence[Difference]) -> str:
    built = [d for d in differences if not d.planned]
    planned = [d for d in differences if d.planned]
    lines = ["## Deliberate differences", "", *_compared(built, "here"), ""]
    if planned:
        heading = "## Wrongs that will not be copied into what is still missing"
        lines += [heading, "", *_compared(planned, "here, once it is built"), ""]
    return "\n".join(lines)


def _exchanges(exchanges: Sequence[DifferingExchanges]) -> str:
    all_of_them = len(RECORDED.read_text().split())
    differing = sum(len(exchange.names) for exchange in exchanges)
    lines = [
        "## Recorded exchanges with another shape",
        "",
        f"{all_of_them} exchanges with a genuine server about agents, blocks, messages, "
        "conversations, runs, steps, models and errors are kept in `tests/recorded` and are sent "
        f"again by `tests/e2e/test_recorded_exchanges.py`. All but these {differing} are answered "
        "with the same status, fields, types and order of events:",
        "",
        "| exchange | why |",
        "|---|---|",
    ]
    for exchange in exchanges:
        names = ", ".join(f"`{name}`" for name in exchange.names)
        lines.append(f"| {names} | {exchange.why} |")
    return "\n".join([*lines, ""])


def _ignored(ignored: Sequence[Ignored]) -> str:
    lines = [
        "## Accepted, and without effect yet",
        "",
        "| body | fields | effect |",
        "|---|---|---|",
    ]
    for row in ignored:
        fields = ", ".join(f"`{field}`" for field in row.fields)
        lines.append(f"| `{row.body}` | {fields} | {row.effect} |")
    return "\n".join([*lines, ""])


def _tools_without_effect() -> str:
    nothing: Any = None
    router = tool_router(bus=nothing, queries=nothing, clock=nothing, policies=ToolPolicies)
    unbuilt = sorted(name for name, tool in BASE_TOOLS.items() if router.runner(tool) is None)
    names = ", ".join(f"`{name}`" for name in unbuilt)
    return (
        "An agent may have these base tools, by name or by its type, and shows them; the model is "
        f"told that they are not built yet when it calls them: {names}.\n"
    )


def _compared(differences: Sequence[Difference], ours: str) -> list[str]:
    head = [f"| area | genuine server | {ours} |", "|---|---|---|"]
    return head + [f"| {d.area} | {d.genuine} | {d.ours} |" for d in differences]


def _group(group: str, proven: Mapping[Operation, Result]) -> str:
    rows = {o: result for o, result in proven.items() if o.group == group}
    lines = [
        f"## {group}",
        "",
        "| operation | SDK | status | tests | also by |",
        "|---|---|---|---|---|",
        *(_row(operation, result) for operation, result in rows.items()),
        "",
    ]
    return "\n".join(lines)


def _row(operation: Operation, result: Result) -> str:
    call = f"`{operation.sdk_call}`" if operation.sdk_call else ""
    name = f"`{operation.name}`" + (" (deprecated)" if operation.deprecated else "")
    status = f"{result.status}: {result.why}" if result.why else result.status
    clients = ", ".join(result.clients)
    return f"| {name} | {call} | {status} | {len(result.tests) or ''} | {clients} |"


if __name__ == "__main__":
    main()
