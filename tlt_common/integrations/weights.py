"""Sends the weights of a trainer's process to the suite, for trainers that hand over names and tensors."""

from collections.abc import Iterable
from typing import Any

from tlt_common.integrations.connection import Connection


class WeightsSender:
    """
    Publishes the weights of each step, on all workers or on none.

    The version of a step is the step plus a constant offset: version 0 is the engines' initial weights, and a restarted
    trainer may find a fleet with higher versions.
    """

    def __init__(self, connection: Connection) -> None:
        """Create a sender. It connects on the first send."""
        self._connection = connection
        self._offset: int | None = None

    async def send(self, weights: Iterable[tuple[str, Any]], global_steps: int | None) -> int:
        """
        Copy the tensors to the host, then publish them; return their version once all workers serve it.

        They are kept in host memory, since the update is repeated if the gateway is lost meanwhile.

        Args:
            weights: Names and whole tensors, on any device.
            global_steps: The trainer's step; None takes the next version.

        Raises:
            InvalidRequestError: Another trainer publishes weights to the same fleet.
            UnavailableError: Gateway or workers are not ready in time.
            WeightsError: The weights do not fit the model. The previous weights stay in use.
        """
        state = {name: tensor.detach().cpu() for name, tensor in weights}
        async with self._connection.client() as client:
            served = (await client.wait_ready(self._connection.wait_s)).policy_version
            version = self._version_of(global_steps, served)
            await client.publish_weights(version, state)
        return version

    def _version_of(self, step: int | None, served: int) -> int:
        if step is None:
            return served + 1
        if self._offset is None:
            self._offset = max(0, served + 1 - step)
        return step + self._offset
