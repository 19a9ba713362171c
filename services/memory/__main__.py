"""Start the memory service."""

from libs.bus.runtime import main
from libs.bus.settings import ServiceSettings
from services.memory.app import wire
from services.memory.projections import project

if __name__ == "__main__":
    main("memory", ServiceSettings.from_environment(), project, wire)
