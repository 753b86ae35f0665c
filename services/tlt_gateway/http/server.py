"""The gateway's HTTP server, from binding the port to shutdown."""

import asyncio
from functools import partial
from ipaddress import ip_address
from typing import Self

from tlt_common.rpc.addresses import announce
from tlt_common.rpc.drain import Drain
from tlt_common.rpc.http.protocol import timed
from tlt_common.rpc.http.server import address_of, bind, serve_http
from tlt_common.rpc.limits import Limits
from tlt_common.rpc.security.access import Access
from tlt_gateway.config import GatewayConfig
from tlt_gateway.gateway import Gateway
from tlt_gateway.http.app import http_app
from tlt_gateway.http.auth import HttpAuth
from tlt_gateway.http.draining import Draining
from tlt_gateway.http.text.codec import TextCodec, load_codec

RECEIVE_S = 60.0
"""Timeout in seconds for a request with its body: 16 MiB, the default maximum, at 0.3 MB/s. Slower clients would keep a
connection each."""


class HttpServer:
    """A bound port; the first connections wait until `run` serves them. Use it as a context manager."""

    def __init__(self, config: GatewayConfig, listen: str) -> None:
        """
        Bind the port.

        Raises:
            ConfigError: The address is malformed or in use.
        """
        self._config = config
        self._bound = bind(listen, key="http.listen")
        self._codec = TextCodec()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bound.close()
        self._codec.close()

    async def prepare(self) -> None:
        """
        Load the tokenizer, the chat template and the parser of tool calls, and publish the address.

        Raises:
            ConfigError: One of them cannot be loaded.
        """
        self._codec = await asyncio.to_thread(load_codec, self._config.http, trusted=self._config.tokens is None)
        announce("rollout_http", address_of(self._bound))

    async def run(self, gateway: Gateway, access: Access, limits: Limits, drain: Drain) -> None:
        """Serve until cancelled. Once `drain` has begun, running calls complete and new ones are refused."""
        auth = HttpAuth(access, limits, on_loopback=ip_address(self._bound.getsockname()[0]).is_loopback)
        made = partial(http_app, gateway, auth, self._codec, chat_bytes=self._config.http.chat_memory_bytes)
        app = await asyncio.to_thread(made)  # a tenth of a second
        api = Draining(app, drain, retry_after_s=limits.retry_after_s)
        await serve_http(
            api,
            self._bound,
            self._config.tls,
            protocol=timed(RECEIVE_S, limits.connections),
        )
