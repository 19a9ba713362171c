"""python -m benchmarks.tool_calls: what a call of a tool costs an agent, from the HTTP request on.

Each row is one message whose model calls one tool and then answers, one after another, beside the
same with a tool that the agent service carries out itself.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time

import httpx
import uvloop

from benchmarks.instance import own_instance
from benchmarks.sandbox import percentile

CALLS = 200
CALLS_OF_AN_AGENT = 20  # so that contexts stay short
SECONDS_MAX = 60.0
SOURCE = '''
def echo(text: str) -> str:
    """Give back a text.

    Args:
        text (str): the text
    """
    return text
'''
ROWS = {
    "agent-own-tool": ("conversation_search", {"query": "tea"}),
    "agent-custom-tool": ("echo", {"text": "hello"}),
    "agent-run-code": ("run_code", {"code": "6 * 7", "language": "python"}),
    "agent-shell": ("shell", {"command": "echo hello"}),
}


def new_agent(client: httpx.Client, tool: str) -> str:
    """An agent with one tool."""
    body = {
        "model": "openai/gpt-4o-mini",
        "embedding": "openai/text-embedding-3-small",
        "tools": [tool],
        "include_base_tools": False,
    }
    made = client.post("/v1/agents/", json=body)
    made.raise_for_status()
    return str(made.json()["id"])


def message(client: httpx.Client, agent_id: str, script: str) -> float:
    """Milliseconds of one message."""
    began = time.perf_counter()
    body = {"messages": [{"role": "user", "content": script}]}
    answer = client.post(f"/v1/agents/{agent_id}/messages", json=body)
    took = (time.perf_counter() - began) * 1e3
    returned = [m for m in answer.json()["messages"] if m["message_type"] == "tool_return_message"]
    assert [message["status"] for message in returned] == ["success"], answer.text
    return took


def measured(base_url: str, calls: int) -> None:
    """Print the rows."""
    print(f"{'row':<19}{'calls':>6}{'p50 ms':>9}{'p99 ms':>9}{'max ms':>9}")
    with httpx.Client(base_url=base_url, timeout=SECONDS_MAX) as client:
        client.post("/v1/tools/", json={"source_code": SOURCE}).raise_for_status()
        for name, (tool, arguments) in ROWS.items():
            script = f"CALL:{tool}:{json.dumps(arguments)}"
            message(client, new_agent(client, tool), script)  # the first one of its kind
            taken: list[float] = []
            while len(taken) < calls:
                agent_id = new_agent(client, tool)
                count = min(CALLS_OF_AN_AGENT, calls - len(taken))
                taken += [message(client, agent_id, script) for _ in range(count)]
            p50, p99 = percentile(taken, 0.5), percentile(taken, 0.99)
            print(f"{name:<19}{calls:>6}{p50:>9.1f}{p99:>9.1f}{max(taken):>9.1f}")


async def run(calls: int) -> int:
    """Measure an instance of its own."""
    async with own_instance() as subject:
        await asyncio.to_thread(
            measured, f"http://{subject.origin.host}:{subject.origin.port}", calls
        )
    return 0


def main() -> int:
    """Measure as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tool_calls", description=__doc__)
    parser.add_argument("--calls", type=int, default=CALLS, help="of each row")
    return uvloop.run(run(parser.parse_args().calls))


if __name__ == "__main__":
    sys.exit(main())
