"""The device-seconds a worker computed for training, over all its trainer processes. Pure."""


class TrainedTime:
    """Adds up the counters of successive trainer processes, each of which begins at 0."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._counter_s = 0.0
        self._read_at_s = 0.0

    @property
    def seconds(self) -> float:
        """Since the worker started; only increases."""
        return self._seconds

    def age_s(self, now_s: float) -> float:
        """Return the seconds since the counter was read."""
        return max(0.0, now_s - self._read_at_s)

    def read(self, counter_s: float, asked_at_s: float) -> None:
        """Note what the trainer's counter was at some moment since it was asked for. An older response is ignored."""
        self._seconds += max(0.0, counter_s - self._counter_s)
        self._counter_s = max(self._counter_s, counter_s)
        self._read_at_s = max(self._read_at_s, asked_at_s)

    def restart(self) -> None:
        """Note that the process exited: the next counter begins at 0. What was not read is lost."""
        self._counter_s = 0.0
