"""Device-seconds that a worker has trained, summed over all its trainer processes. Pure."""


class TrainedTime:
    """Sums the counters of successive trainer processes, each of which starts at 0."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._counter_s = 0.0
        self._read_at_s = 0.0

    @property
    def seconds(self) -> float:
        """Device-seconds since the worker started; never decreases."""
        return self._seconds

    def age_s(self, now_s: float) -> float:
        """Return the seconds since the counter was read."""
        return max(0.0, now_s - self._read_at_s)

    def read(self, counter_s: float, asked_at_s: float) -> None:
        """Record the trainer's counter as read between request and response. Older responses are ignored."""
        self._seconds += max(0.0, counter_s - self._counter_s)
        self._counter_s = max(self._counter_s, counter_s)
        self._read_at_s = max(self._read_at_s, asked_at_s)

    def restart(self) -> None:
        """Record that the process exited: the next counter starts at 0. Time that was not read is lost."""
        self._counter_s = 0.0
