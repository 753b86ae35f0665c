"""A queue that is fair between the owners of its items, by weight. Pure."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Item = TypeVar("Item", bound=Hashable)


class _Line(Generic[Item]):
    """The items of one owner."""

    def __init__(self, passed: float) -> None:
        self.items: OrderedDict[Item, None] = OrderedDict()
        self.passed = passed
        """What the owner has taken, divided by its weight, on the queue's scale."""


class FairQueue(Generic[Item]):
    """
    Takes the next item from the owner that has taken least for its weight; each owner's items keep their order.

    An owner whose items have all been taken loses its claim: one that returns starts level with the others, so that
    nobody saves up a claim to the whole fleet. While items wait, every owner with a weight above 0 gets its share.

    Args:
        weight_of: Returns the weight of an owner, above 0. Only their ratios matter.
    """

    def __init__(self, weight_of: Callable[[str], float] = lambda _owner: 1.0) -> None:
        self._weight_of = weight_of
        self._lines: dict[str, _Line[Item]] = {}
        self._owners: dict[Item, str] = {}
        self._passed = 0.0

    def __len__(self) -> int:
        """Return the number of items."""
        return len(self._owners)

    def __contains__(self, item: Item) -> bool:
        """Whether an item is queued."""
        return item in self._owners

    def push(self, item: Item, owner: str, *, first: bool = False) -> None:
        """Add an item behind its owner's others, or ahead of them if `first` is set."""
        line = self._lines.get(owner)
        if line is None:
            line = self._lines[owner] = _Line(self._passed)
        line.items[item] = None
        if first:
            line.items.move_to_end(item, last=False)
        self._owners[item] = owner

    def head(self) -> Item:
        """Return the next item without taking it. The queue must not be empty."""
        return next(iter(self._lines[self._next_owner()].items))

    def pop(self) -> Item:
        """Take the next item. The queue must not be empty."""
        owner = self._next_owner()
        line = self._lines[owner]
        item = next(iter(line.items))
        self._passed = line.passed
        line.passed += 1 / self._weight_of(owner)
        self.remove(item)
        return item

    def remove(self, item: Item) -> None:
        """Remove an item that is queued."""
        owner = self._owners.pop(item)
        line = self._lines[owner]
        del line.items[item]
        if not line.items:
            del self._lines[owner]

    def _next_owner(self) -> str:
        return min(self._lines, key=lambda owner: self._lines[owner].passed)
