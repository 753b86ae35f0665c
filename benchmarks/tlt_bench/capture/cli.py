"""Options of `tlt bench capture`. Imports no torch, so that --help stays fast."""

from tlt_bench.options import AcceptLength, Device, DrafterOf, Json, Model


def capture(
    json: Json = "-",
    device: Device = "auto",
    model: Model = None,
    drafter: DrafterOf = None,
    accept_length: AcceptLength = None,
) -> None:
    """
    Measure decoding with and without capture of hidden states in the same engine. Takes 5 minutes.

    Also measures the cost of SGLang's own `return_hidden_states` in an engine without TLT; on a CPU also for states of
    4,096 elements.
    """
    from tlt_bench.capture.command import measure
    from tlt_bench.engines.prepare import BenchTarget

    measure(BenchTarget(device=device, model=model, drafter=drafter, accept_length=accept_length)).write(json)
