"""Shows a stage to browsers: one page, one stream, and nothing else.

Everything happens in one thread, so nothing needs a lock: between two pictures the stage is moved
on, and what is new is written once for all who look. Who reads slowly misses pictures and is then
told everything anew; nobody waits for anybody.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from ucpo.errors import NotFiniteError, UsageError
from ucpo.show.live import messages
from ucpo.show.live.page import document
from ucpo.show.live.sources import charts
from ucpo.show.live.stage import Stage

log = logging.getLogger("uvicorn.error")

PICTURES = 30.0
"""A second."""
MOST_VIEWERS = 32
_BEHIND = 30  # messages a slow viewer may be behind before it is told everything anew
_WISHES = 120.0  # a second, from one viewer
_NEWS = 2.0  # seconds between looks at the files of a run
_REFUSED = 1008  # the code of a stream that is not wanted


class Viewer:
    """Someone who looks: what they have yet to be told."""

    def __init__(self) -> None:
        self._waiting: list[str] = []
        self._there = asyncio.Event()
        self.lost = False
        """Whether they fell behind and must be told everything."""
        self._allowance, self._asked = _WISHES, time.monotonic()

    def tell(self, text: str) -> None:
        """Have a message sent when there is time."""
        if len(self._waiting) >= _BEHIND:
            self._waiting, self.lost = [], True
        if not self.lost:
            self._waiting.append(text)
        self._there.set()

    async def next(self) -> list[str]:
        """What to send now; waits until there is something."""
        await self._there.wait()
        self._there.clear()
        waiting, self._waiting = self._waiting, []
        return waiting

    def may_ask(self) -> bool:
        """Whether a wish is one too many in too short a time."""
        now = time.monotonic()
        self._allowance = min(_WISHES, self._allowance + _WISHES * (now - self._asked))
        self._asked = now
        self._allowance -= 1.0
        return self._allowance >= 0.0


class Live:
    """The page and the stream of a stage.

    Args:
        stage: What is shown.
        hosts: ``host:port`` as browsers may call this server; others are refused, so that no
            other site can make a browser ask here under a name of its own. None: any.
        token: Must be in the address; drawn at random by default.
    """

    def __init__(
        self, stage: Stage, hosts: Sequence[str] | None = None, token: str | None = None
    ) -> None:
        self.stage = stage
        self.token = token or secrets.token_urlsafe(16)
        self.hosts = hosts
        self._viewers: set[Viewer] = set()
        self._looked_at = asyncio.Event()
        self._charts = self._read_charts()
        self.app = Starlette(
            routes=[Route("/", self._page), WebSocketRoute("/stream", self._stream)],
            lifespan=self._lifespan,
            exception_handlers={404: _nothing_there, 405: _nothing_there},
        )

    # --- Who may look ---

    def _refusal(self, connection: Request | WebSocket) -> str | None:
        """Why someone may not look; None where they may."""
        host = connection.headers.get("host", "")
        if self.hosts is not None and host not in self.hosts:
            return "this address is not known here"
        origin = connection.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            return "another site may not look"
        given = connection.query_params.get("token", "")
        if not secrets.compare_digest(given.encode(), self.token.encode()):
            return "the address lacks its token; open the one that ucpo live printed"
        return None

    async def _page(self, request: Request) -> Response:
        refusal = self._refusal(request)
        if refusal is not None:
            return PlainTextResponse(f"ucpo: {refusal}\n", 403)
        nonce = secrets.token_urlsafe(16)
        policy = (
            f"default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-{nonce}'; "
            "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
            "frame-ancestors 'none'"
        )
        headers = {
            "Content-Security-Policy": policy,
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
        }
        return HTMLResponse(document(nonce, self.stage.sources[0].task), headers=headers)

    async def _stream(self, socket: WebSocket) -> None:
        refusal = self._refusal(socket)
        if refusal is None and len(self._viewers) >= MOST_VIEWERS:
            refusal = f"{MOST_VIEWERS} are looking already"
        if refusal is not None:
            await socket.close(_REFUSED, refusal)
            return
        await socket.accept()
        viewer = Viewer()
        self._viewers.add(viewer)
        self._looked_at.set()
        for text in self._everything():
            viewer.tell(text)
        both = (_hear(self, socket, viewer), _tell(self, socket, viewer))
        work = [asyncio.create_task(each) for each in both]
        try:
            await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._viewers.discard(viewer)
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)

    # --- What is told ---

    def _everything(self) -> list[str]:
        """All there is to know, for someone who knows nothing."""
        about = {
            "kind": "hello",
            "task": self.stage.sources[0].task,
            "sources": [source.about() for source in self.stage.sources],
        }
        told = [about, self._charts, self.stage.settings(), self.stage.episode()]
        return [_text(each) for each in told]

    def _tell_all(self, *told: dict[str, Any]) -> None:
        texts = [_text(each) for each in told]
        for viewer in self._viewers:
            for text in texts:
                viewer.tell(text)

    @property
    def viewers(self) -> int:
        """How many look."""
        return len(self._viewers)

    def obey(self, text: str) -> None:
        """Do what a message asks for, and tell everybody what is different now."""
        before = self.stage.episodes
        name, wish = messages.read(text)
        self.stage.obey(name, wish)
        anew = self.stage.episodes != before or name in ("add", "remove")
        news = self.stage.episode() if anew else self.stage.frame()
        shown = name in ("step", "spend", "restart") or anew
        self._tell_all(self.stage.settings(), *([news] if shown else []))

    # --- Time ---

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        work = [asyncio.create_task(each()) for each in (self._play, self._read_news)]
        yield
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)
        self.stage.close()

    async def _play(self) -> None:
        """Move the stage on while anybody looks."""
        last = time.monotonic()
        due = last
        while True:
            due = max(due + 1.0 / PICTURES, time.monotonic())
            await asyncio.sleep(due - time.monotonic())
            if not self._viewers:
                self._looked_at.clear()
                await self._looked_at.wait()
                last = due = time.monotonic()
                continue
            now = time.monotonic()
            passed, last = min(now - last, 0.25), now
            episode, past = self.stage.episodes, len(self.stage.past)
            try:
                moved = self.stage.advance(passed)
            except Exception as error:  # a task of the user's own may raise anything
                self.stage.paused = True
                self._tell_all(_refusal(error), self.stage.settings())
                continue
            if moved:
                begun = self.stage.episodes != episode
                self._tell_all(self.stage.episode() if begun else self.stage.frame())
                if begun or len(self.stage.past) != past:
                    self._tell_all(self.stage.settings())

    async def _read_news(self) -> None:
        """Look whether a run under way has written something."""
        while True:
            await asyncio.sleep(_NEWS)
            if not self._viewers:
                continue
            with suppress(UsageError, OSError):  # half a run is no reason to stop
                newer = await asyncio.to_thread(_refresh, self.stage)
                if not newer:
                    continue
                self._charts = await asyncio.to_thread(self._read_charts)
                opened = not self.stage.lanes and self.stage.open()
                hello, *_ = self._everything()
                for viewer in self._viewers:
                    viewer.tell(hello)
                self._tell_all(self._charts)
                if opened:
                    self._tell_all(self.stage.settings(), self.stage.episode())

    def _read_charts(self) -> dict[str, Any]:
        return {"kind": "charts", **charts(self.stage.sources)}


async def _hear(live: Live, socket: WebSocket, viewer: Viewer) -> None:
    """Do what a viewer asks for, as long as they are there."""
    while True:
        try:
            message = await socket.receive()
        except (WebSocketDisconnect, RuntimeError):
            return
        if message["type"] == "websocket.disconnect":
            return
        if not viewer.may_ask():
            with suppress(RuntimeError, WebSocketDisconnect):
                await socket.close(_REFUSED, "too many wishes at once")
            return
        try:
            text = message.get("text")
            if text is None:
                raise UsageError("a message is text")
            live.obey(text)
        except Exception as error:  # as above; whoever looks is told, and the others play on
            viewer.tell(_text(_refusal(error)))


async def _tell(live: Live, socket: WebSocket, viewer: Viewer) -> None:
    """Send what a viewer has yet to be told, as fast as they read."""
    while True:
        for text in await viewer.next():
            try:
                await socket.send_text(text)
            except (WebSocketDisconnect, RuntimeError):
                return
        if viewer.lost:
            viewer.lost = False
            for text in live._everything():
                viewer.tell(text)


def _refusal(error: Exception) -> dict[str, Any]:
    """What a page is told; what nobody expected is also told to who started the server."""
    if isinstance(error, UsageError | NotFiniteError):
        return {"kind": "refusal", "why": str(error)}
    log.error("ucpo: the live page met an error", exc_info=error)
    return {"kind": "refusal", "why": f"{type(error).__name__}: {error}"[:500]}


def _refresh(stage: Stage) -> bool:
    newer = [source.refresh() for source in stage.sources]  # every one of them, not the first
    return any(newer)


def _text(value: Any) -> str:
    from ucpo.reports.html import finite

    return json.dumps(finite(value), allow_nan=False, separators=(",", ":"))


async def _nothing_there(request: Request, error: Exception) -> Response:
    return PlainTextResponse("ucpo: there is nothing here\n", 404)
