"""Sandboxes that stay, and the workspaces of agents in them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from services.tools.adapters import process_sandbox_pool, sandbox_session
from services.tools.adapters.agent_sandbox_sessions import AgentSandboxSessions
from services.tools.adapters.agent_workspaces import AgentWorkspaces, NoWorkspace, Used
from services.tools.adapters.process_sandbox import UNCONFINED, ProcessSandbox
from services.tools.adapters.process_usage import usage_of
from services.tools.sandbox.ports import Outcome, Program, Workspace
from tests.integration.in_memory_sessions import InMemorySessions
from tests.integration.sandbox_sessions import ORG, SessionCases, shell
from tests.waiting import wait_for


def size(path: Path) -> int:
    return path.stat().st_size


def exists(path: str) -> bool:
    return os.path.exists(path)


def like_a_shell(program: Program, files: dict[str, str]) -> Outcome:
    """What the in-memory sandbox does with the few commands of these tests."""
    match program.source.split():
        case ["echo", word, ">", name]:
            files[name] = word
            return Outcome("success")
        case ["cat", name] if name in files:
            return Outcome("success", stdout=f"{files[name]}\n")
        case ["sleep", _]:
            return Outcome("timeout", reason="It ran longer than 0.2 seconds")
    return Outcome("error", reason="The program ended with exit status 1")


@pytest.fixture
async def workspaces(tmp_path: Path) -> AgentWorkspaces:
    made = AgentWorkspaces(str(tmp_path / "workspaces"))
    made.prepare()
    return made


@pytest.fixture
async def sandbox(workspaces: AgentWorkspaces) -> AsyncIterator[ProcessSandbox]:
    made = ProcessSandbox(workspaces=workspaces.root, idle_min=0, idle_max=0)
    await made.start()
    if made.refusal:
        pytest.skip(made.refusal)
    workspaces.own_users = made.has_own_users
    yield made
    await made.close()


@pytest.fixture
async def agents(
    sandbox: ProcessSandbox, workspaces: AgentWorkspaces
) -> AsyncIterator[AgentSandboxSessions]:
    made = AgentSandboxSessions(sandbox, workspaces, sandbox.places)
    yield made
    await made.close()
    assert made.agents == {}


class TestInMemorySessions(SessionCases):
    """SBX-02"""

    @pytest.fixture(autouse=True)
    def given(self) -> None:
        self.sessions = InMemorySessions(like_a_shell)
        self.workspace = Workspace("one")


class TestProcessSessions(SessionCases):
    @pytest.fixture(autouse=True)
    async def given(self, sandbox: ProcessSandbox, workspaces: AgentWorkspaces) -> None:
        self.sessions = sandbox
        self.workspace = await workspaces.open(ORG, "agent-1")

    async def test_nothing_happens_in_it_while_it_is_frozen(self):
        session = await self.session()
        count = "while true; do echo x >> ticks; sleep 0.01; done & "
        await session.exec(shell(count))
        ticks = Path(self.workspace.path, "ticks")
        await wait_for("the first tick", ticks.exists)
        await session.pause()
        frozen = size(ticks)
        stats = session.stats()
        assert stats.processes >= 3
        await asyncio.sleep(0.1)
        assert size(ticks) == frozen
        assert session.stats().cpu_seconds == stats.cpu_seconds
        session.resume()
        await wait_for("more ticks", lambda: size(ticks) > frozen)
        left = usage_of(session.sandbox.init).pids
        await session.stop()
        assert not [pid for pid in left if exists(f"/proc/{pid}")]

    async def test_what_forks_faster_than_it_is_frozen_is_ended(self, monkeypatch):
        monkeypatch.setattr("services.tools.adapters.sandbox_process.FREEZE_LOOKS_MAX", 2)
        session = await self.session()
        await session.exec(shell("echo tea > cup"))
        monkeypatch.setattr("services.tools.adapters.sandbox_process.is_stopped", lambda _: False)
        await session.pause()
        assert session.stats().state == "stopped"

    async def test_its_programs_have_the_limits_of_all_others(self):
        session = await self.session()
        assert (await session.exec(shell("ulimit -Hn"))).stdout == "128\n"
        await session.stop()

    async def test_each_program_is_told_of_by_itself(self):
        """SBX-05: output, time and CPU are those of one program, not of the session."""
        session = await self.session()
        first = await session.exec(
            shell("echo one; i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done")
        )
        second = await session.exec(shell("echo two >&2"))
        assert (first.stdout, second.stdout, second.stderr) == ("one\n", "", "two\n")
        assert second.output_bytes == 4
        assert second.cpu_seconds < first.cpu_seconds
        ended = await session.exec(shell("kill -9 $PPID"))
        assert (ended.status, "signal 9" in ended.reason) == ("error", True)
        assert (await session.exec(shell("echo still"))).stdout == "still\n"
        await session.stop()

    async def test_what_a_program_leaves_cannot_answer_for_the_next_one(self):
        """S24"""
        session = await self.session()
        forged = """
import json, os, time
def f():
    if os.fork() == 0:
        time.sleep(0.2)
        data = json.dumps({"status": "success", "value": "forged"}).encode()
        for file in range(3, 30):
            try:
                os.write(file, len(data).to_bytes(4, "big") + data)
            except OSError:
                pass
        os._exit(0)
    return "first"
"""
        first = await session.exec(Program("python", forged, "f", in_workspace=True))
        look = "import os, time\ndef f():\n  time.sleep(0.5)\n  return 'second'"
        second = await session.exec(Program("python", look, "f", in_workspace=True))
        assert (first.value, second.value) == ("first", "second")
        spy = "def f():\n  open('/proc/2/mem', 'rb')"
        refused = await session.exec(Program("python", spy, "f", in_workspace=True))
        assert "PermissionError" in refused.reason
        await session.stop()

    async def test_what_a_program_leaves_cannot_speak_through_the_files_of_the_next_one(self):
        """Through /proc it sees the pipes, the memory and the script of each later program."""
        session = await self.session()
        forging = """
import json, os, sys, time
def f():
    program = os.getpid()
    return os.fork() or forge(program)
def forge(program):
    while os.getppid() == program:
        time.sleep(0.001)
    data = json.dumps({"status": "success", "value": "forged"}).encode()
    data = len(data).to_bytes(4, "big") + data
    mine = os.getpid()
    while True:
        print("forged", file=sys.stderr, flush=True)
        print("forged", flush=True)
        for name in os.listdir("/tmp"):
            try:
                with open(f"/tmp/{name}", "w") as file:
                    file.write("echo forged")
            except OSError:
                pass
        for pid in [one for one in os.listdir("/proc") if one.isdigit() and int(one) != mine]:
            try:
                os.open(f"/proc/{pid}/mem", os.O_RDWR)
                open("/workspace/mem", "w").close()
            except OSError:
                pass
            for file in (1, 2, 3, 9):
                try:
                    os.write(os.open(f"/proc/{pid}/fd/{file}", os.O_WRONLY), data)
                    open("/workspace/fd", "w").close()
                except OSError:
                    pass
"""
        first = await session.exec(Program("python", forging, "f", in_workspace=True))
        look = "import time\ndef f():\n  time.sleep(0.05)\n  return 'second'"
        for _ in range(10):
            await session.pause()
            second = await session.exec(Program("python", look, "f", in_workspace=True))
            assert (second.value, second.stdout, second.stderr) == ("second", "", "")
            third = await session.exec(shell("sleep 0.05; echo third; ls /workspace; exit 0"))
            assert (third.stdout, third.stderr) == ("third\n", "")
        assert (await session.exec(shell(f"kill -9 {first.value}"))).status == "success"
        await session.stop()

    async def test_a_program_speaks_with_what_an_earlier_one_left_and_ends_it(self):
        session = await self.session()
        serve = """
import os, socket
def f():
    server = socket.create_server(("127.0.0.1", 4000))
    pid = os.fork()
    if pid:
        return pid
    while True:
        client, _ = server.accept()
        print("it logs", flush=True)
        client.sendall(b"served")
        client.close()
"""
        ask = """
import os, socket
def f(pid):
    with socket.create_connection(("127.0.0.1", 4000)) as made:
        said = made.recv(100).decode()
    os.kill(pid, 9)
    return said
"""
        pid = (await session.exec(Program("python", serve, "f", in_workspace=True))).value
        await session.pause()
        asked = await session.exec(Program("python", ask, "f", {"pid": pid}, in_workspace=True))
        assert (asked.value, asked.stdout) == ("served", ""), asked
        await session.stop()

    async def test_what_a_program_leaves_goes_on_between_programs_whatever_it_prints(self):
        """It used to stand still when its pipe was full, until another program ran."""
        session = await self.session()
        left = "(head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2; touch printed) &"
        assert (await session.exec(shell(left))).status == "success"
        await wait_for("all is printed", Path(self.workspace.path, "printed").exists)
        assert (await session.exec(shell("echo next"))).stdout == "next\n"
        await session.stop()

    async def test_where_the_kernel_keeps_programs_apart_by_nothing_none_is_left(self, monkeypatch):
        blind = sandbox_session.STAYING.replace("if not locked", "if locked")
        monkeypatch.setattr(sandbox_session, "STAYING", blind)
        session = await self.session()
        await session.exec(shell("sleep 1000 & echo $! > pid"))
        assert (await session.exec(shell("kill -0 $(cat pid)"))).status == "error"
        assert (await session.exec(shell("echo still"))).stdout == "still\n"
        await session.stop()


class TestAffinity:
    """SBX-09: the sandbox of an agent is its own, and nobody else's."""

    async def test_an_agent_keeps_its_sandbox_and_another_has_another(
        self, agents: AgentSandboxSessions
    ):
        look = "ls /tmp; touch /tmp/$1mark; ls -A /workspace; touch here"
        for expected in ([], ["mark", "here"]):
            outcome = await agents.run(shell(look))
            assert outcome.stdout.split() == expected
        assert (await agents.run(shell(look, "agent-2"))).stdout.split() == []
        assert len(agents.agents) == 2
        assert all(agent.session.stats().state == "paused" for agent in agents.agents.values())

    async def test_programs_of_one_agent_come_one_after_another(self, agents: AgentSandboxSessions):
        slow = "test -e busy && echo both; touch busy; sleep 0.1; rm busy"
        outcomes = await asyncio.gather(*(agents.run(shell(slow)) for _ in range(3)))
        assert [outcome.stdout for outcome in outcomes] == ["", "", ""]
        [agent] = agents.agents.values()
        assert agent.session.stats().programs == 3

    async def test_who_is_idle_makes_room(self, agents: AgentSandboxSessions, monkeypatch):
        monkeypatch.setattr("services.tools.adapters.agent_sandbox_sessions.SESSIONS_MAX", 2)
        for number in range(3):
            await agents.run(shell("true", f"agent-{number}"))
        assert {key[1] for key in agents.agents} == {"agent-1", "agent-2"}

    async def test_an_idle_one_is_ended_after_a_while(
        self, sandbox: ProcessSandbox, workspaces: AgentWorkspaces
    ):
        agents = AgentSandboxSessions(sandbox, workspaces, sandbox.places, idle_seconds_max=0.05)
        await agents.run(shell("echo tea > cup"))
        await wait_for("the end", lambda: agents.agents == {})
        assert (await agents.run(shell("cat cup"))).stdout == "tea\n"
        await agents.close()

    async def test_one_that_holds_much_memory_is_not_kept(
        self, agents: AgentSandboxSessions, monkeypatch
    ):
        monkeypatch.setattr(
            "services.tools.adapters.agent_sandbox_sessions.SESSION_IDLE_BYTES_MAX", 1
        )
        assert (await agents.run(shell("echo tea"))).stdout == "tea\n"
        assert agents.agents == {}

    async def test_a_cancelled_program_is_killed_and_the_next_one_runs(
        self, agents: AgentSandboxSessions
    ):
        task = asyncio.create_task(agents.run(shell("echo x > begun; sleep 60")))
        begun = Path(agents.workspaces.path(ORG, "agent-1"), "begun")
        await wait_for("the program", begun.exists)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert (await agents.run(shell("ps ax | grep -c '[s]leep 60'"))).stdout == "0\n"

    async def test_a_deleted_agent_leaves_nothing(
        self, agents: AgentSandboxSessions, workspaces: AgentWorkspaces
    ):
        await agents.run(
            shell("mkdir -p a/b; touch a/b/c; ln -s /etc/passwd d; chmod 000 a; sleep 99 &")
        )
        await agents.run(shell("true", "agent-2"))
        assert await workspaces.present() == [(ORG, "agent-1"), (ORG, "agent-2")]
        for _ in range(2):
            await agents.remove(ORG, "agent-1")
        assert await workspaces.present() == [(ORG, "agent-2")]
        assert exists("/etc/passwd")
        assert [key for key in agents.agents if key[1] == "agent-1"] == []

    async def test_the_weaker_mode_has_no_workspaces(self, workspaces: AgentWorkspaces):
        sandbox = ProcessSandbox(UNCONFINED, workspaces=workspaces.root, idle_min=0, idle_max=0)
        await sandbox.start()
        agents = AgentSandboxSessions(sandbox, workspaces, sandbox.places)
        outcome = await agents.run(shell("true"))
        assert (outcome.started, "Workspaces of agents need namespaces" in outcome.reason) == (
            False,
            True,
        )
        await agents.close()
        await sandbox.close()


class TestQuota:
    """S22, S25: how much a workspace may hold."""

    @pytest.mark.parametrize(
        ("command", "why"),
        [
            ("i=0; while true; do i=$((i+1)); head -c 1000000 /dev/zero > f$i; done", "1 MiB"),
            ("i=0; while true; do i=$((i+1)); : > f$i; done", "50 files"),
        ],
    )
    async def test_a_program_that_fills_it_is_ended_and_may_tidy_up(
        self, sandbox: ProcessSandbox, workspaces: AgentWorkspaces, command: str, why: str
    ):
        agents = AgentSandboxSessions(
            sandbox, workspaces, sandbox.places, bytes_max=1 << 20, files_max=50
        )
        outcome = await agents.run(shell(command))
        assert (outcome.status, why in outcome.reason) == ("killed", True), outcome
        assert (await agents.run(shell("rm -f f*; sleep 0.3; ls"))).status == "success"
        assert (await agents.run(shell("echo tea > cup; sleep 0.3"))).status == "success"
        await agents.close()

    async def test_links_are_counted_and_not_followed(self, tmp_path: Path):
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / "usr").symlink_to("/usr")
        (tmp_path / "file").write_bytes(b"x" * 5000)
        workspaces = AgentWorkspaces(str(tmp_path))
        used = await workspaces.usage(Workspace(str(tmp_path)))
        assert (used.files, used.bytes < 20_000) == (3, True)
        assert Used(2 << 20, 1).over(1 << 20, 9) == "its workspace holds more than 1 MiB"

    async def test_folders_that_go_down_without_end_end_the_program_and_can_be_removed(
        self, sandbox: ProcessSandbox, workspaces: AgentWorkspaces
    ):
        agents = AgentSandboxSessions(sandbox, workspaces, sandbox.places)
        down = "i=0; while [ $i -lt 3000 ]; do mkdir d && cd d || exit; i=$((i+1)); done; sleep 9"
        outcome = await agents.run(shell(down))
        assert (outcome.status, "one in another" in outcome.reason) == ("killed", True), outcome
        assert (await agents.run(shell("ls; chmod 000 d"))).stdout == "d\n"
        await agents.remove(ORG, "agent-1")
        assert await workspaces.present() == []
        await agents.close()

    @pytest.mark.parametrize(
        ("org", "agent_id"),
        [
            (ORG, "../agent-1"),
            (ORG, "/etc"),
            ("..", "agent-1"),
            (ORG, "agent\0"),
            (ORG, "."),
            (ORG, "a" * 200),
            ("", "agent-1"),
        ],
    )
    async def test_no_name_leads_out_of_the_folder(
        self, workspaces: AgentWorkspaces, org: str, agent_id: str
    ):
        """S25"""
        with pytest.raises(NoWorkspace):
            await workspaces.open(org, agent_id)
        with pytest.raises(NoWorkspace):
            await workspaces.remove(org, agent_id)
        assert await workspaces.present() == []


class TestSupervision:
    """SBX-12: one that fails costs the others nothing, and what dies comes back, within a bound."""

    async def test_with_a_killed_spawner_calls_end_and_the_next_ones_run(
        self, sandbox: ProcessSandbox, agents: AgentSandboxSessions
    ):
        running = [asyncio.create_task(agents.run(shell("echo > begun; sleep 60"))) for _ in "a"]
        begun = Path(agents.workspaces.path(ORG, "agent-1"), "begun")
        await wait_for("the program", begun.exists)
        os.kill(sandbox.pool.spawner.process.pid, signal.SIGKILL)
        [outcome] = await asyncio.wait_for(asyncio.gather(*running), 10)
        assert (outcome.status, outcome.reason) == ("killed", "It was ended by signal 9")
        assert (await agents.run(shell("ls"))).stdout == "begun\n"

    async def test_what_is_frozen_ends_with_its_spawner_too(
        self, sandbox: ProcessSandbox, agents: AgentSandboxSessions
    ):
        await agents.run(shell("sleep 600 &"))
        [agent] = agents.agents.values()
        assert agent.session.stats().state == "paused"
        left = usage_of(agent.session.sandbox.init).pids
        assert len(left) >= 3
        os.kill(sandbox.pool.spawner.process.pid, signal.SIGKILL)
        await wait_for("their end", lambda: not any(exists(f"/proc/{pid}") for pid in left))
        assert (await agents.run(shell("echo tea"))).stdout == "tea\n"

    async def test_a_spawner_that_dies_again_and_again_is_given_a_rest(
        self, sandbox: ProcessSandbox, monkeypatch
    ):
        monkeypatch.setattr(process_sandbox_pool, "RESTARTS_MAX", 2)
        echo = Program("python", "def f():\n  return 1", "f")
        for _ in range(2):
            os.kill(sandbox.pool.spawner.process.pid, signal.SIGKILL)
            await wait_for("its end", lambda: not sandbox.pool.spawner.alive)
            assert (await sandbox.run(echo)).value == 1
        os.kill(sandbox.pool.spawner.process.pid, signal.SIGKILL)
        await wait_for("its end", lambda: not sandbox.pool.spawner.alive)
        refused = await sandbox.run(echo)
        assert (refused.started, "ended 2 times in 60 seconds" in refused.reason) == (False, True)
        monkeypatch.setattr(process_sandbox_pool, "RESTART_SECONDS", 0.0)
        assert (await sandbox.run(echo)).value == 1
