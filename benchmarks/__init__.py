"""Measurements, run by hand: `python -m benchmarks`. See docs/benchmarks.md."""
