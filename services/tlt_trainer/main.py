"""Start-up of a spot trainer. `process` imports torch, so this module is cheap to import."""

from tlt_common.rpc.app import run_app
from tlt_trainer.config import TrainerConfig


def run(config: TrainerConfig) -> None:
    """Serve until the process is told to stop, or its worker exits."""
    from tlt_trainer.process import serve

    run_app(config, lambda: serve(config))
