"""One example of each message about sleeptime groups."""

from __future__ import annotations

from libs.contracts.bus_messages import Command, Event
from libs.contracts.groups.sleeptime import (
    CountRun,
    EnableSleeptime,
    EndSleeptime,
    Review,
    ReviewRequested,
    ReviewStarted,
    RunCounted,
)
from tests.contract.group_examples import AGENT, GROUP, MANAGER, of_group

RUN = "run-33333333-3333-4333-8333-333333333333"
REVIEW_RUN = "run-34343434-3434-4434-8434-343434343434"
LAST = "message-35353535-3535-4535-8535-353535353535"
BEFORE = "message-36363636-3636-4636-8636-363636363636"
REVIEW = Review(
    run_id=RUN, after_message_id=BEFORE, last_message_id=LAST, run_ids={AGENT: REVIEW_RUN}
)

SLEEPTIME_COMMANDS: list[Command] = [
    EnableSleeptime(agent_id=MANAGER),
    EndSleeptime(agent_id=MANAGER),
    CountRun(group_id=GROUP, run_id=RUN),
]
SLEEPTIME_EVENTS: list[Event] = [
    of_group(RunCounted, run_id=RUN, turns_counter=0),
    of_group(ReviewRequested, review=REVIEW),
    of_group(ReviewStarted, run_id=RUN),
]
SUBJECTS = {
    "EnableSleeptime": f"groups.command.sleeptime.enable.org-1.{MANAGER}",
    "EndSleeptime": f"groups.command.sleeptime.end.org-1.{MANAGER}",
    "CountRun": f"groups.command.group.count_run.org-1.{GROUP}",
    "RunCounted": f"groups.event.group.run_counted.org-1.{GROUP}",
    "ReviewRequested": f"groups.event.group.review_requested.org-1.{GROUP}",
    "ReviewStarted": f"groups.event.group.review_started.org-1.{GROUP}",
}
