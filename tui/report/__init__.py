"""The report of runs and studies: one HTML page, Markdown, pictures and raw values.

`subject` is what a report is about, `numbers` are computed from it, `sections` say them in words,
tables and pictures, `pictures` draws with matplotlib, and `write` makes files of all that. Only
this package imports matplotlib and jinja2: the extra `report`.
"""
