"""
Word problems: short stories with numbers and a question, whose answer a program can check.

They are generated, so that nothing is downloaded and no problem is repeated: a few forms, many names and things. A
language model of 135 million parameters solves some of them, and its responses have a long tail.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

INSTRUCTION: Final = (
    "Solve this problem. Explain your reasoning step by step in full sentences, check it, and write the answer as a "
    "number in the last line, after 'Answer:'."
)

_NAMES: Final = [
    "Anna",
    "Ben",
    "Clara",
    "David",
    "Elena",
    "Farid",
    "Grace",
    "Hiro",
    "Ines",
    "Jack",
    "Kofi",
    "Lena",
    "Mina",
    "Noah",
    "Olga",
    "Pedro",
    "Rosa",
    "Sam",
    "Tara",
    "Umar",
    "Vera",
    "Will",
    "Yara",
    "Zoe",
    "Amir",
    "Bella",
    "Carlos",
    "Dana",
    "Emil",
    "Fiona",
]
_THINGS: Final = [
    "apples",
    "pencils",
    "books",
    "marbles",
    "stickers",
    "shells",
    "cookies",
    "coins",
    "stamps",
    "balloons",
    "flowers",
    "cards",
    "oranges",
    "eggs",
    "bottles",
    "buttons",
    "candles",
    "crayons",
    "tickets",
    "muffins",
]
_PLACES: Final = ["box", "basket", "bag", "shelf", "drawer", "room", "garden", "shop", "truck", "table"]
_WORK: Final = (
    ("pages", "reads"),
    ("kilometres", "walks"),
    ("trees", "plants"),
    ("letters", "writes"),
    ("fences", "paints"),
    ("cakes", "bakes"),
)
_NUMBER: Final = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
_MARK: Final = re.compile("answer", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A word problem."""

    text: str
    answer: int

    @property
    def prompt(self) -> str:
        """What the policy is asked, without its chat template."""
        return f"{INSTRUCTION}\n\n{self.text}"


def draw_problem(rng: random.Random) -> Problem:
    """Return a random problem of a random form."""
    return rng.choice(_FORMS)(rng)


def draw_problems(count: int, *, seed: int) -> list[Problem]:
    """Return `count` problems, determined by `seed`."""
    rng = random.Random(seed)
    return [draw_problem(rng) for _ in range(count)]


def answer_of(response: str) -> float | None:
    """Return the number that a response gives as its answer: the first one after its last `Answer`."""
    marks = list(_MARK.finditer(response))
    found = _NUMBER.search(response, marks[-1].end()) if marks else None
    return float(found.group().replace(",", "")) if found else None


def verify(problem: Problem, response: str) -> bool:
    """Return whether the response's answer is right."""
    return answer_of(response) == problem.answer


def reward(problem: Problem, response: str, *, finished: bool) -> float:
    """
    Return 1 for the right answer, a tenth for an answer of the asked form, and nothing for a response that was cut.

    The tenth gives a policy that hardly ever solves a problem something to learn from its first step on.
    """
    if not finished or answer_of(response) is None:
        return 0.0
    return 1.0 if verify(problem, response) else 0.1


def _two(rng: random.Random, choices: Sequence[str]) -> tuple[str, str]:
    first, second = rng.sample(choices, 2)
    return first, second


def _gain(rng: random.Random) -> Problem:
    (name, other), thing = _two(rng, _NAMES), rng.choice(_THINGS)
    has, gets = rng.randint(2, 40), rng.randint(2, 40)
    text = f"{name} has {has} {thing}. {other} gives {name} {gets} more. How many {thing} does {name} have now?"
    return Problem(text=text, answer=has + gets)


def _loss(rng: random.Random) -> Problem:
    (name, other), thing = _two(rng, _NAMES), rng.choice(_THINGS)
    gives, keeps = rng.randint(2, 30), rng.randint(1, 30)
    text = (
        f"{name} had {gives + keeps} {thing} and gave {gives} of them to {other}. "
        f"How many {thing} does {name} have left?"
    )
    return Problem(text=text, answer=keeps)


def _gain_and_loss(rng: random.Random) -> Problem:
    (name, other), thing = _two(rng, _NAMES), rng.choice(_THINGS)
    has, buys = rng.randint(5, 30), rng.randint(2, 20)
    gives = rng.randint(1, has)
    text = (
        f"{name} has {has} {thing}. {name} buys {buys} more at the shop and then gives {gives} to {other}. "
        f"How many {thing} does {name} have in the end?"
    )
    return Problem(text=text, answer=has + buys - gives)


def _product(rng: random.Random) -> Problem:
    name, thing, place = rng.choice(_NAMES), rng.choice(_THINGS), rng.choice(_PLACES)
    places, each = rng.randint(2, 9), rng.randint(2, 12)
    text = (
        f"There are {each} {thing} in every {place}. {name} counts the {thing} in {places} such places. "
        f"How many {thing} are there in all?"
    )
    return Problem(text=text, answer=places * each)


def _shares(rng: random.Random) -> Problem:
    name, thing = rng.choice(_NAMES), rng.choice(_THINGS)
    friends, each = rng.randint(2, 9), rng.randint(2, 12)
    text = (
        f"{name} shares {friends * each} {thing} equally among {friends} friends. "
        f"How many {thing} does each friend get?"
    )
    return Problem(text=text, answer=each)


def _price(rng: random.Random) -> Problem:
    name, thing = rng.choice(_NAMES), rng.choice(_THINGS)
    count, each = rng.randint(2, 9), rng.randint(2, 9)
    paid = count * each + rng.randint(1, 30)
    text = (
        f"{name} buys {count} {thing} for {each} dollars each and pays with {paid} dollars. "
        f"How many dollars does {name} get back?"
    )
    return Problem(text=text, answer=paid - count * each)


def _days(rng: random.Random) -> Problem:
    name, (unit, does) = rng.choice(_NAMES), rng.choice(_WORK)
    days, each, rest = rng.randint(2, 7), rng.randint(2, 12), rng.randint(1, 20)
    text = (
        f"{name} {does} {each} {unit} a day. After {days} days, {rest} {unit} are left. "
        f"How many {unit} were there to begin with?"
    )
    return Problem(text=text, answer=days * each + rest)


def _together(rng: random.Random) -> Problem:
    (name, other), thing = _two(rng, _NAMES), rng.choice(_THINGS)
    has, times = rng.randint(2, 15), rng.randint(2, 4)
    text = f"{name} has {has} {thing}. {other} has {times} times as many. How many {thing} do they have together?"
    return Problem(text=text, answer=has + times * has)


def _ages(rng: random.Random) -> Problem:
    name, other = _two(rng, _NAMES)
    age, older, years = rng.randint(4, 40), rng.randint(1, 20), rng.randint(1, 15)
    text = (
        f"{name} is {age} years old. {other} is {older} years older than {name}. "
        f"How old will {other} be in {years} years?"
    )
    return Problem(text=text, answer=age + older + years)


def _story(rng: random.Random) -> Problem:
    name, thing, place = rng.choice(_NAMES), rng.choice(_THINGS), rng.choice(_PLACES)
    has, finds, loses = rng.randint(10, 40), rng.randint(2, 20), rng.randint(1, 9)
    text = (
        f"Tell a short story in which {name} begins with {has} {thing}, finds {finds} more in a {place} and loses "
        f"{loses}. How many {thing} does {name} have at the end of the story?"
    )
    return Problem(text=text, answer=has + finds - loses)


_FORMS: Final = (
    _gain, _loss, _gain_and_loss, _product, _shares, _price, _days, _together, _ages, _story,
)  # fmt: skip
