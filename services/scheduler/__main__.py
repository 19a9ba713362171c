"""Start the scheduler service."""

from libs.bus.entrypoint import start

if __name__ == "__main__":
    start("scheduler")
