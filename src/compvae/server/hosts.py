"""Who may speak to the server: names in Host, pages in Origin, bearers of the token.

A page of another site can make a browser send requests here, and can make its own name resolve to 127.0.0.1.  So the
Host must be one of ours, a POST must come from our own page or from no page at all, and nothing answers with CORS.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Door", "is_loopback"]

LOCAL = ("localhost", "127.0.0.1", "::1")
HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]{1,253})(?::\d{1,5})?")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server bound there."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class Door:
    """hosts: names beside those of this machine.  addresses: any literal address is a good Host (bound beyond loopback;
    names can be made to point here, addresses cannot).  token: what the API asks for, None for nothing."""

    hosts: tuple[str, ...] = ()
    addresses: bool = False
    token: str | None = None

    def refuses(self, method: str, headers: Mapping[str, str], guarded: bool) -> tuple[int, str] | None:
        """Status and sentence, or None where the request may pass.  headers: by lower-case name."""
        host = headers.get("host", "")
        if not self._ours(host):
            return 400, "the Host of this request is not a name of this server; compvae serve --allow-host adds one"
        if method not in ("GET", "HEAD") and not _same_site(headers, host):
            return 403, "requests from pages of other sites are refused"
        if guarded and self.token is not None and not _bears(headers.get("authorization", ""), self.token):
            return 401, "this server needs its token: Authorization: Bearer TOKEN"
        return None

    def _ours(self, host: str) -> bool:
        match = HOST.fullmatch(host)
        if match is None:
            return False
        name = match[1].strip("[]").lower()
        return name in LOCAL or name in self.hosts or (self.addresses and _is_address(name))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _same_site(headers: Mapping[str, str], host: str) -> bool:
    """No Origin (not a page), or our own."""
    if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        return False
    origin = headers.get("origin")
    return origin is None or origin.lower() in (f"http://{host.lower()}", f"https://{host.lower()}")


def _bears(authorization: str, token: str) -> bool:
    scheme, _, given = authorization.partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode())
