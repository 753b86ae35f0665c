"""SGLang's sockets at the end of an engine."""

import gc

import zmq


def close_sockets() -> None:
    """
    Close every socket of this process, unsent messages included.

    SGLang leaves its sockets to the garbage collector, which may collect their context first. A context waits for its
    sockets for ever: a worker whose engine has died would hang at exit, after everything it logs.
    """
    for found in gc.get_objects():
        # By type, since isinstance would ask objects that warn when they are touched for their __class__.
        if issubclass(type(found), zmq.Socket) and not found.closed:
            found.close(linger=0)
