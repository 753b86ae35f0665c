"""One response, continued after interruptions."""

from collections.abc import AsyncGenerator

from tlt_common.client.gateways import Gateways
from tlt_common.client.patience import Patience
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.response import TokenChunk
from tlt_common.domain.transcript import Transcript
from tlt_common.errors import TltError, UnavailableError
from tlt_common.rpc.streams import received
from tlt_common.wire import rollout as wire


async def response(gateways: Gateways, prompt: Prompt, patience: Patience) -> AsyncGenerator[TokenChunk, None]:
    """
    Yield the chunks of a response. A stream that breaks is continued at the next gateway, from the tokens received.

    Raises:
        TltError: The request was refused, or could not be continued in time.
    """
    transcript = Transcript(prompt)
    while transcript.finish_reason is None:
        stub = gateways.stub
        try:
            request = wire.pb.GenerateRequest(prompt=wire.prompt_to_pb(transcript.rest()))
            async with received(stub.Generate(request, timeout=patience.left_s)) as messages:
                async for message in messages:
                    patience.progressed()
                    yield transcript.add(wire.chunk_from_pb(message.chunk))
            if transcript.finish_reason is None:
                raise UnavailableError("the gateway ended the stream before the response was complete")
        except TltError as error:
            gateways.failed(stub, error)
            if transcript.finish_reason is None:
                await patience.after(error, prompt.request_id)
                transcript.move(died=False)
    if not transcript.closed:
        yield transcript.end(transcript.finish_reason)
