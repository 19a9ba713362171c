"""All cases, one after the other or several at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cli.agent_tests.cases import Result, run_case
from cli.agent_tests.fresh_agents import FreshAgents
from cli.agent_tests.scenario_files import ScenarioFile


def run_all(
    files: Sequence[ScenarioFile],
    agents: FreshAgents,
    workers: int,
    *,
    after_each: Callable[[Result], None],
) -> list[Result]:
    """The results, in the order of the files. After an interruption the agents are deleted, too."""
    from concurrent.futures import ThreadPoolExecutor

    results = []
    with ThreadPoolExecutor(min(workers, len(files))) as pool:
        running = [pool.submit(run_case, file, agents) for file in files]
        try:
            for future in running:
                results.append(future.result())
                after_each(results[-1])
        finally:
            pool.shutdown(cancel_futures=True)
    return results
