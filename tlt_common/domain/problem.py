"""Why a worker does not do something, as a status has room for it."""

MAX_PROBLEM = 500
"""Characters of a worker's problem."""


def in_a_line(problem: str) -> str:
    """Return a problem as one line of at most MAX_PROBLEM printable characters."""
    line = " ".join(problem.split())
    return "".join(letter for letter in line if letter.isprintable())[:MAX_PROBLEM]
