"""Start the groups service."""

from libs.bus.entrypoint import start

if __name__ == "__main__":
    start("groups")
