"""
Engines in processes of their own, and the commands that benchmarks send them.

Others may use `bench_engine`, `commands` and `prepare`, and `engine_host`, which is the program.
"""
