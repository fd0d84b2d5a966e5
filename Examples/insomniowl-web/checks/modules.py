"""Checks single modules of the page."""

from .browser import Failure
from .server import HERE


def check_client():
    """The folder has a copy of the client, because the server follows no link out of it."""
    client = HERE.parents[1] / "Clients/javascript/entitlement-sync.js"
    if client.read_bytes() != (HERE / client.name).read_bytes():
        raise Failure(f"{client.name} differs from {client}: copy it")
