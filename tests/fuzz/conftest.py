import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--inputs", type=int, default=120, help="Inputs of a target of weight 1.")
    parser.addoption("--seed", type=int, default=0, help="Seed of the inputs.")
