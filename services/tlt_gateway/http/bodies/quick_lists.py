"""Validation of lists whose length a caller chooses."""

from typing import Any

from pydantic_core import core_schema

_AT_ONCE = 2**16
"""Entries looked at before other threads may run."""


def quick_lists(schema: Any) -> None:
    """
    Change a schema of pydantic: the first invalid entry of a list is the last that is looked at, and lists of integers
    are checked without copying them, in slices between which the event loop runs.
    """
    if isinstance(schema, list):
        for part in schema:
            quick_lists(part)
        return
    if not isinstance(schema, dict):
        return
    for part in schema.values():
        quick_lists(part)
    if schema.get("type") == "list":
        schema["fail_fast"] = True
        if schema.get("items_schema") == core_schema.int_schema():
            slow = core_schema.list_schema(core_schema.int_schema(), strict=True, fail_fast=True)
            schema.clear()
            schema |= core_schema.no_info_wrap_validator_function(_integers, slow)


def _integers(value: Any, handler: core_schema.ValidatorFunctionWrapHandler) -> Any:
    if type(value) is list and all(
        set(map(type, value[begin : begin + _AT_ONCE])) == {int} for begin in range(0, len(value), _AT_ONCE)
    ):
        return value
    return handler(value)  # which names the entry
