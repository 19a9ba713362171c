"""Trials in a process of their own, where a crash or a library that hangs hurts nobody:
`python -m deploy.doctor.trials sandbox|embedding`. Prints what went wrong, or nothing."""

from __future__ import annotations

import asyncio
import sys

QUESTION = "print(6 * 7)"


async def sandbox() -> str:
    """Run one line of code in the sandbox that the settings ask for; what went wrong."""
    from services.tools.adapters.container_sandbox import ContainerSandbox
    from services.tools.adapters.process_sandbox import ProcessSandbox
    from services.tools.sandbox.ports import Program
    from services.tools.settings import CONTAINER, ToolsSettings

    settings = ToolsSettings.from_environment()
    chosen: ContainerSandbox | ProcessSandbox = (
        ContainerSandbox(settings.image, settings.network, idle_min=1, idle_max=1)
        if settings.sandbox == CONTAINER
        else ProcessSandbox(settings.sandbox, idle_min=1, idle_max=1)
    )
    await chosen.start()
    try:
        if chosen.refusal:
            return chosen.refusal
        outcome = await chosen.run(Program("python", QUESTION))
        well = outcome.status == "success" and outcome.stdout.strip() == "42"
        return "" if well else f"a call ended with {outcome.status}: {outcome.reason}"
    finally:
        await chosen.close()


def embedding() -> str:
    """Load the embedding model that comes with the server, and embed a word; what went wrong."""
    try:
        from services.memory.adapters.embedders.minilm import MiniLm

        [vector] = MiniLm().embed(["word"])
    except (ImportError, OSError, RuntimeError) as failed:
        return f"{type(failed).__name__}: {failed}"
    return "" if len(vector) else "the vector is empty"


def main(name: str) -> int:
    """Print what went wrong; the exit code is 0 also then: another says that it crashed."""
    print(embedding() if name == "embedding" else asyncio.run(sandbox()), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
