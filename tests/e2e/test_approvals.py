"""Tool calls that wait for an approval (LOOP-17, R23, S17), through the SDK."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from letta_client import BadRequestError, ConflictError, Letta, NotFoundError

from libs.contracts.agent.approvals import ApprovalCancelled
from services.agent.domain.runs.client_call_answers import ENDED
from tests.e2e.asking import (
    CANCEL,
    NOBODY,
    SECONDS_MAX,
    SEND,
    STREAM,
    kinds,
    lines_of,
    says,
    tool_return,
    unique,
)
from tests.e2e.conftest import NewAgent
from tests.servers import HeelerInstance, wait_until

UPDATE = pytest.mark.operation("PATCH /v1/agents/{agent_id}/tools/approval/{tool_name}")
RETRIEVE = pytest.mark.operation("GET /v1/agents/{agent_id}")
LISTED = pytest.mark.operation("GET /v1/agents/{agent_id}/messages")

INSERT, SEARCH = "memory_insert", "conversation_search"
RULE = {"type": "requires_approval", "tool_name": INSERT}
GATED: dict[str, Any] = {
    "tool_rules": [RULE],
    "include_base_tool_rules": False,
    "parallel_tool_calls": True,
}
EDIT = {"label": "human", "new_string": "Likes tea"}
ASK = f"CALL:{INSERT}:{json.dumps(EDIT)} SAY:Noted."
BOTH = json.dumps(
    [{"name": SEARCH, "arguments": {"query": "tea"}}, {"name": INSERT, "arguments": EDIT}]
)


def calls_of(answer: Any) -> list[Any]:
    """The calls that an answer asks about."""
    [request] = [
        message for message in answer.messages if message.message_type == "approval_request_message"
    ]
    return list(request.tool_calls)


def approval(*calls: Any, approve: bool = True, reason: str | None = None) -> dict[str, Any]:
    """A message that answers calls."""
    return {
        "type": "approval",
        "approvals": [
            {
                "type": "approval",
                "tool_call_id": call.tool_call_id,
                "approve": approve,
                "reason": reason,
            }
            for call in calls
        ],
    }


def types(messages: Any) -> list[str]:
    return [message.message_type for message in messages]


def human(letta: Letta, agent_id: str) -> str:
    return str(letta.agents.blocks.retrieve("human", agent_id=agent_id).value)


@SEND
@RETRIEVE
@LISTED
def test_an_approved_call_is_carried_out_and_the_conversation_goes_on(
    letta: Letta, new_agent: NewAgent
) -> None:
    agent = new_agent(**GATED)
    assert [rule.type for rule in agent.tool_rules or []] == ["requires_approval"]
    asked = letta.agents.messages.create(agent.id, messages=says(ASK))
    assert asked.stop_reason.stop_reason == "requires_approval"
    assert types(asked.messages) == ["approval_request_message"]
    [call] = calls_of(asked)
    assert (call.name, json.loads(call.arguments)) == (INSERT, EDIT)
    assert human(letta, agent.id) == "Name: Ada"
    run = letta.runs.retrieve(str(asked.messages[0].run_id))
    assert (run.status, run.stop_reason) == ("completed", "requires_approval")

    seen = letta.agents.retrieve(agent.id, include=["agent.pending_approval"])
    assert seen.pending_approval is not None
    assert seen.pending_approval.id == asked.messages[0].id
    assert [call.tool_call_id for call in seen.pending_approval.tool_calls] == [call.tool_call_id]
    assert (seen.message_ids or [])[-1] == asked.messages[0].id
    [listed] = letta.agents.list(name=agent.name, include=["agent.pending_approval"]).items
    assert listed.pending_approval == seen.pending_approval
    assert letta.agents.retrieve(agent.id).pending_approval is None, "it was not asked for"

    answer = letta.agents.messages.create(agent.id, messages=[approval(call)])
    assert types(answer.messages) == ["tool_return_message", "assistant_message"]
    assert answer.stop_reason.stop_reason == "end_turn"
    assert human(letta, agent.id) == "Name: Ada\nLikes tea"
    seen = letta.agents.retrieve(agent.id, include=["agent.pending_approval"])
    assert seen.pending_approval is None
    history = letta.agents.messages.list(agent.id, order="asc").items
    assert types(history)[-5:] == [
        "user_message",
        "approval_request_message",
        "approval_response_message",
        "tool_return_message",
        "assistant_message",
    ]
    response = history[-3]
    assert response.approval_request_id == call.tool_call_id
    assert response.approve is True
    [given] = response.approvals
    assert (given.tool_call_id, given.approve) == (call.tool_call_id, True)


@SEND
def test_a_denied_call_is_not_carried_out_and_the_model_reads_why(
    letta: Letta, new_agent: NewAgent
) -> None:
    agent = new_agent(**GATED)
    [call] = calls_of(letta.agents.messages.create(agent.id, messages=says(ASK)))
    denial = approval(call, approve=False, reason="Ask me on Monday")
    answer = letta.agents.messages.create(agent.id, messages=[denial])
    returned = answer.messages[0]
    assert (returned.message_type, returned.status) == ("tool_return_message", "error")
    assert "Ask me on Monday" in returned.tool_return
    assert human(letta, agent.id) == "Name: Ada"
    [response] = [
        message
        for message in letta.agents.messages.list(agent.id).items
        if message.message_type == "approval_response_message"
    ]
    assert (response.approve, response.reason) == (False, "Ask me on Monday")


@SEND
def test_the_deprecated_form_names_the_message_that_asked(
    letta: Letta, new_agent: NewAgent
) -> None:
    agent = new_agent(**GATED)
    asked = letta.agents.messages.create(agent.id, messages=says(ASK))
    message = {"type": "approval", "approve": True, "approval_request_id": asked.messages[0].id}
    [call] = calls_of(asked)
    answer = letta.agents.messages.create(agent.id, messages=[message])
    assert answer.stop_reason.stop_reason == "end_turn"
    assert human(letta, agent.id).endswith("Likes tea")
    history = letta.agents.messages.list(agent.id, order="asc").items
    [response] = [
        message for message in history if message.message_type == "approval_response_message"
    ]
    assert response.approval_request_id == call.tool_call_id
    assert response.approve is True


@SEND
def test_calls_of_one_step_are_answered_one_by_one(letta: Letta, new_agent: NewAgent) -> None:
    rules = [RULE, {"type": "requires_approval", "tool_name": SEARCH}]
    agent = new_agent(**{**GATED, "tool_rules": rules})
    asked = letta.agents.messages.create(agent.id, messages=says(f"CALLS:{BOTH} SAY:Both."))
    search, insert = calls_of(asked)
    part = letta.agents.messages.create(agent.id, messages=[approval(search, approve=False)])
    assert (part.stop_reason.stop_reason, part.messages) == ("requires_approval", [])
    with pytest.raises(ConflictError):
        letta.agents.messages.create(agent.id, messages=says("And?"))
    rest = letta.agents.messages.create(agent.id, messages=[approval(insert)])
    returns = [
        message for message in rest.messages if message.message_type == "tool_return_message"
    ]
    assert [(message.tool_call_id, message.status) for message in returns] == [
        (search.tool_call_id, "error"),
        (insert.tool_call_id, "success"),
    ]
    assert human(letta, agent.id).endswith("Likes tea")


@SEND
def test_ungated_calls_wait_with_the_gated_and_messages_follow_the_results(
    letta: Letta, new_agent: NewAgent
) -> None:
    agent = new_agent(**GATED)
    asked = letta.agents.messages.create(agent.id, messages=says(f"CALLS:{BOTH} SAY:Both."))
    assert types(asked.messages) == ["tool_call_message", "approval_request_message"]
    [call] = calls_of(asked)
    answer = letta.agents.messages.create(
        agent.id, messages=[approval(call), *says("SAY:As you wish.")]
    )
    assert types(answer.messages) == [
        "tool_return_message", "tool_return_message", "assistant_message"
    ]  # fmt: skip
    assert answer.messages[-1].content == "As you wish."


@SEND
@STREAM
def test_other_messages_are_refused_without_effect_also_as_streams(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent(**GATED)
    asked = letta.agents.messages.create(agent.id, messages=says(ASK))
    count = len(letta.agents.messages.list(agent.id).items)
    for path, more in (
        ("messages", {}),
        ("messages/stream", {"stream_tokens": True}),
        ("messages/stream", {"background": True}),
        ("messages/async", {}),
    ):
        body = {"messages": says("And?", otid="again"), **more}
        refused = http.post(f"/v1/agents/{agent.id}/{path}", json=body)
        assert refused.status_code == 409
        assert refused.headers["x-should-retry"] == "false"
        detail = refused.json()["detail"]
        assert detail["code"] == "PENDING_APPROVAL"
        assert detail["pending_request_id"] == asked.messages[0].id
        assert detail["message"].endswith(
            "Please approve or deny the pending request before continuing."
        )
    assert len(letta.agents.messages.list(agent.id).items) == count
    letta.agents.messages.create(agent.id, messages=[approval(*calls_of(asked))])
    said = letta.agents.messages.create(agent.id, messages=says("SAY:Now.", otid="again"))
    assert said.messages[-1].content == "Now.", "the refusal is not remembered"


@SEND
def test_r23_a_wrong_id_names_both_and_changes_nothing(letta: Letta, new_agent: NewAgent) -> None:
    agent = new_agent(**GATED)
    [call] = calls_of(letta.agents.messages.create(agent.id, messages=says(ASK)))
    wrong = {"type": "approval", "tool_call_id": "call_of_nobody", "approve": True}
    with pytest.raises(BadRequestError) as refused:
        letta.agents.messages.create(
            agent.id, messages=[{"type": "approval", "approvals": [wrong]}]
        )
    assert "call_of_nobody" in str(refused.value)
    assert call.tool_call_id in str(refused.value)
    letta.agents.messages.create(agent.id, messages=[approval(call)])
    assert human(letta, agent.id).endswith("Likes tea")


@SEND
def test_r23_who_answers_twice_gets_the_same_answer(letta: Letta, new_agent: NewAgent) -> None:
    agent = new_agent(**GATED)
    [call] = calls_of(letta.agents.messages.create(agent.id, messages=says(ASK)))
    first = letta.agents.messages.create(agent.id, messages=[approval(call)])
    again = letta.agents.messages.create(agent.id, messages=[approval(call)])
    denied = letta.agents.messages.create(agent.id, messages=[approval(call, approve=False)])
    assert [message.id for message in again.messages] == [message.id for message in first.messages]
    assert [message.id for message in denied.messages] == [message.id for message in first.messages]
    assert human(letta, agent.id) == "Name: Ada\nLikes tea"


@SEND
def test_s17_an_answer_where_nothing_waits_is_refused(letta: Letta, new_agent: NewAgent) -> None:
    agent = new_agent()
    claimed = {"type": "approval", "tool_call_id": "call_1", "approve": True}
    with pytest.raises(BadRequestError, match="No tool call is currently awaiting approval"):
        letta.agents.messages.create(
            agent.id, messages=[{"type": "approval", "approvals": [claimed]}]
        )
    assert types(letta.agents.messages.list(agent.id, order="asc").items) == ["system_message"]


SOURCE = 'def {name}() -> str:\n    """Pay."""\n    return "{says}"\n'


@SEND
@pytest.mark.parametrize("how", ["changed", "replaced", "renamed"])
def test_an_approval_holds_for_the_tool_that_was_there_when_it_was_asked(
    letta: Letta, new_agent: NewAgent, how: str
) -> None:
    """S17: neither other code nor another tool of the name is carried out on an old approval."""
    name = unique("pay").replace("-", "_")
    tool = letta.tools.create(source_code=SOURCE.format(name=name, says="paid"))
    agent = new_agent(
        tool_ids=[tool.id],
        include_base_tools=False,
        include_base_tool_rules=False,
        tool_rules=[{"type": "requires_approval", "tool_name": name}],
    )
    script = f"CALL:{name}:{{}} CALL:{name}:{{}}"
    [call] = calls_of(letta.agents.messages.create(agent.id, messages=says(script)))
    evil = SOURCE.format(name=name, says="stolen")
    if how == "changed":
        letta.tools.update(tool.id, source_code=evil)
    else:
        other = SOURCE.format(name=f"{name}_2", says="paid")
        letta.tools.update(tool.id, source_code=other)
    if how == "replaced":
        second = letta.tools.create(source_code=evil)
        letta.agents.tools.detach(tool.id, agent_id=agent.id)
        letta.agents.tools.attach(second.id, agent_id=agent.id)

    answer = letta.agents.messages.create(agent.id, messages=[approval(call)])

    returned = next(
        message for message in answer.messages if message.message_type == "tool_return_message"
    )
    assert returned.status == "error"
    expected = "no tool named" if how == "renamed" else "has changed since this call was approved"
    assert expected in str(returned.tool_return)
    assert "stolen" not in str(answer.messages)
    if how == "changed":
        assert answer.stop_reason.stop_reason == "requires_approval", "it is asked for once more"
        anew = letta.agents.messages.create(agent.id, messages=[approval(*calls_of(answer))])
        returned = next(
            message for message in anew.messages if message.message_type == "tool_return_message"
        )
        assert (returned.status, returned.tool_return) == ("success", "stolen")


@SEND
def test_an_approval_survives_what_changes_nothing_of_its_tool(
    letta: Letta, new_agent: NewAgent
) -> None:
    name = unique("pay").replace("-", "_")
    source = SOURCE.format(name=name, says="paid")
    tool = letta.tools.create(source_code=source)
    agent = new_agent(
        tool_ids=[tool.id],
        include_base_tools=False,
        tool_rules=[{"type": "requires_approval", "tool_name": name}],
    )
    [call] = calls_of(letta.agents.messages.create(agent.id, messages=says(f"CALL:{name}:{{}}")))
    assert letta.tools.create(source_code=source).id == tool.id
    answer = letta.agents.messages.create(agent.id, messages=[approval(call)])
    returned = tool_return(answer.messages)
    assert (returned.status, returned.tool_return) == ("success", "paid")


@CANCEL
@SEND
def test_r23_a_cancel_frees_the_conversation_at_once(letta: Letta, new_agent: NewAgent) -> None:
    agent = new_agent(**GATED)
    asked = letta.agents.messages.create(agent.id, messages=says(ASK))
    run_id = str(asked.messages[0].run_id)
    assert letta.agents.messages.cancel(agent.id) == {run_id: "cancelled"}
    answer = letta.agents.messages.create(agent.id, messages=says("SAY:Still here."))
    assert answer.messages[-1].content == "Still here."
    history = letta.agents.messages.list(agent.id, order="asc").items
    returned = tool_return(history)
    assert (returned.status, returned.tool_return) == ("error", ENDED[ApprovalCancelled])
    with pytest.raises(BadRequestError, match="cancelled"):
        letta.agents.messages.create(agent.id, messages=[approval(*calls_of(asked))])
    assert human(letta, agent.id) == "Name: Ada"


@SEND
@RETRIEVE
def test_r23_an_approval_outlives_a_restart(
    heeler: HeelerInstance, letta: Letta, new_agent: NewAgent
) -> None:
    agent = new_agent(**GATED)
    asked = letta.agents.messages.create(agent.id, messages=says(ASK))
    heeler.kill9("agent")
    answer = letta.agents.messages.create(agent.id, messages=[approval(*calls_of(asked))])
    assert answer.stop_reason.stop_reason == "end_turn"
    assert human(letta, agent.id).endswith("Likes tea")


@STREAM
@pytest.mark.parametrize("tokens", [False, True])
def test_an_approval_is_asked_and_answered_on_streams(
    letta: Letta, http: httpx.Client, new_agent: NewAgent, tokens: bool
) -> None:
    agent = new_agent(**GATED)
    path = f"/v1/agents/{agent.id}/messages/stream"
    more = {"stream_tokens": tokens, "background": True}
    body = {"messages": says(f"CALLS:{BOTH} SAY:Both."), **more}
    lines = lines_of(http.post(path, json=body).text)
    shown = [kind for kind in kinds(lines) if kind != "ping"]
    assert list(dict.fromkeys(shown)) == [
        "tool_call_message",
        "approval_request_message",
        "stop_reason",
        "usage_statistics",
        "[DONE]",
    ]
    asking = [line.data for line in lines if "approval_request_message" in str(line.data)]
    parts = [part["tool_call"] for part in asking]
    assert parts[0]["name"] == INSERT
    assert json.loads("".join(part.get("arguments", "") for part in parts)) == EDIT
    [call_id] = {part["tool_call_id"] for part in parts}
    reasons = [line.data["stop_reason"] for line in lines if "stop_reason" in str(line.data)]
    assert reasons == ["requires_approval"]
    run_id = asking[0]["run_id"]
    resumed = http.post(f"/v1/runs/{run_id}/stream", json={"starting_after": 0})
    again = lines_of(resumed.text)
    assert [line.data for line in again if "approval_request" in str(line.data)] == asking

    given = {"type": "approval", "tool_call_id": call_id, "approve": True}
    answer = {"messages": [{"type": "approval", "approvals": [given]}], **more}
    lines = lines_of(http.post(path, json=answer).text)
    shown = [kind for kind in kinds(lines) if kind != "ping"]
    assert list(dict.fromkeys(shown)) == [
        "tool_return_message",
        "assistant_message",
        "stop_reason",
        "usage_statistics",
        "[DONE]",
    ]
    assert human(letta, agent.id).endswith("Likes tea")


@STREAM
@SEND
def test_r23_who_leaves_in_the_middle_finds_the_approval_waiting(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent(**GATED)
    path = f"/v1/agents/{agent.id}/messages/stream"
    with http.stream("POST", path, json={"messages": says(f"SLOW:300 {ASK}")}) as response:
        next(response.iter_lines())

    def pending() -> Any:
        return letta.agents.retrieve(agent.id, include=["agent.pending_approval"]).pending_approval

    wait_until("calls wait", lambda: pending() is not None, SECONDS_MAX)
    answer = letta.agents.messages.create(agent.id, messages=[approval(*pending().tool_calls)])
    assert answer.stop_reason.stop_reason == "end_turn"


@UPDATE
@SEND
def test_a_tool_needs_an_approval_as_long_as_it_is_told_to(
    letta: Letta, http: httpx.Client, legacy: httpx.Client, new_agent: NewAgent
) -> None:
    agent = new_agent()
    update = letta.agents.tools.update_approval
    assert update(INSERT, agent_id=agent.id, body_requires_approval=True) is None
    assert update(INSERT, agent_id=agent.id, body_requires_approval=True) is None
    rules = letta.agents.retrieve(agent.id).tool_rules or []
    assert [(rule.type, rule.tool_name) for rule in rules] == [("requires_approval", INSERT)]
    [call] = calls_of(letta.agents.messages.create(agent.id, messages=says(ASK)))
    letta.agents.messages.create(agent.id, messages=[approval(call, approve=False)])
    path = f"/v1/agents/{agent.id}/tools/approval/{INSERT}"
    assert legacy.patch(f"{path}?requires_approval=false").json()["tool_rules"] == []
    answer = letta.agents.messages.create(agent.id, messages=says(ASK))
    assert answer.stop_reason.stop_reason == "end_turn"
    with pytest.raises(NotFoundError, match="fly"):
        update("fly", agent_id=agent.id, body_requires_approval=True)
    with pytest.raises(NotFoundError):
        update(INSERT, agent_id=f"agent-{NOBODY}", body_requires_approval=True)
    assert http.patch(path).status_code == 422


@SEND
def test_a_deleted_agent_with_an_approval_is_gone(letta: Letta, new_agent: NewAgent) -> None:
    agent = new_agent(name=unique("asked"), **GATED)
    [call] = calls_of(letta.agents.messages.create(agent.id, messages=says(ASK)))
    letta.agents.delete(agent.id)
    with pytest.raises(NotFoundError):
        letta.agents.messages.create(agent.id, messages=[approval(call)])
