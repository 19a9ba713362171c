"""The memory service as it is."""

import runpy

runpy.run_module("services.memory", run_name="__main__", alter_sys=True)
