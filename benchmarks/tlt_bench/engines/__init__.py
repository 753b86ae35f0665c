"""
Engines in separate processes, and the commands that benchmarks send to them.

Other packages may use `bench_engine`, `commands`, `prepare`, and the program `engine_host`.
"""
