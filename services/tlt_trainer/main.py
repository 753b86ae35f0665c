"""Startup of a spot trainer. `process` imports torch, so that this module is cheap to import."""

from tlt_common.errors import TltError
from tlt_common.processes.children import failure_of
from tlt_common.processes.own_session import enter_own_session
from tlt_common.rpc.app import run_app
from tlt_common.telemetry.log import configure_child, get_logger
from tlt_trainer.config import TrainerConfig


def run(config: TrainerConfig) -> None:
    """Serve until the process is told to stop, or its worker exits."""
    configure_child(config.log_level)
    if config.own_session:  # first: importing torch takes seconds of all cores
        try:
            enter_own_session(config.nice)
        except OSError as error:
            get_logger(__name__).warning("session_share_not_set", error=str(error))
    from tlt_trainer.process import serve

    try:
        run_app(config, lambda: serve(config))
    except TltError as error:
        failure_of(config.socket).write_text(error.message)  # its worker shows it in `tlt status`
        raise
