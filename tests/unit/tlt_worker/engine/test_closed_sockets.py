import subprocess
import sys

PROGRAM = """
import gc, tempfile, zmq, zmq.asyncio
from tlt_worker.engine.thread import close_sockets

class Manager:
    def __init__(self):
        self.itself = self
        self.context = zmq.asyncio.Context(1)
        self.sender = zmq.Socket(self.context, zmq.PUSH)
        self.sender.connect(f"ipc://{tempfile.mkdtemp()}/nobody-listens")
        zmq.Socket.send(self.sender, b"for a scheduler that was killed", zmq.NOBLOCK)

manager = Manager()
close_sockets()
del manager
gc.collect()
print("ends")
"""


def test_a_process_with_sockets_that_nobody_closed_exits() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "ends\n"), done.stderr
