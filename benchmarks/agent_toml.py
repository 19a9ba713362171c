"""`python -m benchmarks.agent_toml`: what it takes to read, validate and check files of agents."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from libs.agent_toml.checked_file import document_in
from libs.agent_toml.cross_checks import check_definition
from libs.agent_toml.definition import AgentDefinition
from libs.agent_toml.form_checks import checked_form
from libs.agent_toml.problems import Problem
from libs.agent_toml.reporting import Reporter
from libs.agent_toml.security_checks import check_security
from libs.agent_toml.security_rules import DEFAULT_RULES
from libs.agent_toml.sibling_files import with_siblings
from libs.agent_toml.tool_sources import forget_sources

CORPUS = Path(__file__).parent.parent / "tests" / "unit" / "agent_toml"
GOALS_MS = {"parse": 10.0, "validate": 50.0, "security": 10.0}
LARGE_PROMPT_CHARS, LARGE_BLOCKS, LARGE_TOOLS = 100_000, 100, 20


def large_file() -> str:
    """A file with a long prompt, many blocks and many tools of its own."""
    line = "You are Ada. Answer what you are asked, and say where you know it from.\n"
    prompt = line * (LARGE_PROMPT_CHARS // len(line))
    parts = [f'name = "large"\nmodel = "openai/gpt-4.1"\nsystem_prompt = """\n{prompt}"""\n']
    parts += [
        f'[[memory]]\nlabel = "block{number}"\ndescription = "d"\nvalue = """\n{line * 10}"""\n'
        for number in range(LARGE_BLOCKS)
    ]
    body = "".join(f"    total += {number} * count\n" for number in range(30))
    parts += [
        f"[[tool]]\nsource = '''\ndef tool{number}(count: int) -> int:\n"
        f'    """Count."""\n    total = 0\n{body}    return total\n\'\'\'\n'
        for number in range(LARGE_TOOLS)
    ]
    return "\n".join(parts)


def took_ms(work: Callable[[], object], rounds: int) -> float:
    """The median of the processor's time that a piece of work takes: what else the machine does
    counts little."""
    times = []
    for _ in range(rounds):
        begin = time.thread_time()
        work()
        times.append((time.thread_time() - begin) * 1e3)
    return statistics.median(times)


def measure_file(name: str, text: str, folder: Path, rounds: int) -> dict[str, float]:
    """What each part of a check takes for one file; no part that comes behind an error."""

    def read_sibling(path: str) -> str:
        return (folder / path).read_text()

    found = document_in(text, name)
    figures = {"parse": took_ms(lambda: document_in(text, name), rounds)}
    if isinstance(found, Problem):
        return figures
    data, positions = found

    def validate() -> AgentDefinition | None:
        forget_sources()
        reporter = Reporter(name, positions)
        definition = checked_form(data, reporter, AgentDefinition)
        if definition is not None:
            definition = with_siblings(definition, reporter, read_sibling)
            check_definition(definition, reporter)
        return definition

    figures["validate"] = took_ms(validate, rounds)
    definition = validate()
    if definition is not None:
        figures["security"] = took_ms(
            lambda: check_security(definition, Reporter(name, positions), DEFAULT_RULES), rounds
        )
    return figures


def main() -> None:
    """Print the figures of the corpus, and of one large file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30, help="how often each file is read")
    rounds = parser.parse_args().rounds
    files = [(str(path), path.read_text(), path.parent) for path in sorted(CORPUS.rglob("*.toml"))]
    figures = {name: measure_file(name, text, folder, rounds) for name, text, folder in files}
    large = large_file()
    figures["large"] = measure_file("large.toml", large, CORPUS, rounds)
    print(f"{len(files)} files, and one of {len(large) // 1000} kB; ms of the processor per file")
    print(f"{'':10}{'median':>9}{'p99':>9}{'large':>9}{'goal':>9}")
    for part, goal in GOALS_MS.items():
        times = sorted(found[part] for found in figures.values() if part in found)
        p99 = times[min(len(times) - 1, int(len(times) * 0.99))]
        row = f"{statistics.median(times):9.2f}{p99:9.2f}{figures['large'][part]:9.2f}{goal:9.0f}"
        print(f"{part:10}{row}  {'met' if p99 <= goal else 'MISSED'}")


if __name__ == "__main__":
    main()
