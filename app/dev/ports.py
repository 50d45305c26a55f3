"""Free loopback ports for servers that are started, stopped and started again."""

import random
import socket

# Below the ports that the kernel gives to outgoing connections (32768 and up on Linux, 49152 on macOS): a server
# that is down for a moment must find its port free again, and a client that retries must not connect to itself.
FIRST_PORT, LAST_PORT = 20_000, 32_000


def free_port() -> int:
    """A port that nobody listens on now; the caller must still expect to lose a race for it."""
    for port in random.sample(range(FIRST_PORT, LAST_PORT), k=200):
        if is_free(port):
            return port
    raise OSError(f"no free port between {FIRST_PORT} and {LAST_PORT}")


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
