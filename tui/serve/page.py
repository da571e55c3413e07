"""The page that a visitor's browser shows. It loads nothing from elsewhere."""

from __future__ import annotations

from html import escape
from string import Template

FILES = {
    "xterm.css": "css/xterm.css",
    "textual.js": "js/textual.js",
    "mono.ttf": "fonts/RobotoMono-VariableFont_wght.ttf",
}
"""The files of textual-serve that the page uses, by their names here."""
FOCUS = 'addEventListener("load", () => document.querySelector("textarea").focus());\n'
"""A script that has keys go to the dashboard without a click."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self'; "
    "img-src 'self' data: blob:; connect-src 'self' ws://{host}; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
"""What the page may load: only what comes from here."""
HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Headers of every answer: the address, which holds the token, is told to nobody."""
PAGE = Template("""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>$title</title>
<link rel="stylesheet" href="static/xterm.css">
<link rel="icon" href="data:,">
<style>
@font-face { font-family: "Roboto Mono"; src: url("static/mono.ttf"); font-weight: 100 700; }
html, body { margin: 0; height: 100%; background: #121212; color: #e0e0e0; overflow: hidden; }
body { font-family: "Roboto Mono", monospace; }
#terminal { width: 100vw; height: 100vh; }
#closed { display: none; position: absolute; inset: 0; margin: auto; width: 26em; height: 6em;
  padding: 1em; background: #242f38; text-align: center; z-index: 10; }
body.-closed #closed { display: block; }
#closed a { color: #ffa62b; }
</style>
<script src="static/textual.js"></script>
<script src="static/focus.js"></script>
</head>
<body>
<div id="closed">
<p>The page was closed, the server has ended, or $max_pages pages are open already.</p>
<a href="">Open it again</a></div>
<div id="terminal" class="textual-terminal" data-font-size="14"
  data-session-websocket-url="$socket"></div>
</body>
</html>
""")


def make_page(title: str, socket: str, max_pages: int) -> str:
    """Return the page. `socket` is the address of the websocket, `max_pages` how many pages may be
    open."""
    return PAGE.substitute(title=escape(title), socket=escape(socket), max_pages=max_pages)
