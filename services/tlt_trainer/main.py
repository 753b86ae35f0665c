"""Start-up of a spot trainer. Torch comes in with `process`, so that this module is cheap to import."""

from tlt_common.rpc.app import run_app
from tlt_trainer.config import TrainerConfig


def run(config: TrainerConfig) -> None:
    """Serve until the process is told to end, or its worker dies."""
    from tlt_trainer.process import serve

    run_app(config, lambda: serve(config))
