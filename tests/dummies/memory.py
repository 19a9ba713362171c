import asyncio

from tests.dummies.shell import idle

if __name__ == "__main__":
    asyncio.run(idle("memory"))
