"""Device time: on a GPU it passes after the host has gone on, on a CPU inside the call."""

import pytest
import torch

from tlt_trainer.lease.device import DeviceThread
from tlt_trainer.lease.device_clock import CudaClock, HostClock


class Gpu:
    """A stream on a device of its own: work is queued at once and computed later."""

    def __init__(self) -> None:
        self.now_ms = 0.0  # how far the device has come
        self.queued_ms = 0.0  # when it will have computed all it was given
        self.waits = 0

    def launch(self, milliseconds: float) -> None:
        self.queued_ms = max(self.queued_ms, self.now_ms) + milliseconds


class FakeEvent:
    """Reached when the device has computed all that was queued before it."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self.at_ms = -1.0

    def record(self) -> None:
        self.at_ms = max(self._gpu.queued_ms, self._gpu.now_ms)

    def query(self) -> bool:
        return self._gpu.now_ms >= self.at_ms

    def synchronize(self) -> None:
        self._gpu.waits += 1
        self._gpu.now_ms = max(self._gpu.now_ms, self.at_ms)

    def elapsed_time(self, end_event: object) -> float:
        assert isinstance(end_event, FakeEvent)
        assert self.query()  # torch raises for events that were not reached
        assert end_event.query()
        return end_event.at_ms - self.at_ms


def test_a_gpus_time_is_that_of_its_stream_and_not_of_the_call() -> None:
    gpu = Gpu()
    clock = CudaClock(lambda: FakeEvent(gpu))
    for _ in range(3):
        with clock.measure():
            gpu.launch(250.0)  # the call returns at once
    assert clock.seconds == 0.0
    assert gpu.waits == 0  # the host is never held up
    clock.settle()
    assert clock.seconds == pytest.approx(0.75)


def test_time_between_two_steps_is_not_training() -> None:
    gpu = Gpu()
    clock = CudaClock(lambda: FakeEvent(gpu))
    with clock.measure():
        gpu.launch(100.0)
    gpu.launch(5000.0)  # other work on the same stream
    gpu.now_ms = 20_000.0  # and nothing at all
    with clock.measure():
        gpu.launch(100.0)
    assert clock.seconds == pytest.approx(0.1)  # the first step is known to have ended
    clock.settle()
    assert clock.seconds == pytest.approx(0.2)
    clock.settle()
    assert clock.seconds == pytest.approx(0.2)


def test_a_cpus_time_is_that_of_the_call_also_of_one_that_fails() -> None:
    times = iter([10.0, 10.5, 20.0, 20.25])
    clock = HostClock(lambda: next(times))
    with clock.measure():
        pass
    with pytest.raises(ValueError, match="broken"), clock.measure():
        raise ValueError("broken")
    assert clock.seconds == 0.75


async def test_a_device_counts_training_calls_only_and_is_complete_once_free() -> None:
    device = DeviceThread(torch.device("cpu"), threads=1, nice=0)

    def train() -> None:
        with device.training():
            torch.ones(8).sum().item()

    try:
        await device.run(lambda: torch.ones(8).sum().item())
        assert device.trained_s == 0.0
        await device.run(train)
        await device.free()
        counted_s = device.trained_s
        assert counted_s > 0.0
        await device.free()
        assert device.trained_s == counted_s
    finally:
        device.close()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
async def test_a_real_gpu_is_measured_on_its_stream() -> None:
    device = DeviceThread(torch.device("cuda"), threads=1, nice=0)
    cycles = 200_000_000

    def train() -> None:
        with device.training():
            torch.cuda._sleep(cycles)  # type: ignore[no-untyped-call]

    try:
        await device.run(train)
        await device.free()
        once_s = device.trained_s
        assert once_s > 0.0
        for _ in range(3):
            await device.run(train)
        await device.free()
        assert device.trained_s == pytest.approx(4 * once_s, rel=0.25)
    finally:
        device.close()
