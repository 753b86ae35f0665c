from contextlib import closing
from pathlib import Path

from tlt_worker.link.pulse import Pulse


def test_the_worker_sees_the_rounds_the_scheduler_counts(tmp_path: Path) -> None:
    with closing(Pulse(tmp_path / "pulse")) as worker, closing(Pulse(tmp_path / "pulse")) as scheduler:
        assert worker.rounds == 0
        for count in range(1, 1000):
            scheduler.beat()
            assert worker.rounds == count


def test_the_worker_sees_what_the_scheduler_compiles(tmp_path: Path) -> None:
    with closing(Pulse(tmp_path / "pulse")) as worker, closing(Pulse(tmp_path / "pulse")) as scheduler:
        assert (worker.compiled, worker.compiling) == (0, False)
        scheduler.compile_begins()
        assert (worker.compiled, worker.compiling) == (1, True)
        scheduler.compile_ends()
        assert (worker.compiled, worker.compiling) == (1, False)
        scheduler.compile_begins()
        scheduler.beat()
        assert (worker.rounds, worker.compiled, worker.compiling) == (1, 2, False), "one that failed is over, too"
