"""Random runs of an agent, each answered by a model whose answer follows from what it is asked, and
their replays. By hand, many: `python -m tests.unit.agent.replayed_runs --runs 500`."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
from collections import Counter
from hashlib import sha256
from random import Random
from typing import Any

from libs.contracts.agent.agents import UpdateAgent
from libs.contracts.agent.approvals import CallAnswer
from libs.contracts.agent.conversations import ToolCall, Usage
from libs.contracts.agent.run_replays import ReplayRun
from libs.contracts.agent.runs import RunAccepted
from libs.contracts.bus_messages import Accepted, Context
from libs.contracts.letta.enums import AgentType
from libs.contracts.memory.blocks import CreateBlocks, UpdateBlock
from services.agent.adapters.models.ports import ModelFailed
from services.agent.domain.prompts.model_context import ModelRequest
from services.agent.domain.runs.step_results import Failure, ModelReply
from tests.contract.examples import AGENT, BLOCK, HUMAN
from tests.leased_work import finish
from tests.unit.agent.approvals import conversation
from tests.unit.agent.world import ASK, FakeModel, Process, World

RUNS = 30
RUNS_OF_WORLD = 10
WINDOW = 3_000  # tokens: some of the runs are compacted
TOOLS = ["memory_insert", "conversation_search", "send_message", "pause_heartbeats", ASK]
TYPES = (AgentType.letta_v1_agent, AgentType.letta_v1_agent, AgentType.memgpt_agent)


class AnsweringModel(FakeModel):
    """Answers as a function of what it is asked: the same question has the same answer."""

    async def reply(self, request: ModelRequest) -> ModelReply:
        self.turns = [answer_to(request)]
        return await super().reply(request)


def asked(request: ModelRequest) -> list[Any]:
    """A question without the ids and the times of its messages."""
    shown = [
        [
            *(message.role, message.content, message.reasoning, message.tool_status),
            [(call.name, call.arguments) for call in message.tool_calls],
        ]
        for message in request.messages
    ]
    return [shown, request.tools, request.parallel, request.must_call, request.config.llm_config]


def answer_to(request: ModelRequest) -> ModelReply | Exception:
    """What the model says to a question."""
    question = json.dumps(asked(request), default=str).encode()
    digest = sha256(question).hexdigest()
    random, usage = Random(digest), Usage(prompt_tokens=len(question) // 4, completion_tokens=2)
    kind = random.choice(("words", "call", "call", "calls", "calls", "thoughts", "fails"))
    names = [str(schema["name"]) for schema in request.tools]
    if not names or kind == "words":
        return ModelReply(f"words {digest[:30]}", [], random.choice(("stop", "length")), usage)
    if kind == "fails" and random.random() < 0.3:
        return ModelFailed(Failure("llm_server_error", f"failed {digest[:5]}"))
    count = random.randrange(2, 4) if kind == "calls" else 1
    weights = [0.2 if name == "pause_heartbeats" else 1 for name in names]
    chosen = random.choices(names, weights, k=count)
    calls = [call_of(random, name, f"{digest[:12]}{n}") for n, name in enumerate(chosen)]
    thoughts = f"thinking {digest[:9]}" if kind == "thoughts" else None
    return ModelReply("", calls, "tool_calls", usage, reasoning=thoughts)


def call_of(random: Random, name: str, call_id: str) -> ToolCall:
    """A call of a tool, now and then with arguments that it refuses."""
    line = f"line {random.randrange(5)}"
    fitting: dict[str, dict[str, Any]] = {
        "memory_insert": {"label": "human", "new_string": line},
        "conversation_search": {"query": line},
        "send_message": {"message": line},
        "pause_heartbeats": {"minutes": 2},
        ASK: {"content": line},
    }
    arguments = dict(fitting[name]) if random.random() < 0.9 else {"odd": line}
    arguments["request_heartbeat"] = random.random() < 0.7
    return ToolCall(id=f"call_{call_id}", name=name, arguments=json.dumps(arguments))


class ReplayedWorld:
    """A world with an agent, a process that answers for it, and replays of its runs."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = World()
        self.process: Process
        self.runs: list[str] = []
        self.questions: dict[str, list[Any]] = {}

    async def begin(self) -> None:
        """Have an agent with a block and a process."""
        await self.world.start_memory()
        self.process = Process(self.world, "one", AnsweringModel())
        self.world.build_tool(self.process)
        await self.process.bus.request(CreateBlocks(blocks=[HUMAN]), self.context())
        agent_type = self.random.choice(TYPES)
        await self.world.agent(block_ids=[BLOCK], tools=TOOLS, agent_type=agent_type)
        await self.update(context_window_limit=WINDOW)

    async def update(self, **request: Any) -> None:
        """Change the agent."""
        command = UpdateAgent(agent_id=AGENT, request=request)
        reply = await self.process.tell(command, self.world.ids.new("update"))
        assert isinstance(reply, Accepted), reply

    async def change_something(self) -> None:
        """Change the agent or its block, or nothing."""
        match self.random.randrange(5):
            case 0:
                await self.update(system=f"You are {self.random.random()}.")
            case 1:
                value = f"The user is {self.random.random()}."
                command = UpdateBlock(block_id=BLOCK, changes={"value": value})
                await self.process.bus.request(command, self.context())
            case 2 | 3:
                await self.update(tool_rules=rules(self.random, TOOLS))
            case _:
                pass

    def context(self) -> Context:
        """Who asks for something."""
        return Context(self.world.ids.new("ask"), org="org-1")

    async def say_something(self) -> None:
        """Send a message, sometimes two at once so that one waits in line, and let it end; answer
        the calls that wait for an approval then."""
        before = len(self.process.model.asked)
        ids = [self.next_run()]
        length = self.random.choice((10, 2_000, 4_000))
        said = f"message {self.random.random()} {'x' * length}"
        streams = self.random.random() < 0.3
        await self.process.say(
            ids[0], said, max_steps=self.random.choice((3, 6)), stream_tokens=streams
        )
        if self.random.random() < 0.2:
            ids.append(self.next_run())
            await self.process.say(ids[1], "and this")
        await self.process.idle()
        questions = [asked(each) for each in self.process.model.asked[before:] if each.tools]
        if len(ids) == 1:
            self.questions[ids[0]] = questions
        await self.answer_all()
        self.world.clock.seconds += 60

    async def answer_all(self) -> None:
        """Approve or deny the calls that wait, until none does."""
        while (approval := (await conversation(self.process)).state.approval) is not None:
            kinds = self.random.choices(("approved", "denied"), k=len(approval.waiting))
            await self.process.answer(
                self.next_run(),
                *(
                    CallAnswer.model_validate({"tool_call_id": call_id, "kind": kind})
                    for call_id, kind in zip(approval.waiting, kinds, strict=True)
                ),
                max_steps=3,
            )
            await self.process.idle()

    def next_run(self) -> str:
        """The id of one more run."""
        self.runs.append(f"run-{len(self.runs) + 1}")
        return self.runs[-1]

    async def replay(self, run_id: str, **fields: Any) -> dict[str, Any]:
        """Replay a run; returns the row of the replay, with its steps."""
        replay_id = self.world.ids.new("replay")
        command = ReplayRun(replay_id=replay_id, run_id=run_id, **fields)
        reply = await self.process.tell(command, replay_id)
        assert reply == Accepted(result={"replay_id": replay_id}), reply
        await finish(self.process.handlers.replays.replays)
        row: Any = self.world.row("run_replays", replay_id)
        steps = self.world.schema.rows("run_replay_steps")
        mine = [step for step in steps if step["replay_id"] == replay_id]
        return {**row, "steps": sorted(mine, key=lambda step: step["number"])}

    async def check(self, run_id: str) -> None:
        """Replay a run as it was recorded, from a step of it: all must be as then."""
        run = self.world.row("runs", run_id)
        replied = sum(
            (stored.topic, stored.about) == ("model.replied", run_id)
            for stored in self.world.schema.streams[str(run["conversation_id"])]
        )
        if not replied and run["status"] == "completed":
            return  # no model was asked: an approved call ended it
        first = self.random.randrange(1, replied + 1) if replied else 1
        before, untouched = len(self.process.model.asked), self.untouched()
        replay = await self.replay(run_id, from_step=first)
        assert replay["status"] == "completed", replay
        assert replay["fields"]["same"], (run_id, replay)
        assert [step["differences"] for step in replay["steps"]] == [[]] * len(replay["steps"])
        assert self.untouched() == untouched, "a replay changes nothing"
        if run_id in self.questions:
            replayed = [asked(each) for each in self.process.model.asked[before:]]
            assert replayed == self.questions[run_id][first - 1 :], "the model is asked the same"

    def untouched(self) -> list[Any]:
        """What a replay must not change: the events and the rows of everything else."""
        streams = [
            (schema, aggregate_id, len(stream))
            for schema in ("agent", "memory")
            for aggregate_id, stream in self.world.database.schema(schema).streams.items()
            if not aggregate_id.startswith("replay-")
        ]
        rows = [self.world.schema.rows(table) for table in ("messages", "runs", "steps", "agents")]
        return [streams, json.dumps(rows, default=str), len(self.world.tool_runs)]


def rules(random: Random, tools: list[str]) -> list[dict[str, Any]]:
    """Rules that an agent may have; each seed has others."""
    name = random.choice(tools)
    return random.choice(
        [
            [],
            [{"type": "exit_loop", "tool_name": name}],
            [{"type": "run_first", "tool_name": name}],
            [{"type": "max_count_per_step", "tool_name": name, "max_count_limit": 1}],
            [{"type": "required_before_exit", "tool_name": name}],
            [{"type": "requires_approval", "tool_name": name}],
        ]
    )


async def replay_runs_of_world(seed: int, runs: int = RUNS_OF_WORLD) -> Counter[str]:
    """Have a world of so many runs, and replay each of them; returns what happened how often."""
    world = ReplayedWorld(seed)
    await world.begin()
    while len(world.runs) < runs:
        await world.change_something()
        await world.say_something()
    await world.change_something()
    for run_id in world.runs:
        await world.check(run_id)
    return Counter(world.world.story())


async def replay_runs(runs: int, *, seed: int = 0) -> Counter[str]:
    """Replay at least so many random runs; returns what happened how often."""
    happened: Counter[str] = Counter()
    while happened[RunAccepted.topic] < runs:
        happened += await replay_runs_of_world(seed)
        seed += 1
    return happened


def main() -> None:
    """Replay as many runs as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    wanted = parser.parse_args()
    logging.disable()  # a model that fails is a part of it
    happened = asyncio.run(replay_runs(wanted.runs, seed=wanted.seed))
    for topic, count in happened.most_common():
        print(f"{count:7,} {topic}")
    print(f"{happened[RunAccepted.topic]} runs were replayed, and each transcript was the same.")


if __name__ == "__main__":
    main()
