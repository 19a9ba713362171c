"""What happens in one simulated world: who says what, and what goes wrong. All of it follows from
the seed, and any part can be left out, which is how a failure is made small."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from random import Random

from tests.sim.network import BUS, STORE

FILING = (
    "upload",
    "upload and delete",
    "upload and drop folder",
    "upload and hang up",
    "upload and replace",
    "upload what is bad",
    "upload without a model",
)
BATCHING = ("batch", "batch and cancel", "sequential batch")
REMEMBERING = ("remember", "remember and forget", "share and delete")
AGENTS, MEMORIES, APIS = ("agent-1", "agent-2"), ("memory-1", "memory-2"), ("api-1", "api-2")
PROCESSES = (*AGENTS, *MEMORIES, *APIS)
TOOLS = ("tools-1", "tools-2")
GROUPS = ("groups-1", "groups-2")
GROUPING = ("round robin", "broadcast", "round robin and delete", "broadcast and delete")
SCHEDULERS = ("scheduler-1", "scheduler-2")
SCHEDULING = ("schedule all", "schedule once", "schedule and fire")
FAULTS_FROM_SECONDS, FAULTS_UNTIL_SECONDS = 1.5, 22.0
# A retry without a key is known by the time of its first try, which another api may have noted.
API_SKEW_SECONDS_MAX = 150.0
FULL_SECONDS_MAX = 8.0
# What some worlds have: from which seed on, and in every how many.
WORLDS_WITH = {"files": (6, 7), "schedules": (5, 6), "batches": (2, 3), "groups": (3, 6)}
MEETING_SECONDS = 4.5
GIVES_UP_SECONDS_MAX = 0.01  # about as long as a message is being accepted
CLIENTS_MAX = 4
APPROVAL_SECONDS_MAX = 15.0
ANSWERS_AFTER_SECONDS = (0.1, 3.0, 2 * APPROVAL_SECONDS_MAX)
MODEL_FAILURES = ("llm_timeout", "llm_rate_limit", "llm_server_error", "llm_connection_error")
BESIDE_POINTS = (
    "before_compaction",
    "before_commit.conversation.compacted",
    "after_commit.conversation.compacted",
    "before_commit.conversation.created",
    "after_commit.conversation.created",
    "after_blocks",
    "after_commit.message.appended",
)
SCHEDULE_POINTS = tuple(
    f"{when}.{topic}"
    for when in ("before_commit", "after_commit")
    for topic in ("schedule.created", "firing.started", "firing.started", "firing.ended")
)
BATCH_POINTS = tuple(
    f"{when}_commit.batch.{topic}"
    for when in ("before", "after")
    for topic in ("accepted", "items_started", "item_ended", "cancelled", "completed")
)
GROUP_POINTS = (
    "after_group_hop",
    *(
        f"{when}.{topic}"
        for when in ("before_commit", "after_commit")
        for topic in (
            "group.created",
            "group.member_blocks_changed",
            "group_hop.started",
            "group_hop.ended",
        )
    ),
)
FILE_POINTS = (
    "before_commit.file.parsed",
    "after_commit.file.parsed",
    "before_commit.file.chunks_embedded",
    "after_commit.file.chunks_embedded",
    "before_commit.file.completed",
    "after_commit.file.completed",
    "before_commit.file.deleted",
    "after_commit.file.deleted",
)
CRASH_POINTS = (
    "after_model_reply",
    "during_tool",
    "after_tool",
    "after_blocks",
    *(
        f"{when}.{topic}"
        for when in ("before_commit", "after_commit")
        for topic in (
            "message.appended",
            "tool_call.started",
            "run.completed",
            "run.accepted",
            "block.changed",
            "block.created",
            "nothing",
            "agent.deleted",
        )
    ),
)


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that the model makes: it writes a line that stands nowhere else."""

    tool: str
    label: str = "ledger"


@dataclass(frozen=True, slots=True)
class Say:
    """A client sends one message and waits for the answer."""

    name: str
    client: int
    agent: int
    pause: float
    steps: tuple[tuple[Call, ...], ...] = ()
    fails_with: str = ""
    thinks: float = 0.5
    named_by: str = "key"
    copies: int = 1
    attempts: int = 40
    streams: str = ""
    drops_after: int = 0
    gives_up_after: float = 0.0
    # What becomes of calls that need an approval, and after how long.
    answers: str = ""
    answers_after: float = 0.0
    # The conversation that it is said in, if not the agent's own; and how much more is said.
    into: str = ""
    pad: int = 0

    @property
    def pauses(self) -> bool:
        """Whether the model asks for a pause instead of answering."""
        return any(call.tool == "pause_heartbeats" for step in self.steps for call in step)


@dataclass(frozen=True, slots=True)
class Chore:
    """Something else that is asked for at a time."""

    name: str
    kind: str
    agent: int
    at: float
    # The conversation that it is about, by the chore that made it; empty for the agent's own.
    of: str = ""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something goes wrong at a time, for a while."""

    name: str
    kind: str
    at: float
    seconds: float = 0.0
    target: str = ""
    how: str = ""
    amount: float = 0.0


@dataclass(frozen=True, slots=True)
class Plan:
    """A world. `shared` are the agents that share a block; agents are made when they begin. In a
    `supervised` one, every third, a process that starts knows that its predecessor is dead."""

    seed: int
    agents: tuple[float, ...] = ()
    shared: tuple[bool, ...] = ()
    says: tuple[Say, ...] = ()
    chores: tuple[Chore, ...] = ()
    faults: tuple[Fault, ...] = ()
    supervised: bool = False
    # Whether there is a tools service, and agents have its tools and those to write to each other.
    tools: bool = False

    @property
    def processes(self) -> tuple[str, ...]:
        """The processes that there are."""
        more = (*(TOOLS if self.tools else ()), *(SCHEDULERS if self.schedules else ()))
        return (*PROCESSES, *more, *(GROUPS if self.groups else ()))

    @property
    def files(self) -> bool:
        """Whether anybody uploads files."""
        return any(chore.kind in FILING for chore in self.chores)

    @property
    def schedules(self) -> bool:
        """Whether anybody makes schedules."""
        return any(chore.kind in SCHEDULING for chore in self.chores)

    @property
    def groups(self) -> bool:
        """Whether anybody forms groups."""
        return any(chore.kind in GROUPING for chore in self.chores)

    @property
    def parts(self) -> list[str]:
        """The names of everything that can be left out."""
        return [part.name for part in (*self.faults, *self.chores, *self.says)]

    def only(self, kept: Collection[str]) -> Plan:
        """The same world with some of its parts."""
        return replace(
            self,
            says=tuple(say for say in self.says if say.name in kept),
            chores=tuple(chore for chore in self.chores if chore.name in kept),
            faults=tuple(
                planned_fault for planned_fault in self.faults if planned_fault.name in kept
            ),
        )

    def story(self) -> str:
        """Everything in it, in words."""
        lines = [f"agents begin at {[round(at, 2) for at in self.agents]}, shared {self.shared}"]
        lines += ["  supervised"] * self.supervised
        lines += [f"  {part}" for part in (*self.says, *self.chores, *self.faults)]
        return "\n".join(lines)


@dataclass(slots=True)
class Beside:
    """What happens in conversations beside an agent's own."""

    says: list[Say] = field(default_factory=list)
    chores: list[Chore] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)


def conversations_beside(seed: int, agents: int) -> Beside:
    """In every second world an agent has conversations beside its own, with blocks of their own. It
    is talked to in them until they are compacted, they are forked and compacted by hand while it
    answers, and whoever does that dies in the middle of it."""
    if seed % 2:
        return Beside()
    dice = Random(f"conversations beside of {seed}")
    agent = dice.randrange(agents)

    def at(first: float, last: float) -> float:
        return round(first + (last - first) * dice.random(), 3)

    chores = [
        Chore("b1", "converse", agent, at(0.5, 2)),
        Chore("b2", "fork", agent, at(3, 12)),
        Chore("b3", "fork", agent, at(3, 14), of="b1"),
        Chore("b4", "fork", agent, at(3, 8), of="b1"),
        Chore("b5", "drop", agent, at(9, 15), of="b4"),
        Chore("b6", "compact", agent, at(4, 16)),
        Chore("b7", "compact", agent, at(4, 16), of="b1"),
        Chore("b8", "compact", agent, at(8, 18), of=dice.choice(("b1", "b2", "b3"))),
        Chore("b9", "cancel", agent, at(3, 16), of=dice.choice(("b1", "b3"))),
    ]
    places = ["b1"] * 5 + [dice.choice(("b2", "b3")) for _ in range(2)]
    says = [saying_beside(dice, n, agent, into) for n, into in enumerate(places)]
    if seed % 6 == 0:
        pause = ((Call("pause_heartbeats"),),)
        says.append(Say("b pause", CLIENTS_MAX + 12, agent, at(0, 9), pause, thinks=0.2))
    crash = Fault("b crash", "crash at", at(3, 12), at(0.2, 4), how=dice.choice(BESIDE_POINTS))
    return Beside(says, chores, [crash])


def saying_beside(dice: Random, number: int, agent: int, into: str) -> Say:
    """A message in a conversation beside the agent's own."""
    look = (Call("conversation_search"), Call("conversation_search"))
    kinds = (
        (),
        (look,),
        (look, (Call("keep"),)),
        ((Call("ask"), Call("keep")),),
        ((Call("ask"),),),
    )
    steps = dice.choice(kinds)
    asks = any(call.tool == "ask" for step in steps for call in step)
    return Say(
        f"b said {number + 1}",
        CLIENTS_MAX + 10 + (into != "b1"),
        agent,
        pause=round(2 * dice.random(), 3),
        steps=steps,
        thinks=round(dice.choice((0.1, 2.0)) * dice.random(), 3),
        answers=dice.choice(("yes", "no", "one by one", "never")) if asks else "",
        answers_after=round(dice.choice(ANSWERS_AFTER_SECONDS) * dice.random(), 3),
        into=into,
        pad=4_000,
    )


def custom_tools(seed: int, agents: int) -> Beside:
    """In every fifth world agents call tools that run elsewhere, code and those of an MCP server,
    and write to each other; processes of the tools service die, freeze and lose their connections
    in the middle of it, and two of the agent service die, one of them when an agent has written to
    another."""
    if seed % 5 != 4:
        return Beside()
    dice = Random(f"tools of {seed}")

    def at(first: float, last: float) -> float:
        return round(first + (last - first) * dice.random(), 3)

    says = [
        Say(
            f"t{n + 1}",
            CLIENTS_MAX + 20 + n % 2,
            dice.randrange(agents),
            pause=round(3 * dice.random(), 3),
            steps=tuple(tool_step(dice, agents) for _ in range(dice.choice((1, 1, 2)))),
            thinks=round(dice.random(), 3),
        )
        for n in range(6)
    ]
    if dice.random() < 0.7:  # one that hangs takes as long as a tool may
        hangs = Call(dice.choice(("roll", "weather")), "hang")
        says[0] = replace(says[0], steps=((hangs,), *says[0].steps))
    worker, other = dice.choice((TOOLS, TOOLS[::-1]))
    kinds = ("crash", "crash", "freeze", "partition", "restart", "crash at")
    faults = []
    for n in range(2):
        kind, target = dice.choice(kinds), (worker, other)[n]
        how = {"partition": f"{dice.choice((STORE, BUS))} both", "crash at": "during_call"}
        seconds = at(0.5, 14) if kind != "crash at" else at(0.2, 4)
        point = how.get(kind, "")
        faults.append(Fault(f"tf{n + 1}", kind, at(2, 16), seconds, target, point))
    asker = dice.choice(AGENTS)
    faults.append(Fault("tf3", "crash", at(3, 9), at(0.2, 3), asker))
    written = "after_message_to_agent"
    faults.append(Fault("tf4", "crash at", at(0, 3), at(0.2, 3), how=written))
    return Beside(says, [], faults)


def has(seed: int, kind: str) -> bool:
    """Whether the world of a seed is one with files, schedules, batches or groups."""
    first, every = WORLDS_WITH[kind]
    return seed % every == first


def batching(seed: int, agents: int) -> Beside:
    """In every third world clients have batches of messages answered, and processes of the agent
    service die in the middle of it."""
    if not has(seed, "batches"):
        return Beside()
    dice = Random(f"batches of {seed}")

    def at(first: float, last: float) -> float:
        return round(first + (last - first) * dice.random(), 3)

    chores = [
        Chore(f"k{n + 1}", kind, dice.randrange(agents), at(1, 12))
        for n, kind in enumerate(BATCHING)
    ]
    faults = [
        Fault(f"kf{n + 1}", "crash at", at(1, 12), at(0.2, 4), how=dice.choice(BATCH_POINTS))
        for n in range(2)
    ]
    kind = dice.choice(("crash", "freeze", "restart", "partition"))
    how = f"{dice.choice((STORE, BUS))} both" if kind == "partition" else ""
    faults.append(Fault("kf3", kind, at(2, 14), at(0.5, 14), dice.choice(AGENTS), how))
    return Beside([], chores, faults)


def filing(seed: int) -> Beside:
    """In every seventh world clients upload files, and hang up, replace and delete; an api dies in
    the middle of it, and so do those who read and embed them."""
    if not has(seed, "files"):
        return Beside()
    dice = Random(f"files of {seed}")

    def at(first: float, last: float) -> float:
        return round(first + (last - first) * dice.random(), 3)

    kinds = [*FILING, *(dice.choice(FILING) for _ in range(3))]
    chores = [Chore(f"u{n + 1}", kind, 0, at(1, 12)) for n, kind in enumerate(kinds)]
    faults = [Fault("uf1", "crash", at(2, 12), at(0.2, 4), dice.choice(APIS))]
    faults += [
        Fault(f"uf{n + 2}", "crash at", at(1, 10), at(0.2, 4), how=dice.choice(FILE_POINTS))
        for n in range(2)
    ]
    kind = dice.choice(("crash", "freeze", "restart", "partition"))
    how = f"{STORE} both" if kind == "partition" else ""
    seconds = at(0.5, 14) if kind != "freeze" else at(11, 25)  # longer than a lease lasts
    faults.append(Fault("uf4", kind, at(2, 14), seconds, dice.choice(MEMORIES), how))
    faults.append(Fault("uf5", "freeze", at(2, 12), at(1, 30), dice.choice(APIS)))
    return Beside([], chores, faults)


def scheduling(seed: int, agents: int) -> Beside:
    """In every sixth world agents have schedules; processes of the scheduler service die, freeze
    for longer than their leases, are cut off, and have clocks that jump."""
    if not has(seed, "schedules"):
        return Beside()
    dice = Random(f"schedules of {seed}")

    def at(first: float, last: float) -> float:
        return round(first + (last - first) * dice.random(), 3)

    kinds = ("schedule all", "schedule all", "schedule once", "schedule and fire")
    chores = [
        Chore(f"s{n + 1}", kind, dice.randrange(agents), at(0.5, 6)) for n, kind in enumerate(kinds)
    ]
    faults = [Fault("sf1", "crash at", at(3, 14), at(0.2, 4), how=dice.choice(SCHEDULE_POINTS))]
    faults.append(Fault("sf2", "freeze", at(3, 14), at(0.5, 25), dice.choice(SCHEDULERS)))
    amount = dice.choice((-7200.0, -9.0, 9.0, 7200.0))
    faults.append(Fault("sf3", "skew", at(1, 12), 0.0, dice.choice(SCHEDULERS), amount=amount))
    cut = f"{dice.choice((STORE, BUS))} {dice.choice(('both', 'to', 'from'))}"
    faults.append(Fault("sf4", "partition", at(3, 18), at(1, 14), dice.choice(SCHEDULERS), cut))
    kind = dice.choice(("crash", "restart"))
    faults.append(Fault("sf5", kind, at(3, 20), at(0.2, 6), dice.choice(SCHEDULERS)))
    return Beside([], chores, faults)


def grouping(seed: int) -> Beside:
    """In every sixth world agents form groups, which answer while members come and go; processes of
    the groups service die, freeze for longer than their leases and are cut off."""
    if not has(seed, "groups"):
        return Beside()
    dice = Random(f"groups of {seed}")

    def at(first: float, last: float) -> float:
        return round(first + (last - first) * dice.random(), 3)

    kinds = ("round robin", "broadcast", dice.choice(GROUPING[2:]))
    chores = [Chore(f"g{'g' * n}", kind, 0, at(4.5, 9)) for n, kind in enumerate(kinds, 1)]
    if dice.random() < 0.5:
        chores.append(Chore("gg member goes", "delete agent", 0, at(9, 14)))
    faults = [
        Fault(f"gf{n}", "crash at", at(4, 12), at(0.2, 4), how=dice.choice(GROUP_POINTS))
        for n in (1, 2)
    ]
    faults.append(Fault("gf3", "freeze", at(4, 14), at(0.5, 25), dice.choice(GROUPS)))
    cut = f"{dice.choice((STORE, BUS))} {dice.choice(('both', 'to', 'from'))}"
    faults.append(Fault("gf4", "partition", at(4, 16), at(1, 14), dice.choice(GROUPS), cut))
    kind = dice.choice(("crash", "restart"))
    faults.append(Fault("gf5", kind, at(5, 16), at(0.2, 6), dice.choice(GROUPS)))
    return Beside([], chores, faults)


def tool_step(dice: Random, agents: int) -> tuple[Call, ...]:
    """The calls of one step, and how those fare that run elsewhere."""
    kinds = (
        *[Call("roll", how) for how in ("", "", "", "slow", "killed", "lost")],
        *[Call("weather", how) for how in ("", "", "slow", "crash in start", "crash in call")],
        *[Call("weather", how) for how in ("garbage", "too large")],
        *[Call("write", str(n)) for n in range(agents)] * 2,
    )
    return tuple(dice.choice(kinds) for _ in range(dice.choice((1, 1, 2))))


def plan_of(seed: int) -> Plan:
    """The world of a seed."""
    dice = Random(f"plan of {seed}")
    agents = tuple(dice.choice((0.0, 0.0, 4 * dice.random())) for _ in range(dice.randint(2, 3)))
    interrupted, crashes = interrupted_creation(seed)
    beside = conversations_beside(seed, len(agents))
    called = custom_tools(seed, len(agents))
    filed = filing(seed)
    batched = batching(seed, len(agents))
    grouped = grouping(seed)
    scheduled = scheduling(seed, len(agents))
    return Plan(
        seed,
        agents,
        tuple(dice.random() < 0.6 for _ in agents),
        (
            *says(dice, len(agents)),
            *early_retries(seed, len(agents)),
            *asking(seed, len(agents)),
            *beside.says,
            *called.says,
        ),
        (
            *chores(dice, len(agents)),
            *pressing(seed, len(agents)),
            *meeting(seed, len(agents)),
            *stale_caches(seed, len(agents)),
            *remembering(seed, len(agents)),
            *interrupted,
            *beside.chores,
            *filed.chores,
            *batched.chores,
            *grouped.chores,
            *scheduled.chores,
        ),
        (
            *faults(dice),
            *full_stores(seed),
            *held_up(seed),
            *crashes,
            *beside.faults,
            *called.faults,
            *filed.faults,
            *batched.faults,
            *grouped.faults,
            *scheduled.faults,
        ),
        supervised=seed % 3 == 0,
        tools=bool(called.says),
    )


def pressing(seed: int, agents: int) -> list[Chore]:
    """In every fourth world many clients press one block and one agent at once, and somebody asks
    for what cannot be stored."""
    if seed % 4 != 1:
        return []
    dice = Random(f"pressure of {seed}")
    together = 2 + 18 * dice.random()
    kinds = ("press block", "press agent", "hopeless block", "hopeless agent", "press block")
    return [
        Chore(f"p{n + 1}", kind, dice.randrange(agents), round(together + dice.random(), 3))
        for n, kind in enumerate(kinds)
    ]


def meeting(seed: int, agents: int) -> list[Chore]:
    """In every fourth world a block is deleted while agents get it, and somewhat later an agent
    while others want something of it."""
    if seed % 4 != 3:
        return []
    dice = Random(f"meeting of {seed}")
    together = ["make with shared"] * 4 + ["attach", "attach", "delete shared"]
    later = ["rename agent", "delete agent", "detach", "come and go", "come and go"]
    moments = [(MEETING_SECONDS, kind) for kind in together]
    moments += [(12 + 8 * dice.random(), kind) for kind in later]
    return [
        Chore(f"g{n + 1}", kind, dice.randrange(agents), round(moment + 0.1 * dice.random(), 4))
        for n, (moment, kind) in enumerate(moments)
    ]


def stale_caches(seed: int, agents: int) -> list[Chore]:
    """In every fourth world agents have blocks for a while, so that one process decides about an
    agent that it has in its cache, and that another process has just changed."""
    if seed % 4 != 0:
        return []
    dice = Random(f"stale caches of {seed}")
    together = 2 + 12 * dice.random()
    kinds = ("attach and detach", "attach and delete") * 2
    return [
        Chore(f"a{n + 1}", kind, dice.randrange(agents), round(together + 4 * dice.random(), 3))
        for n, kind in enumerate(kinds)
    ]


def remembering(seed: int, agents: int) -> list[Chore]:
    """In every third world agents remember, some of them for the first time at the same moment, and
    one of them may be deleted then."""
    if seed % 3 != 1:
        return []
    dice = Random(f"remembering of {seed}")
    together = 2 + 10 * dice.random()
    kinds = [
        *(dice.choice(REMEMBERING) for _ in range(6)),
        dice.choice(("delete agent", "remember")),
    ]
    return [
        Chore(f"k{n + 1}", kind, dice.randrange(agents), round(together + dice.random(), 3))
        for n, kind in enumerate(kinds)
    ]


def early_retries(seed: int, agents: int) -> list[Say]:
    """In every fourth world clients without keys give up their first try within moments, and send
    it again at once: the one is still being accepted when the other comes."""
    if seed % 4 != 2:
        return []
    dice = Random(f"early retries of {seed}")
    return [
        Say(
            f"r{n + 1}",
            CLIENTS_MAX + n,
            dice.randrange(agents),
            pause=round(15 * dice.random(), 3),
            thinks=0.1,
            named_by="nothing",
            gives_up_after=round(GIVES_UP_SECONDS_MAX * dice.random(), 4),
        )
        for n in range(3)
    ]


def asking(seed: int, agents: int) -> list[Say]:
    """In every third world clients are asked whether calls may be carried out. They say yes or no,
    for all calls or one by one, some of them twice, some late and some never."""
    if seed % 3 != 2:
        return []
    dice = Random(f"asking of {seed}")
    kinds = (("ask",), ("ask", "keep"), ("keep", "ask", "ask"), ("ask", "ask"))
    return [
        Say(
            f"q{n + 1}",
            CLIENTS_MAX + 3 + n,
            dice.randrange(agents),
            pause=round(12 * dice.random(), 3),
            steps=(tuple(map(Call, dice.choice(kinds))),),
            thinks=round(dice.random(), 3),
            named_by=dice.choice(("key", "otid", "nothing")),
            answers=dice.choice(("yes", "yes", "no", "one by one", "twice", "never")),
            answers_after=round(
                dice.choice((0.1, 3.0, 2 * APPROVAL_SECONDS_MAX)) * dice.random(), 3
            ),
        )
        for n in range(3)
    ]


def interrupted_creation(seed: int) -> tuple[list[Chore], list[Fault]]:
    """In every fourth world a process dies when the blocks of a new agent are made, and nobody asks
    for that agent again."""
    if seed % 4 != 2:
        return [], []
    dice = Random(f"interrupted creation of {seed}")
    at = round(2 + 8 * dice.random(), 3)
    seconds = round(0.2 + 3 * dice.random(), 3)
    crash = Fault("i1", "crash at", at, seconds, how="after_blocks")
    return [Chore("i2", "make and leave", 0, at)], [crash]


def held_up(seed: int) -> list[Fault]:
    """Where blocks are deleted while agents get them, one of those who make blocks stands still:
    some agents are begun before and finished after."""
    if seed % 4 != 3:
        return []
    target = Random(f"held up in {seed}").choice(MEMORIES)
    return [Fault("held", "freeze", MEETING_SECONDS, 4.0, target)]


def full_stores(seed: int) -> list[Fault]:
    """In every eighth world the disk of the store is full for a while, under pressure."""
    if seed % 8 != 5:
        return []
    dice = Random(f"full store of {seed}")
    at = 2 + 15 * dice.random()
    return [
        Fault("full", "store full", round(at, 3), round(1 + FULL_SECONDS_MAX * dice.random(), 3))
    ]


def says(dice: Random, agents: int) -> list[Say]:
    """A handful of clients with a few messages each."""
    found: list[Say] = []
    for client in range(dice.randint(2, CLIENTS_MAX)):
        agent = dice.randrange(agents)
        for _ in range(dice.randint(1, 4)):
            name = f"m{len(found) + 1}"
            thinks = dice.choice((0.05, 0.5, 3.0, 12.0))
            found.append(
                Say(
                    name,
                    client,
                    agent,
                    pause=round(dice.choice((0.0, 1.0, 6.0)) * dice.random(), 3),
                    steps=tuple(steps(dice)),
                    fails_with=model_failure(dice),
                    thinks=round(thinks * dice.random(), 3),
                    named_by=dice.choice(("key", "otid", "nothing")),
                    copies=dice.choice((1, 1, 1, 2, 3)),
                    attempts=dice.choice((1, 2, 40, 40, 40, 40)),
                    streams=dice.choice(("", "", "steps", "tokens", "tokens")),
                    drops_after=dice.choice((0, 0, 1, 2, 3, 4)),
                )
            )
    return found


def steps(dice: Random) -> list[tuple[Call, ...]]:
    """The tool calls of a turn, step by step."""
    if dice.random() < 0.4:
        return []
    return [
        tuple(
            dice.choice(
                (Call("memory_insert"), Call("memory_insert", "shared"), Call("keep"), Call("keep"))
            )
            for _ in range(dice.choice((1, 1, 2)))
        )
        for _ in range(dice.choice((1, 1, 2)))
    ]


def model_failure(dice: Random) -> str:
    """What the model does instead of its last answer; mostly nothing."""
    if dice.random() < 0.8:
        return ""
    kinds = (*MODEL_FAILURES, "garbage arguments", "unknown tool", "bug", "unstorable")
    return dice.choice(kinds)


def chores(dice: Random, agents: int) -> list[Chore]:
    """What else clients do."""
    kinds = (
        *("edit block", "rename agent", "detach", "attach", "delete agent"),
        *("delete shared", "delete shared", "delete shared"),
        *("cancel", "cancel one"),
        *("make and leave", "make and leave", "come and go", "come and go", "come and go"),
    )
    together = 20 * dice.random()
    return [
        Chore(
            f"c{n + 1}",
            dice.choice(kinds),
            dice.randrange(agents),
            round(dice.choice((20 * dice.random(), together)), 3),
        )
        for n in range(dice.choice((0, 2, 4, 6)))
    ]


def faults(dice: Random) -> list[Fault]:
    """What goes wrong."""
    span = FAULTS_UNTIL_SECONDS - FAULTS_FROM_SECONDS
    return [
        fault(dice, f"f{n + 1}", round(FAULTS_FROM_SECONDS + span * dice.random(), 3))
        for n in range(dice.randint(1, 5))
    ]


def fault(dice: Random, name: str, at: float) -> Fault:
    """One thing that goes wrong."""
    worker = dice.choice((*AGENTS, *AGENTS, *AGENTS, *MEMORIES, *APIS))
    kind = dice.choice(
        ("crash", "crash", "crash at", "crash at", "crash all", "restart", "freeze", "freeze",
         "store down", "bus down", "wipe", "partition", "partition", "skew", "weather", "weather")
    )  # fmt: skip
    match kind:
        case "crash" | "restart":
            return Fault(name, kind, at, round(0.2 + 12 * dice.random() ** 2, 3), worker)
        case "crash at":
            point = dice.choice(CRASH_POINTS)
            wipes = float(dice.random() < 0.3)
            seconds = round(0.2 + 5 * dice.random(), 3)
            return Fault(name, kind, at, seconds, how=point, amount=wipes)
        case "crash all":
            return Fault(name, kind, at, round(0.2 + 5 * dice.random(), 3))
        case "freeze":
            return Fault(name, kind, at, round(0.5 + 24 * dice.random(), 3), worker)
        case "store down" | "bus down":
            return Fault(name, kind, at, round(0.2 + 8 * dice.random() ** 2, 3))
        case "wipe":
            return Fault(name, kind, at, round(3 * dice.random(), 3))
        case "partition":
            how = f"{dice.choice((STORE, BUS))} {dice.choice(('both', 'to', 'from'))}"
            return Fault(name, kind, at, round(1 + 20 * dice.random(), 3), worker, how)
        case "skew":
            far = API_SKEW_SECONDS_MAX if worker in APIS else 7200.0
            amount = far * dice.choice((-1, -0.1, 0.1, 1))
            return Fault(name, kind, at, 0.0, worker, amount=amount)
    how = dice.choice(
        ("loss", "duplicates", "slow", "write_fails", "commit_unknown", "read_fails", "disk_full")
    )
    amount = round(dice.choice((0.1, 0.3, 0.5)), 2)
    return Fault(name, kind, at, round(1 + 10 * dice.random(), 3), how=how, amount=amount)
