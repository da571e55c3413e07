"""Read steps and metrics out of files that training programs write: tables, JSON, and event files
of TensorBoard. Pure: text in, readings out."""

from remote.formats.files.choose import FileReader, is_of_numbers, reader_of, source_of

__all__ = ["FileReader", "is_of_numbers", "reader_of", "source_of"]
