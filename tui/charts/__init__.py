"""What charts show, as plain data: their kinds, views, curves and values. Imports no Textual."""
