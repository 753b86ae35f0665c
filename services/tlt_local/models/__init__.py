"""
`tlt models`: small language models from the package index, for tests, benchmarks and demos without a model hub.

Others may use `published`; `cli` uses the rest.
"""
