"""
Shares one gloo network device between all process groups of a process. Imported inside SGLang's processes only.

Each device has a thread that wakes about a hundred times per second even when idle. SGLang creates nine groups even for
an engine of one rank, and torch creates a device for each.
"""

from datetime import timedelta
from typing import Any

from torch.distributed.distributed_c10d import ProcessGroupGloo

_DEVICES: list[Any] = []
"""Of this process, as torch chose them for its first group."""


class SharedDevicesGloo(ProcessGroupGloo):
    """A process group on the devices of the first group."""

    def __init__(self, store: Any, rank: int, size: int, *, timeout: timedelta, **more: Any) -> None:
        own: Any = self  # torch's stub lacks what it has; `more` differs between its versions
        if not _DEVICES:
            super().__init__(store, rank, size, timeout=timeout, **more)
            _DEVICES.extend(own.options._devices)  # noqa: SLF001 - torch has no other name for them
            return
        options = own._Options()  # noqa: SLF001 - same
        options._devices, options._timeout = list(_DEVICES), timeout  # noqa: SLF001 - same
        options._threads = 2 * len(_DEVICES)  # noqa: SLF001 - as torch does
        for name, value in more.items():
            setattr(options, name, value)
        super().__init__(store, rank, size, options)
