from contextlib import closing
from pathlib import Path

from tlt_worker.link.pulse import Pulse


def test_the_worker_sees_the_rounds_the_scheduler_counts(tmp_path: Path) -> None:
    with closing(Pulse(tmp_path / "pulse")) as worker, closing(Pulse(tmp_path / "pulse")) as scheduler:
        assert worker.rounds == 0
        for count in range(1, 1000):
            scheduler.beat()
            assert worker.rounds == count
