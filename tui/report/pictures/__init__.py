"""The pictures of a report, one file each: a function `picture` that says what it shows, and one
that draws it. `style` has their colours, `render` makes SVG and PNG of them."""
