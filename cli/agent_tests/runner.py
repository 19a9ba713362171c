"""All cases, one after the other or several at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cli.agent_tests.cases import Mode, Result, run_case
from cli.agent_tests.fresh_agents import FreshAgents
from cli.agent_tests.scenario_files import ScenarioFile


def run_all(
    files: Sequence[ScenarioFile],
    agents: FreshAgents,
    workers: int,
    mode: Mode,
    *,
    after_each: Callable[[Result], None],
) -> list[Result]:
    """The results, in the order of the files. An interruption deletes the agents, which ends the
    runs that go on."""
    from concurrent.futures import ThreadPoolExecutor

    results = []
    assert agents.server.letta, "what is imported for it belongs to no case"
    with ThreadPoolExecutor(min(workers, len(files))) as pool:
        running = [pool.submit(run_case, file, agents, mode) for file in files]
        try:
            for future in running:
                results.append(future.result())
                after_each(results[-1])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            agents.delete_agents()
            raise
    return results
