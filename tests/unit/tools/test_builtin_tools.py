"""Tools that come with the server: what they are called with, and what models read of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from libs.contracts.environment_parsing import WrongSetting
from libs.contracts.letta.enums import ToolType
from libs.contracts.letta.tools import ToolState
from libs.contracts.tools.base_tools.catalogue import CATALOGUE, base_tool_state
from libs.contracts.tools.base_tools.definition import tool_id
from libs.contracts.tools.tool_runs import RunTool, ToolRunResult
from libs.egress.failures import TooLate
from libs.egress.guarded_http_client import GuardedHttp
from libs.egress.outgoing_requests import Answer, OutgoingRequest
from libs.encryption.sealer import Sealer
from libs.encryption.sealing_keys import new_key
from libs.telemetry import metrics
from services.tools.adapters.html_to_markdown import markdown_of
from services.tools.adapters.web_search import SearchSettings, WebSearches
from services.tools.engine.builtin_runner import BuiltinRunner
from services.tools.engine.environment_variables import Variables
from services.tools.engine.run_code import RunCodeTool
from services.tools.engine.tool_runner_telemetry import observe_runners
from services.tools.engine.web_builtins import WebSearchTool
from services.tools.engine.workspace_builtins import FILE_TOOLS, FileTool, ShellTool
from services.tools.policies.agent_cleanup import WorkspaceCleanup
from services.tools.sandbox import workspace_files
from services.tools.sandbox.ports import Outcome, Program
from services.tools.settings import ToolsSettings
from tests.clock_and_ids import ManualClock
from tests.unit.tools.no_sandbox_configs import NoSandboxConfigs

SEALER = Sealer([new_key()])
NODE = "TypeScript needs Node 22.6 or newer where the server runs: write JavaScript"


class FakeSandbox:
    """Ends every program in the same way, and has no TypeScript."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.programs: list[Program] = []

    def refusal_of(self, program: Program) -> str:
        return NODE if program.language == "typescript" else ""

    async def run(self, program: Program) -> Outcome:
        self.programs.append(program)
        return self.outcome


def tool(name: str) -> ToolState:
    return ToolState.model_validate(base_tool_state(CATALOGUE[tool_id(name)]))


def command(arguments: dict[str, Any], **fields: Any) -> RunTool:
    given = {"tool_run_id": "tool_run-1", "arguments": arguments, "seconds_max": 108.0, **fields}
    return RunTool.model_validate({"agent_id": "agent-1", **given})


def runner(outcome: Outcome) -> tuple[BuiltinRunner, FakeSandbox]:
    sandbox = FakeSandbox(outcome)
    shell, files = (kind(sandbox) for kind in (ShellTool, FileTool))
    code = RunCodeTool(sandbox, seconds_max=30)
    return BuiltinRunner({"run_code": code, "shell": shell, **dict.fromkeys(FILE_TOOLS, files)}), (
        sandbox
    )


async def ran(name: str, arguments: dict[str, Any], outcome: Outcome) -> ToolRunResult:
    built_in, _ = runner(outcome)
    return await built_in.run(tool(name), command(arguments), "org-1")


class TestRunCode:
    """TOOL-20"""

    async def test_code_is_a_program_of_its_own_with_its_own_limits(self) -> None:
        built_in, sandbox = runner(Outcome("success", "120", "hi\n", output_bytes=3))
        result = await built_in.run(
            tool("run_code"), command({"code": "120", "language": "Python"}), "org-1"
        )
        [program] = sandbox.programs
        assert (program.language, program.source, program.last_value) == ("python", "120", True)
        assert (program.org, program.agent_id, program.in_workspace) == ("org-1", "agent-1", False)
        assert program.limits.seconds == 30
        assert dict(program.environment) == {}
        assert json.loads(result.text) == {
            "results": ["120"],
            "logs": {"stdout": ["hi\n"], "stderr": []},
        }
        assert (result.status, result.output_bytes) == ("success", 3)

    @pytest.mark.parametrize(
        ("outcome", "status", "error"),
        [
            (
                Outcome("error", reason="Traceback\n  File\nKeyError: 'a'"),
                "success",
                {
                    "name": "KeyError",
                    "value": "'a'",
                    "traceback": "Traceback\n  File\nKeyError: 'a'",
                },
            ),
            (
                Outcome("error", reason="The program ended with exit status 3"),
                "success",
                {"name": "Error", "value": "The program ended with exit status 3", "traceback": ""},
            ),
            (
                Outcome("timeout", reason="It ran longer than 30 seconds"),
                "timeout",
                {"name": "TimeoutError", "value": "It ran longer than 30 seconds", "traceback": ""},
            ),
            (
                Outcome("killed", reason="It had more than 64 processes"),
                "killed",
                {"name": "Killed", "value": "It had more than 64 processes", "traceback": ""},
            ),
            (
                Outcome("error", reason="No sandbox was free", started=False),
                "error",
                {"name": "Error", "value": "No sandbox was free", "traceback": ""},
            ),
        ],
    )
    async def test_how_it_ended_is_said_in_one_form(
        self, outcome: Outcome, status: str, error: dict[str, str]
    ) -> None:
        result = await ran("run_code", {"code": "x", "language": "python"}, outcome)
        assert (result.status, json.loads(result.text)["error"]) == (status, error)

    @pytest.mark.parametrize("language", ["java", "r", "cobol", "ts"])
    async def test_a_language_that_is_not_there_is_refused_with_those_that_are(
        self, language: str
    ) -> None:
        result = await ran("run_code", {"code": "x", "language": language}, Outcome("success"))
        assert result.status == "error"
        assert "python, js, shell" in result.text

    async def test_what_is_too_long_or_missing_is_refused_by_its_name(self) -> None:
        """TOOL-05: inputs are checked; one that fits reaches the program whole, and of one that
        does not nothing is run."""
        fits = "é" * (1 << 19)  # 1 MiB, in bytes
        for code, words in {
            fits: "",
            fits + "x": "do not fit 'run_code': code: Value error, it has 1048577 bytes",
            None: "do not fit 'run_code': code: Field required",
        }.items():
            built_in, sandbox = runner(Outcome("success"))
            given = {"language": "js"} | ({} if code is None else {"code": code})
            result = await built_in.run(tool("run_code"), command(given), "org-1")
            if words:
                assert result.status == "error"
                assert words in result.text
            else:
                assert result.status == "success"
            assert [program.source for program in sandbox.programs] == [fits] * (not words)

    @pytest.mark.parametrize(
        ("name", "arguments", "problem"),
        [
            ("run_code", {"language": "js"}, "code: Field required"),
            ("run_code", {"code": 7, "language": "js"}, "code: Input should be a valid string"),
            ("shell", {}, "command: Field required"),
            ("shell", {"command": ["ls"]}, "command: Input should be a valid string"),
            ("read_file", {}, "path: Field required"),
            ("write_file", {"path": "a.txt"}, "content: Field required"),
            ("write_file", {"path": ["a"], "content": "x"}, "path: Input should be a valid string"),
            ("list_files", {"path": 7}, "path: Input should be a valid string"),
        ],
    )
    async def test_what_does_not_fit_is_refused_by_its_name_and_runs_nothing(
        self, name: str, arguments: dict[str, Any], problem: str
    ) -> None:
        """TOOL-05: of every built-in tool."""
        built_in, sandbox = runner(Outcome("success"))
        refused = await built_in.run(tool(name), command(arguments), "org-1")
        assert refused.status == "error"
        assert f"do not fit '{name}': {problem}" in refused.text
        assert sandbox.programs == []

    async def test_long_output_stays_json(self) -> None:
        outcome = Outcome("success", "v" * 100_000, "o" * 100_000, "e" * 100_000)
        result = await ran("run_code", {"code": "x", "language": "python"}, outcome)
        assert len(result.text) < 50_000
        assert "(100000 > " in json.loads(result.text)["logs"]["stderr"][0]


class TestWorkspace:
    """TOOL-03, TOOL-04"""

    async def test_a_command_says_what_it_printed_and_how_it_ended(self) -> None:
        outcome = Outcome("error", stdout="a\n", stderr="b\n", reason="The program ended: 3")
        result = await ran("shell", {"command": "x"}, outcome)
        assert (result.status, result.text) == (
            "error",
            "a\n[stderr]\nb\n[The program ended: 3]",
        )
        nothing = await ran("shell", {"command": "x"}, Outcome("success"))
        assert nothing.text == "(it printed nothing)"

    async def test_it_has_as_long_as_it_asks_for_within_a_bound(self) -> None:
        built_in, sandbox = runner(Outcome("success"))
        for seconds in (5, 300):
            asked = command({"command": "x", "timeout_seconds": seconds})
            await built_in.run(tool("shell"), asked, "org-1")
        assert [program.limits.seconds for program in sandbox.programs] == [5, 108]
        refused = await ran("shell", {"command": "x", "timeout_seconds": 301}, Outcome("success"))
        assert "timeout_seconds: Input should be less than or equal to 300" in refused.text

    async def test_files_are_read_by_a_program_in_the_workspace(self) -> None:
        built_in, sandbox = runner(Outcome("success", "tea"))
        result = await built_in.run(tool("read_file"), command({"path": "a"}), "org-1")
        [program] = sandbox.programs
        assert (result.text, program.function, program.in_workspace) == ("tea", "read_file", True)
        assert program.arguments == {"path": "a", "offset": 1, "limit": 2000}
        compile(program.source, "source", "exec")

    def test_the_programs_read_write_and_list(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """S25"""
        root = tmp_path / "workspace"
        root.mkdir()
        (tmp_path / "secret").write_text("secret")
        (root / "out").symlink_to(tmp_path)
        (root / "in").symlink_to(root / "notes")
        monkeypatch.setattr(workspace_files, "WORKSPACE", str(root))
        read, write = workspace_files.read_file, workspace_files.write_file
        assert write("notes/a.txt", "1\n2\n3\n") == "notes/a.txt has 6 bytes now."
        assert write("in/a.txt", "4\n", append=True) == "notes/a.txt has 8 bytes now."
        assert read(str(root / "notes/a.txt"), offset=2, limit=2) == (
            "2\n3\n... (more from line 4 on)"
        )
        assert read("notes/a.txt", offset=9) == "(notes/a.txt has only 4 lines)"
        assert workspace_files.list_files().splitlines() == [
            "in/",
            "notes/",
            "out/",
        ]
        assert workspace_files.list_files("notes", recursive=True) == "notes/a.txt (8 bytes)"
        for path in ("../secret", "/etc/passwd", "out/secret", "notes/../../secret", "a\0b"):
            for call in (read, lambda path: write(path, "mine")):
                with pytest.raises(ValueError, match=r"is outside of|NUL"):
                    call(path)
        assert (tmp_path / "secret").read_text() == "secret"
        (root / "binary").write_bytes(b"\xff\xfe")
        with pytest.raises(ValueError, match="no text in UTF-8"):
            read("binary")

    async def test_a_workspace_goes_when_its_agent_was_deleted(self) -> None:
        clock, there = (
            ManualClock(),
            [("org-1", "agent-1"), ("org-2", "agent-1"), ("org-1", "agent-2")],
        )
        gone: set[tuple[str, str]] = set()
        asked: list[str] = []

        async def present() -> list[tuple[str, str]]:
            return [*there]

        async def remove(org: str, agent_id: str) -> None:
            there.remove((org, agent_id))

        class Deleted:
            async def deleted_agents(self, org: str, agent_ids: list[str]) -> list[str]:
                asked.extend(agent_ids)
                return [agent_id for agent_id in agent_ids if (org, agent_id) in gone]

            async def last_event(self) -> int:
                return len(gone)

        cleanup = WorkspaceCleanup(present, remove, Deleted(), clock)  # type: ignore[arg-type]
        await cleanup.sweep()
        gone.add(("org-1", "agent-1"))
        await cleanup.sweep()
        assert len(there) == 3, "not yet time to look"
        cleanup.look_at_all()
        await cleanup.sweep()
        assert there == [("org-2", "agent-1"), ("org-1", "agent-2")]
        gone.add(("org-1", "agent-2"))
        clock.seconds += WorkspaceCleanup.every_seconds
        await cleanup.sweep()
        assert there == [("org-2", "agent-1")]
        for _ in range(4):
            asked.clear()
            clock.seconds += WorkspaceCleanup.every_seconds
            await cleanup.sweep()
        assert asked == [], "no agent was deleted meanwhile"


type Sent = list[tuple[str, OutgoingRequest]]


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Callable[[object], Sent]:
    """Has every request answered so."""

    def given(answer: object) -> Sent:
        sent: Sent = []

        async def send(self: GuardedHttp, request: OutgoingRequest) -> Answer:
            sent.append((request.url, request))
            if isinstance(answer, Exception):
                raise answer
            status, body = answer if isinstance(answer, tuple) else (200, answer)
            return Answer(status, {}, request.url, json.dumps(body).encode())

        monkeypatch.setattr(GuardedHttp, "send", send)
        return sent

    return given


async def searched(
    settings: SearchSettings, arguments: dict[str, Any], secrets: Mapping[str, str] = {}
) -> ToolRunResult:
    search = WebSearchTool(
        WebSearches(settings), Variables(SEALER, NoSandboxConfigs()), ManualClock()
    )  # type: ignore[arg-type]
    sealed = {name: SEALER.seal(value) for name, value in secrets.items()}
    asked = command(arguments, environment=sealed)
    return await BuiltinRunner({"web_search": search}).run(tool("web_search"), asked, "org-1")


class TestWebSearch:
    """TOOL-19"""

    async def test_without_a_key_it_says_which_is_missing(self) -> None:
        none = await searched(SearchSettings(), {"query": "tea"})
        assert none.status == "error"
        assert "set EXA_API_KEY or TAVILY_API_KEY" in json.loads(none.text)["error"]
        chosen = SearchSettings("tavily", keys={"EXA_API_KEY": "x"})
        other = await searched(chosen, {"query": "tea"})
        assert "TAVILY_API_KEY is not set" in json.loads(other.text)["error"]

    async def test_an_agents_own_key_goes_before_the_operators(
        self, answers: Callable[[object], Sent]
    ) -> None:
        sent = answers({"results": []})
        settings = SearchSettings(keys={"EXA_API_KEY": "operators"})
        await searched(settings, {"query": "tea"})
        await searched(settings, {"query": "tea"}, {"EXA_API_KEY": "agents"})
        assert [request.headers["x-api-key"] for _, request in sent] == ["operators", "agents"]
        assert sent[0][0] == "https://api.exa.ai/search"

    async def test_tavily_is_asked_in_its_own_words(
        self, answers: Callable[[object], Sent]
    ) -> None:
        found = {"title": "Tea", "url": "https://a", "content": "About", "raw_content": "All"}
        sent = answers({"results": [found]})
        asked = {"query": "tea", "num_results": 900, "include_text": True, "category": "news"}
        result = await searched(SearchSettings(keys={"TAVILY_API_KEY": "t"}), asked)
        assert json.loads(result.text)["results"] == [
            {
                "title": "Tea",
                "url": "https://a",
                "published_date": None,
                "author": None,
                "text": "All",
                "summary": "About",
            }
        ]
        [(url, request)] = sent
        assert (url, request.headers["Authorization"]) == (
            "https://api.tavily.com/search",
            "Bearer t",
        )
        assert json.loads(request.body or b"") == {
            "query": "tea",
            "max_results": 20,
            "topic": "news",
            "include_raw_content": True,
        }

    @pytest.mark.parametrize(
        ("answer", "why"),
        [
            ((401, {"error": "no such key: secret-key"}), 'answered with 401: {"error": "no such'),
            (TooLate("there was no answer within 30 seconds"), "was not reached: there was no"),
            (["nothing"], "answered without results"),
        ],
    )
    async def test_what_goes_wrong_is_said_without_the_key(
        self, answers: Callable[[object], Sent], answer: object, why: str
    ) -> None:
        answers(answer)
        result = await searched(SearchSettings(keys={"EXA_API_KEY": "secret-key"}), {"query": "q"})
        assert result.status == "error"
        assert why in json.loads(result.text)["error"]
        assert "secret-key" not in result.text

    async def test_as_many_results_as_there_is_room_for(
        self, answers: Callable[[object], Sent]
    ) -> None:
        answers({"results": [{"title": "Tea", "text": "x" * 20_000}] * 10})
        settings = SearchSettings(keys={"EXA_API_KEY": "k"})
        result = await searched(settings, {"query": "tea", "include_text": True})
        assert len(json.loads(result.text)["results"]) == 2


@pytest.mark.parametrize(
    ("environment", "names"),
    [
        ({"HEELER_WORKSPACES": "here"}, "HEELER_WORKSPACES"),
        ({"HEELER_RUN_CODE_SECONDS": "301"}, "HEELER_RUN_CODE_SECONDS"),
        ({"HEELER_MCP_SAMPLING_TOKENS_MAX": "0"}, "HEELER_MCP_SAMPLING_TOKENS_MAX"),
        ({"HEELER_FETCH_HOSTS": "http://a"}, "HEELER_FETCH_HOSTS"),
        ({"HEELER_WEB_SEARCH": "bing"}, "HEELER_WEB_SEARCH"),
        ({"HEELER_WEB_SEARCH_URL": "ftp://a"}, "HEELER_WEB_SEARCH_URL"),
        ({"EXA_API_KEY": "a\nb"}, "EXA_API_KEY"),
    ],
)
def test_a_wrong_setting_is_named(environment: dict[str, str], names: str) -> None:
    def read() -> None:
        ToolsSettings.from_environment(environment)
        SearchSettings.from_environment(environment)

    with pytest.raises(WrongSetting, match=names):
        read()


def test_a_page_is_its_main_part_as_markdown() -> None:
    page = (
        "<title>Tea</title><script>x</script><nav>Menu</nav><article><h2>Green</h2>"
        "<p>a <em>b</em></p><pre>code</pre></article><footer>no</footer>"
    )
    assert markdown_of(page) == "# Tea\n\n## Green\n\na *b*\n\n```\ncode\n```"
    assert markdown_of("just text") == "just text"


async def test_calls_are_counted_by_kind_and_end() -> None:
    built_in, _ = runner(Outcome("success", cpu_seconds=0.5, memory_bytes_max=9 << 20))
    [seen] = observe_runners({ToolType.letta_builtin: built_in}, ManualClock()).values()
    runs = metrics.TOOL_RUNS.labels("letta_builtin", "success")
    cpu = metrics.TOOL_RUN_CPU_SECONDS.labels("letta_builtin")
    before = (runs._value.get(), cpu._value.get())
    await seen.run(tool("shell"), command({"command": "x"}), "org-1")
    assert (runs._value.get(), cpu._value.get()) == (before[0] + 1, before[1] + 0.5)


async def test_what_is_not_built_is_refused_before_it_begins() -> None:
    built_in, _ = runner(Outcome("success"))
    why = built_in.refusal_of(tool("run_code_with_tools"), command({"code": "x"}))
    assert why == "The tool 'run_code_with_tools' is not built yet on this server."
