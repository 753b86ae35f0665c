"""
`tlt models`: small language models that package indexes hold, for tests, benchmarks and demos on machines without a hub.

Others may use `published`; `cli` uses the rest.
"""
