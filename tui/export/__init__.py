"""A run as files for other programs: one module per format, each with `write`.

tensorboardX and pyarrow are imported here and nowhere else: the extra `export` installs them.
"""
