"""python -m benchmarks.mcp: how long a call of a tool of a local MCP server takes.

Warm: its session is open. Over each transport, one call after another, from the side of the
tools service; the server is a script that gives back its argument. `stdio` is in the sandbox.
"""

from __future__ import annotations

import argparse
import sys
import time

import uvloop

from benchmarks.sandbox import percentile
from services.tools.adapters.mcp.connections import McpConnections
from services.tools.adapters.mcp.ports import McpServerConfig
from services.tools.adapters.process_sandbox import ProcessSandbox
from tests.mcp_servers.asking import HERE, allowed, config, new_connections, served

CALLS = 500
P99_MS_MAX = 100.0
CALL_SECONDS_MAX = 30.0


async def call(connections: McpConnections, server: McpServerConfig) -> float:
    """Milliseconds of one call."""
    began = time.perf_counter()
    outcome = await connections.call_tool(
        server, "echo", {"text": "hello"}, seconds=CALL_SECONDS_MAX
    )
    assert outcome.text == "hello", outcome
    return (time.perf_counter() - began) * 1e3


async def run(calls: int) -> int:
    """Print a row for each transport; 1 if one is slower than it may be."""
    missed = 0
    sandbox = ProcessSandbox(idle_min=0)
    await sandbox.start()
    connections = new_connections(HERE, sandbox, (allowed(),))
    header = f"{'cold ms':>9}{'p50 ms':>9}{'p99 ms':>9}{'max ms':>9}"
    print(f"{'row':<22}{'calls':>6}{header}  target")
    try:
        with served() as port:
            await call(connections, config("sse", port, id="first"))  # imports the SDK
            for transport in ("streamable_http", "sse", "stdio"):
                server = config(transport, port, id=transport)
                if refusal := connections.refusal_of(server):
                    print(f"mcp-{transport:<18}{refusal}")
                    continue
                cold = await call(connections, server)
                taken = [await call(connections, server) for _ in range(calls)]
                p50, p99 = percentile(taken, 0.5), percentile(taken, 0.99)
                verdict = "ok" if p99 <= P99_MS_MAX else "MISSED"
                missed += verdict != "ok"
                figures = f"{cold:>9.1f}{p50:>9.1f}{p99:>9.1f}{max(taken):>9.1f}"
                print(f"mcp-{transport:<18}{calls:>6}{figures}  p99 <= {P99_MS_MAX:g} ms {verdict}")
    finally:
        await connections.close()
        await sandbox.close()
    return 1 if missed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=CALLS, help="of each transport")
    return uvloop.run(run(parser.parse_args().calls))


if __name__ == "__main__":
    sys.exit(main())
