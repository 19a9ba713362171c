"""The same in Python: `pytest -p cli.agent_tests.pytest_plugin examples/chatbot/tests`."""

import pytest

NOTE = {"label": "human", "new_string": "Likes tea"}


@pytest.mark.agent(
    "../agent.toml",
    replies=[
        {"tool_calls": [{"name": "memory_insert", "arguments": NOTE}]},
        {"text": "Tea it is. Black or green?"},
    ],
)
def test_it_keeps_what_one_likes(agent_under_test):
    answer = agent_under_test.say("I like tea.")
    assert "tea" in answer.text.lower()
    assert [call.name for call in answer.tool_calls] == ["memory_insert"]
    assert "tea" in agent_under_test.memory["human"]
    agent_under_test.expect(contains="green", steps_max=2, memory={"human": {"matches": "tea$"}})
