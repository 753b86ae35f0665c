"""What may be the beginning of a string that is looked for. Pure."""

from collections.abc import Sequence


def begun(text: str, strings: Sequence[str]) -> int:
    """Return how many of a text's last characters may be the beginning of one of the strings."""
    longest = 0
    for string in strings:
        for length in range(min(len(string) - 1, len(text)), longest, -1):
            if text.endswith(string[:length]):
                longest = length
                break
    return longest
