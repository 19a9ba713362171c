"""Stand-ins for the services, to test the launcher alone (HEELER_SERVICES_PACKAGE)."""
