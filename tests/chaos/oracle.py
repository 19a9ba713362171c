"""Checks what must hold after any fault, through the public API.

Postgres is asked only for what the API does not show: the events behind a block and the recorded
steps, against which the model's own count of questions is held.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from deploy.embedded.settings import service_of
from tests.chaos.client import Client
from tests.chaos.workload import Request, Workload
from tests.chaos.world import Kill, World
from tests.waiting import overloaded, wait_for

READING_AT_ONCE = 4
PAGE_MESSAGES = 1_000
SETTLE_SECONDS_MAX = 60.0
RELAYED_SECONDS_MAX = 30.0
TERMINAL = frozenset({"completed", "failed", "cancelled"})
SHOWN_MAX = 10
SHOWN_CHARS_MAX = 600


@dataclass(slots=True)
class Verdict:
    """What a scenario found; it passed if nothing is lost, doubled, stuck or wrong."""

    scenario: str
    kills: int = 0
    messages: int = 0
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    recovery_seconds: float = 0.0
    figures: dict[str, float] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        return not (self.lost or self.doubled or self.stuck or self.wrong)

    def check(self, holds: bool, problem: str) -> None:
        """Note a problem of the scenario's own unless something holds."""
        if not holds:
            self.wrong.append(problem)

    def in_time(self, seconds: float, most: float, what: str) -> None:
        """Note what took longer than it may, unless the machine has too much to do just now."""
        self.check(seconds <= most or overloaded(), f"{what} took {seconds:.2f} s, over {most:.2f}")

    def report(self) -> str:
        """All that is needed to look into a failure."""
        lines = [f"{self.scenario}: {'passed' if self.passed else 'FAILED'}"]
        for name in ("lost", "doubled", "stuck", "wrong"):
            found: list[str] = getattr(self, name)
            lines += [f"  {name}: {line[:SHOWN_CHARS_MAX]}" for line in found[:SHOWN_MAX]]
            if len(found) > SHOWN_MAX:
                lines.append(f"  {name}: and {len(found) - SHOWN_MAX} more")
        lines += [f"  SKIPPED: {reason}" for reason in self.skipped]
        lines += [f"  {name} = {value:.3f}" for name, value in self.figures.items()]
        return "\n".join(lines)


@dataclass(slots=True)
class Seen:
    """What the API shows of one agent."""

    history: list[dict[str, Any]]
    runs: list[dict[str, Any]]
    block: dict[str, Any]


class Oracle:
    """The judge of one scenario: `begin` before the faults, `judge` after them."""

    def __init__(
        self, world: World, workload: Workload, scenario: str, *, leases_run_out: bool = False
    ) -> None:
        self.world = world
        self.workload = workload
        self.client: Client = world.client()
        self.verdict = Verdict(scenario)
        self.first_kill = len(world.kills)
        self.refused_before = 0
        self.leases_run_out = leases_run_out

    async def begin(self) -> Oracle:
        self.refused_before = (await self.world.model.stats())["validation_errors"]
        return self

    @property
    def kills(self) -> list[Kill]:
        return self.world.kills[self.first_kill :]

    async def judge(self) -> Verdict:
        """Wait until every run has ended, then check everything."""
        verdict, requests = self.verdict, self.workload.requests
        verdict.kills, verdict.messages = len(self.kills), len(requests)
        verdict.recovery_seconds = max((request.seconds for request in requests), default=0.0)
        for request in requests:
            if not request.answer.ok:
                said = f"{request.answer.status} {request.answer.body[:200]!r}"
                verdict.stuck.append(f"{request.name} of {request.agent} was answered {said}")
        await self.settle()
        gate = asyncio.Semaphore(READING_AT_ONCE)

        async def check(agent: str) -> Seen:
            async with gate:
                seen = await self.look(agent)
            self.check_agent(agent, seen)
            return seen

        seen = await asyncio.gather(*map(check, self.workload.agents))
        await self.check_blocks(
            {seen_block.block["id"]: seen_block.block["value"] for seen_block in seen}
        )
        await self.check_model()
        await self.check_relayed()
        return verdict

    # -- what the API shows

    async def settle(self) -> None:
        """Every run terminal, within the time that the tests' definition gives."""
        listed: list[dict[str, Any]] = []

        async def idle() -> bool:
            nonlocal listed
            listed = []
            for start in range(0, len(self.workload.agents), 25):
                part = self.workload.agents[start : start + 25]
                wanted = "&".join(f"agent_ids={agent}" for agent in part)
                listed += await self.client.get(f"/v1/runs?active=true&limit=1000&{wanted}")
            return not listed

        try:
            await wait_for("every run ended", idle, SETTLE_SECONDS_MAX)
        except AssertionError:
            self.verdict.stuck += [f"{run['id']} is {run['status']}" for run in listed]

    async def look(self, agent: str) -> Seen:
        history = await self.history(agent)
        # The order that readers see does not depend on from which end they read.
        newest = await self.client.get(f"/v1/agents/{agent}/messages?order=desc&limit=200")
        tail = history[len(history) - len(newest) :]
        same = [message["id"] for message in newest] == [message["id"] for message in tail]
        self.verdict.check(same or len(newest) >= 200, f"{agent}: readers see different orders")
        runs = await self.client.get(f"/v1/runs?agent_id={agent}&limit=1000")
        block = await self.client.get(f"/v1/agents/{agent}/core-memory/blocks/ledger")
        return Seen(history, runs, block)

    async def history(self, agent: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        path = f"/v1/agents/{agent}/messages?order=asc&limit={PAGE_MESSAGES}"
        while True:
            after = f"&after={found[-1]['id']}" if found else ""
            page = await self.client.get(path + after)
            if not page:
                return found
            found += page

    def check_agent(self, agent: str, seen: Seen) -> None:
        mine = [request for request in self.workload.requests if request.agent == agent]
        said = [message for message in seen.history if message["message_type"] == "user_message"]
        texts = Counter(str(message["content"]) for message in said)
        answers = Counter(
            str(message["content"])
            for message in seen.history
            if message["message_type"] == "assistant_message"
        )
        for request in mine:
            self.exactly_once(request, texts[request.text], "is in the history")
            self.exactly_once(request, answers[request.said], "was answered in the history")
        self.check_order(mine, [str(message["content"]) for message in said])
        self.check_pairs(agent, seen.history)
        self.check_ledger(agent, mine, seen.block["value"])
        self.check_runs(agent, mine, seen.runs, len(said))

    def exactly_once(self, request: Request, times: int, what: str) -> None:
        if times == 0 and request.answer.ok:
            self.verdict.lost.append(f"{request.name} of {request.agent}: never {what}")
        if times > 1:
            self.verdict.doubled.append(f"{request.name} of {request.agent}: {times} x {what}")

    def check_order(self, mine: list[Request], texts: list[str]) -> None:
        """What was sent one after the other is read one after the other."""
        place = {text: index for index, text in enumerate(texts)}
        lanes: dict[int, list[Request]] = defaultdict(list)
        for request in mine:
            if request.answer.ok and request.text in place and request.sent_at:
                lanes[request.lane].append(request)
        for lane in lanes.values():
            lane.sort(key=lambda request: request.sent_at)
            for earlier, later in itertools.pairwise(lane):
                ordered = place[earlier.text] < place[later.text]
                overlap = later.sent_at < earlier.answered_at
                self.verdict.check(ordered or overlap, f"{later.name} stands before {earlier.name}")

    def check_pairs(self, agent: str, history: list[dict[str, Any]]) -> None:
        """Every tool call has exactly one return, and it stands behind the call."""
        calls: list[str] = []
        returns: list[str] = []
        for message in history:
            if message["message_type"] == "tool_call_message":
                calls.append(message["tool_call"]["tool_call_id"])
            if message["message_type"] == "tool_return_message":
                returns.append(message["tool_call_id"])
                self.verdict.check(
                    message["tool_call_id"] in calls, f"{agent}: a result stands before its call"
                )
        paired = Counter(calls) == Counter(returns) and len(set(calls)) == len(calls)
        self.verdict.check(paired, f"{agent}: {len(calls)} calls, {len(returns)} results")

    def check_ledger(self, agent: str, mine: list[Request], value: str) -> None:
        lines = Counter(value.split("\n") if value else [])
        for request in mine:
            if request.line:
                self.exactly_once(request, lines.pop(request.line, 0), "is in the ledger")
        self.verdict.check(not lines, f"{agent}: nobody asked for the lines {list(lines)[:3]}")

    def check_runs(
        self, agent: str, mine: list[Request], runs: list[dict[str, Any]], turns: int
    ) -> None:
        for run in runs:
            self.verdict.check(
                run["status"] == "completed", f"{agent}: {run['id']} is {run['status']}"
            )
        self.verdict.check(len(runs) == turns, f"{agent}: {len(runs)} runs for {turns} messages")

    # -- what only the log and the model know

    async def check_blocks(self, values: dict[str, str]) -> None:
        """The value of a block is the fold of its events."""
        ids = ",".join(f"'{block}'" for block in values)
        rows = await self.world.sql(
            "select aggregate_id, topic, payload from memory.events"
            f" where aggregate_id in ({ids}) order by aggregate_id, version"
        )
        folded: dict[str, str] = {}
        for block, topic, payload in rows:
            if topic == "block.created":
                folded[block] = payload["block"]["value"]
            elif "value" in payload.get("changes", {}):
                folded[block] = payload["changes"]["value"]
        for block, value in values.items():
            self.verdict.check(folded.get(block) == value, f"{block} is not the fold of its events")

    async def check_model(self) -> None:
        """No step is asked again once its answer was recorded.

        A step that was asked n times needs n - 1 deaths of who asked while the message was on its
        way; nothing that outlives the agent service (Postgres, NATS, api) is a reason. Only where
        the network is so bad that leases run out may it also be taken over from somebody alive:
        then the log must show that each time was before the answer.
        """
        stats = await self.world.model.stats()
        refused = stats["validation_errors"] - self.refused_before
        self.verdict.check(refused == 0, f"the model refused {refused}: {stats['refusals'][-1:]}")
        if self.leases_run_out:
            await self.check_asked_in_time(stats["last_asked_by_text"])
        for request in self.workload.requests:
            asked = stats["by_text"].get(request.text, {})
            deaths = sum(
                service_of(kill.part) == "agent" and kill.met(request.sent_at, request.answered_at)
                for kill in self.kills
            )
            for step, times in asked.items():
                self.verdict.check(
                    times <= 1 + deaths or self.leases_run_out,
                    f"{request.name}: step {step} was asked {times} times, {deaths} deaths",
                )
            steps = 2 if request.line else 1
            if request.answer.ok:
                self.verdict.check(
                    len(asked) == steps, f"{request.name}: {len(asked)} steps, not {steps}"
                )

    async def check_asked_in_time(self, last_asked: dict[str, dict[str, float]]) -> None:
        """No step was asked when its answer stood in the log already."""
        rows = await self.world.sql(
            "select question.payload#>>'{message,content}',"
            " array_agg(extract(epoch from answer.occurred_at)::float8 order by answer.version)"
            " from agent.events question join agent.events answer"
            " on answer.topic = 'model.replied' and answer.about = question.payload->>'run_id'"
            " where question.topic = 'message.appended' and question.payload->>'sent' = 'true'"
            " group by 1"
        )
        answered: dict[str, list[float]] = dict(rows)
        for request in self.workload.requests:
            times = answered.get(request.text, [])
            for step, asked_at in last_asked.get(request.text, {}).items():
                in_time = int(step) < len(times) and asked_at < times[int(step)]
                problem = f"{request.name}: step {step} was asked after its answer was recorded"
                self.verdict.check(in_time, problem)

    async def check_relayed(self) -> None:
        """Every event has its place in the published log."""

        async def complete() -> bool:
            rows = await self.world.sql(
                "select (select count(*) from agent.events) = (select published from agent.relay)"
                " and (select count(*) from memory.events) = (select published from memory.relay)"
            )
            return bool(rows[0][0])

        try:
            await wait_for("the relay is done", complete, RELAYED_SECONDS_MAX)
        except AssertionError as late:
            self.verdict.stuck.append(str(late))


async def begin(
    world: World, scenario: str, *, agents: int, leases_run_out: bool = False
) -> tuple[Workload, Oracle]:
    """Begin a scenario: the world works again, there are so many agents, and a judge watches."""
    await world.restored()
    workload = Workload(world.client(), world.new_name(scenario))
    await workload.create_agents(agents)
    oracle = Oracle(world, workload, scenario, leases_run_out=leases_run_out)
    return workload, await oracle.begin()
