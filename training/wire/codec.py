"""Converts frozen dataclasses to JSON objects and back, by the types of their fields. An object
that does not fit is decoded as None; decoding never raises."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from enum import Enum
from operator import itemgetter
from struct import Struct
from struct import error as StructError
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

Reader = Callable[[Any], Any]
LEAST_INT = -(2**63)
LARGEST_INT = 2**63 - 1


class Codec:
    """Converts between JSON objects and frozen dataclasses of one family. The value of `key` names
    the class.

    An object is undecodable if a value has another type than its field, or is an int of more than
    64 bits; an int may stand for a float. An enum is its value, a string; an unknown value is
    undecodable, unless the enum defines a member for it. A class may have a method `validate`,
    which raises ValueError for values that are out of bounds.
    """

    def __init__(self, key: str, types: Iterable[type[Any]]) -> None:
        self._key = key
        self._types = {cls.__name__.lower(): cls for cls in types}
        self._readers: dict[
            str, Reader
        ] = {}  # each made when it is first needed, as an agent needs few

    def object(self, value: Any) -> dict[str, Any]:
        """The JSON object of a dataclass, for `jsonl.dumps`."""
        cls = type(value)
        return {
            self._key: cls.__name__.lower(),
            **{name: getattr(value, name) for name in cls.__slots__},
        }

    def value(self, data: dict[str, Any]) -> Any | None:
        """The dataclass of a JSON object; None if it is undecodable or of another family."""
        try:
            name = data.get(self._key, "")
            reader = self._readers.get(name) or self._reader(name)
            return reader(data) if reader else None
        except (TypeError, ValueError):
            return None

    def fault(self, data: dict[str, Any]) -> str:
        """Why an object of the family is undecodable; "" if it is decodable, or of another
        family."""
        name = data.get(self._key, "")
        cls = self._types.get(name) if isinstance(name, str) else None
        if cls is None or self.value(data) is not None:
            return ""
        for key, reader in _field_readers(cls):
            try:
                reader(data.get(key))
            except (TypeError, ValueError) as error:
                if key in data:
                    return f"{key}: {error}"
        try:
            self._readers[name](data)
        except (TypeError, ValueError) as error:
            return str(error)
        return ""

    def _reader(self, name: str) -> Reader | None:
        if name in self._types:
            self._readers[name] = _dataclass_reader(self._types[name])
        return self._readers.get(name)


def _field_readers(cls: type[Any]) -> list[tuple[str, Reader]]:
    hints = get_type_hints(cls)
    return [(field.name, reader_of(hints[field.name])) for field in fields(cls)]


def _dataclass_reader(cls: type[Any]) -> Reader:
    readers = _field_readers(cls)
    validate = getattr(cls, "validate", None)

    def read_each(data: Any) -> Any:
        return cls(**{name: reader(data[name]) for name, reader in readers if name in data})

    read = _plain_reader(cls, read_each)
    if not validate:
        return read

    def read_valid(data: Any) -> Any:
        value = read(data)
        validate(value)
        return value

    return read_valid


def _plain_reader(cls: type[Any], read_each: Reader) -> Reader:
    """A quick reader of a class of several plain fields, as steps come by the thousand. It leaves
    to `read_each` what lacks a field, or has a value that needs another look."""
    hints = get_type_hints(cls)
    names = [field.name for field in fields(cls)]
    types = [hints[name] for name in names]
    places = [place for place, one in enumerate(types) if one is int]
    if len(names) < 2 or not places or not {*types} <= {int, float, str, bool}:
        return read_each
    values_of = itemgetter(*names)
    ints_of = itemgetter(*places, places[0])  # twice, as of one place it would give no tuple
    pack = Struct(f"{len(places) + 1}q").pack  # the quickest way to see that all have 64 bits

    def read_plain(data: Any) -> Any:
        try:
            values = values_of(data)
            if [*map(type, values)] != types:
                return read_each(data)
            pack(*ints_of(values))
        except (KeyError, StructError):
            return read_each(data)
        return cls(*values)

    return read_plain


def reader_of(hint: Any) -> Reader:
    """A function that returns its argument if it is a `hint`, with lists as tuples, and else raises
    TypeError or ValueError."""
    if is_dataclass(hint):
        return _dataclass_reader(hint)  # type: ignore[arg-type]
    if get_origin(hint) is tuple:
        return _tuple_reader(hint)
    if get_origin(hint) in (Union, UnionType):
        return _optional_reader(hint)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _enum_reader(hint)
    accepted = (float, int) if hint is float else (hint,)

    def read(value: Any) -> Any:
        if type(value) not in accepted:
            raise TypeError(f"{value!r} is not a {hint.__name__}")
        if type(value) is int and not LEAST_INT <= value <= LARGEST_INT:
            raise ValueError("an int of more than 64 bits")
        return value

    return read


def _optional_reader(hint: Any) -> Reader:
    (wanted,) = (arg for arg in get_args(hint) if arg is not NoneType)
    inner = reader_of(wanted)
    return lambda value: None if value is None else inner(value)


def _enum_reader(hint: type[Enum]) -> Reader:
    read_word = reader_of(str)
    return lambda value: hint(read_word(value))


def _tuple_reader(hint: Any) -> Reader:
    inner = [reader_of(arg) for arg in get_args(hint) if arg is not Ellipsis]
    endless = Ellipsis in get_args(hint)

    def read(value: Any) -> Any:
        if type(value) not in (list, tuple):
            raise TypeError(f"{value!r} is not a list")
        return (
            tuple(map(inner[0], value))
            if endless
            else tuple(reader(item) for reader, item in zip(inner, value, strict=True))
        )

    return read
