"""Which requests are answered: those of people who were given the address, and of no other page."""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass, field

HERE = ("127.0.0.1", "localhost")
"""What this machine is called by its own browsers. A page that has its own name point here (DNS
rebinding) sends that name."""


@dataclass(frozen=True)
class Guard:
    """`token` is the secret part of the address."""

    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))

    def admits(self, token: str, host: str, origin: str | None) -> bool:
        """Return True for a request to answer, by the token in its path and its headers."""
        # The time that this comparison takes says nothing of the token.
        has_token = hmac.compare_digest(token.encode(errors="replace"), self.token.encode())
        host_name, _, port = host.partition(":")
        is_here = host_name in HERE and (not port or port.isdigit())
        is_own_page = origin in (None, f"http://{host}")
        return has_token and is_here and is_own_page
