"""Find limits and schedules of a definition that nobody would notice until the bill comes."""

from __future__ import annotations

from collections.abc import Iterator

from libs.agent_toml.schedule_times import cron_of
from libs.agent_toml.security_subject import Finding, Subject
from libs.contracts.scheduler.cron_expressions import parse_cron

FREQUENT_PER_HOUR = 12
STEPS_MANY = 200


def frequent_schedules(subject: Subject) -> Iterator[Finding]:
    """Schedules that fire more often than each five minutes."""
    for index, schedule in enumerate(subject.definition.schedules):
        try:
            cron = cron_of(schedule.every) if schedule.every is not None else schedule.cron
            minutes = len(parse_cron(cron).minutes) if cron is not None else 0
        except ValueError:
            continue
        if minutes > FREQUENT_PER_HOUR:
            key = "every" if schedule.every is not None else "cron"
            words = f"`{schedule.name}` fires {minutes} times an hour"
            yield Finding(("schedules", index, key), words)


def hidden_schedules(subject: Subject) -> Iterator[Finding]:
    """Agents that no list shows and that act by themselves."""
    if subject.definition.hidden and subject.definition.schedules:
        yield Finding(("hidden",), f"`{subject.definition.name}` is hidden and has schedules")


def output_without_room(subject: Subject) -> Iterator[Finding]:
    """Answers that may be as long as all that the model is shown."""
    settings, window = subject.definition.model_settings, subject.definition.context_window
    tokens = None if settings is None else settings.max_output_tokens
    if tokens is not None and window is not None and tokens >= window:
        words = f"an answer may have {tokens} tokens, of the {window} that the model is shown"
        yield Finding(("model_settings", "max_output_tokens"), words)


def many_steps(subject: Subject) -> Iterator[Finding]:
    """Schedules that may go on for very many steps."""
    for index, schedule in enumerate(subject.definition.schedules):
        if schedule.max_steps is not None and schedule.max_steps > STEPS_MANY:
            words = f"`{schedule.name}` may take {schedule.max_steps} steps"
            yield Finding(("schedules", index, "max_steps"), words)
