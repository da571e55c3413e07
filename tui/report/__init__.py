"""The report of runs and studies: one HTML page, Markdown, pictures and raw values.

`load` reads what a report is about (`subject`). Each module of `topics` makes one section of it: it
computes, draws and says everything on its topic. `chapter` puts the sections in order, and `write`
makes the files. Only this package imports matplotlib and jinja2: the extra `report`.
"""
