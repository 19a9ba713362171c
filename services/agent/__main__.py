"""Start the agent service."""

from libs.bus.runtime import main
from libs.bus.settings import ServiceSettings
from services.agent.app import wire
from services.agent.projections import project

if __name__ == "__main__":
    main("agent", ServiceSettings.from_environment(), project, wire)
