"""Plan of an import: its source is read to the end, and nothing is written."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime

from pydantic_core import from_json

from libs.contracts.agent_file import SecretValues
from libs.contracts.api.import_errors import BadSource
from libs.contracts.api.imports import EntryError
from libs.contracts.memory.archives import own_archive_id
from libs.encryption.passphrase_sealer import open_with
from libs.encryption.sealer import CannotOpen
from services.api.adapters.agents.import_sources import WantedImport
from services.api.domain.agent_import import AgentImport, ImportState, SourceSummary
from services.api.domain.id_map import OWN_ARCHIVES_MAPPED, IdMap, KeptIds
from services.api.domain.import_policy import IdDecision, PresentThings, decide_ids
from services.api.domain.line_checks import LineChecks
from services.api.engine.import_ports import ImportPorts

IDS_AT_ONCE = 1_000
# Longer lines take a thread: others would wait for as long as one is looked at.
LINE_AT_ONCE_BYTES_MAX = 64 << 10
CONTINUE = "continue"

# Leaves agents to an import, before it is looked whether they are there. Raises BadSource.
type TakeAgents = Callable[[Sequence[str]], Awaitable[None]]


@dataclass(slots=True, kw_only=True)
class Plan:
    """The facts about a source, and the decision about its ids."""

    wanted: WantedImport
    checks: LineChecks
    decision: IdDecision
    ids: IdMap
    secrets: dict[str, dict[str, str]]
    cut: int | None = None

    @property
    def agent_ids(self) -> list[str]:
        """The ids that the agents get."""
        return [self.ids.of(agent_id) for agent_id in self.checks.agent_ids]

    def record(self, known: AgentImport, *, at: datetime) -> None:
        """Record that nothing is wrong with the source."""
        found = SourceSummary(
            counts=self.checks.so_far,
            keeps_ids=self.decision.keeps_ids,
            agent_ids=self.agent_ids,
            replaced=[*self.decision.replaced],
            cut=self.cut,
            present=sorted(self.decision.present),
            left_out=self.wanted.left_out,
        )
        known.validate(found, at=at)


async def take_none(_: Sequence[str]) -> None:
    """Leave no agent to an import that has its agents already, or makes none."""


async def make_plan(
    ports: ImportPorts,
    wanted: WantedImport,
    state: ImportState,
    take_agents: TakeAgents = take_none,
) -> Plan:
    """Read a source, and decide about its ids, unless that was decided before. Raises BadSource."""
    is_new = state.phase == "pending"
    form = wanted.source.form
    # The secrets among the lines of a file of the retired server are those of the request.
    checks = LineChecks(
        trusted=not is_new or form == "fork",
        sealed_here=form == "letta",
        continues=wanted.options.conflicts == CONTINUE,
        accept_tools=wanted.options.accept_tools or form == "letta",
        now=wanted.requested_at,
    )
    async with aclosing(ports.sources.lines(wanted)) as lines:
        async for raw in lines:
            if len(raw) > LINE_AT_ONCE_BYTES_MAX:
                await asyncio.to_thread(checks.take, raw)
                continue
            checks.take(raw)
            await asyncio.sleep(0)  # others have something to do too
    checks.check_end()
    secrets = await open_secrets(ports, wanted, checks.secrets)
    if is_new:
        if form == "heeler" and wanted.options.conflicts not in ("copy", CONTINUE):
            await take_agents(checks.agent_ids)
        await refuse_foreign_blocks(ports, wanted.org, checks)
        decision = await decide(ports, wanted, checks)
    else:
        decision = IdDecision(
            keeps_ids=state.keeps_ids,
            replaced=tuple(state.replaced),
            present=frozenset(state.present),
        )
    ids: IdMap = KeptIds()
    if not decision.keeps_ids:
        ids = IdMap(wanted.import_id, sorted(checks.own), checks.agent_ids)
    cut = state.cut
    if is_new and decision.replaced:
        cut = await ports.sources.agents.log.settled_cut(ports.clock)
    return Plan(wanted=wanted, checks=checks, decision=decision, ids=ids, secrets=secrets, cut=cut)


async def refuse_foreign_blocks(ports: ImportPorts, org: str, checks: LineChecks) -> None:
    """Refuse agents that would see a block of somebody here, which does not come along. One that is
    nowhere was deleted when the source was written. Raises BadSource."""
    foreign = checks.foreign_blocks if not (checks.trusted or checks.continues) else {}
    present, _ = await find_present(ports, org, sorted(foreign))
    for block_id in sorted(present):
        message = f"{block_id} is not in the file, and one of its id is here: add its history"
        raise BadSource.at_line(foreign[block_id], message)


async def plan_of_the_past(ports: ImportPorts, wanted: WantedImport) -> Plan:
    """The plan to make a deleted agent again as it was, under its own ids: what is there is used as
    it is. Raises BadSource."""
    checks = LineChecks(trusted=True)
    async with aclosing(ports.sources.lines(wanted)) as lines:
        async for raw in lines:
            checks.take(raw)
            await asyncio.sleep(0)
    checks.check_end()
    own = sorted(checks.own)
    ours = await ports.queries.begun_by(wanted.import_id, own)
    present, _ = await find_present(ports, wanted.org, own)
    decision = IdDecision(keeps_ids=True, present=frozenset(present - ours))
    return Plan(wanted=wanted, checks=checks, decision=decision, ids=KeptIds(), secrets={})


async def open_secrets(
    ports: ImportPorts, wanted: WantedImport, lines: Sequence[SecretValues]
) -> dict[str, dict[str, str]]:
    """The values of the agents' secrets, sealed by this server, by the agents' ids in the source;
    without a passphrase none. Raises BadSource."""
    if wanted.options.passphrase is None:
        return {}
    found: dict[str, dict[str, str]] = {}
    try:
        passphrase = ports.sealer.open(wanted.options.passphrase)
        for line in lines:
            opened = await asyncio.to_thread(open_with, passphrase, line.sealed)
            values = from_json(opened)
            found[line.agent_id] = {
                str(name): ports.sealer.seal(str(value)) for name, value in values.items()
            }
    except (CannotOpen, ValueError, AttributeError) as wrong:
        message = f"secrets cannot be opened: {wrong}"
        raise BadSource([EntryError(entry="passphrase", message=message)]) from None
    return found


async def decide(ports: ImportPorts, wanted: WantedImport, checks: LineChecks) -> IdDecision:
    """The decision about the ids of a source. Raises BadSource."""
    if wanted.source.form == "fork":
        return IdDecision(keeps_ids=False)
    if wanted.options.conflicts == CONTINUE:
        defined = [definition.id for definition in checks.definitions]
        there, _ = await find_present(ports, wanted.org, defined)
        return IdDecision(keeps_ids=True, present=frozenset(there))
    if wanted.source.form == "letta":  # made from the id of the import: they are new
        return IdDecision(keeps_ids=True)
    # Those of other organisations cannot be replaced: they are in the way, as other things are.
    replaceable = await ports.queries.agents(wanted.org, checks.agent_ids)
    present, usable = await find_present(
        ports, wanted.org, [*checks.agent_ids, *sorted(checks.own)]
    )
    agent_ids = tuple(agent_id for agent_id in checks.agent_ids if agent_id in replaceable)
    # Those that were deleted a moment ago are followed by what was their own.
    leaving = [agent_id for agent_id in checks.agent_ids if agent_id not in present]
    if wanted.options.conflicts == "replace":
        leaving += agent_ids
    if leaving:
        rest = sorted(present - set(agent_ids))
        present -= await ports.queries.going_with(wanted.org, leaving, own_archives(leaving), rest)
    used = present & {definition.id for definition in checks.definitions}
    own = present - used - set(agent_ids)
    return decide_ids(
        wanted.options.conflicts,
        PresentThings(agent_ids, frozenset(own), frozenset(used), frozenset(usable)),
    )


async def find_present(
    ports: ImportPorts, org: str, things: Sequence[str]
) -> tuple[set[str], set[str]]:
    """Which of these things there are, and which of them the organisation can use as they are."""
    present: set[str] = set()
    usable: set[str] = set()
    for begin in range(0, len(things), IDS_AT_ONCE):
        some = things[begin : begin + IDS_AT_ONCE]
        present |= await ports.queries.present(some)
        usable |= await ports.queries.usable(org, some)
    return present, usable


def own_archives(agent_ids: Sequence[str]) -> list[str]:
    """The ids that archives of these agents may have, which go with them."""
    return [
        own_archive_id(agent_id, number)
        for agent_id in agent_ids
        for number in range(OWN_ARCHIVES_MAPPED)
    ]
