"""`heeler agents chat`: a conversation at the keyboard, or through a pipe."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from cli.names import AGENT, find
from cli.server import server
from cli.verbs import name_or_id


def chat(
    agent: Annotated[str, name_or_id(AGENT)],
    model: Annotated[str | None, Option(help="Answer with this model in this session.")] = None,
) -> None:
    """Talk with an agent at the keyboard.

    Asks in place where a tool call needs an approval. /help lists what else can be typed. Ctrl-C
    cancels an answer, Ctrl-D ends the session.
    """
    from cli.chat_session import ChatSession

    document = find(server(), AGENT, agent)
    ChatSession(server(), document["id"], document["name"], model=model).run()
