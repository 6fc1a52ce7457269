"""The server of the live page: Bokeh's, on this machine alone unless a token guards it."""

from __future__ import annotations

import hmac
import ipaddress
import socket
from functools import partial
from typing import Any

from bokeh.application import Application
from bokeh.application.handlers.function import FunctionHandler
from bokeh.server.server import Server
from tornado.web import RequestHandler

from evenflow.errors import BadInput
from evenflow.web.follow import Followed
from evenflow.web.metrics import CONTENT_TYPE, metrics_text
from evenflow.web.page import make_page


class Metrics(RequestHandler):
    """``/metrics``, for Prometheus."""

    def initialize(self, followed: Followed, token: str) -> None:
        """Take what the server knows."""
        self.followed = followed
        self.token = token

    def get(self) -> None:
        """Answer a scrape."""
        if self.token and not hmac.compare_digest(self.get_argument("token", ""), self.token):
            self.send_error(403)
            return
        self.set_header("Content-Type", CONTENT_TYPE)
        self.write(metrics_text(self.followed))


def _guarded(document: Any, followed: Followed, token: str) -> None:
    context = document.session_context
    given = context.request.arguments.get("token", [b""])[0].decode() if context is not None else ""
    if token and not hmac.compare_digest(given, token):
        document.title = "evenflow: token missing"
        return  # an empty page
    make_page(document, followed)


def make_server(followed: Followed, port: int = 5006, address: str = "127.0.0.1", token: str = "") -> Server:
    """Make the server; ``start()`` and its ``io_loop`` run it.

    Raises
    ------
    BadInput
        For another address than this machine's own without a token, or a port that is taken.
    """
    if not _own(address) and not token:
        raise BadInput(f"'{address}'", "127.0.0.1, or a --token that whoever opens the page must give", "--address")
    page = Application(FunctionHandler(partial(_guarded, followed=followed, token=token)))
    try:
        port = port or _free_port(address)  # Bokeh must know it beforehand, to accept a page's own connection
        return Server(
            {"/": page},
            address=address,
            port=port,
            # Whatever name others call this machine by: there the token decides.
            allow_websocket_origin=[f"{address}:{port}", f"localhost:{port}"] if _own(address) else ["*"],
            extra_patterns=[("/metrics", Metrics, {"followed": followed, "token": token})],
        )
    except OSError as error:
        raise BadInput(f"port {port} on {address} ({error.strerror})", "a free port, 0 for any", "--port") from None


def _free_port(address: str) -> int:
    with socket.socket() as found:
        found.bind((address, 0))
        return int(found.getsockname()[1])


def _own(address: str) -> bool:
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
