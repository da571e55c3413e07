"""The themes of the dashboard: dark, light, and with a high contrast.

Their colours are Okabe-Ito's, which colour-blind people tell apart, or near to them; what they say
is also said by signs and words.
"""

from __future__ import annotations

import os
from typing import Any

from textual.app import App
from textual.theme import Theme

from tui.kit.user_state import recall, remember

DARK = Theme(
    "rankboard-dark",
    primary="#56B4E9",
    secondary="#0072B2",
    accent="#CC79A7",
    warning="#E69F00",
    error="#E8702A",
    success="#00B386",
    foreground="#E4E6E8",
    background="#14171A",
    surface="#1C2024",
    panel="#252A2F",
    variables={"footer-key-foreground": "#56B4E9"},
)
LIGHT = Theme(
    "rankboard-light",
    primary="#0072B2",
    secondary="#56B4E9",
    accent="#A34F80",
    warning="#B87F00",
    error="#C24E00",
    success="#007A58",
    foreground="#1B1E21",
    background="#FAFAFA",
    surface="#F0F1F2",
    panel="#E2E5E8",
    dark=False,
    variables={"footer-key-foreground": "#0072B2"},
)
CONTRAST = Theme(
    "rankboard-contrast",
    primary="#F0E442",
    secondary="#56B4E9",
    accent="#FF9FD0",
    warning="#FFB000",
    error="#FF8040",
    success="#00E0A8",
    foreground="#FFFFFF",
    background="#000000",
    surface="#000000",
    panel="#262626",
    variables={
        # Textual's own are blended with the background, which takes the contrast away.
        "text-muted": "#E0E0E0",
        "text-disabled": "#B0B0B0",
        "footer-key-foreground": "#F0E442",
        "band-tint": "0.45",
    },
)
THEMES = (DARK, LIGHT, CONTRAST)
"""In the order in which a key goes through them."""
STATE_NAME = "theme"
"""The name under which the user's theme is remembered."""


def use_themes(app: App[Any]) -> None:
    """Add these themes to Textual's, and begin with the one that the user has chosen last."""
    for theme in THEMES:
        app.register_theme(theme)
    if "TEXTUAL_THEME" not in os.environ:  # who sets it wants that theme
        last_theme = recall(STATE_NAME)
        # A theme may be remembered that this version does not have.
        app.theme = last_theme if last_theme in app.available_themes else DARK.name


def remember_theme(theme: Theme) -> None:
    """Begin with this theme the next time."""
    remember(STATE_NAME, theme.name)


def find_next_theme(name: str) -> str:
    """Return the name of our theme after this one; after any other one, the first."""
    theme_names = [theme.name for theme in THEMES]
    next_number = theme_names.index(name) + 1 if name in theme_names else 0
    return theme_names[next_number % len(theme_names)]
