"""A server for the live page: where it listens, and how it ends."""

from __future__ import annotations

import socket
import threading
import webbrowser
from collections.abc import Callable

import uvicorn

from ucpo.errors import UsageError
from ucpo.show.live import messages
from ucpo.show.live.server import Live
from ucpo.show.live.stage import Stage

USUAL_PORT = 8760
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def serve(
    stage: Stage,
    host: str,
    port: int | None,
    browser: bool,
    say: Callable[[str], None],
) -> None:
    """Show a stage until Ctrl-C.

    Args:
        stage: What is shown.
        host: Address to listen at.
        port: Port to listen at; None: the usual one, or any that is free.
        browser: Whether to open the page.
        say: Told the address of the page.
    """
    listening = listen(host, port)
    server = Server(stage, listening, host)
    say(f"open {server.address}")
    say("Ctrl-C ends it")
    if host not in LOOPBACK:
        say("others can reach it: whoever has the address with its token can look and turn")
    if browser:
        threading.Thread(target=webbrowser.open, args=(server.address,), daemon=True).start()
    try:
        server.run()
    except KeyboardInterrupt:
        say("ended")


class Server:
    """A stage at an address.

    Args:
        stage: What is shown.
        listening: A socket from `listen`.
        host: As the user says it.
    """

    def __init__(self, stage: Stage, listening: socket.socket, host: str) -> None:
        self._listening = listening
        self.port = int(listening.getsockname()[1])
        called = f"[{host}]" if ":" in host else host
        names = [f"{name}:{self.port}" for name in ("127.0.0.1", "localhost", "[::1]", called)]
        self.live = Live(stage, names if host in LOOPBACK else None)
        shown = "127.0.0.1" if host in ("0.0.0.0", "::") else called
        self.address = f"http://{shown}:{self.port}/?token={self.live.token}"
        self.server = uvicorn.Server(
            uvicorn.Config(
                self.live.app,
                log_level="warning",
                access_log=False,
                ws="websockets-sansio",
                ws_max_size=messages.LARGEST,
                ws_ping_interval=20.0,
                ws_per_message_deflate=False,
                server_header=False,
                timeout_graceful_shutdown=2,
                limit_concurrency=200,
                h11_max_incomplete_event_size=16384,
            )
        )

    def run(self) -> None:
        """Serve until told to stop."""
        self.server.run(sockets=[self._listening])


def listen(host: str, port: int | None) -> socket.socket:
    """A socket at a port; where none is asked for and the usual one is taken, at any free one."""
    if port is not None and not 0 <= port <= 65535:
        raise UsageError(f"a port is 0 to 65535, got {port}")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    tried = [USUAL_PORT, 0] if port is None else [port]
    for one in tried:
        made = socket.socket(family, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((host, one))
            made.listen(64)
        except OSError as error:
            made.close()
            reason = error.strerror or str(error)
            if one == tried[-1]:
                raise UsageError(
                    f"cannot listen at {host}, port {one} ({reason}); choose another --port"
                ) from None
            continue
        return made
    raise AssertionError("the last port either works or is refused")
