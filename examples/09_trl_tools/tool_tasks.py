"""Two tasks that need tools: a drawer to look into, and a safe with two buttons to press."""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, TypeAlias

from tiny_policy import NUMBERS

Part: TypeAlias = tuple[str, bool]
"""Words, and whether the policy imitates them."""
LOOKS = 0.3
"""Share of examples that look into the drawer."""
_DRAWERS = [Random(number).choice(NUMBERS) for number in range(len(NUMBERS))]


def look(number: str) -> str:
    """
    Look into a drawer.

    Args:
        number: Number of the drawer.

    Returns:
        What is in it.
    """
    return _DRAWERS[int(number)]


def found(completions: list[list[dict[str, Any]]], drawer: list[str], **_: Any) -> list[float | None]:
    """Reward answers that say what is in the drawer."""
    return [
        float(messages[-1].get("content", "").split() == [look(number)])
        for messages, number in zip(completions, drawer, strict=True)
    ]


class Safe:
    """An environment: a safe that shows which two buttons open it."""

    def __init__(self) -> None:
        self._code: list[str] = []
        self._pressed: list[str] = []

    def reset(self, code: str, **_: Any) -> str:
        """Lock the safe; return what it shows."""
        self._code, self._pressed = code.split(), []
        return f" {code}"

    def press(self, number: str) -> str:
        """
        Press a button.

        Args:
            number: Number of the button.

        Returns:
            Whether it was the right one.
        """
        at = len(self._pressed)
        self._pressed.append(number)
        return "right" if self._code[at : at + 1] == [number] else "wrong"

    def get_reward(self) -> float:
        """Return the share of buttons that were pressed in their turn."""
        return sum(one == other for one, other in zip(self._code, self._pressed, strict=False)) / len(self._code)


def drawer_texts(count: int) -> Iterator[Sequence[Part]]:
    """Yield what the policy imitates first: it looks into the drawer, or guesses, which is more frequent."""
    chance = Random(1)
    for _ in range(count):
        number, content = chance.choice(NUMBERS), chance.choice(NUMBERS)
        asked = (f"<user> drawer {number} <policy>", False)
        answer = (f"{content} <eos>", True)
        if chance.random() < LOOKS:
            yield asked, (_call("look", number), True), (f"<tool> {content} <policy>", False), answer
        else:
            yield asked, answer


def safe_texts(count: int) -> Iterator[Sequence[Part]]:
    """Yield what the policy imitates first: it presses the right button, or any, equally often."""
    chance = Random(1)
    for _ in range(count):
        code = chance.choices(NUMBERS, k=2)
        parts = [(f"<user> safe {' '.join(code)} <policy>", False)]
        for right in code:
            number = right if chance.random() < 0.5 else chance.choice(NUMBERS)
            parts += [
                (_call("press", number), True),
                (f"<tool> {'right' if number == right else 'wrong'} <policy>", False),
            ]
        yield [*parts, ("done <eos>", True)]


def _call(tool: str, number: str) -> str:
    return f"<call> {tool} number {number} </call> <eos>"
