"""`heeler schedules` against a server: each effect is read back."""

from __future__ import annotations

import httpx

from cli.exit_codes import ExitCode
from tests.e2e.asking import SECONDS_MAX, unique
from tests.e2e.conftest import NewAgent
from tests.heeler_command import HeelerCommand
from tests.servers import wait_until


def test_a_schedule_is_made_changed_paused_and_deleted(
    heeler_command: HeelerCommand, new_agent: NewAgent, http: httpx.Client
) -> None:
    agent, name = new_agent(name=unique("ada")), unique("daily")
    when = ("--cron", "0 9 * * mon", "--timezone", "Europe/Berlin")
    made = heeler_command.json(
        "schedules", "create", agent.name, "-m", "Hello", *when, "--name", name
    )
    path = f"/v1/agents/{agent.id}/schedule/{made['id']}"
    assert http.get(path).json()["message"]["messages"][0]["content"] == "Hello"
    listed = heeler_command.json("schedules", "list", "--agent", agent.name)
    assert [schedule["id"] for schedule in listed] == [made["id"]]
    assert name in heeler_command("schedules", "list").out
    shown = heeler_command("schedules", "get", made["id"]).out
    assert "0 9 * * mon" in shown
    assert "Europe/Berlin" in shown

    heeler_command("schedules", "set", name, "--cron", "@hourly", "--missed", "skip")
    changed = http.get(path).json()
    assert (changed["recurrence_rule"], changed["missed"]) == ("@hourly", "skip")
    assert changed["timezone"] == "Europe/Berlin"
    slots = heeler_command.json("schedules", "next", name, "--count", "3")["times"]
    assert len(slots) == 3
    heeler_command("schedules", "pause", name)
    assert http.get(path).json()["status"] == "paused"
    heeler_command("schedules", "resume", name)
    assert http.get(path).json()["status"] == "active"

    assert heeler_command.run("schedules", "delete", name).code == ExitCode.USAGE
    heeler_command("schedules", "delete", name, "--yes")
    assert http.get(path).status_code == 404
    assert heeler_command.run("schedules", "get", made["id"]).code == ExitCode.NOT_FOUND


def test_a_schedule_is_fired_by_hand(heeler_command: HeelerCommand, new_agent: NewAgent) -> None:
    agent, name = new_agent(), unique("later")
    at = ("--at", "2126-12-24T18:00")
    heeler_command("schedules", "create", agent.id, "-m", "Hello", *at, "--name", name)
    firing = heeler_command.json("schedules", "fire", name)

    def has_completed() -> bool:
        fired = heeler_command.json("schedules", "firings", name)
        return [(entry["id"], entry["status"]) for entry in fired] == [(firing["id"], "completed")]

    wait_until("the firing has completed", has_completed, SECONDS_MAX)


def test_a_schedule_needs_one_time_and_a_message(
    heeler_command: HeelerCommand, new_agent: NewAgent
) -> None:
    agent = new_agent()
    for words in ((), ("--cron", "@daily"), ("-m", "a", "--cron", "@daily", "--at", "2126-01-01")):
        ended = heeler_command.run("schedules", "create", agent.id, *words)
        assert (ended.code, ended.out) == (ExitCode.USAGE, ""), ended
    wrong = heeler_command.run("schedules", "create", agent.id, "-m", "a", "--cron", "never")
    assert wrong.code == ExitCode.REFUSED
    assert "recurrence_rule" in wrong.err
