"""python -m benchmarks.fleet: 200 agents in files, applied, changed, and reloaded.

Asks the server that `heeler` asks (HEELER_URL, or the one on this machine), and deletes its agents.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from cli.fleet.command import new_run, watch_files
from cli.fleet.files import files_of, read_agents
from cli.fleet_options import FleetOptions
from cli.server import server

AGENTS, CHANGED, AT_ONCE, EDITS = 200, 20, 50, 10
EDIT_TO_ANSWER_SECONDS_MAX = 5.0
MODEL = os.environ.get("HEELER_BENCHMARK_MODEL", "demo/offline")
AGENT = """name = "{name}"
system_prompt = "You are {name}, version {version}."
model = "{model}"
[[memory]]
label = "human"
value = "unknown"
"""


def write_agent(folder: Path, name: str, version: int = 1) -> None:
    """Write the file of an agent."""
    text = AGENT.format(name=name, version=version, model=MODEL)
    (folder / f"{name}.toml").write_text(text)


def run_command(*arguments: str) -> tuple[float, Any]:
    """How many seconds a command took, and the counts at the end of its document."""
    began = time.perf_counter()
    ended = subprocess.run(
        [sys.executable, "-m", "cli", *arguments, "--json"], capture_output=True, check=False
    )
    return time.perf_counter() - began, json.loads(ended.stdout)["summary"]


def show(what: str, seconds: float, counts: Any = None) -> None:
    """Print a line of the report."""
    print(f"{what:<48} {seconds:6.2f} s  {counts or ''}", flush=True)


def measure_applies(folder: Path, names: list[str]) -> None:
    """Create, kill half way, finish, change some, change nothing."""
    apply = ("apply", "-f", str(folder), "--fleet", folder.name)
    killed = subprocess.Popen(
        [sys.executable, "-m", "cli", *apply], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    began = time.perf_counter()
    while killed.poll() is None and count(names[0].rpartition("-")[0]) < AGENTS // 2:
        time.sleep(0.05)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    show("killed half way", time.perf_counter() - began)
    while any(each["applying"] for each in server().pages("/v1/fleets")):
        time.sleep(0.05)
    show(f"{AGENTS} agents are there, though nobody waits", time.perf_counter() - began)
    show("apply of what is there", *run_command(*apply))
    for name in names[:CHANGED]:
        write_agent(folder, name, 2)
    show(f"apply with {CHANGED} changes", *run_command(*apply))
    show("apply without a change", *run_command(*apply))


def count(word: str) -> int:
    """How many agents have the word in their names."""
    found: int = server().get("/v1/agents/count", query_text=word, name=None)
    return found


def measure_reload(folder: Path, names: list[str]) -> bool:
    """From a saved file to an answer with its prompt, and many files at once; whether each edit was
    answered in time."""
    asked = server()
    run, fleet = new_run(FleetOptions(file=(folder,), fleet=folder.name))
    comparison = run.compare(fleet, read_agents(fleet, files_of(fleet)))
    stop = threading.Event()
    watching = threading.Thread(
        target=watch_files, args=(run, comparison), kwargs={"poll": False, "stop": stop}
    )
    watching.start()
    (agent,) = asked.pages("/v1/agents/", name=names[0])
    path = f"/v1/agents/{agent['id']}"
    time.sleep(1.5)
    taken = []
    for version in range(10, 10 + EDITS):
        began = time.perf_counter()
        write_agent(folder, names[0], version)
        while f"version {version}." not in asked.get(path)["system"]:
            time.sleep(0.01)
        live = time.perf_counter() - began
        asked.post(f"{path}/messages", {"messages": [{"role": "user", "content": "Hello"}]})
        taken.append((time.perf_counter() - began, live))
    taken.sort()
    show("saved to live, median", sorted(live for _, live in taken)[EDITS // 2])
    show("saved to answered, median", taken[EDITS // 2][0])
    show("saved to answered, the slowest", taken[-1][0])
    began = time.perf_counter()
    for name in names[:AT_ONCE]:
        write_agent(folder, name, 30)
    word = names[0].rpartition("-")[0]
    while sum("version 30." in a["system"] for a in asked.pages("/v1/agents/", query_text=word)) < (
        AT_ONCE
    ):
        time.sleep(0.05)
    show(f"{AT_ONCE} files saved at once, all live", time.perf_counter() - began)
    stop.set()
    watching.join()
    return taken[-1][0] <= EDIT_TO_ANSWER_SECONDS_MAX


def main() -> int:
    """Print the report; the exit code is 1 where an answer came too late."""
    word = f"bench{os.getpid()}"
    names = [f"{word}-{number:03}" for number in range(AGENTS)]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / word
        folder.mkdir()
        for name in names:
            write_agent(folder, name)
        measure_applies(folder, names)
        is_fast = measure_reload(folder, names)
        for name in names[1:]:
            (folder / f"{name}.toml").unlink()
        prune = ("--prune", "--prune-max", str(AGENTS), "--yes", "--fleet", word)
        show("prune of all but one", *run_command("apply", "-f", str(folder), *prune))
        (last,) = server().pages("/v1/agents/", name=names[0])
        server().delete(f"/v1/agents/{last['id']}")
    return 0 if is_fast else 1


if __name__ == "__main__":
    sys.exit(main())
