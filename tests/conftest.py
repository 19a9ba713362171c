pytest_plugins = ["tests.compatibility_plugin"]
