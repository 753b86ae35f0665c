"""What the gateway foretells and moves in virtual time, by the product's forecaster, cost curve and rules. Pure."""

from collections.abc import Sequence
from math import inf

from tlt_common.bandit import bucket
from tlt_common.domain.arm import ArmWindow
from tlt_common.domain.arm.rounds import WorkedRounds
from tlt_common.forecast import CostCurve, Forecaster, TailRequest, TailWorker
from tlt_common.forecast.load import GatewayLoad, TailReport
from tlt_coordinator.forecasts import Forecasts
from tlt_gateway.consolidation.knee import knee
from tlt_gateway.consolidation.plan import Planned, moves
from tlt_gateway.consolidation.tail_moves import TailMoves
from tlt_simulator.run.batch import SimRequest
from tlt_simulator.run.coordinator import GATEWAY
from tlt_simulator.run.worker import SimWorker
from tlt_simulator.scenario import GatewayKeys, RolloutFleet
from tlt_worker.activity import Tenancy


class SimOutlook:
    """
    Args:
        fleet: The workers' sizes.
        keys: The gateway's configuration.
        lending: Whether workers are lent, without which nothing moves.
    """

    def __init__(self, fleet: RolloutFleet, keys: GatewayKeys, *, lending: bool) -> None:
        self._fleet = fleet
        self._keys = keys
        self._forecaster = Forecaster()
        self._forecasts = Forecasts(stale_s=inf)
        self._curve = CostCurve()
        self._windows = dict[int, list[float]]()
        self._prefilled = [0.0, 0.0]
        self._serial = 0
        self._moves = TailMoves(GATEWAY, at_most=keys.tail_running, slack=keys.tail_slack)
        self._moves.lending = lending
        self._lending = lending

    def worked(self, batch: int, rounds: float, kv_tokens: float, tokens: float, seconds: float) -> None:
        """Note rounds of a worker: `tokens` were generated in them, with so many in the KV cache on average."""
        if not self._lending:
            return  # nobody asks
        sums = self._windows.setdefault(bucket(batch), [0.0] * 5)
        for place, value in enumerate((rounds, rounds * batch, rounds * kv_tokens, tokens, seconds)):
            sums[place] += value

    def prefilled(self, tokens: float, seconds: float) -> None:
        """Note a prefill."""
        self._prefilled = [self._prefilled[0] + tokens, self._prefilled[1] + seconds]

    def drafter_changed(self) -> None:
        """Forget what rounds with another drafter were like."""
        self.learn(self._moves.queued)
        self._curve.forget_drafts()

    def finished(self, request: SimRequest, now_s: float) -> None:
        """Learn from a response that is over."""
        if not self._lending:
            return
        self._forecaster.finished(request.running, ended=request.sample.ends)
        self._moves.over(request.ref, request.kv_tokens, now_s)

    def look(self, running: Sequence[SimRequest]) -> None:
        """Learn from what runs how long responses get."""
        self._forecaster.look([request.running for request in running])

    def learn(self, queued: int) -> None:
        """Learn from the rounds since the last call, and note how many requests wait."""
        self._serial += 1
        windows = tuple(_window(group, sums) for group, sums in self._windows.items() if sums[0] >= 1.0)
        tokens, seconds = self._prefilled
        self._windows, self._prefilled = {}, [0.0, 0.0]
        rounds = WorkedRounds(serial=self._serial, arms=windows, prefilled_tokens=round(tokens), prefill_s=seconds)
        self._curve.learn(rounds)
        self._moves.queued = queued

    def pack(self, requests: int, kv_tokens: float, workers: int) -> int:
        """Return up to how many requests workers get before others get any."""
        return knee(
            self._curve.token_s,
            running=requests,
            workers=workers,
            kv_tokens=kv_tokens,
            kv_room=self._fleet.kv_room,
            slack=self._keys.pack_slack,
        )

    def moves(
        self, workers: Sequence[SimWorker], running: Sequence[SimRequest], now_s: float, *, is_settled: bool
    ) -> Sequence[Planned]:
        """Return the requests that move now; `learn` and `look` were called."""
        pace = self._curve.pace(self._keys.tail_running) if self._keys.tail_running else None
        if pace is None or not self._forecaster.ready or not self._moves.may_move:
            return ()
        of = {id(worker.batch): worker.worker_id for worker in workers}
        at_workers = [request for request in running if request.place is not None]
        lefts = self._forecaster.left([request.running for request in at_workers])
        report = TailReport(
            is_settled=is_settled,
            workers=tuple(
                TailWorker(
                    worker_id=worker.worker_id,
                    pace=pace,
                    slots=self._fleet.slots,
                    kv_room=self._fleet.kv_room,
                    lendable=True,
                    training=worker.activity.tenancy is not Tenancy.NONE,
                )
                for worker in workers
            ),
            requests=tuple(
                TailRequest(
                    gateway_id=GATEWAY,
                    ref=request.ref,
                    worker_id=of[id(request.place)],
                    kv_tokens=round(request.kv_tokens),
                    left=left,
                )
                for request, left in zip(at_workers, lefts, strict=True)
            ),
        )
        self._forecasts.report(GATEWAY, GatewayLoad(tail=report), now_s)
        if (found := self._forecasts.view(now_s)) is None:
            return ()
        self._moves.see(found[0], now_s - found[1])
        if (view := self._moves.take_view(now_s)) is None:
            return ()
        planned = moves(view, at_most=self._keys.tail_running, slack=self._keys.tail_slack)
        return self._moves.chosen(view, planned, {one.ref: one.began_s for one in at_workers}, now_s)


def _window(group: int, sums: Sequence[float]) -> ArmWindow:
    rounds, requests, kv_tokens, tokens, seconds = sums
    return ArmWindow(
        arm="chosen",
        group=group,
        rounds=round(rounds),
        accepted_tokens=max(0, round(tokens) - round(requests)),
        produced_tokens=max(round(tokens), round(requests)),
        elapsed_s=seconds,
        median_reward=0.0,
        kv_tokens=round(kv_tokens),
    )
