"""python -m tests.scripted_model --port N: runs until it is stopped."""

import argparse
import asyncio
import resource
import signal
import sys

from tests.scripted_model.handle import READY, ScriptedModel


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.scripted_model", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 (the default) takes a free one")
    parser.add_argument("--until-stdin-closes", action="store_true", help="end with the parent")
    return parser.parse_args()


def _allow_many_connections() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _run(arguments: argparse.Namespace) -> None:
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    if arguments.until_stdin_closes:
        loop.add_reader(sys.stdin.fileno(), stopped.set)
    async with ScriptedModel(host=arguments.host, port=arguments.port) as model:
        print(f"{READY}{model.origin}", flush=True)
        await stopped.wait()


if __name__ == "__main__":
    _allow_many_connections()
    asyncio.run(_run(_arguments()))
