"""Converts frozen dataclasses to JSON objects and back, by the types of their fields. An object
that does not fit is decoded as None; decoding never raises."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from operator import itemgetter
from struct import Struct
from struct import error as StructError
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

Decoder = Callable[[Any], Any]
# 64 bits, as in the `pack` of `_plain_decoder`: both ways to decode must refuse the same ints.
LEAST_INT = -(2**63)
LARGEST_INT = 2**63 - 1


def wire_name(cls: type[Any]) -> str:
    """Return the name of a class on the wire: its own `wire_name`, else its name in lower case."""
    return str(vars(cls).get("wire_name", cls.__name__.lower()))


def wire_keys(cls: type[Any]) -> dict[str, str]:
    """Return the JSON key of each field: the one in the class's `wire_keys`, else its name."""
    other_keys: Mapping[str, str] = getattr(cls, "wire_keys", {})
    return {field.name: other_keys.get(field.name, field.name) for field in fields(cls)}


class Codec:
    """Converts between JSON objects and frozen dataclasses of one family. The value of `key` names
    the class, see `wire_name`.

    An object is undecodable if a value has another type than its field, or is an int of more than
    64 bits; an int may stand for a float. An enum is its value, a string; an unknown value is
    undecodable, unless the enum defines a member for it. A class may have a method `validate`,
    which raises ValueError for values that are out of bounds.
    """

    def __init__(self, key: str, types: Iterable[type[Any]]) -> None:
        self._key = key
        self._types = {wire_name(cls): cls for cls in types}
        self._layouts: dict[type[Any], tuple[str, dict[str, str]]] = {}
        # Each decoder is made when it is first needed: that takes long, and an agent needs few.
        self._decoders: dict[str, Decoder] = {}

    def object(self, value: Any) -> dict[str, Any]:
        """Return the JSON object of a dataclass, for `jsonl.dumps`."""
        cls = type(value)
        if cls not in self._layouts:
            self._layouts[cls] = (wire_name(cls), wire_keys(cls))
        kind, keys = self._layouts[cls]
        data = {self._key: kind}
        for name, key in keys.items():
            data[key] = getattr(value, name)
        return data

    def value(self, data: dict[str, Any]) -> Any | None:
        """Return the dataclass of a JSON object; None if it is undecodable or of another family."""
        try:
            name = data.get(self._key, "")
            decoder = self._decoders.get(name) or self._make_decoder(name)
            return decoder(data) if decoder else None
        # A TypeError may also be that of a field that is missing, or of a name that is no string: a
        # list cannot be looked up in a dict.
        except (TypeError, ValueError):
            return None

    def fault(self, data: dict[str, Any]) -> str:
        """Say why an object of the family is undecodable; "" if it is decodable, or of another
        family."""
        name = data.get(self._key, "")
        cls = self._types.get(name) if isinstance(name, str) else None
        if cls is None or self.value(data) is not None:
            return ""
        for _, key, decoder in _field_decoders(cls):
            try:
                decoder(data.get(key))
            except (TypeError, ValueError) as error:
                # An absent key is no fault by itself, since its field may have a default.
                if key in data:
                    return f"{key}: {error}"
        try:
            # Each value is of its type. What remains is a field that is missing and has no default,
            # or that `validate` refuses.
            self._decoders[name](data)
        except (TypeError, ValueError) as error:
            return str(error)
        return ""

    def _make_decoder(self, name: str) -> Decoder | None:
        if name in self._types:
            self._decoders[name] = _dataclass_decoder(self._types[name])
        return self._decoders.get(name)


def _field_decoders(cls: type[Any]) -> list[tuple[str, str, Decoder]]:
    """Return the name, the JSON key and the decoder of each field."""
    hints = get_type_hints(cls)
    return [(name, key, decoder_of(hints[name])) for name, key in wire_keys(cls).items()]


def _dataclass_decoder(cls: type[Any]) -> Decoder:
    field_decoders = _field_decoders(cls)
    validate = getattr(cls, "validate", None)

    def decode_each_field(data: Any) -> Any:
        # Keys without a field are left out: a newer version may add some within the same format.
        values = {name: decoder(data[key]) for name, key, decoder in field_decoders if key in data}
        return cls(**values)

    decode = _plain_decoder(cls, decode_each_field)
    if not validate:
        return decode

    def decode_valid(data: Any) -> Any:
        value = decode(data)
        validate(value)
        return value

    return decode_valid


def _plain_decoder(cls: type[Any], decode_each_field: Decoder) -> Decoder:
    """Return a quick decoder of a class of several plain fields, as steps come by the thousand.

    It leaves to `decode_each_field` what lacks a field, or has a value that needs another look.
    """
    hints = get_type_hints(cls)
    keys = wire_keys(cls)
    types = [hints[name] for name in keys]
    int_indices = [index for index, hint in enumerate(types) if hint is int]
    is_plain = set(types) <= {int, float, str, bool}
    # Of one key, itemgetter gives no tuple; and without an int there is nothing to `pack`.
    if len(types) < 2 or not int_indices or not is_plain:
        return decode_each_field
    get_values = itemgetter(*keys.values())
    get_ints = itemgetter(*int_indices, int_indices[0])  # twice, as of one index it gives no tuple
    pack = Struct(f"{len(int_indices) + 1}q").pack  # the quickest way to see that all have 64 bits

    def decode_plain(data: Any) -> Any:
        try:
            values = get_values(data)
            # Perhaps an int that stands for a float, which is no fault.
            if list(map(type, values)) != types:
                return decode_each_field(data)
            pack(*get_ints(values))
        except (KeyError, StructError):
            return decode_each_field(data)
        return cls(*values)

    return decode_plain


def decoder_of(hint: Any) -> Decoder:
    """Return a function that returns its argument if it is a `hint`, with lists as tuples, and else
    raises TypeError or ValueError."""
    if is_dataclass(hint):
        return _dataclass_decoder(hint)  # type: ignore[arg-type]
    if get_origin(hint) is tuple:
        return _tuple_decoder(hint)
    if get_origin(hint) in (Union, UnionType):
        return _optional_decoder(hint)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _enum_decoder(hint)
    accepted = (float, int) if hint is float else (hint,)

    def decode(value: Any) -> Any:
        # Not isinstance, for which True is an int.
        if type(value) not in accepted:
            raise TypeError(f"{value!r} is not a {hint.__name__}")
        if type(value) is int and not LEAST_INT <= value <= LARGEST_INT:
            raise ValueError("an int of more than 64 bits")
        return value

    return decode


def _optional_decoder(hint: Any) -> Decoder:
    (inner_hint,) = (arg for arg in get_args(hint) if arg is not NoneType)
    decode_inner = decoder_of(inner_hint)
    return lambda value: None if value is None else decode_inner(value)


def _enum_decoder(hint: type[Enum]) -> Decoder:
    decode_string = decoder_of(str)
    return lambda value: hint(decode_string(value))


def _tuple_decoder(hint: Any) -> Decoder:
    decoders = [decoder_of(arg) for arg in get_args(hint) if arg is not Ellipsis]
    has_any_length = Ellipsis in get_args(hint)

    def decode(value: Any) -> Any:
        if type(value) not in (list, tuple):
            raise TypeError(f"{value!r} is not a list")
        if has_any_length:
            return tuple(map(decoders[0], value))
        # A list of another length raises ValueError here, by `strict`.
        pairs = zip(decoders, value, strict=True)
        return tuple(decode_item(item) for decode_item, item in pairs)

    return decode
