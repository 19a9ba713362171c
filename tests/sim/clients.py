"""The clients of the simulated world: they ask, ask again, and remember what they were told."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

from libs.bus.ports import BusUnavailable, is_answer
from libs.contracts.agent.agents import (
    AttachBlock,
    CreateAgent,
    DeleteAgent,
    DetachBlock,
    UpdateAgent,
)
from libs.contracts.agent.compaction import CompactConversation
from libs.contracts.agent.conversations import (
    CreateConversation,
    DeleteConversation,
    ForkConversation,
    main_conversation,
)
from libs.contracts.agent.runs import CancelRuns
from libs.contracts.bus_messages import (
    BUSY,
    DEFAULT_ORG,
    UNAVAILABLE,
    Accepted,
    Command,
    Context,
    Rejected,
)
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta.blocks import BlockState
from libs.contracts.letta.runs import RunConfig
from libs.contracts.memory.blocks import CreateBlocks, DeleteBlock, UpdateBlock
from libs.contracts.tools.base_tools.definition import tool_id
from tests.sim.archives import remember
from tests.sim.batches import answer_many
from tests.sim.bus import SimBus
from tests.sim.files import file_chore
from tests.sim.groups import form_group
from tests.sim.model import GATED, HANDLE, KEEP, WRITE
from tests.sim.plan import (
    APIS,
    BATCHING,
    FILING,
    GROUPING,
    REMEMBERING,
    SCHEDULING,
    Chore,
    Plan,
    Say,
)
from tests.sim.processes import Process, Shared
from tests.sim.schedules import schedule
from tests.sim.store import UNSTORABLE
from tests.sim.story import Story
from tests.sim.tools import ROLL_ID, WEATHER_ID
from tests.unit.given import NOW

HTTP_SECONDS_MAX = 30.0
DROPS_MAX = 5
PRESSING_CLIENTS = 30
CANCELS_MAX = 60
ATTEMPTS_MAX = 50
COMPACTION_MODES = ("sliding_window", "all", "self_compact_all", "self_compact_sliding_window")
ATTACHED_SECONDS_MAX = 6.0
BACKOFF_SECONDS = (0.3, 0.6, 1.2, 2.5, 4.0)
SHARED_BLOCK = derived_id("block", "shared")
RETRIED = frozenset({408, 409, 429})


def agent_id(number: int) -> str:
    return derived_id("agent", f"number {number}")


def beside_id(name: str) -> str:
    """The id of the conversation that a chore makes."""
    return derived_id("conv", f"beside {name}")


def conversation_of(say: Say) -> str:
    """The id of the conversation in which something is said."""
    return beside_id(say.into) if say.into else main_conversation(agent_id(say.agent))


def command_beside(chore: Chore, now: datetime) -> Command:
    """What a chore about conversations asks for."""
    agent = agent_id(chore.agent)
    there = beside_id(chore.of) if chore.of else main_conversation(agent)
    match chore.kind:
        case "converse":
            request = {"isolated_block_labels": ["ledger"], "context_window_limit": 6_000}
            return CreateConversation(
                conversation_id=beside_id(chore.name), agent_id=agent, request=request
            )
        case "fork":
            return ForkConversation(
                conversation_id=beside_id(chore.name), agent_id=agent, source_id=there
            )
        case "drop":
            return DeleteConversation(conversation_id=there)
        case "cancel":
            return CancelRuns(agent_id=agent, conversation_id=there)
    assert chore.kind == "compact", chore.kind
    run = RunConfig(
        id=derived_id("run", f"of {chore.name}"),
        created_at=now,
        agent_id=agent,
        conversation_id=there if chore.of else None,
    )
    mode = COMPACTION_MODES[int(chore.at * 1_000) % len(COMPACTION_MODES)]
    return CompactConversation(
        agent_id=agent,
        conversation_id=there,
        run=run,
        request_hash=chore.name,
        settings={"mode": mode},
    )


def wanted(name: str, *, shared: bool = False) -> dict[str, Any]:
    """What an agent is to be."""
    return {
        "name": name,
        "model": HANDLE,
        "system": "Be kind.",
        "memory_blocks": [{"label": "ledger", "value": "", "limit": 100_000}],
        "block_ids": [SHARED_BLOCK] if shared else [],
        "tools": ["memory_insert", KEEP, GATED, "conversation_search", "pause_heartbeats"],
        "parallel_tool_calls": True,
        "tool_rules": [{"type": "requires_approval", "tool_name": GATED}],
        "include_base_tool_rules": False,
        "include_base_tools": False,
    }


@dataclass(slots=True)
class SentMessage:
    """What a client knows about one request."""

    say: Say
    sent_at: float = 0.0
    answered_at: float = float("inf")
    status: int = 0
    body: Any = None
    attempts: int = 0
    story: Story = field(default_factory=Story)
    # Of an answer: the calls that it is about, and its own name.
    calls: list[str] = field(default_factory=list)
    name: str = ""


@dataclass(slots=True)
class Clients:
    """All clients, and what they were told."""

    shared: Shared
    plan: Plan
    told: dict[str, SentMessage] = field(default_factory=dict)
    copies: dict[str, list[SentMessage]] = field(default_factory=dict)
    chores: dict[str, Accepted | Rejected] = field(default_factory=dict)
    made: dict[int, asyncio.Event] = field(default_factory=dict)
    pressed: dict[str, Accepted | Rejected] = field(default_factory=dict)
    filed: dict[str, list[tuple[int, Any]]] = field(default_factory=dict)
    # Conversations beside the agents' own, by the chores that make them.
    beside: dict[str, asyncio.Event] = field(default_factory=dict)

    def start(self) -> list[asyncio.Task[None]]:
        """Begin; returns what is done when every client has its answers."""
        spawn = self.shared.loop.world.spawn
        self.beside = {
            chore.name: asyncio.Event()
            for chore in self.plan.chores
            if chore.kind in ("converse", "fork")
        }
        self.made = {number: asyncio.Event() for number in range(len(self.plan.agents))}
        clients = sorted({say.client for say in self.plan.says})
        return [
            spawn(self.make_agents()),
            *(spawn(self.talk(client)) for client in clients),
            *(spawn(self.do(chore)) for chore in self.plan.chores),
        ]

    # Commands

    async def send(self, name: str, command: Command) -> Accepted | Rejected:
        """Send a command until it is answered, under one name, as a client with a key does. Whoever
        lost an answer is not told by a BUSY what became of the first try."""
        bus = SimBus(self.shared.broker, "somebody", None)
        lost = False
        while True:
            try:
                reply = await bus.request(command, Context(name, correlation_id=name))
            except BusUnavailable:
                lost = True
            else:
                if is_answer(reply, sent_again=lost):
                    return reply
            await asyncio.sleep(1.0)

    async def make_agents(self) -> None:
        """The shared block and the agents."""
        state = BlockState(id=SHARED_BLOCK, label="shared", value="", limit=100_000)
        await self.send("make-shared", CreateBlocks(blocks=[state]))
        await asyncio.gather(*map(self.make_agent, range(len(self.plan.agents))))

    async def make_agent(self, number: int) -> None:
        await asyncio.sleep(self.plan.agents[number])
        request = wanted(f"agent {number}", shared=self.plan.shared[number])
        if self.plan.tools:
            request["tool_ids"] = [ROLL_ID, WEATHER_ID, tool_id(WRITE)]
        reply: Any = None
        for attempt in range(50):
            command = CreateAgent(agent_id=agent_id(number), request=request)
            reply = await self.send(f"make-{number}-{attempt}", command)
            if isinstance(reply, Accepted) or reply.code == "not_found":
                break
            await asyncio.sleep(1.0)
        self.chores[f"make {number}"] = reply
        self.made[number].set()

    async def make_and_leave(self, chore: Chore) -> None:
        """Ask for an agent, and do not wait for the answer."""
        bus = SimBus(self.shared.broker, "somebody", None)
        command = CreateAgent(agent_id=derived_id("agent", chore.name), request=wanted(chore.name))
        with contextlib.suppress(BusUnavailable):
            await bus.request(command, Context(chore.name), seconds_max=0.3)

    async def come_and_go(self, chore: Chore) -> None:
        """An agent that is there for a moment only."""
        agent = derived_id("agent", chore.name)
        create = CreateAgent(agent_id=agent, request=wanted(chore.name))
        made = await self.send(f"{chore.name} comes", create)
        if isinstance(made, Accepted):
            await self.send(f"{chore.name} goes", DeleteAgent(agent_id=agent))

    async def cancel_one(self, chore: Chore) -> None:
        """Cancel a run by its id, as soon as there is one; what waits behind it goes on."""
        agent = agent_id(chore.agent)
        keyed = [say for say in self.plan.says if say.agent == chore.agent]
        keys = [f"key of {say.name}" for say in keyed if say.named_by == "key"]
        run_ids = [derived_id("run", DEFAULT_ORG, agent, "key", key) for key in keys[:1]]
        for attempt in range(CANCELS_MAX):
            name = f"{chore.name}-{attempt}"
            reply = await self.send(name, CancelRuns(agent_id=agent, run_ids=run_ids))
            if isinstance(reply, Accepted) and "cancelled" in reply.result.values():
                return
            await asyncio.sleep(0.3)

    async def do(self, chore: Chore) -> None:
        """Something else that somebody wants."""
        if chore.kind != "cancel one":
            await asyncio.sleep(chore.at)
        if chore.kind == "make and leave":
            await self.make_and_leave(chore)
            return
        if chore.kind == "make with shared":
            agent = derived_id("agent", chore.name)
            create = CreateAgent(agent_id=agent, request=wanted(chore.name, shared=True))
            await self.send(chore.name, create)
            return
        if chore.kind == "come and go":
            await self.come_and_go(chore)
            return
        if chore.kind in FILING:
            self.filed[chore.name] = await file_chore(chore, self.send, self.upload)
            return
        await self.made[chore.agent].wait()
        if chore.kind == "cancel one":
            await self.cancel_one(chore)
            return
        if chore.name in self.beside or chore.of or chore.kind == "compact":
            await self.do_beside(chore)
            return
        agent = agent_id(chore.agent)
        if chore.kind.startswith("press"):
            await self.press(chore, agent)
            return
        if chore.kind in SCHEDULING:
            self.chores[chore.name] = await schedule(chore, agent, self.send)
            return
        if chore.kind in BATCHING:
            self.chores[chore.name] = await answer_many(chore, agent, self.send, asyncio.sleep)
            return
        if chore.kind in GROUPING:
            await asyncio.gather(*(made.wait() for made in self.made.values()))
            agents = [agent_id(number) for number in self.made]
            self.chores[chore.name] = await form_group(chore, agents, self.send)
            return
        if chore.kind in REMEMBERING:
            self.chores[chore.name] = await remember(chore, agent, self.send)
            return
        if chore.kind in ("attach and detach", "attach and delete"):
            await self.attach_for_a_while(chore, agent)
            return
        commands: dict[str, Command] = {
            "edit block": UpdateBlock(
                block_id=SHARED_BLOCK, changes={"description": f"by {chore.name}"}
            ),
            "rename agent": UpdateAgent(agent_id=agent, request={"name": f"by {chore.name}"}),
            "attach": AttachBlock(agent_id=agent, block_id=SHARED_BLOCK),
            "detach": DetachBlock(agent_id=agent, block_id=SHARED_BLOCK),
            "delete agent": DeleteAgent(agent_id=agent),
            "cancel": CancelRuns(agent_id=agent),
            "delete shared": DeleteBlock(block_id=SHARED_BLOCK),
            "hopeless block": UpdateBlock(
                block_id=SHARED_BLOCK, changes={"description": UNSTORABLE}
            ),
            "hopeless agent": UpdateAgent(agent_id=agent, request={"name": UNSTORABLE}),
        }
        self.chores[chore.name] = await self.send(chore.name, commands[chore.kind])

    async def attach_for_a_while(self, chore: Chore, agent: str) -> None:
        """A block that an agent has until it is detached from it, or deleted."""
        block_id = derived_id("block", chore.name)
        state = BlockState(id=block_id, label=chore.name, value="", limit=100_000)
        await self.send(f"{chore.name} made", CreateBlocks(blocks=[state]))
        attach = AttachBlock(agent_id=agent, block_id=block_id)
        attached = await self.send(f"{chore.name} attached", attach)
        await asyncio.sleep(ATTACHED_SECONDS_MAX * self.shared.loop.random.random())
        if chore.kind == "attach and detach" and isinstance(attached, Accepted):
            detach = DetachBlock(agent_id=agent, block_id=block_id)
            self.chores[chore.name] = await self.send(f"{chore.name} detached", detach)
        await self.send(f"{chore.name} deleted", DeleteBlock(block_id=block_id))

    async def press(self, chore: Chore, agent: str) -> None:
        """Many clients want the same thing changed at once; who is told to come again does not."""

        async def one(name: str) -> None:
            edit = UpdateBlock(block_id=SHARED_BLOCK, changes={"description": f"by {name}"})
            rename = UpdateAgent(agent_id=agent, request={"name": f"by {name}"})
            command = edit if chore.kind == "press block" else rename
            self.pressed[name] = await self.send(name, command)

        names = [f"{chore.name}-{n}" for n in range(PRESSING_CLIENTS)]
        await asyncio.gather(*map(one, names))

    async def do_beside(self, chore: Chore) -> None:
        """Something about a conversation beside an agent's own, or about a fork or a compaction of
        that; of what was left out of the world nothing comes."""
        if chore.of in self.beside:
            await self.beside[chore.of].wait()
        elif chore.of:
            self.beside.get(chore.name, asyncio.Event()).set()
            return
        for attempt in range(ATTEMPTS_MAX):
            command = command_beside(chore, NOW + timedelta(seconds=self.shared.loop.now))
            reply = await self.send(f"{chore.name}-{attempt}", command)
            if isinstance(reply, Accepted) or reply.code not in (UNAVAILABLE, BUSY):
                break
            await asyncio.sleep(1.0)
        self.chores[chore.name] = reply
        if chore.name in self.beside:
            self.beside[chore.name].set()

    # Messages

    async def talk(self, client: int) -> None:
        """One client's messages, each after the answer to the one before."""
        for say in self.plan.says:
            if say.client == client and (not say.into or say.into in self.beside):
                await self.made[say.agent].wait()
                if say.into:
                    await self.beside[say.into].wait()
                await asyncio.sleep(say.pause)
                told = [
                    SentMessage(say) for _ in range(say.copies if say.named_by != "nothing" else 1)
                ]
                self.copies[say.name] = told
                self.told[say.name] = told[0]
                await asyncio.gather(*map(self.say, told))
                if say.answers:
                    await self.answer(told[0])

    async def answer(self, told: SentMessage) -> None:
        """Answer what the agent asks about, for all calls at once or one by one."""
        say, calls = told.say, calls_that_wait(told)
        if say.answers == "never" or not calls:
            return
        await asyncio.sleep(say.answers_after)
        groups = [[call] for call in calls] if say.answers == "one by one" else [calls]
        for n, group in enumerate(groups):
            for time in range(2 if say.answers == "twice" else 1):
                answer = SentMessage(say, calls=group, name=f"{say.name} answer {n} {time}")
                await self.say(answer)
                if answer.status == 200:
                    told.body, told.answered_at = answer.body, answer.answered_at

    async def say(self, told: SentMessage) -> None:
        """Send one message until there is an answer, or retries ends."""
        loop = self.shared.loop
        told.sent_at = loop.now
        for attempt in range(told.say.attempts):
            told.attempts = attempt + 1
            try:
                ask = self.read_stream if told.say.streams else self.post
                told.status, told.body, headers = await ask(told, attempt)
            except (TimeoutError, ConnectionError):
                told.status, headers = 0, {}
            retried = told.status in RETRIED or told.status >= 500 or not told.status
            waits = "PENDING_APPROVAL" in str(told.body)  # for somebody else's answer
            waits = waits or (bool(told.say.into) and told.status == 409)  # for another run
            if not retried or (headers.get("x-should-retry") == "false" and not waits):
                break
            if told.say.gives_up_after and not attempt:
                continue
            pause = BACKOFF_SECONDS[min(attempt, len(BACKOFF_SECONDS) - 1)]
            await asyncio.sleep(pause * (0.5 + loop.random.random()))
        told.answered_at = loop.now

    async def connected(self) -> Process:
        """An api that listens."""
        network = self.shared.network
        await asyncio.sleep(network.hop())
        process = self.shared.running.get(network.random.choice(APIS))
        if process is None or not process.lane.alive:
            raise ConnectionError("nobody listens")
        return process

    async def read_stream(self, told: SentMessage, attempt: int) -> tuple[int, Any, dict[str, str]]:
        """One connection of a stream, which goes on where the one before broke off."""
        process = await self.connected()
        story = told.story
        pushed: asyncio.Queue[Any] = asyncio.Queue()
        process.readers.append(pushed.put_nowait)
        request = http_request(told, attempt, last=story.last)
        agent = agent_id(told.say.agent)
        telling = process.lane.spawn(process.tell(request, agent, story.run_id, pushed.put_nowait))
        try:
            for count in itertools.count(1):
                async with asyncio.timeout(HTTP_SECONDS_MAX):
                    chunk = await pushed.get()
                if isinstance(chunk, Exception):
                    raise chunk
                if isinstance(chunk, tuple):
                    return chunk
                if chunk is not None:
                    story.hear(chunk)
                if story.ended:
                    return story.end()
                if chunk is None or (count == told.say.drops_after and attempt < DROPS_MAX):
                    raise ConnectionError("the stream broke off")
        finally:
            telling.cancel()
        raise AssertionError("counting never ends")

    async def post(self, told: SentMessage, attempt: int) -> tuple[int, Any, dict[str, str]]:
        """One attempt over HTTP. Who gives the first up early does so after the api has read it: to
        an api that stands still before that, it would be no earlier than its retry."""
        say, process = told.say, await self.connected()
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        process.requests.add(answer)
        read: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        request = http_request(told, attempt)
        process.lane.spawn(self.served(process, read, answer, request, say))
        async with asyncio.timeout(HTTP_SECONDS_MAX) as limit:
            if say.gives_up_after and not attempt:
                await asyncio.wait([read, answer], return_when=asyncio.FIRST_COMPLETED)
                limit.reschedule(self.shared.loop.now + say.gives_up_after)
            status, body, headers = await answer
        return status, body, headers

    async def upload(self, request: Any, folder_id: str) -> tuple[int, Any]:
        """One attempt of an upload. Of who hangs up nobody knows the answer."""
        process = await self.connected()
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        process.requests.add(answer)
        serving = process.lane.spawn(process.upload(request, folder_id))

        def served(done: asyncio.Task[Any]) -> None:
            process.requests.discard(answer)
            if answer.done():
                return
            if done.cancelled():
                answer.set_exception(ConnectionError("the client hung up"))
            else:
                answer.set_result(done.result())

        serving.add_done_callback(served)
        async with asyncio.timeout(HTTP_SECONDS_MAX):
            answered: tuple[int, Any] = await answer
        return answered

    async def served(
        self,
        process: Process,
        read: asyncio.Future[None],
        answer: asyncio.Future[Any],
        request: Any,
        say: Say,
    ) -> None:
        """In the api: read one request, and answer it."""
        read.set_result(None)
        given = await process.answer(request, agent_id(say.agent), conversation_of(say))
        await asyncio.sleep(self.shared.network.hop())
        process.requests.discard(answer)
        if not answer.done():
            answer.set_result(given)


def calls_that_wait(told: SentMessage) -> list[str]:
    """The calls that an answer asks about."""
    if told.status != 200 or told.body["stop_reason"]["stop_reason"] != "requires_approval":
        return []
    return [
        call["tool_call_id"]
        for message in told.body["messages"]
        if message["message_type"] == "approval_request_message"
        for call in message["tool_calls"]
    ]


def approval_request(told: SentMessage) -> tuple[dict[str, str], dict[str, Any]]:
    """The headers and the body of an answer."""
    approvals = [
        {"type": "approval", "tool_call_id": call_id, "approve": told.say.answers != "no"}
        for call_id in told.calls
    ]
    headers = {"x-request-id": told.say.name, "idempotency-key": f"key of {told.name}"}
    return headers, {"messages": [{"type": "approval", "approvals": approvals}]}


def http_request(told: SentMessage, attempt: int, *, last: int = 0) -> Any:
    """What the api sees of a request."""
    say = told.say
    steps = [
        [[call.tool, call.label, f"{say.name} step {n} call {m}"] for m, call in enumerate(step)]
        for n, step in enumerate(say.steps)
    ]
    text = json.dumps(
        {"name": say.name, "steps": steps, "fails_with": say.fails_with, "thinks": say.thinks}
        | ({"pad": "x" * say.pad} if say.pad else {})
    )
    message: dict[str, Any] = {"role": "user", "content": text}
    headers: dict[str, str] = {"x-request-id": say.name}
    match say.named_by:
        case "key":
            headers["idempotency-key"] = f"key of {say.name}"
        case "otid":
            message["otid"] = f"otid of {say.name}"
        case "nothing":
            headers["x-stainless-retry-count"] = str(attempt)
    asked: dict[str, Any] = {"messages": [message]}
    if say.streams:
        asked |= {"streaming": True, "background": True, "stream_tokens": say.streams == "tokens"}
    if told.calls:
        headers, asked = approval_request(told)
    body = json.dumps(asked).encode()
    if last:
        # Only what goes on is asked for: the rest of the request is not read again.
        headers, body = {"last-event-id": str(last)}, b""

    async def read() -> bytes:
        return body

    return SimpleNamespace(
        headers=headers,
        body=read,
        method="POST",
        url=SimpleNamespace(path=""),
        scope={"state": {}},
    )
