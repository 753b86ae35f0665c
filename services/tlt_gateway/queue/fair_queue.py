"""A queue with weighted fairness between the owners of its items. Pure."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Item = TypeVar("Item", bound=Hashable)


class _Line(Generic[Item]):
    """The items of one owner."""

    def __init__(self, start: float) -> None:
        self.items: OrderedDict[Item, None] = OrderedDict()
        self.start = start
        """Virtual time from which the owner's next item may be taken."""


class FairQueue(Generic[Item]):
    """
    Start-time fair queueing: takes the item with the earliest virtual start time. Each owner's items keep their order.

    An item's start time is the virtual time of its arrival, but at least 1 / weight after the start time of the owner's
    previous item. Virtual time is the start time of the item taken last. An owner with one item at a time is therefore
    served no less and no more often than one with a thousand, as far as it can use it, and an owner that was idle does
    not accumulate credit.

    Args:
        weight_of: Returns the weight of an owner, above 0. Only their ratios matter.
    """

    def __init__(self, weight_of: Callable[[str], float] = lambda _owner: 1.0) -> None:
        self._weight_of = weight_of
        self._lines: dict[str, _Line[Item]] = {}
        self._owners: dict[Item, str] = {}
        self._now = 0.0
        self._paid_until: dict[str, float] = {}
        """Of owners without items, the virtual time from which their next one may be taken, if that is to come."""

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
            line = self._lines[owner] = _Line(max(self._now, self._paid_until.pop(owner, 0.0)))
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
        self._now = line.start
        line.start += 1 / self._weight_of(owner)
        self.remove(item)
        return item

    def remove(self, item: Item) -> None:
        """Remove a queued item. Unlike `pop`, this does not count as service of its owner."""
        owner = self._owners.pop(item)
        line = self._lines[owner]
        del line.items[item]
        if not line.items:
            del self._lines[owner]
            self._paid_until = {name: until for name, until in self._paid_until.items() if until > self._now}
            if line.start > self._now:
                self._paid_until[owner] = line.start

    def _next_owner(self) -> str:
        return min(self._lines, key=lambda owner: self._lines[owner].start)
