"""How checks are made and told: at the same time, in order, and none can hurt the others."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from cli.__main__ import main
from deploy.doctor import examination
from deploy.doctor.examination import CHECKS, Check
from deploy.doctor.examined import Examined
from deploy.doctor.findings import ok, problem, skip, warning
from deploy.doctor.report import doctor


@pytest.fixture
def examined(tmp_path: Path) -> Examined:
    return Examined(given={"HEELER_HOME": str(tmp_path / "home")})


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> dict[str, Check]:
    """The table of checks, empty."""
    checks: dict[str, Check] = {}
    monkeypatch.setattr(examination, "CHECKS", checks)
    return checks


def test_results_come_in_the_order_of_the_table(made: dict[str, Check], examined: Examined) -> None:
    second_ran = threading.Event()

    def first(_: Examined):  # type: ignore[no-untyped-def]
        assert second_ran.wait(30), "the checks are made at the same time"
        return ok("first")

    def second(_: Examined):  # type: ignore[no-untyped-def]
        second_ran.set()
        return [ok("second"), ok("third")]

    made |= {"a": first, "b": second}
    results = list(examination.examine(examined))
    told = [(result.check, finding.message) for result in results for finding in result.findings]
    assert told == [("a", "first"), ("b", "second"), ("b", "third")]


def test_a_check_that_fails_is_a_problem_of_its_own(
    made: dict[str, Check], examined: Examined
) -> None:
    def fails(_: Examined):  # type: ignore[no-untyped-def]
        raise RuntimeError("postgresql://user:password@host")

    made |= {"a": fails, "b": lambda _: ok("well")}
    failed, well = examination.examine(examined)
    assert failed.findings[0].message == "the check itself failed (RuntimeError)"
    assert (failed.is_problem, well.is_problem) == (True, False)


def test_a_check_that_hangs_keeps_nobody_waiting(
    made: dict[str, Check], examined: Examined, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = threading.Event()

    def hangs(_: Examined):  # type: ignore[no-untyped-def]
        ends.wait(60)
        return ok("at last")

    made |= {"a": lambda _: ok("well"), "b": hangs}
    monkeypatch.setattr(examination, "CHECK_SECONDS_MAX", 2.0)
    results = list(examination.examine(examined))
    ends.set()
    assert "no answer within 2 s" in results[-1].findings[0].message


def test_the_exit_code_says_whether_there_is_a_problem(
    made: dict[str, Check], examined: Examined, capsys: pytest.CaptureFixture[str]
) -> None:
    made |= {"a": lambda _: warning("may fail", "mend it"), "b": lambda _: skip("away")}
    assert doctor(examined) == 0
    assert "0 problems, 1 warnings." in capsys.readouterr().out
    made["c"] = lambda _: problem("fails", "mend this")
    assert doctor(examined, quiet=True) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[:-1]] == [
        *(["a", "warning", "may", "fail"], ["fix:", "mend", "it"]),
        *(["c", "problem", "fails"], ["fix:", "mend", "this"]),
    ]


def test_json_is_alone_on_stdout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEELER_PORT", "none")
    code = main(["doctor", "--json", "--home", str(tmp_path), "settings", "home"])
    report = json.loads(capsys.readouterr().out)
    assert code == 1
    assert (report["healthy"], report["problems"], report["warnings"]) == (False, 1, 0)
    assert report["home"] == str(tmp_path)
    [wrong, home] = report["checks"]
    assert wrong == {
        "name": "settings",
        "state": "problem",
        "message": "HEELER_PORT is 'none': it must be a whole number from 1 to 65535",
        "fix": "unset HEELER_PORT",
    }
    assert (home["name"], home["fix"]) == ("home", None)


def test_a_check_that_is_none_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "weather"]) == 2
    assert "No such check: weather" in capsys.readouterr().err
    assert {"postgres", "providers", "sandbox"} <= CHECKS.keys()
