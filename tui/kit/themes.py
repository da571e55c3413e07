"""The themes of the dashboard: dark, light, and with a high contrast.

What each ink means, `tui.kit.inks` says. Style sheets have Textual's names for the inks of states
and keys, and names of ours for the others: see `Inks.variables`.
"""

from __future__ import annotations

import os
from typing import Any

from textual.app import App, ReturnType
from textual.theme import Theme

from tui.kit import inks
from tui.kit.inks import Inks
from tui.kit.user_state import recall, remember


def _make_theme(
    name: str, inks: Inks, *, dark: bool, grounds: tuple[str, str, str], **variables: str
) -> Theme:
    """Return a theme with the inks, also in place of those that Textual would mix itself.

    `grounds` are those of screens, of what lies on them, and of bars.
    """
    background, surface, panel = grounds
    variables |= inks.variables()
    return Theme(
        name,
        primary=inks.key,
        secondary=inks.key,
        accent=inks.key,
        warning=inks.warn,
        error=inks.bad,
        success=inks.good,
        foreground=inks.line,
        background=background,
        surface=surface,
        panel=panel,
        dark=dark,
        variables={
            "text-primary": inks.key,
            "text-secondary": inks.key,
            "text-accent": inks.key,
            "text-warning": inks.warn,
            "text-error": inks.bad,
            "text-success": inks.good,
            "footer-key-foreground": inks.key,
            **variables,
        },
    )


DARK = _make_theme(
    "rankboard-dark", inks.DARK, dark=True, grounds=("#14171A", "#1C2024", "#252A2F")
)
LIGHT = _make_theme(
    "rankboard-light", inks.LIGHT, dark=False, grounds=("#FAFAFA", "#F1F2F3", "#E7E9EC")
)
CONTRAST = _make_theme(
    "rankboard-contrast",
    inks.CONTRAST,
    dark=True,
    grounds=("#000000", "#000000", "#262626"),
    # Textual's own are blended with the background, which takes the contrast away.
    **{"text-muted": "#E0E0E0", "text-disabled": "#B0B0B0", "band-tint": "0.45"},
)
THEMES = (DARK, LIGHT, CONTRAST)
"""In the order in which a key goes through them."""
STATE_NAME = "theme"
"""The name under which the user's theme is remembered."""


class InkedApp(App[ReturnType]):
    """An app whose style sheets have our inks, whatever the theme is."""

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Return the inks for themes of Textual, which have none of ours."""
        return inks_of(self.current_theme).variables()


def use_themes(app: App[Any]) -> None:
    """Add these themes to Textual's, and begin with the one that the user has chosen last."""
    for theme in THEMES:
        app.register_theme(theme)
    if "TEXTUAL_THEME" not in os.environ:  # who sets it wants that theme
        last_theme = recall(STATE_NAME)
        # A theme may be remembered that this version does not have.
        app.theme = last_theme if last_theme in app.available_themes else DARK.name


def inks_of(theme: Theme) -> Inks:
    """Return the inks for a theme, which may be one of Textual's."""
    if theme.name == CONTRAST.name:
        return inks.CONTRAST
    return inks.DARK if theme.dark else inks.LIGHT


def remember_theme(theme: Theme) -> None:
    """Begin with this theme the next time."""
    remember(STATE_NAME, theme.name)


def find_next_theme(name: str) -> str:
    """Return the name of our theme after this one; after any other one, the first."""
    theme_names = [theme.name for theme in THEMES]
    next_number = theme_names.index(name) + 1 if name in theme_names else 0
    return theme_names[next_number % len(theme_names)]
