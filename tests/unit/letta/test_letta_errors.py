"""Error bodies are the recorded ones, to the letter where the recording kept the letters."""

import json

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from libs.contracts.letta import JsonObject
from libs.contracts.letta.all_request_bodies import CreateAgent, LettaRequest
from libs.contracts.letta.error_bodies import (
    MESSAGES_EMPTY,
    InvalidArgument,
    block_label_not_found,
    check_id,
    conversation_busy,
    handle_not_found,
    id_pattern,
    malformed_json,
    not_found,
    validation_detail,
)
from services.agent.domain.agents.model_config_resolution import created_config
from tests.unit.letta.recordings import SHORTENED, body, exchange

AGENT = "agent-00000000-0000-4000-8000-000000000000"


def refusal(model: type[BaseModel], sent: object) -> JsonObject:
    with pytest.raises(ValidationError) as refused:
        model.model_validate(sent)
    return validation_detail(refused.value, "body")


def request_body(name: str) -> object:
    request = exchange(name)["request"]
    assert isinstance(request, dict)
    return request["body"]


def recorded_length(name: str) -> int:
    recorded = body(name)
    assert isinstance(recorded, dict)
    shortened = SHORTENED.fullmatch(str(recorded["detail"]))
    assert shortened
    return int(shortened.group(1))


@pytest.mark.parametrize(
    ("name", "model"),
    [("error_422_create_type", CreateAgent), ("message_send_nobody", LettaRequest)],
)
def test_a_body_of_wrong_types_is_refused_in_the_recorded_words(
    name: str, model: type[BaseModel]
) -> None:
    built = refusal(model, request_body(name))
    assert list(built) == ["trace_id", "detail"]
    assert built["trace_id"] == ""
    assert len(str(built["detail"])) == recorded_length(name)


def test_an_unknown_role_is_refused_naming_each_kind_of_message() -> None:
    detail = str(refusal(LettaRequest, request_body("message_send_badrole"))["detail"])
    assert "('body', 'messages', 0, 'MessageCreate', 'role')" in detail
    assert "('body', 'messages', 0, 'ApprovalCreate', 'type')" in detail
    assert "('body', 'messages', 0, 'ToolReturnCreate', 'tool_returns')" in detail
    assert "<MessageRole.user: 'user'>" in detail


def test_a_key_that_looks_like_a_validator_is_left_alone() -> None:
    class Names(BaseModel):
        names: dict[str, int]

    assert "'a, b]'" in str(refusal(Names, {"names": {"a, b]": "x"}})["detail"])


def test_both_input_and_messages_are_refused() -> None:
    sent = {"input": "a", "messages": [{"role": "user", "content": "b"}]}
    assert "Send either 'input' or 'messages', not both" in str(
        refusal(LettaRequest, sent)["detail"]
    )


def test_a_query_parameter_of_the_wrong_type_is_refused_as_recorded() -> None:
    class Query(BaseModel):
        limit: int

    with pytest.raises(ValidationError) as refused:
        TypeAdapter(Query).validate_python({"limit": "abc"})
    assert validation_detail(refused.value, "query") == body("error_422_limit")


def test_malformed_json_is_refused_as_recorded() -> None:
    with pytest.raises(json.JSONDecodeError) as refused:
        json.loads("{bad")
    assert malformed_json(refused.value) == body("error_422_malformed_json")


def test_a_bad_id_is_refused_with_an_example() -> None:
    built = check_id("agent", "notanid")
    recorded = body("error_422_bad_id")
    assert built is not None
    assert isinstance(recorded, dict)
    assert built["examples"] == recorded["examples"]
    assert len(str(built["detail"])) == recorded_length("error_422_bad_id")


def test_a_good_id_is_accepted_and_one_of_another_kind_is_not() -> None:
    assert check_id("agent", AGENT) is None
    assert check_id("block", AGENT) is not None
    assert check_id("agent", AGENT + "\n") is not None
    assert id_pattern("run").startswith("^run-")


def test_what_is_not_there_is_named_as_recorded() -> None:
    block = AGENT.replace("agent", "block")
    assert not_found("agent", AGENT) == body("error_404_agent")
    assert not_found("block", block) == body("error_404_block")
    assert handle_not_found("nope/nope") == body("error_404_model_handle")
    recorded = body("core_memory_block_404")
    agent = "agent-141969e4-9490-41f7-a65a-46932049d888"
    assert block_label_not_found("nope", agent) == recorded


def test_a_busy_conversation_is_refused_as_recorded() -> None:
    assert conversation_busy() == body("error_409_busy_conversation")
    assert conversation_busy("run-1")["run_id"] == "run-1"


def test_no_messages_at_all_are_refused_as_recorded() -> None:
    assert LettaRequest.model_validate({"messages": []}).all_messages == []
    assert body("message_send_empty") == MESSAGES_EMPTY


def test_an_agent_without_a_model_is_refused_as_recorded() -> None:
    with pytest.raises(InvalidArgument) as refused:
        created_config(CreateAgent.model_validate({}), None)
    assert refused.value.body == body("agent_create_empty_body")


@pytest.mark.parametrize("sent", [{"model": "gpt"}, {"name": "a/b"}, {"max_files_open": 1001}])
def test_an_impossible_agent_is_refused_with_a_reason(sent: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument, match=r".+"):
        CreateAgent.model_validate(sent)
