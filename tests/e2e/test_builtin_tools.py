"""Tools that come with the server and run here: code, the web, and an agent's own workspace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from letta_client import ConflictError, Letta

from libs.contracts.tools.base_tools.catalogue import ADDED_TOOLS, BASE_TOOLS
from tests.e2e.asking import NOBODY, SEND, STREAM, kinds, says, stream, unique
from tests.e2e.conftest import NewAgent
from tests.e2e.web import Web
from tests.servers import HeelerInstance
from tests.waiting import wait_for

RUN = pytest.mark.operation("POST /v1/agents/{agent_id}/tools/{tool_name}/run")
WORKSPACE = ["shell", "read_file", "write_file", "list_files"]


def calls(*called: tuple[str, dict[str, Any]]) -> str:
    """One call after another."""
    return " ".join(f"CALL:{name}:{json.dumps(arguments)}" for name, arguments in called)


def told(letta: Letta, agent_id: str, script: str) -> list[tuple[str, str]]:
    """What the tools returned when a model followed a script."""
    answer = letta.agents.messages.create(agent_id, messages=says(script))
    found = [
        message for message in answer.messages if message.message_type == "tool_return_message"
    ]
    return [(message.status, message.tool_return) for message in found]


def folders(heeler: HeelerInstance, agent_id: str) -> list[Path]:
    """The workspace of an agent, if it has one."""
    return [*Path(heeler.home, "workspaces").glob(f"*/{agent_id}")]


@SEND
def test_code_runs_in_the_languages_that_there_are(letta: Letta, new_agent: NewAgent) -> None:
    """TOOL-20, LOOP-21: run_code in V1's form; what there is no runtime for says what there is."""
    agent = new_agent(tools=["run_code"], include_base_tools=False)
    languages = {
        "python": "import math\nprint('hi')\nmath.factorial(5)",
        "js": "const one = [1, 2]; console.log('hi'); one.map((n) => n + 1)",
        "shell": "echo hi; echo oops >&2",
        "java": "class Main {}",
    }
    script = calls(*(("run_code", {"code": c, "language": n}) for n, c in languages.items()))
    python, js, shell, java = told(letta, agent.id, script)
    assert (python[0], json.loads(python[1])) == (
        "success",
        {"results": ["120"], "logs": {"stdout": ["hi\n"], "stderr": []}},
    )
    assert json.loads(js[1])["results"] == ["[ 2, 3 ]"]
    assert json.loads(shell[1])["logs"] == {"stdout": ["hi\n"], "stderr": ["oops\n"]}
    assert java[0] == "error"
    assert "no 'java' on this server: it runs python, js" in java[1]


@STREAM
def test_what_code_raises_is_told_also_in_a_stream(http: httpx.Client, new_agent: NewAgent) -> None:
    """TOOL-02: a stream has its tools run by the same registry."""
    agent = new_agent(tools=["run_code"], include_base_tools=False)
    asked = {"code": "def f():\n    return 1 / 0\nf()", "language": "python"}
    lines = stream(http, agent.id, calls(("run_code", asked)))
    returned = lines[kinds(lines).index("tool_return_message")].data
    result = json.loads(returned["tool_return"])
    assert returned["status"] == "success", "as in V1: the call worked, the code did not"
    assert (result["error"]["name"], result["error"]["value"]) == (
        "ZeroDivisionError",
        "division by zero",
    )
    assert 'File "tool.py", line 2, in f' in result["error"]["traceback"]
    assert kinds(lines)[-1] == "[DONE]"


@STREAM
def test_a_clients_tool_runs_in_a_stream(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    """DST-16, TOOL-02: a stream has the tools that were registered, and none built into it."""
    name = unique("roll").replace("-", "_")
    tool = letta.tools.create(source_code=ROLL.format(name=name))
    agent = new_agent(tool_ids=[tool.id], include_base_tools=False)
    lines = stream(http, agent.id, calls((name, {"sides": 6})))
    returned = lines[kinds(lines).index("tool_return_message")].data
    assert (returned["tool_return"], returned["status"]) == ("4", "success")
    assert kinds(lines)[-1] == "[DONE]"
    letta.tools.delete(tool.id)


@SEND
async def test_a_workspace_is_the_agents_own_and_goes_with_it(
    heeler: HeelerInstance, letta: Letta, new_agent: NewAgent
) -> None:
    """TOOL-03, TOOL-04, SBX-09, S25: files stay from call to call, nobody else sees them, what
    leads out is refused, and nothing is left of a deleted agent."""
    ada, bob = (new_agent(tools=WORKSPACE, include_base_tools=False) for _ in range(2))
    assert sorted(tool.name for tool in ada.tools) == sorted(WORKSPACE)
    script = calls(
        ("write_file", {"path": "notes/tea.txt", "content": "green\nblack\n"}),
        ("shell", {"command": "cat notes/tea.txt; ln -s /etc out; pwd; sleep 300 &"}),
        ("read_file", {"path": "/workspace/notes/tea.txt", "offset": 2}),
        ("list_files", {"recursive": True}),
        ("read_file", {"path": "../etc/passwd"}),
        ("write_file", {"path": "out/passwd", "content": "mine"}),
        ("shell", {"command": "ls missing; exit 3"}),
    )
    wrote, ran, read, listed, above, linked, failed = told(letta, ada.id, script)
    assert wrote == ("success", "notes/tea.txt has 12 bytes now.")
    assert ran == ("success", "green\nblack\n/workspace")
    assert read == ("success", "black\n")
    assert listed[1].splitlines()[0] == "notes/"
    assert "notes/tea.txt (12 bytes)" in listed[1]
    for status, text in (above, linked):
        assert (status, "is outside of /workspace" in text) == ("error", True)
    assert failed[0] == "error"
    assert "[The program ended with exit status 3]" in failed[1]

    look = calls(("list_files", {}), ("shell", {"command": "ls -A / /workspace; ps ax"}))
    nothing, elsewhere = told(letta, bob.id, look)
    assert nothing == ("success", "(nothing)")
    assert "tea.txt" not in elsewhere[1]
    assert "sleep 300" not in elsewhere[1]
    assert "sleep 300" in told(letta, ada.id, calls(("shell", {"command": "ps ax"})))[0][1]

    [folder] = folders(heeler, ada.id)
    assert (folder / "notes" / "tea.txt").read_text() == "green\nblack\n"
    letta.agents.delete(ada.id)
    await wait_for("the end of the workspace", lambda: not folder.exists())
    assert folders(heeler, bob.id) != []


@RUN
@pytest.mark.operation("GET /v1/tools/")
@pytest.mark.operation("GET /v1/tools/{tool_id}")
def test_what_v1_has_not_is_listed_only_by_name(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    shell = ADDED_TOOLS["shell"]
    letta_names = set(BASE_TOOLS)
    listed = [tool.name for tool in letta.tools.list(limit=1000).items]
    assert not set(WORKSPACE) & set(listed)
    assert letta_names <= set(listed)
    [found] = letta.tools.list(name="shell").items
    assert (found.id, found.tool_type) == (shell.id, "letta_builtin")
    assert letta.tools.retrieve(shell.id).json_schema == shell.json_schema
    agent = new_agent(include_base_tools=False)
    letta.agents.tools.attach(shell.id, agent_id=agent.id)
    ran = letta.agents.tools.run("shell", agent_id=agent.id, args={"command": "echo $((6 * 7))"})
    assert (ran.status, ran.func_return) == ("success", "42")
    refused = letta.agents.tools.run("shell", agent_id=agent.id, args={"command": "ls", "cwd": "/"})
    assert refused.status == "error"
    assert "do not fit 'shell': cwd" in str(refused.func_return)


@SEND
@pytest.mark.operation("PUT /v1/tools/")
def test_no_client_makes_a_tool_with_the_name_of_one_of_ours(
    letta: Letta, new_agent: NewAgent
) -> None:
    """Whoever asks for `shell` gets the server's."""
    for name in WORKSPACE:
        source = f'def {name}() -> str:\n    """Fake."""\n    return "fake"\n'
        for make in (letta.tools.create, letta.tools.upsert):
            with pytest.raises(ConflictError, match="comes with the server"):
                make(source_code=source)
    agent = new_agent(tools=[*WORKSPACE], include_base_tools=False)
    held = letta.agents.tools.list(agent_id=agent.id).items
    assert {tool.id for tool in held} == {ADDED_TOOLS[name].id for name in WORKSPACE}


@SEND
def test_pages_are_read_through_the_guard(
    letta: Letta, new_agent: NewAgent, web_pages: Web
) -> None:
    """S09: only hosts that are public, or that the operator names."""
    agent = new_agent(tools=["fetch_webpage"], include_base_tools=False)
    paths = ("/tea", "/to//tea", "/latin", "/data", "/image", "/long", "/deep", "/none")
    urls = [web_pages.url + path for path in paths]
    urls += [
        f"{web_pages.url}/to/http://169.254.169.254/latest",
        "http://10.0.0.1/",
        "file:///etc/passwd",
    ]
    results = told(letta, agent.id, calls(*(("fetch_webpage", {"url": url}) for url in urls)))
    tea, redirected, latin, data, image, long, deep, none, metadata, private, file = results
    assert tea == (
        "success",
        "# Tea\n\nGreen tea is **green**, see [black](/black).\n\n- hot\n- cold",
    )
    assert redirected == tea
    assert latin == ("success", "Café")
    assert data == ("success", '{"tea": true}')
    assert deep == ("success", "deep")
    for result, why in (
        (image, "image/png, which is neither a page nor text"),
        (long, "more than 2097152 bytes"),
        (none, "answered with status 404"),
        (metadata, "HEELER_FETCH_HOSTS"),
        (private, "this address is not asked: 10.0.0.1 is an address of a private network"),
        (file, "must begin with http:// or https://"),
    ):
        assert (result[0], why in result[1]) == ("error", True), result


@SEND
def test_the_web_is_searched_by_the_operators_key(
    letta: Letta, new_agent: NewAgent, web_pages: Web
) -> None:
    """TOOL-19"""
    agent = new_agent(tools=["web_search"], include_base_tools=False)
    asked = {"query": "tea", "num_results": 2, "category": "news", "include_domains": ["a.example"]}
    found, empty, odd = told(
        letta,
        agent.id,
        calls(
            *(
                ("web_search", arguments)
                for arguments in (asked, {"query": " "}, {"num_results": "two"})
            )
        ),
    )
    result = {
        "title": "Tea",
        "url": "https://tea.example/",
        "published_date": "2026-01-02",
        "author": "Ada",
        "highlights": ["Green tea is green."],
        "summary": "About tea.",
    }
    assert (found[0], json.loads(found[1])) == (
        "success",
        {"query": "tea", "results": [result] * 2},
    )
    [(key, sent)] = web_pages.searches
    assert key == "key-of-the-operator"
    assert (sent["numResults"], sent["category"], sent["includeDomains"]) == (
        2,
        "news",
        ["a.example"],
    )
    assert sent["contents"]["text"] is False
    assert json.loads(empty[1]) == {"error": "Query cannot be empty", "query": " "}
    assert odd[0] == "error"
    assert "query: Field required" in odd[1]


def test_what_calls_used_is_listed_added_up_and_counted(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    """SBX-13: CPU, memory, time, output and processes of each call and of each agent."""
    agent = new_agent(tools=["run_code", "shell"], include_base_tools=False)
    usage = f"/v1/agents/{agent.id}/tools/usage"
    assert http.get(usage).json()["calls"] == 0
    burn = "x = bytearray(100 << 20)\nfor i in range(3_000_000): pass\nprint('done')"
    script = calls(
        ("run_code", {"code": burn, "language": "python"}),
        ("shell", {"command": "sleep 0.2 & sleep 0.2; wait"}),
        ("shell", {"command": "sleep 60", "timeout_seconds": 1}),
    )
    assert [status for status, _ in told(letta, agent.id, script)] == [
        "success",
        "success",
        "error",
    ]

    listed = http.get("/v1/tool-runs", params={"agent_id": agent.id}).json()
    assert [call["status"] for call in listed] == ["timeout", "success", "success"]
    late, slept, burnt = listed
    assert [run["tool_name"] for run in listed] == ["shell", "shell", "run_code"]
    assert burnt["usage"]["memory_bytes_max"] > 100 << 20
    assert burnt["usage"]["cpu_seconds"] > 0.05
    assert burnt["usage"]["output_bytes"] == 5
    assert slept["usage"]["processes_max"] >= 3
    assert 1 <= late["usage"]["seconds"] < 5
    assert http.get(f"/v1/tool-runs/{burnt['id']}").json() == burnt
    one = {"agent_id": agent.id, "tool_name": "shell", "status": "success", "limit": 1}
    assert http.get("/v1/tool-runs", params=one).json() == [slept]
    assert http.get("/v1/tool-runs", params={"agent_id": NOBODY}).json() == []

    total = http.get(usage).json()
    assert (total["calls"], total["by_status"]) == (3, {"success": 2, "timeout": 1})
    assert total["output_bytes"] == 5
    assert total["memory_bytes_max"] == burnt["usage"]["memory_bytes_max"]
    assert total["seconds"] == pytest.approx(sum(call["usage"]["seconds"] for call in listed))
    assert [(run["tool_name"], run["calls"]) for run in total["by_tool"]] == [
        ("run_code", 1),
        ("shell", 2),
    ]
    assert http.get(f"/v1/agents/agent-{NOBODY}/tools/usage").status_code == 404


async def test_calls_and_sandboxes_are_counted(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    """SBX-13: the pools of a process, and the limits that were hit, as operators see them."""
    late = 'heeler_tool_runs_total{kind="letta_builtin",outcome="timeout"'
    done = 'heeler_tool_runs_total{kind="letta_builtin",outcome="success"'
    limits = 'heeler_sandbox_limits_hit_total{limit="time"'

    def lines_of(series: str) -> list[str]:
        return [line for line in http.get("/metrics").text.splitlines() if line.startswith(series)]

    def counted() -> dict[str, float]:
        """The sum of each series over all processes."""
        return {
            series: sum(float(line.split()[-1]) for line in lines_of(series))
            for series in (late, done, limits)
        }

    before = counted()
    agent = new_agent(tools=["shell"], include_base_tools=False)
    script = calls(
        ("shell", {"command": "true"}),
        ("shell", {"command": "true"}),
        ("shell", {"command": "sleep 60", "timeout_seconds": 1}),
    )
    assert len(told(letta, agent.id, script)) == 3
    wanted = {late: before[late] + 1, done: before[done] + 2, limits: before[limits] + 1}

    def are_counted() -> bool:
        found = counted()
        return all(found[series] >= number for series, number in wanted.items())

    await wait_for("the calls in the metrics", are_counted)
    for state in ("idle", "used", "waiting", "agents"):
        assert any(f'state="{state}"' in line for line in lines_of('heeler_sandboxes{process="'))


ROLL = '''
def {name}(sides: int) -> str:
    """Roll a die.

    Args:
        sides (int): how many sides it has
    """
    import os
    return str(sides - 2) + os.environ.get("LUCK", "")
'''


@SEND
def test_tool_rules_hold_for_what_a_program_calls_and_after_it(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    """LOOP-21, LOOP-16: a program cannot call more often than its model may."""
    name = unique("roll").replace("-", "_")
    roll = letta.tools.create(source_code=ROLL.format(name=name))
    agent = new_agent(
        tool_ids=[roll.id],
        tools=["run_code_with_tools"],
        include_base_tools=False,
        tool_rules=[{"type": "max_count_per_step", "tool_name": name, "max_count_limit": 2}],
    )
    code = f"""
rolled = []
for n in range(5):
    try:
        rolled.append({name}(n))
    except ToolError as error:
        rolled.append(str(error)[:21])
rolled
"""
    program, afterwards = told(
        letta, agent.id, calls(("run_code_with_tools", {"code": code}), (name, {"sides": 6}))
    )
    refused = "[ToolConstraintError]"
    assert json.loads(program[1])["func_return"] == str(["-2", "-1", *[refused] * 3])
    assert (afterwards[0], refused in afterwards[1]) == ("error", True)
    listed = http.get("/v1/tool-runs", params={"agent_id": agent.id}).json()
    assert [run["tool_name"] for run in listed].count(name) == 2
    assert told(letta, agent.id, calls((name, {"sides": 6}))) == [("success", "4")]
    letta.tools.delete(roll.id)


@SEND
def test_a_program_calls_its_agents_tools(
    letta: Letta, http: httpx.Client, new_agent: NewAgent
) -> None:
    """LOOP-21: each inner call goes the way of every other, with the agent's secrets, which the
    program itself is not told; what needs an approval is refused, and so is another program."""
    names = [unique("roll").replace("-", "_") for _ in range(2)]
    roll, asks = (letta.tools.create(source_code=ROLL.format(name=name)) for name in names)
    agent = new_agent(
        tool_ids=[roll.id, asks.id],
        tools=["run_code_with_tools", "run_code", "memory_insert"],
        include_base_tools=False,
        secrets={"LUCK": "!"},
        tool_rules=[{"type": "requires_approval", "tool_name": asks.name}],
    )
    code = f"""
import os
rolled = [{roll.name}(n) for n in (6, 8)] + [{roll.name}(sides=10)]
print(run_code("6 * 7", "python"), os.environ.get("LUCK"))
for call in (lambda: {asks.name}(6), lambda: memory_insert("human", "x"),
             lambda: run_code_with_tools("1"), lambda: {roll.name}(sides="x")):
    try:
        call()
    except ToolError as error:
        print(error)
rolled
"""
    failing = f"{roll.name}(1, 2)"
    first, second = told(
        letta,
        agent.id,
        calls(*(("run_code_with_tools", {"code": source}) for source in (code, failing))),
    )
    result = json.loads(first[1])
    assert (first[0], result["status"], result["stderr"]) == ("success", "success", [])
    assert result["func_return"] == "['4!', '6!', '8!']"
    ran, approval, elsewhere, itself, wrong = result["stdout"][0].splitlines()
    assert ran == '{"results":["42"],"logs":{"stdout":[],"stderr":[]}} None'
    assert approval == f"'{asks.name}' needs an approval: call it yourself, not by a program"
    assert elsewhere == "'memory_insert' cannot be called by a program: call it yourself"
    assert itself == "'run_code_with_tools' cannot be called by a program: call it yourself"
    assert "TypeError" in wrong
    failed = json.loads(second[1])
    assert (failed["status"], "takes 1 arguments, not 2" in failed["func_return"]) == (
        "error",
        True,
    )
    listed = http.get("/v1/tool-runs", params={"agent_id": agent.id}).json()
    assert [run["tool_name"] for run in listed].count(roll.name) == 4
    assert asks.name not in {run["tool_name"] for run in listed}
    for tool in (roll, asks):
        letta.tools.delete(tool.id)
