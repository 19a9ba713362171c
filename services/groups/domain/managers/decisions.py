"""What a manager type decides from, and what it may decide.

Each type is a pure function from a `GroupFacts` to a `Decision`, in a module of its own. It is
asked again after each member run that ends, so it keeps nothing: all that it needs stands in the
member runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from libs.contracts.groups.group_runs import MemberRunPurpose, PickedBy, ToolAnswer
from libs.contracts.groups.groups import GroupConfig
from services.groups.domain.conversations.group_conversation_state import MemberRun
from services.groups.domain.managers.member_names import named_in, without_thoughts, words_of

# Members that answer at the same time.
MEMBER_RUNS_AT_ONCE_MAX = 16
# The error types of runs that fail: agents were asked in vain, or there were none.
NOBODY_ANSWERED = "group_run_failed"
NOBODY_THERE = "group_has_nobody_to_answer"


@dataclass(frozen=True, slots=True)
class Participant:
    """An agent that takes part in a group, and what others are told of it."""

    agent_id: str
    name: str
    description: str = ""
    capabilities: tuple[str, ...] = ()


# A text that is longer names nobody.
READ_CHARS_MAX = 10_000
# What models put around a name.
MARKS = "\"'`*."


def names_of(member: Participant) -> tuple[str, str]:
    """What a member may be called."""
    return member.name, member.agent_id


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """Who takes part in a run, and what has happened in it. `members` are those that exist, in the
    order of the group; `last_speaker` is the one that answered last in the run before."""

    config: GroupConfig
    members: tuple[Participant, ...]
    manager: Participant | None
    hops: tuple[MemberRun, ...] = ()
    next_speaker: str = ""
    last_speaker: str = ""

    @property
    def answers(self) -> list[MemberRun]:
        """The member runs in which members were asked to say something, and were not gone."""
        return [hop for hop in self.hops if hop.purpose != "pick" and hop.status != "skipped"]

    @property
    def is_waiting(self) -> bool:
        """Whether a member has still to answer."""
        return any(hop.is_open for hop in self.hops)

    @property
    def present(self) -> list[Participant]:
        """The members that were not found gone in this run."""
        gone = {hop.agent_id for hop in self.hops if hop.status == "skipped"}
        return [member for member in self.members if member.agent_id not in gone]

    @property
    def speaker(self) -> Participant | None:
        """The member that was picked to speak next, if it is there."""
        return next((each for each in self.present if each.agent_id == self.next_speaker), None)

    def member_named(self, name: str) -> Participant | None:
        """The member that is called so, by its name or its id: exactly so, or else the only one
        whose name has the same words."""
        for written in (name.strip(), name.strip().strip(MARKS)):
            for member in self.present:
                if written in names_of(member):
                    return member
        wanted = words_of(name)
        alike = [each for each in self.present if wanted in map(words_of, names_of(each))]
        return alike[0] if wanted and len(alike) == 1 else None

    def member_named_in(self, text: str) -> Participant | None:
        """The member that a text of a model names: the whole text, or the only one in it."""
        said = without_thoughts(text)
        if len(said) > READ_CHARS_MAX:
            return None
        names = {each.agent_id: names_of(each) for each in self.present}
        named = self.member_named(said)
        if named is not None:
            return named
        found = named_in(said, names)
        return next((each for each in self.present if found == {each.agent_id}), None)

    def next_in_rotation(self) -> Participant | None:
        """The member after the one that spoke last in this run; the first if nobody has."""
        if not self.members:
            return None
        order = [member.agent_id for member in self.members]
        spoken = [hop.agent_id for hop in self.hops if hop.agent_id in order]
        first = order.index(spoken[-1]) + 1 if spoken else 0
        gone = {hop.agent_id for hop in self.hops if hop.status == "skipped"}
        rotated = [*self.members[first:], *self.members[:first]]
        return next((member for member in rotated if member.agent_id not in gone), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedMemberRun:
    """A member that is to be asked. What is asked of several `together` shows all of them the same:
    not what others have answered to it meanwhile. What `continues` a member run shows nothing
    new."""

    agent_id: str
    purpose: MemberRunPurpose = "answer"
    question: str = ""
    answers: tuple[ToolAnswer, ...] = ()
    answers_say_all: bool = False
    asked_in: int | None = None
    together: bool = False
    continues: int | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask these members, all at the same time, at most `MEMBER_RUNS_AT_ONCE_MAX`."""

    hops: tuple[WantedMemberRun, ...]


@dataclass(frozen=True, slots=True)
class SelectSpeaker:
    """Record which member speaks next, and who decided that."""

    agent_id: str
    by: PickedBy


@dataclass(frozen=True, slots=True)
class AskModel:
    """Have a model pick one of the members."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing, until a member run ends."""


@dataclass(frozen=True, slots=True)
class End:
    """The run is over."""

    stop_reason: str = "end_turn"


@dataclass(frozen=True, slots=True)
class Fail:
    """The run is over, and nobody could answer."""

    message: str = field(default="No member of the group could answer")
    error_type: str = NOBODY_ANSWERED


MISSING_MANAGER = Fail("The agent `manager_agent_id` does not exist: set another one", NOBODY_THERE)

type Decision = Ask | SelectSpeaker | AskModel | Wait | End | Fail


def ask(member: Participant, **fields: object) -> Ask:
    """The decision to ask one member."""
    return Ask((WantedMemberRun(agent_id=member.agent_id, **fields),))  # type: ignore[arg-type]


def end_of(hops: list[MemberRun], stop_reason: str = "end_turn") -> Decision:
    """The end of a run in which these member runs were asked for an answer: it fails where none
    gave one."""
    if any(hop.status == "completed" for hop in hops):
        return End(stop_reason)
    if not hops:
        return Fail("The group has no members that could answer: add one", NOBODY_THERE)
    reasons = [f"{hop.name}: {hop.reason}" for hop in hops if hop.reason]
    return Fail("; ".join(["No member of the group could answer", *reasons[:3]]))
