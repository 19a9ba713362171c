"""Histories from outside that name what is somebody else's, or what nothing can be called."""

from __future__ import annotations

from typing import Any

import pytest

from libs.contracts.agent.agents import AgentCreated
from libs.contracts.agent.conversations import (
    ConversationUpdated,
    MessageAppended,
    SystemPromptRebuilt,
    main_conversation,
)
from libs.contracts.agent.runs import (
    QueuedRunsCancelled,
    RunAccepted,
    RunCompleted,
    RunDeleted,
    RunStarted,
)
from libs.contracts.agent.steps import ModelReplied, StepAnnotated
from libs.contracts.appended_histories import PastHistory
from libs.contracts.bus_messages import CONFLICT, UNPROCESSABLE, Event, Rejected
from tests.contract.examples import AGENT, RUN
from tests.contract.histories import one
from tests.unit.bus.test_appended_histories import Service, history

CONVERSATION = main_conversation(AGENT)
THIEF = "agent-66666666-6666-4666-8666-666666666666"
OTHER_RUN = "run-66666666-6666-4666-8666-666666666666"
OWN, THIEFS, FRESH = (f"message-{n * 8}-1111-4111-8111-{n * 12}" for n in "123")
TABLES = ("messages", "runs", "steps", "conversations", "agents")


def begins(agent_id: str, message_id: str) -> Event:
    """The first message of an agent's own conversation."""
    message = one(MessageAppended).message.model_copy(update={"id": message_id})
    return one(MessageAppended, agent_id=agent_id, message=message, run_id=None, step_id=None)


def ran(agent_id: str, run_id: str, step_id: str) -> list[Event]:
    """A run with a step, from its beginning to its end."""
    run = one(RunAccepted).run.model_copy(update={"id": run_id, "agent_id": agent_id})
    replied = one(ModelReplied, step_id=step_id, agent_id=agent_id, tool_calls=[])
    events = [one(RunAccepted, run=run), one(RunStarted), replied, one(RunCompleted)]
    return [event.model_copy(update={"run_id": run_id}) for event in events]


def of_thief(*events: Event) -> PastHistory:
    """A history of an agent's own conversation whose other events name what is the victim's."""
    return history(main_conversation(THIEF), begins(THIEF, THIEFS), *events)


@pytest.fixture
async def agents() -> Service:
    """A service that has an agent, with a message, a run and a step."""
    service = Service("agent")
    told = history(CONVERSATION, begins(AGENT, OWN), *ran(AGENT, RUN, "step-own"))
    outcome = await service.append(told)
    assert not isinstance(outcome, Rejected), outcome
    return service


def rows(service: Service) -> dict[str, list[dict[str, Any]]]:
    """All rows of the service that imports write."""
    return {table: service.rows(table) for table in TABLES}


@pytest.mark.parametrize(
    "events",
    [
        [begins(THIEF, OWN)],
        [
            one(
                SystemPromptRebuilt,
                message=one(SystemPromptRebuilt).message.model_copy(update={"id": OWN}),
            )
        ],
        ran(THIEF, RUN, "step-6"),
        ran(THIEF, OTHER_RUN, "step-own"),
        [one(RunDeleted, run_id=RUN)],
        [one(StepAnnotated, run_id=OTHER_RUN, step_id="step-own")],
        [one(QueuedRunsCancelled, run_ids=[RUN])],
    ],
    ids=[
        *("message", "system message", "run", "step", "deleted run", "annotated step"),
        "cancelled run",
    ],
)
@pytest.mark.parametrize("org", ["org-1", "org-2"])
async def test_an_import_does_not_write_rows_of_others(
    agents: Service, events: list[Event], org: str
) -> None:
    before = rows(agents)
    outcome = await agents.append(of_thief(*events), org=org)
    assert isinstance(outcome, Rejected)
    assert outcome.code == CONFLICT
    assert outcome.reason.endswith("is the id of something else")
    assert rows(agents) == before


async def test_two_histories_of_one_import_do_not_share_a_message(agents: Service) -> None:
    other = main_conversation(AGENT.replace("1", "7"))
    second = history(other, begins(AGENT.replace("1", "7"), THIEFS))
    outcome = await agents.append(of_thief(), second)
    assert isinstance(outcome, Rejected)
    assert outcome.reason == f"{other}: {THIEFS} is the id of something else"


async def test_an_agent_does_not_take_the_row_of_another(agents: Service) -> None:
    config = one(AgentCreated).config.model_copy(update={"id": AGENT})
    outcome = await agents.append(history(THIEF, one(AgentCreated, config=config)))
    assert isinstance(outcome, Rejected)
    assert agents.rows("agents") == []


async def test_a_conversation_does_not_take_the_row_of_another(agents: Service) -> None:
    config = one(ConversationUpdated).config.model_copy(
        update={"id": CONVERSATION, "agent_id": THIEF}
    )
    outcome = await agents.append(of_thief(one(ConversationUpdated, config=config)))
    assert isinstance(outcome, Rejected)


@pytest.mark.parametrize(
    "name", ["run-1 5\r\nPUB x 0\r\n", "run.*", "run.>", "", "run-é", "r" * 999]
)
async def test_an_id_that_no_subject_can_have_is_refused(agents: Service, name: str) -> None:
    for bad in (of_thief(*ran(THIEF, name, "step-6")), history(name, begins(THIEF, FRESH))):
        outcome = await agents.append(bad)
        assert isinstance(outcome, Rejected)
        assert outcome.code == UNPROCESSABLE
        assert "is no id" in outcome.reason


async def test_a_message_that_no_row_can_show_is_refused(agents: Service) -> None:
    outcome = await agents.append(of_thief(begins(THIEF, "message-none")))
    assert isinstance(outcome, Rejected)
    assert outcome.code == UNPROCESSABLE
    assert "it cannot be shown" in outcome.reason
