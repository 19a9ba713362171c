"""What must hold when everything has come to rest: read from the log, the rows and the clients."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from libs.contracts.agent.approvals import arguments_hash
from libs.contracts.agent.conversations import main_conversation
from libs.contracts.bus_messages import BUSY, NOT_FOUND, UNPROCESSABLE, Accepted, Event, Rejected
from libs.eventstore.event_decoding import event_of
from libs.eventstore.failed_messages.ports import ATTEMPTS, DEAD_LETTERS
from libs.eventstore.in_memory_database import InMemorySchema
from libs.eventstore.read_model_replay import Replay
from tests.sim.archives import check_archives
from tests.sim.batches import check_batches
from tests.sim.clients import SHARED_BLOCK, SentMessage, agent_id, conversation_of
from tests.sim.files import check_files
from tests.sim.groups import check_groups, of_group
from tests.sim.model import GATED, plan_in
from tests.sim.network import FAULTS
from tests.sim.processes import READ_MODELS
from tests.sim.schedules import check_schedules

if TYPE_CHECKING:
    from tests.sim.world import World

TERMINAL = frozenset({"completed", "failed", "cancelled"})
ENDED = frozenset({"run.completed", "run.failed", "run.cancelled"})
# Results of calls that may have worked. A call that is asked again after a crash may find that the
# agent does not see the block any more into which it wrote.
CRASHES_MAX = 20
UNSURE = ("may or may not have worked", "interrupted", "You have no memory block labelled")


def judge(world: World) -> list[str]:
    """Everything that is wrong."""
    watch = world.watch
    found = [*watch.problems, *world.ledger.problems]
    found += [f"logged: {error}" for error in watch.errors]
    found += [f"the loop heard: {complaint}" for complaint in world.loop.complaints]
    unheard = [error for error in world.loop.unheard() if not isinstance(error, FAULTS)]
    found += [f"nobody looked at {error!r}" for error in unheard]
    try:
        found += broken(world)
    except Exception as surprise:
        # What is stored is so wrong that it cannot even be read.
        found.append(f"judging failed: {surprise!r}")
    return found


def broken(world: World) -> Iterator[str]:
    """What is wrong with what is stored, and with what clients were told."""
    database = world.shared.server.database
    for service in ("agent", "memory", "tools", "groups", "scheduler"):
        schema = database.schema(service)
        yield from check_log(service, schema)
        yield from check_published(service, world.shared.broker.taken[service])
        yield from check_rows(service, schema)
    agent, memory = database.schema("agent"), database.schema("memory")
    talks = conversations(agent)
    for conversation, events in talks.items():
        yield from check_conversation(conversation, events)
    yield from check_blocks(memory)
    yield from check_lines(world, memory, talks)
    yield from check_requests(world, talks)
    yield from check_pressed(world, [*agent.committed, *memory.committed])
    yield from check_detached(world, talks)
    yield from check_deleted(world, agent, memory)
    yield from check_tool_runs(database.schema("tools"))
    yield from check_written(talks)
    yield from check_archives(world.plan.chores, world.clients.chores, agent, memory)
    yield from check_files(world)
    yield from check_batches(world.plan.chores, world.clients.chores, agent, world.ledger.did)
    yield from check_groups(world)
    yield from check_schedules(world)


# The log of a service


def check_log(service: str, schema: InMemorySchema) -> Iterator[str]:
    """Versions and positions are dense."""
    for aggregate, events in schema.streams.items():
        versions = [event.version for event in events]
        if versions != list(range(1, len(versions) + 1)):
            yield f"{aggregate} has the versions {versions}"
    places = [event.position for event in schema.log]
    if places != list(range(1, len(places) + 1)):
        yield f"the log of {service} has the positions {places}"
    logged = Counter((event.aggregate_id, event.version) for event in schema.log)
    stored = Counter((event.aggregate_id, event.version) for event in schema.committed)
    if logged != stored:
        yield f"the log of {service} lacks {[*(stored - logged)]} and has {[*(logged - stored)]}"
    newest: dict[str, int] = {}
    for event in schema.log:
        if event.version != newest.get(event.aggregate_id, 0) + 1:
            yield f"{event.aggregate_id} stands in the log of {service} out of order"
        newest[event.aggregate_id] = event.version


def check_published(service: str, taken: list[Any]) -> Iterator[str]:
    """The relay published every position for the first time in order, without a hole."""
    newest = 0
    places: dict[str, int] = {}
    for event in taken:
        identity = f"{event.aggregate_id}.{event.version}"
        if places.setdefault(identity, event.position) != event.position:
            yield f"the relay of {service} gave {identity} two positions"
        if event.position > newest + 1:
            yield f"the relay of {service} published {event.position} after {newest}"
        newest = max(newest, event.position)


NO_PROJECTIONS = {ATTEMPTS.name, DEAD_LETTERS.name}


def check_rows(service: str, schema: InMemorySchema) -> Iterator[str]:
    """Every read model equals its rebuild from the log, one aggregate after the other; what was
    tried in vain is no event."""
    rebuilt = Replay(READ_MODELS[service])
    for events in schema.streams.values():
        rebuilt.add(events)
    named = {table.name for table in rebuilt.models.tables}
    for table in sorted({*schema.tables, *rebuilt.rows} - NO_PROJECTIONS):
        if table not in named:
            yield f"{service}.{table} is written, and no read model that can be rebuilt"
        now, then = schema.tables.get(table, {}), rebuilt.rows.get(table, {})
        for key in {**now, **then}:
            if json.dumps(now.get(key), sort_keys=True) != json.dumps(
                then.get(key), sort_keys=True
            ):
                yield f"{service}.{table} {key} is not what its events say"


# Conversations


def conversations(schema: InMemorySchema) -> dict[str, list[Event]]:
    """The events of every conversation."""
    return {
        aggregate: [event_of("agent", event) for event in events]
        for aggregate, events in schema.streams.items()
        if aggregate.startswith("conv-")
    }


def check_conversation(conversation: str, events: list[Any]) -> Iterator[str]:
    """Runs begin in the order of acceptance and end once; every call has one result."""
    accepted = in_line(events)
    started = [event.run_id for event in events if event.topic == "run.started"]
    ended = [run_id for event in events for run_id in runs_ended_by(event)]
    deleted = events[-1].topic == "conversation.deleted"
    for name, runs in (("accepted", accepted), ("started", started), ("ended", ended)):
        twice = [run for run, times in Counter(runs).items() if times > 1]
        if twice:
            yield f"{conversation}: {twice} {name} more than once"
    unstarted = set(ended) - set(started)  # cancelled while they waited
    waited = [run for run in accepted if run not in unstarted]
    finished = [run for run in ended if run not in unstarted]
    if started != waited[: len(started)] or finished != started[: len(finished)]:
        yield f"{conversation}: runs did not start or end in the order of acceptance"
    if not deleted and not (set(accepted) == set(ended) and len(started) == len(finished)):
        yield f"{conversation}: {accepted} accepted, {started} started, {ended} ended"
    steps = Counter(event.step_id for event in events if event.topic == "model.replied")
    if any(times > 1 for times in steps.values()):
        yield f"{conversation}: a step is recorded more than once"
    yield from check_calls(conversation, events, deleted)
    yield from check_approvals(conversation, events)


def in_line(events: list[Any]) -> list[str]:
    """The runs that were accepted in the order in which they are to begin: what brings an answer
    goes before all that wait."""
    line: list[str] = []
    begun = 0
    for event in events:
        if event.topic == "run.accepted":
            line.insert(begun if event.answers else len(line), event.run_id)
        elif event.topic == "run.started":
            begun = line.index(event.run_id) + 1
        elif event.topic == "queued_runs.cancelled":
            left = [run_id for run_id in line[begun:] if run_id not in event.run_ids]
            line = [*line[:begun], *left, *event.run_ids]
    return line


def runs_ended_by(event: Any) -> list[str]:
    """The runs that an event ends."""
    if event.topic == "queued_runs.cancelled":
        return list(event.run_ids)
    return [event.run_id] if event.topic in ENDED else []


def check_calls(conversation: str, events: list[Any], deleted: bool) -> Iterator[str]:
    """asked -> started -> finished or interrupted, with its message, and nothing between."""
    calls: dict[str, list[str]] = defaultdict(list)
    for event in events:
        if event.topic == "model.replied":
            for call in event.tool_calls:
                calls[call.id].append("asked")
        elif event.topic == "tool_calls.started":
            for call in event.calls:
                calls[call.tool_call_id].append("started")
        elif event.topic.startswith("tool_call."):
            calls[event.tool_call_id].append(event.topic.removeprefix("tool_call."))
        elif event.topic == "message.appended" and event.message.role == "tool":
            if event.message.tool_call_id not in calls:
                continue  # of a fork: its source asked
            calls[event.message.tool_call_id].append("shown")
    for call, story in calls.items():
        whole = story in (
            ["asked", "started", "finished", "shown"],
            ["asked", "started", "interrupted", "shown"],
            ["asked", "refused", "shown"],
            ["asked", "shown"],
        )
        if not whole and not deleted:
            yield f"{conversation}: {call} went {' -> '.join(story)}"


def check_approvals(conversation: str, events: list[Any]) -> Iterator[str]:
    """What needs an approval is carried out with one of its arguments only, and what is not carried
    out without a word of the client is so because its time was over, or it was cancelled."""
    gated: dict[str, Any] = {}
    approved: set[tuple[str, str]] = set()
    silent: set[str] = set()
    for event in events:
        if event.topic == "model.replied":
            gated |= {call.id: call for call in event.tool_calls if call.gated}
            silent |= {call.id for call in event.tool_calls}
        elif event.topic == "approval.answered":
            answers = [answer for answer in event.answers if answer.kind == "approved"]
            approved |= {(answer.tool_call_id, answer.arguments_hash) for answer in answers}
        elif event.topic in ("approval.expired", "approval.cancelled"):
            silent.clear()
        elif event.topic == "tool_call.started":
            call = gated.get(event.tool_call_id)
            if call is not None and (call.id, arguments_hash(call)) not in approved:
                yield f"{conversation}: {call.id} was not approved, and carried out"
        if event.topic.startswith("tool_call."):
            silent.discard(event.tool_call_id)
        elif event.topic == "message.appended" and event.message.tool_call_id in silent:
            yield f"{conversation}: {event.message.tool_call_id} has a result from nowhere"


# Blocks and what tools wrote


def check_blocks(schema: InMemorySchema) -> Iterator[str]:
    """The value of a block is the fold of its history."""
    for row in schema.rows("blocks"):
        value: Any = None
        for event in schema.streams[str(row["id"])]:
            payload: Any = event.payload
            if event.topic == "block.created":
                value = payload["block"]["value"]
            elif "value" in payload.get("changes", {}):
                value = payload["changes"]["value"]
        fields: Any = row["fields"]
        if fields["value"] != value:
            yield f"{row['id']} is not the fold of its events"


def results(events: list[Any]) -> Iterator[tuple[Any, str, str]]:
    """Every tool call of a conversation with how it ended and what it gave."""
    asked = {
        call.id: call
        for event in events
        if event.topic == "model.replied"
        for call in event.tool_calls
    }
    for event in events:
        if event.topic == "message.appended" and event.message.role == "tool":
            message = event.message
            if message.tool_call_id not in asked:
                continue  # of a fork: its source asked
            yield asked[message.tool_call_id], message.tool_status, str(message.content)


def check_lines(
    world: World, memory: InMemorySchema, talks: dict[str, list[Event]]
) -> Iterator[str]:
    """Each call of a tool left its line once if it succeeded, and at most once otherwise."""
    ever: Counter[str] = Counter()
    for events in memory.streams.values():
        values = [e.payload.get("changes", {}).get("value") for e in events]  # type: ignore[union-attr]
        first: Any = events[0].payload.get("block") or {}  # a fork's has what its source's had
        ever.update(
            lines_added([value for value in values if value is not None], first.get("value"))
        )
    allowed: Counter[str] = Counter()
    for conversation, events in talks.items():
        for call, status, text in results(events):
            try:
                arguments = json.loads(call.arguments)
            except ValueError:
                continue
            if not {"content", "new_string"} & {*arguments}:
                continue
            kept = "content" in arguments
            line = arguments["content"] if kept else arguments["new_string"]
            times = world.ledger.lines[line] if kept else ever[line]
            # A search may be repeated after a crash.
            allowed[line] += CRASHES_MAX if call.name == GATED else 1
            if status == "success" and times < 1:
                yield f"{conversation}: {call.id} succeeded and left no line {line!r}"
            sure = not (kept or any(words in text for words in UNSURE))
            if status == "error" and times and sure and allowed[line] == 1:
                yield f"{conversation}: {call.id} failed and left its line: {text}"
    deleted = any(events[-1].topic == "conversation.deleted" for events in talks.values())
    for line, times in (*ever.items(), *world.ledger.lines.items()):
        if times > max(allowed[line], int(deleted)):
            yield f"the line {line!r} was written {times} times, for {allowed[line]} calls"


def lines_added(values: list[Any], first: str | None) -> Iterator[str]:
    """Which lines each value of a block has that the one before had not."""
    before = Counter((first or "").split("\n"))
    for value in values:
        now = Counter(str(value).split("\n"))
        yield from (now - before).elements()
        before = now


# What clients were told


def check_requests(world: World, talks: dict[str, list[Event]]) -> Iterator[str]:
    """What was answered stands in the history once, in the order in which it was sent."""
    order: dict[str, list[str]] = {}
    places = {conversation_of(say): say for say in world.plan.says}
    for place, one_said in places.items():
        number, events = one_said.agent, [*talks.get(place, [])]
        order[place] = [
            plan_in(text_of_sent(event.message)).get("name", "")
            for event in events
            if event.topic == "message.appended" and event.sent and event.message.role == "user"
        ]
        said = Counter(
            str(event.message.content)
            for event in events
            if event.topic == "message.appended" and event.message.role == "assistant"
        )
        cancels = any(
            chore.kind.startswith("cancel") and chore.agent == number for chore in world.plan.chores
        )
        for told in [
            answered for answered in told_of(world) if conversation_of(answered.say) == place
        ]:
            yield from check_request(
                told,
                order[place].count(told.say.name),
                said,
                deleted=is_gone(place, talks),
                cancelled=cancels,
                forgotten=world.ledger.did["plans forgotten"] > 0,
            )
    yield from check_order(world, order)


def check_request(
    told: SentMessage,
    times: int,
    said: Counter[str],
    *,
    deleted: bool,
    cancelled: bool,
    forgotten: bool,
) -> Iterator[str]:
    """One request, as its client sees it."""
    say = told.say
    answer = f"done {say.name}"
    if told.story.repeated:
        yield f"the stream of {say.name} repeated {told.story.repeated}"
    if times > 1:
        yield f"{say.name} stands {times} times in the history"
    if said[answer] > 1:
        yield f"{say.name} was answered {said[answer]} times"
    if told.status == 200 and told.body["stop_reason"]["stop_reason"] == "cancelled":
        if not cancelled:
            yield f"{say.name} was cancelled, and nobody asked for that"
    elif told.status == 200 and is_unanswered(told):
        if not times:
            yield f"{say.name} was asked about its calls and is not in the history"
    elif told.status == 200:
        texts = [message.get("content") for message in told.body["messages"]]
        if not times:
            yield f"{say.name} was answered 200 and is not in the history"
        if say.pauses or (forgotten and answer not in texts):
            return
        if answer not in texts or told.body["stop_reason"]["stop_reason"] != "end_turn":
            yield f"{say.name} was answered {told.body}"
        if said[answer] != 1:
            yield f"{say.name} was answered 200, and its answer stands {said[answer]} times"
    elif say.attempts > 10 and not deleted and not is_expected(told):
        yield f"{say.name} was answered {told.status} {told.body} after {told.attempts} attempts"


def is_unanswered(told: SentMessage) -> bool:
    """Whether its calls needed an approval, and none came in time."""
    asked = told.body["stop_reason"]["stop_reason"] == "requires_approval"
    return bool(told.say.answers) and asked


def is_expected(told: SentMessage) -> bool:
    """Whether the model was to fail."""
    kind = str(told.body)
    fails = told.say.fails_with
    return fails in kind if fails.startswith("llm_") else fails in ("bug", "unstorable")


def is_deleted(number: int, talks: dict[str, list[Event]]) -> bool:
    return is_gone(main_conversation(agent_id(number)), talks)


def is_gone(conversation: str, talks: dict[str, list[Event]]) -> bool:
    events = talks.get(conversation)
    return not events or events[-1].topic == "conversation.deleted"


def text_of_sent(message: Any) -> str:
    content = message.content
    return str(content if isinstance(content, str) else content[0]["text"])


def told_of(world: World) -> list[SentMessage]:
    """Every request of every client."""
    return [told for copies in world.clients.copies.values() for told in copies]


def check_order(world: World, order: dict[str, list[str]]) -> Iterator[str]:
    """Of two messages of one client the one that was answered first stands first."""
    says = world.plan.says
    for n, first in enumerate(says):
        for second in says[n + 1 :]:
            one, two = world.clients.told.get(first.name), world.clients.told.get(second.name)
            if one is None or two is None or conversation_of(first) != conversation_of(second):
                continue
            names = order[conversation_of(first)]
            if first.name not in names or second.name not in names or one.status != 200:
                continue
            turned = names.index(second.name) < names.index(first.name)
            if one.answered_at < two.sent_at and turned:
                yield f"{second.name} was sent after the answer to {first.name}, stands before it"


def check_pressed(world: World, events: list[Any]) -> Iterator[str]:
    """Whoever pressed took effect once, or not at all and knows it; the hopeless are refused."""
    effects = Counter(str(event.metadata["command_id"]) for event in events)
    # Of two copies that were sent as one, one may find room and the other not.
    doubled = world.shared.network.happened["duplicate"] > 0
    for name, reply in world.clients.pressed.items():
        wanted = isinstance(reply, Accepted)
        if effects[name] != wanted and not (doubled and effects[name] == 1):
            yield f"{name} was told {reply} and took effect {effects[name]} times"
        if not wanted and reply.code not in (BUSY, NOT_FOUND):
            yield f"{name} was told {reply}"
    for chore in world.plan.chores:
        reply = world.clients.chores.get(chore.name)
        if chore.kind.startswith("hopeless") and reply is not None:
            expected = isinstance(reply, Rejected) and reply.code in HOPELESS
            if not expected or effects[chore.name]:
                yield f"{chore.name} was told {reply} and took effect {effects[chore.name]} times"


def check_detached(world: World, talks: dict[str, list[Event]]) -> Iterator[str]:
    """A block that was attached can be detached: who decides that knows what was answered."""
    for chore in world.plan.chores:
        reply = world.clients.chores.get(chore.name)
        detaches = chore.kind == "attach and detach" and not is_deleted(chore.agent, talks)
        if detaches and isinstance(reply, Rejected):
            yield f"the block of {chore.name} was attached, and detaching it got {reply}"


def check_written(talks: dict[str, list[Event]]) -> Iterator[str]:
    """What an agent writes to another one is heard once, however often its call is made."""
    heard: Counter[tuple[str, str]] = Counter()
    for conversation, events in talks.items():
        for event in events:
            appended = event.topic == "message.appended" and event.sent  # type: ignore[attr-defined]
            message = event.message if appended else None  # type: ignore[attr-defined]
            if message and message.role == "system" and not message.group_id:
                heard[conversation, str(message.content)] += 1
    for (conversation, text), times in heard.items():
        if times > 1:
            yield f"{conversation} was told {times} times: {text}"


TOOL_RUN_STORIES = (
    ["tool_run.begun", "tool_run.ended"],
    ["tool_run.begun", "tool_run.stopped"],
    ["tool_run.begun", "tool_run.lost"],
)


def check_tool_runs(tools: InMemorySchema) -> Iterator[str]:
    """Each call that was begun ends once, and no call is begun a second time."""
    begun: Counter[str] = Counter()
    for run_id, events in tools.streams.items():
        if not run_id.startswith("tool_run-"):
            continue
        if [event.topic for event in events] not in TOOL_RUN_STORIES:
            yield f"{run_id} went {[event.topic for event in events]}"
        payload: Any = events[0].payload
        begun[f"{payload['run_id']} {payload['step_id']} {payload['tool_call_id']}"] += 1
    for call, times in begun.items():
        if times > 1:
            yield f"the call {call} was begun {times} times"


HOPELESS = (UNPROCESSABLE, NOT_FOUND, BUSY)


def blocks_of_nobody(agent: InMemorySchema, memory: InMemorySchema) -> list[str]:
    """The blocks that no agent has, and no conversation; a client keeps those of its groups."""
    agents: list[Any] = agent.rows("agents")
    beside: list[Any] = agent.rows("conversations")
    seen = {block_id for row in agents for block_id in row["block_ids"]} | {SHARED_BLOCK}
    seen |= {block_id for row in beside for block_id in row["isolated_blocks"].values()}
    blocks: list[Any] = memory.rows("blocks")
    return sorted({row["id"] for row in blocks if not of_group(row["label"])} - seen)


def deleted_blocks_seen(agent: InMemorySchema, memory: InMemorySchema) -> Iterator[str]:
    """Who still sees blocks that are gone."""
    blocks = {str(row["id"]) for row in memory.rows("blocks")}
    agents: list[Any] = agent.rows("agents")
    for row in agents:
        gone = [block_id for block_id in row["block_ids"] if block_id not in blocks]
        if gone:
            yield f"{row['id']} still sees {gone}"


def check_deleted(world: World, agent: InMemorySchema, memory: InMemorySchema) -> Iterator[str]:
    """Of a deleted agent nothing is left, and nobody sees a block that is gone."""
    yield from deleted_blocks_seen(agent, memory)
    left_over = blocks_of_nobody(agent, memory)
    if left_over:
        yield f"nobody has the blocks {left_over}"
    there = {row["id"] for row in agent.rows("agents")}
    for table in ("messages", "runs", "conversations"):
        left = {str(row["agent_id"]) for row in agent.rows(table)} - there
        if left:
            yield f"the {table} of {sorted(left)} are still there"
