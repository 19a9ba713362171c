from libs.contracts import deferred_validation  # noqa: F401
