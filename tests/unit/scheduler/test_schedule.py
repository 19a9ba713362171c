"""The rules of schedules: which slots fire, which are skipped, and what becomes of failures."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from libs.contracts.bus_messages import CONFLICT, NOT_FOUND, UNPROCESSABLE
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta.schedule_requests import ScheduleCreate
from libs.contracts.scheduler.firings import (
    FiringDeadLettered,
    FiringEnded,
    FiringFailed,
    FiringRetried,
    FiringStarted,
    firing_of_slot,
)
from libs.contracts.scheduler.schedule_config import (
    AGENT_SCHEDULES_MAX,
    MISSED_SLOTS_DEFAULT,
    ORGANISATION_SCHEDULES_MAX,
    MessageAction,
    ScheduleConfig,
    ToolAction,
)
from libs.contracts.scheduler.schedules import (
    ScheduleCompleted,
    ScheduleCreated,
    ScheduleDeleted,
    SchedulePaused,
    ScheduleResumed,
    ScheduleUpdated,
    SlotsSkipped,
)
from services.scheduler.domain.attempts import (
    POSTPONEMENTS_MAX,
    RETRY_SECONDS,
    RETRY_SECONDS_MAX,
    retry_delay,
    run_of_attempt,
)
from services.scheduler.domain.schedule import FIRINGS_KEPT_MAX, OPEN_FIRINGS_MAX, Schedule
from services.scheduler.domain.schedule_rules import refuse_config, refuse_one_more
from services.scheduler.domain.slot_selection import SKIPPED_COUNTED_MAX, select_slots
from tests.contract.schedule_examples import AGENT, CONFIG, SCHEDULE
from tests.unit.given import Fact, Given, fact, given

NOON = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
WEEKLY = {"schedule_type": "recurring", "recurrence_rule": "0 9 * * mon"}
HOURLY = CONFIG.model_copy(update={"cron_expression": "0 * * * *", "timezone": "UTC"})
ONCE = CONFIG.model_copy(
    update={"schedule_type": "one_time", "cron_expression": None, "scheduled_at": NOON}
)


def at(hours: float, seconds: float = 0.0) -> datetime:
    """A moment, counted from noon."""
    return NOON + timedelta(hours=hours, seconds=seconds)


def created(config: ScheduleConfig = HOURLY, next_at: datetime = NOON) -> Fact:
    return fact(ScheduleCreated, schedule=config, next_at=next_at)


def started(
    slot: datetime, next_at: datetime | None = None, config: ScheduleConfig = HOURLY, **other: Any
) -> Fact:
    firing_id = firing_of_slot(SCHEDULE, slot)
    fields: dict[str, Any] = {
        "firing_id": firing_id,
        "agent_id": AGENT,
        "slot": slot,
        "run_id": run_of_attempt(config, firing_id, 1),
        "correlation_id": firing_id,
        "next_at": next_at,
    }
    return fact(FiringStarted, **{**fields, **other})


def skipped(reason: str, count: int, first: datetime, last: datetime, next_at: Any) -> Fact:
    return fact(SlotsSkipped, reason=reason, count=count, first=first, last=last, next_at=next_at)


def schedule(*past: Fact) -> Given[Schedule]:
    return given(Schedule, SCHEDULE, *past)


def fire(now: datetime, *waiting: str) -> Any:
    """Decide about the slots that have come."""

    def decide(due: Schedule) -> None:
        due.fire_due(now=now, waiting=frozenset(waiting))

    return decide


TOOL = {"type": "tool", "tool_name": "roll_dice"}
FIRING = firing_of_slot(SCHEDULE, NOON)
RUN = run_of_attempt(HOURLY, FIRING, 1)


class TestWhatClientsWant:
    def test_a_new_schedule_is_due_at_its_first_slot(self) -> None:
        schedule().when(lambda daily: daily.create(HOURLY, now=at(0, 1))).then(
            created(next_at=at(1))
        )

    def test_a_slot_is_later_than_the_moment_of_creation(self) -> None:
        schedule().when(lambda daily: daily.create(HOURLY, now=NOON)).then(created(next_at=at(1)))

    def test_a_schedule_is_created_once(self) -> None:
        schedule(created()).when(lambda daily: daily.create(HOURLY, now=NOON)).then_refused(
            CONFLICT
        )

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"scheduled_at": None}, "scheduled_at"),
            ({"scheduled_at": at(-1)}, "scheduled_at: this time is past"),
            ({"scheduled_at": NOON.replace(tzinfo=None)}, "UTC offset"),
            ({"cron_expression": "* * * * *"}, "cron_expression"),
            ({"timezone": "Europe/Atlantis"}, "timezone: 'Europe/Atlantis' is no IANA time zone"),
            ({"timezone": "../etc/passwd"}, "is no IANA time zone"),
        ],
    )
    def test_a_one_time_schedule_that_can_never_be_due_is_refused(
        self, changes: dict[str, Any], words: str
    ) -> None:
        config = ONCE.model_copy(update=changes)
        schedule().when(lambda daily: daily.create(config, now=at(-0.5))).then_refused(
            UNPROCESSABLE, words
        )

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"cron_expression": None}, "cron_expression: a recurring schedule needs one"),
            ({"cron_expression": "every day"}, "is no cron expression of five fields"),
            ({"cron_expression": "0 0 30 2 *"}, "day of the month 30 is in none of the months 2"),
            ({"scheduled_at": at(1)}, "scheduled_at: leave it out"),
        ],
    )
    def test_a_recurring_schedule_that_can_never_be_due_is_refused(
        self, changes: dict[str, Any], words: str
    ) -> None:
        config = HOURLY.model_copy(update=changes)
        schedule().when(lambda daily: daily.create(config, now=NOON)).then_refused(
            UNPROCESSABLE, words
        )

    def test_an_action_that_is_too_large_is_refused(self) -> None:
        [message] = HOURLY.action.messages  # type: ignore[union-attr]
        large = message.model_copy(update={"content": "x" * 300_000})
        action = HOURLY.action.model_copy(update={"messages": [large]})
        refused = refuse_config(HOURLY.model_copy(update={"action": action}), NOON)
        assert refused is not None
        assert refused.reason.startswith("action: it has 300")

    def test_limits_of_an_agent_and_an_organisation_say_what_to_do(self) -> None:
        assert refuse_one_more(AGENT_SCHEDULES_MAX - 1, ORGANISATION_SCHEDULES_MAX - 1) is None
        of_agent = refuse_one_more(AGENT_SCHEDULES_MAX, 0)
        of_org = refuse_one_more(0, ORGANISATION_SCHEDULES_MAX)
        assert of_agent is not None
        assert of_org is not None
        assert "delete one" in of_agent.reason
        assert "delete one" in of_org.reason

    def test_another_cron_expression_moves_the_next_slot(self) -> None:
        changed = HOURLY.model_copy(update={"cron_expression": "30 * * * *"})
        schedule(created()).when(
            lambda daily: daily.update({"cron_expression": "30 * * * *"}, now=at(0.1))
        ).then(fact(ScheduleUpdated, schedule=changed, next_at=at(0.5)))

    def test_another_name_leaves_the_next_slot(self) -> None:
        changed = HOURLY.model_copy(update={"name": "Other"})
        schedule(created()).when(lambda daily: daily.update({"name": "Other"}, now=at(5))).then(
            fact(ScheduleUpdated, schedule=changed, next_at=NOON)
        )

    def test_an_update_that_changes_nothing_records_nothing(self) -> None:
        schedule(created()).when(
            lambda daily: daily.update({"name": HOURLY.name}, now=NOON)
        ).then_nothing()

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"agent_id": "agent-2"}, "agent_id: it cannot be changed"),
            ({"colour": "blue"}, "colour: a schedule has no such field"),
            ({"missed": "perhaps"}, "missed: "),
            ({"retries_max": 99}, "retries_max: "),
            ({"action": TOOL, "if_active": "skip"}, "if_active: 'skip' has no effect"),
            ({"action": TOOL, "conversation_id": "conv-1"}, "conversation_id: a tool is called"),
            ({"action": {"type": "summarize"}, "conversation_id": "new"}, "conversation_id: a sum"),
            ({"action": {"type": "compact"}, "if_active": "wake"}, "say 'queue' or 'skip'"),
            ({"conversation_id": "new", "if_active": "wake"}, "if_active: 'wake' has no effect"),
        ],
    )
    def test_an_update_of_what_does_not_fit_is_refused(
        self, changes: dict[str, Any], words: str
    ) -> None:
        schedule(created()).when(lambda daily: daily.update(changes, now=NOON)).then_refused(
            UNPROCESSABLE, words
        )

    def test_a_completed_one_time_schedule_is_due_again_at_another_time(self) -> None:
        changed = ONCE.model_copy(update={"scheduled_at": at(5)})
        done = [created(ONCE), started(NOON, config=ONCE), fact(ScheduleCompleted)]
        schedule(*done).when(
            lambda daily: daily.update({"scheduled_at": at(5).isoformat()}, now=at(1))
        ).then(fact(ScheduleUpdated, schedule=changed, next_at=at(5)))

    def test_a_paused_schedule_fires_nothing_and_misses_nothing(self) -> None:
        schedule(created()).when(lambda daily: daily.pause(now=NOON)).then(fact(SchedulePaused))
        paused = [created(), fact(SchedulePaused)]
        schedule(*paused).when(lambda daily: daily.pause(now=NOON)).then_nothing()
        schedule(*paused).when(fire(at(3))).then_nothing()
        schedule(*paused).when(lambda daily: daily.resume(now=at(3, 1))).then(
            fact(ScheduleResumed, next_at=at(4))
        )

    def test_a_one_time_schedule_that_was_paused_over_its_slot_is_due_when_resumed(self) -> None:
        paused = [created(ONCE), fact(SchedulePaused)]
        schedule(*paused).when(lambda daily: daily.resume(now=at(3))).then(
            fact(ScheduleResumed, next_at=NOON)
        )

    def test_a_paused_schedule_that_completed_is_due_again_at_another_time(self) -> None:
        over = [created(ONCE), fact(SchedulePaused), fact(ScheduleCompleted)]
        changed = ONCE.model_copy(update={"scheduled_at": at(5)})
        schedule(*over).when(
            lambda daily: daily.update({"scheduled_at": at(5).isoformat()}, now=at(1))
        ).then(fact(ScheduleUpdated, schedule=changed, next_at=at(5)))

    def test_a_deleted_schedule_is_not_found(self) -> None:
        schedule(created()).when(lambda daily: daily.delete(now=NOON)).then(fact(ScheduleDeleted))
        gone = schedule(created(), fact(ScheduleDeleted))
        gone.when(lambda daily: daily.delete(now=NOON)).then_refused(NOT_FOUND)
        gone.when(lambda daily: daily.pause(now=NOON)).then_refused(NOT_FOUND)
        gone.when(lambda daily: daily.update({}, now=NOON)).then_refused(NOT_FOUND)
        gone.when(fire(at(9))).then_nothing()

    def test_a_schedule_is_fired_by_hand_once_for_each_message(self) -> None:
        firing_id = derived_id("firing", SCHEDULE, "m-1")
        by_hand = started(
            at(0, 7),
            NOON,
            firing_id=firing_id,
            run_id=run_of_attempt(HOURLY, firing_id, 1),
            correlation_id="c-1",
            by_hand=True,
        )
        fresh = schedule(created())
        fresh.when(lambda daily: ignore(daily.fire("m-1", "c-1", now=at(0, 7)))).then(by_hand)
        fresh.when(lambda daily: ignore(daily.fire("m-1", "c-1", now=at(0, 9)))).then_nothing()


def ignore(_: object) -> None:
    """Leave out what a decision returns."""


class TestSlots:
    def test_a_slot_fires_when_it_has_come_and_the_next_one_is_named(self) -> None:
        schedule(created()).when(fire(NOON)).then(started(NOON, at(1)))

    def test_no_slot_fires_before_its_time(self) -> None:
        schedule(created()).when(fire(at(0, -0.001))).then_nothing()

    def test_a_slot_that_was_fired_does_not_fire_again(self) -> None:
        schedule(created(), started(NOON, at(1))).when(fire(at(0.9))).then_nothing()

    def test_a_one_time_schedule_has_completed_once_it_fires(self) -> None:
        schedule(created(ONCE)).when(fire(at(0, 2))).then(
            started(NOON, config=ONCE), fact(ScheduleCompleted)
        )

    def test_of_missed_slots_one_fires_by_default_the_latest(self) -> None:
        schedule(created()).when(fire(at(3, 5))).then(
            skipped("missed", 3, NOON, at(2), at(3)), started(at(3), at(4))
        )

    def test_slots_that_are_older_than_the_grace_are_skipped_where_that_is_wanted(self) -> None:
        config = HOURLY.model_copy(update={"missed": "skip"})
        schedule(created(config)).when(fire(at(3, 61))).then(
            skipped("missed", 4, NOON, at(3), at(4))
        )
        schedule(created(config)).when(fire(at(3, 59))).then(
            skipped("missed", 3, NOON, at(2), at(3)), started(at(3), at(4))
        )
        once = ONCE.model_copy(update={"missed": "skip"})
        schedule(created(once)).when(fire(at(1))).then(
            skipped("missed", 1, NOON, NOON, None), fact(ScheduleCompleted)
        )

    def test_all_missed_slots_fire_one_after_the_other_where_that_is_wanted(self) -> None:
        config = HOURLY.model_copy(update={"missed": "all"})
        past = [created(config)]
        for hours in range(3):
            fired = started(at(hours), at(hours + 1))
            schedule(*past).when(fire(at(2, 9))).then(fired)
            past.append(fired)
        schedule(*past).when(fire(at(2, 9))).then_nothing()

    def test_the_latest_of_too_many_missed_slots_fire(self) -> None:
        config = HOURLY.model_copy(update={"missed": "all", "missed_slots_max": 2})
        schedule(created(config)).when(fire(at(10))).then(
            skipped("missed", 9, NOON, at(8), at(9)), started(at(9), at(10))
        )

    def test_years_of_missed_slots_are_counted_up_to_a_bound(self) -> None:
        config = HOURLY.model_copy(update={"cron_expression": "* * * * *"})
        due = select_slots(config, NOON, at(24 * 1_000))
        assert due.skipped is not None
        assert (due.fired, due.next_at) == ([at(24_000)], at(24_000, 60))
        assert (due.skipped.count, due.skipped.last) == (SKIPPED_COUNTED_MAX, at(24_000, -60))

    def test_a_rare_slot_is_found_among_years(self) -> None:
        config = HOURLY.model_copy(update={"cron_expression": "0 0 29 2 *", "missed": "all"})
        leap_day = datetime(2028, 2, 29, tzinfo=UTC)
        due = select_slots(config, leap_day, datetime(2034, 1, 1, tzinfo=UTC))
        assert due.fired == [leap_day, datetime(2032, 2, 29, tzinfo=UTC)]
        assert len(due.fired) <= MISSED_SLOTS_DEFAULT
        assert due.skipped is None

    def test_a_slot_is_merged_into_a_firing_that_still_waits_where_that_is_wanted(self) -> None:
        config = HOURLY.model_copy(update={"if_active": "wake"})
        past = [created(config), started(NOON, at(1))]
        schedule(*past).when(fire(at(1), FIRING)).then(skipped("merged", 1, at(1), at(1), at(2)))
        schedule(*past).when(fire(at(1))).then(started(at(1), at(2)))

    def test_a_schedule_with_too_many_open_firings_skips_slots_or_waits(self) -> None:
        many = [started(at(hours), at(hours + 1)) for hours in range(OPEN_FIRINGS_MAX)]
        last = at(OPEN_FIRINGS_MAX)
        schedule(created(), *many).when(fire(last)).then(
            skipped("too_many_firings", 1, last, last, last + timedelta(hours=1))
        )
        patient = HOURLY.model_copy(update={"missed": "all"})
        schedule(created(patient), *many).when(fire(last)).then_nothing()
        schedule(created(), *many).when(
            lambda daily: ignore_accepted(daily.fire("m-1", "", now=last))
        ).then_refused(CONFLICT, "have not ended")


def ignore_accepted(reply: Any) -> Any:
    """The refusal that a decision returned, if it is one."""
    return None if isinstance(reply, str) else reply


class TestAttempts:
    def fail(self, **other: Any) -> Any:
        return lambda daily: daily.fail(FIRING, RUN, "It broke", now=at(0, 5), **other)

    def failed(self, attempt: int, seconds: float, **other: Any) -> Fact:
        return fact(
            FiringFailed,
            firing_id=FIRING,
            attempt=attempt,
            error="It broke",
            retry_at=at(0, 5 + seconds),
            **other,
        )

    def retried(self, attempt: int) -> Fact:
        run_id = run_of_attempt(HOURLY, FIRING, attempt)
        return fact(FiringRetried, firing_id=FIRING, attempt=attempt, run_id=run_id)

    def test_a_firing_ends_with_its_run(self) -> None:
        ended = fact(FiringEnded, firing_id=FIRING, outcome="completed")
        past = [created(), started(NOON, at(1))]
        schedule(*past).when(lambda daily: daily.end(FIRING, RUN, "completed", now=NOON)).then(
            ended
        )
        schedule(*past, ended).when(
            lambda daily: daily.end(FIRING, RUN, "completed", now=NOON)
        ).then_nothing()

    def test_a_failed_attempt_is_made_again_later_with_another_run(self) -> None:
        past = [created(), started(NOON, at(1))]
        schedule(*past).when(self.fail()).then(self.failed(1, RETRY_SECONDS))
        past.append(self.failed(1, RETRY_SECONDS))
        schedule(*past).when(self.fail()).then_nothing()
        schedule(*past).when(lambda daily: daily.retry(FIRING, now=at(0, 14.9))).then_nothing()
        schedule(*past).when(lambda daily: daily.retry(FIRING, now=at(0, 15))).then(self.retried(2))
        past.append(self.retried(2))
        assert self.retried(2).fields["run_id"] != RUN
        schedule(*past).when(self.fail()).then_nothing()  # that run is not the present one
        schedule(*past).when(lambda daily: daily.retry(FIRING, now=at(9))).then_nothing()

    def test_after_the_last_retry_a_firing_is_a_dead_letter(self) -> None:
        config = HOURLY.model_copy(update={"retries_max": 0})
        past = [created(config), started(NOON, at(1))]
        dead = fact(FiringDeadLettered, firing_id=FIRING, attempt=1, error="It broke")
        schedule(*past).when(self.fail()).then(dead)
        schedule(*past, dead).when(lambda daily: daily.fire_again(FIRING, now=NOON)).then(
            self.retried(2)
        )
        again = schedule(*past, dead, self.retried(2))
        again.when(lambda daily: daily.fire_again(FIRING, now=NOON)).then_refused(
            CONFLICT, "no dead letter"
        )
        again.when(lambda daily: daily.fire_again("firing-x", now=NOON)).then_refused(NOT_FOUND)

    def test_what_would_fail_again_is_a_dead_letter_at_once(self) -> None:
        dead = fact(FiringDeadLettered, firing_id=FIRING, attempt=1, error="It broke")
        schedule(created(), started(NOON, at(1))).when(self.fail(may_retry=False)).then(dead)

    def test_an_attempt_that_was_not_started_follows_another_action(self) -> None:
        """The id of what is started says where it is looked for."""
        past = [created(), started(NOON, at(1))]
        schedule(*past).when(lambda daily: daily.follow_action(FIRING, now=NOON)).then_nothing()
        config = HOURLY.model_copy(update={"action": ToolAction(tool_name="roll_dice")})
        past.append(fact(ScheduleUpdated, schedule=config, next_at=at(1)))
        run_id = run_of_attempt(config, FIRING, 1)
        assert run_id.startswith("tool_run-")
        other = fact(FiringRetried, firing_id=FIRING, attempt=1, run_id=run_id)
        schedule(*past).when(lambda daily: daily.follow_action(FIRING, now=NOON)).then(other)
        schedule(*past, other).when(
            lambda daily: daily.follow_action(FIRING, now=NOON)
        ).then_nothing()

    def test_an_attempt_without_room_counts_as_none(self) -> None:
        past = [created(), started(NOON, at(1))]
        postponed = self.failed(1, RETRY_SECONDS, postponed=True)
        schedule(*past).when(
            lambda daily: daily.postpone(FIRING, RUN, "It broke", now=at(0, 5))
        ).then(postponed)
        schedule(*past, postponed).when(lambda daily: daily.retry(FIRING, now=at(1))).then(
            self.retried(1)
        )
        for _ in range(POSTPONEMENTS_MAX):
            past += [postponed, self.retried(1)]
        schedule(*past).when(
            lambda daily: daily.postpone(FIRING, RUN, "It broke", now=at(0, 5))
        ).then(fact(FiringDeadLettered, firing_id=FIRING, attempt=1, error="It broke"))

    def test_pauses_between_attempts_grow_up_to_a_bound(self) -> None:
        pauses = [retry_delay(failures) for failures in range(12)]
        assert pauses[:3] == [10.0, 20.0, 40.0]
        assert pauses[-1] == retry_delay(10_000) == RETRY_SECONDS_MAX

    def test_the_history_forgets_the_oldest_firing_that_has_ended(self) -> None:
        past = [created()]
        firings = [firing_of_slot(SCHEDULE, at(hours)) for hours in range(FIRINGS_KEPT_MAX + 1)]
        for hours, firing_id in enumerate(firings):
            past.append(started(at(hours), at(hours + 1)))
            past.append(fact(FiringEnded, firing_id=firing_id, outcome="completed"))
        past.pop()
        run_id = run_of_attempt(HOURLY, firings[-1], 1)
        schedule(*past).when(
            lambda daily: daily.end(firings[-1], run_id, "completed", now=NOON)
        ).then(fact(FiringEnded, firing_id=firings[-1], outcome="completed", forgets=firings[0]))


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("", "`content` is empty"),
        ([{"role": "user", "content": "x"}, {"role": "user", "content": " "}], "is empty"),
        ({"role": "user", "content": []}, "`content` is empty"),
        ({"role": "user", "content": [{"type": "text", "text": ""}]}, "`content` is empty"),
        ({"role": "assistant", "content": "x"}, "`role` of the last message is 'assistant'"),
    ],
)
def test_messages_that_no_agent_can_answer_are_refused_by_the_name_of_their_field(
    message: object, words: str
) -> None:
    messages = [message] if isinstance(message, dict) else message
    with pytest.raises(ValidationError, match=words) as refusal:
        ScheduleCreate.model_validate({**WEEKLY, "message": message})
    assert refusal.value.errors()[0]["loc"] == ("message",)
    if isinstance(messages, list):
        at = {"type": "one-time", "scheduled_at": 4e9}
        with pytest.raises(ValidationError, match=words) as refusal:
            ScheduleCreate.model_validate({"messages": messages, "schedule": at})
        assert refusal.value.errors()[0]["loc"] == ("messages",)
        for action in ({"type": "message"}, {"type": "group_message", "group_id": "group-1"}):
            with pytest.raises(ValidationError, match=words) as refusal:
                ScheduleCreate.model_validate(
                    {**WEEKLY, "action": {**action, "messages": messages}}
                )
            assert refusal.value.errors()[0]["loc"] == ("action",)


def test_a_schedule_that_was_made_before_is_read_whatever_its_messages_say() -> None:
    for message in ({"role": "user", "content": ""}, {"role": "assistant", "content": "x"}):
        assert MessageAction.model_validate({"messages": [message]}).messages[0].role


@pytest.mark.parametrize("role", ["user", "system"])
def test_messages_of_users_and_of_the_system_may_be_scheduled(role: str) -> None:
    asked = ScheduleCreate.model_validate({**WEEKLY, "message": {"role": role, "content": "x"}})
    assert asked.message is not None
    assert asked.message[0].role == role
