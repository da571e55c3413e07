"""What all tests of the dashboard share."""

from tests.kit.idle import idle

__all__ = ["idle"]
