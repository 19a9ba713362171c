"""A history of the conversation of a group, in which each of its events happens."""

from __future__ import annotations

from libs.contracts.bus_messages import Event
from libs.contracts.groups.group_runs import GroupRunAccepted
from tests.contract.group_run_examples import EVENTS, GROUP_RUN, of_run

EXAMPLES = {type(event).__name__: event for event in EVENTS}
ACCEPTED = EXAMPLES["GroupRunAccepted"]
assert isinstance(ACCEPTED, GroupRunAccepted), "a run is accepted"
FIELDS = {name: getattr(ACCEPTED, name) for name in ("messages", "recipients", "callers")}


def one(name: str, **fields: object) -> Event:
    """The example of an event, with some other fields."""
    return EXAMPLES[name].model_copy(update=fields)


def accepted(run_id: str) -> Event:
    """A run that waits."""
    return of_run(GroupRunAccepted, run_id, max_steps=7, manager_type="swarm", **FIELDS)


ANSWERED = [
    one("GroupRunAccepted"),
    one("GroupRunStarted"),
    one("GroupMessageAppended"),
    one("SpeakerPicked"),
    one("GroupHopStarted"),
    one("GroupHopEnded"),
    one("GroupMessageEdited"),
]
GROUP_CONVERSATION = [
    *ANSWERED,
    one("GroupRunCompleted"),
    accepted("group_run-failed"),
    one("GroupRunStarted", run_id="group_run-failed"),
    one("GroupRunFailed"),
    accepted("group_run-cancelled"),
    one("GroupRunStarted", run_id="group_run-cancelled"),
    one("GroupHopStarted", run_id="group_run-cancelled", member_run_id="run-withdrawn"),
    one("GroupRunCancelled"),
    one("GroupTranscriptEmptied"),
    one("MemberRunsWithdrawn", run_ids=["run-withdrawn"]),
    accepted("group_run-waiting"),
]
UNDER_WAY = [*ANSWERED, accepted(f"{GROUP_RUN[:-1]}3")]
FORGOTTEN = [
    *ANSWERED,
    one("GroupRunCompleted"),
    one("GroupTranscriptEmptied", group_deleted=True, is_idle=True),
    one("GroupConversationForgotten"),
]
