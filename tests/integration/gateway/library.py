"""A tool and an environment for TRL's trainers."""

from typing import Any


def look(word: str) -> str:
    """
    Look a word up.

    Args:
        word: The word.
    """
    return f"w20 {word}"


class Library:
    """An environment with one tool, which remembers what was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def reset(self, **_: Any) -> str:
        self.asked.clear()
        return " w30"

    def look(self, word: str) -> str:
        """
        Look a word up.

        Args:
            word: The word.
        """
        self.asked.append(word)
        return f"w20 {word}"

    def get_reward(self) -> float:
        return float(len(self.asked))
