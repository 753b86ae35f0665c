"""`tlt simulate fit`, with everything imported that it needs."""

from pathlib import Path


def fit(
    directory: Path,
    *,
    card: str | None,
    model: str | None,
    gpus_per_worker: int,
    held_out: bool,
    save: Path | None,
    json_to: str,
    seed: int,
) -> None: ...
