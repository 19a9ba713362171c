"""The driver measures what a server does, and says so when it fails."""

import asyncio
import json
import os

import pytest

from benchmarks.__main__ import main, read_options
from benchmarks.agents import RunFailed
from benchmarks.driver import ROWS, SKIPPED, Options, run
from benchmarks.rows import MESSAGES_PER_AGENT_MAX

SECONDS = 0.1


async def rows_of(fake, tmp_path, *rows, **options):
    file = tmp_path / "figures.json"
    given = Options(base_url=fake.origin, rows=rows, seconds=SECONDS, json_file=file, **options)
    assert await run(given)
    return {row["row"]: row for row in json.loads(file.read_text())["rows"]}


async def test_every_row_is_measured_but_what_a_stranger_has_not(fake, tmp_path):
    rows = await rows_of(fake, tmp_path, *ROWS)
    assert tuple(rows) == ROWS
    for row in ("bus-1", "minilm-1", "minilm-8"):
        assert rows.pop(row)["problem"] == SKIPPED
    for row in rows.values():
        assert row["problem"] == ""
        assert row["errors"] == {}
        assert row["operations"] >= row["concurrency"]
        assert row["per_second"] == pytest.approx(row["operations"] / row["seconds"])
        assert 0 < row["p50_ms"] <= row["p99_ms"] <= row["max_ms"]
        assert row["cpu_ms"] is None
        assert row["client_cpu_ms"] > 0


async def test_no_agent_gets_more_than_its_messages(fake, tmp_path):
    rows = await rows_of(fake, tmp_path, "message-1")
    assert rows["message-1"]["operations"] > MESSAGES_PER_AGENT_MAX
    assert max(fake.messages.values()) == MESSAGES_PER_AGENT_MAX


async def test_each_worker_has_an_agent_of_its_own(fake, tmp_path):
    await rows_of(fake, tmp_path, "message-64")
    assert len(fake.messages) >= 64


async def test_a_list_row_lists_50_of_1000_agents(fake, tmp_path):
    rows = await rows_of(fake, tmp_path, "list-1")
    assert fake.asked["POST /v1/agents/"] == 1_000
    assert fake.asked["GET /v1/agents/?limit=50"] > rows["list-1"]["operations"]


async def test_no_question_is_asked_twice_of_an_agent_that_remembers_1000_texts(fake, tmp_path):
    rows = await rows_of(fake, tmp_path, "search-8")
    asked = {name: times for name, times in fake.asked.items() if "/search?" in name}
    assert rows["search-8"]["operations"] <= len(asked) == sum(asked.values())
    assert max(fake.passages.values()) == 1_000


async def test_a_server_of_somebody_else_is_left_as_it_was(fake, tmp_path):
    await rows_of(fake, tmp_path, "create-8", "message-8")
    assert fake.asked["POST /v1/agents/"] > 8
    assert (fake.agents, fake.blocks) == ({}, set())


async def test_errors_are_counted_by_status_and_not_as_operations(fake, tmp_path, capsys):
    fake.fail_every = 4
    row = (await rows_of(fake, tmp_path, "message-8"))["message-8"]
    assert set(row["errors"]) == {"500"}
    assert row["errors"]["500"] == pytest.approx(row["operations"] / 3, rel=0.2)
    missed = [each for each in row["targets"] if each["verdict"] == "MISSED"]
    assert {"target": "errors <= 0", "goal": False, "verdict": "MISSED"} in missed
    assert f"errors: {row['errors']['500']} x 500" in capsys.readouterr().out


@pytest.mark.parametrize("row", ["message-1", "stream-1"])
async def test_an_answer_that_says_nothing_is_an_error(fake, tmp_path, row):
    fake.says_nothing = True
    figures = (await rows_of(fake, tmp_path, row))[row]
    assert set(figures["errors"]) == {"wrong content"}
    assert figures["operations"] == 0
    assert figures["p50_ms"] is None


async def test_a_stream_is_timed_to_its_first_message_and_not_to_the_ping(fake, tmp_path):
    fake.drip_ms = 10  # between head, ping, message, end and last chunk
    row = (await rows_of(fake, tmp_path, "stream-1"))["stream-1"]
    assert 20 <= row["p50_ms"] < 30
    assert row["per_second"] <= 25


async def test_a_goal_that_is_a_ratio_is_judged_against_an_earlier_run(fake, tmp_path, capsys):
    earlier = tmp_path / "genuine.json"
    slow, fast = {"row": "get-1", "per_second": 0.01}, {"row": "get-8", "per_second": 1e9}
    earlier.write_text(json.dumps({"rows": [slow, fast]}))
    rows = await rows_of(fake, tmp_path, "get-1", "get-8", "create-1", against=earlier)
    verdicts = {
        name: [each["verdict"] for each in row["targets"] if each["target"].endswith("x per s")]
        for name, row in rows.items()
    }
    assert verdicts == {"get-1": ["ok"], "get-8": ["MISSED"], "create-1": []}
    assert "goal >= 12x per s MISSED (0.00x)" in capsys.readouterr().out


async def test_a_row_that_cannot_be_prepared_fails_the_run_but_not_the_other_rows(fake, tmp_path):
    file = tmp_path / "figures.json"
    wrong = fake.origin + "/nowhere"
    rows = ["message-1", "create-1"]
    assert not await run(Options(base_url=wrong, rows=rows, seconds=SECONDS, json_file=file))
    message, create = json.loads(file.read_text())["rows"]
    assert message["problem"].startswith("failed: POST /nowhere/v1/agents/: 404")
    assert set(create["errors"]) == {"404"}


async def test_an_agent_that_is_none_fails_the_row(fake, capsys):
    fake.create = lambda wanted: {"id": "agent-1"}
    assert not await run(Options(base_url=fake.origin, rows=["get-1"], seconds=SECONDS))
    assert "get-1        failed: a created agent looks wrong" in capsys.readouterr().out


async def test_a_server_that_is_not_there_fails_every_row(capsys):
    nobody = Options(base_url="http://127.0.0.1:9", rows=["get-1"], seconds=SECONDS)
    assert not await run(nobody)
    assert "failed: POST /v1/agents/: " in capsys.readouterr().out


async def test_a_file_that_is_not_of_an_earlier_run_is_refused(fake, tmp_path):
    (tmp_path / "other.json").write_text("[]")
    with pytest.raises(RunFailed, match="not the --json file of an earlier run"):
        await run(Options(base_url=fake.origin, against=tmp_path / "other.json"))


class TestCommandLine:
    async def test_it_prints_a_row_and_ends_well(self, fake, capsys):
        words = ["--base-url", fake.origin, "--only", "get-8", "--seconds", "0.1"]
        words += ["--pid", str(os.getpid())]
        # In a thread of its own, for there it runs on another event loop than the tests do.
        assert await asyncio.to_thread(main, words) == 0
        (row,) = [each for each in capsys.readouterr().out.splitlines() if each[:5] == "get-8"]
        name, operations, errors, *figures, client = row.replace("!", "").split()
        assert (name, errors) == ("get-8", "0")
        assert int(operations) >= 8
        assert all(float(each) > 0 for each in [*figures, client])

    async def test_a_run_that_cannot_begin_says_why(self, capsys):
        assert await asyncio.to_thread(main, ["--base-url", "nonsense"]) == 1
        assert "'nonsense' is not a base URL" in capsys.readouterr().err

    def test_a_kind_means_all_its_rows_in_the_order_of_the_table(self):
        options = read_options(["--only", "message-8,get", "--seconds", "2", "--base-url", "x"])
        assert options.rows == ["get-1", "get-8", "message-8"]
        assert options.seconds == 2
        assert options.base_url == "x"

    def test_without_options_it_is_everything_on_an_own_instance(self):
        assert read_options([]) == Options()

    @pytest.mark.parametrize("words", [["--only", "nothing"], ["--seconds", "0"], ["--pid", "1"]])
    def test_what_makes_no_sense_is_refused(self, words, capsys):
        with pytest.raises(SystemExit):
            read_options(words)
        assert "error: " in capsys.readouterr().err
