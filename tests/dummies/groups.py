import asyncio

from tests.dummies.shell import idle

asyncio.run(idle("groups"))
