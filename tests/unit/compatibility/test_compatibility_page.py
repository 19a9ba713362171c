"""The compatibility page says works only of what a test proved."""

from typing import Literal

import pytest

from deploy.compatibility import (
    PAGE,
    RECORDED,
    Difference,
    Result,
    current_page,
    read_differences,
    read_exchanges,
    read_operations,
    render,
)
from tests.compatibility_plugin import PROVES, CompatibilityWriter, known_operations

CREATE = "POST /v1/agents/"
DELETE = "DELETE /v1/agents/{agent_id}"


def test_what_no_test_proved_is_missing() -> None:
    page = render(read_operations(), {}, [])
    assert f"| `{CREATE}` | `client.agents.create` | missing (501) |  |  |" in page
    assert "| `GET /v1/agents/{agent_id}/schedule` |" in page
    assert "missing (404)" in page
    assert " works |" not in page.split("## ", 1)[1]


def test_what_tests_proved_works_or_differs() -> None:
    results = {
        CREATE: Result("works", "", ("t",), ("Tin",)),
        DELETE: Result("differs", "why", ("t", "u")),
    }
    page = render(read_operations(), results, [Difference("area", "theirs", "ours")])
    assert f"| `{CREATE}` | `client.agents.create` | works | 1 | Tin |" in page
    assert f"| `{DELETE}` | `client.agents.delete` | differs: why | 2 |  |" in page
    assert "| in the SDK | 129 | 1 | 1 | 127 |" in page
    assert "| area | theirs | ours |" in page


def test_a_result_for_an_unknown_operation_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="GET /nowhere"):
        render(read_operations(), {"GET /nowhere": Result("works")}, [])


def test_the_differences_can_be_read() -> None:
    assert all(d.area and d.genuine and d.ours for d in read_differences())


def test_at_most_fifteen_exchanges_of_agents_and_their_runs_differ_each_with_a_reason() -> None:
    listed = read_exchanges()
    names = [name for exchange in listed for name in exchange.names]
    assert all(exchange.names and exchange.why for exchange in listed)
    assert len(names) == len(set(names))
    assert set(names) <= set(RECORDED.read_text().split())
    subjects = ("agent", "message", "conversation", "run", "step", "error")
    assert len([name for name in names if name.startswith(subjects)]) <= 15


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == current_page(), "run `python -m deploy.compatibility`"


def report(
    test: str, outcome: Literal["passed", "failed"], *marks: tuple[str, dict[str, str]]
) -> pytest.TestReport:
    return pytest.TestReport(
        nodeid=test,
        location=("", 0, ""),
        keywords={},
        outcome=outcome,
        longrepr=None,
        when="call",
        user_properties=[(PROVES, [name, fields]) for name, fields in marks],
    )


def test_an_operation_counts_if_a_test_passed_and_none_failed() -> None:
    writer = CompatibilityWriter(known_operations())
    passed = report("a", "passed", (CREATE, {"client": "Tin"}), (DELETE, {}))
    writer.pytest_runtest_logreport(passed)
    writer.pytest_runtest_logreport(report("b", "failed", (DELETE, {})))
    entry = {"status": "works", "why": "", "clients": ["Tin"], "tests": ["a"]}
    assert writer.results() == {CREATE: entry}


def test_one_test_that_proves_a_difference_makes_the_operation_differ() -> None:
    writer = CompatibilityWriter(known_operations())
    writer.pytest_runtest_logreport(report("a", "passed", (CREATE, {})))
    writer.pytest_runtest_logreport(report("b", "passed", (CREATE, {"differs": "better"})))
    entry = {"status": "differs", "why": "better", "clients": [], "tests": ["a", "b"]}
    assert writer.results() == {CREATE: entry}
