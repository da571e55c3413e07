"""Which values the keys of a TOML file may have, each as a JSON Schema.

Editors get the same schemas (see `remote.cluster.file_schema`), so that they accept what
`fits_schema` accepts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]
TEXT: Schema = {"type": "string", "minLength": 1}
"""A text that is not empty."""


def whole_number(lowest: int, highest: int) -> Schema:
    """Return the schema of whole numbers from `lowest` to `highest`."""
    return {"type": "integer", "minimum": lowest, "maximum": highest}


def one_of(*texts: str) -> Schema:
    """Return the schema of these texts."""
    return {"enum": list(texts)}


def text_like(expression: str) -> Schema:
    """Return the schema of texts that are whole matches of a regular expression."""
    return {"type": "string", "pattern": f"^(?:{expression})$"}


def list_of(items: Schema) -> Schema:
    """Return the schema of lists of such values."""
    return {"type": "array", "items": items}


def table_of(names: Schema, values: Schema) -> Schema:
    """Return the schema of tables whose keys the user names."""
    return {"type": "object", "propertyNames": names, "additionalProperties": values}


def fits_schema(value: object, schema: Schema) -> bool:
    """Return True if a value of a TOML file fits a schema that the functions above have made."""
    if "enum" in schema:
        return value in schema["enum"]
    match schema["type"], value:
        case "string", str():
            pattern = schema.get("pattern", ".*")
            is_long_enough = len(value) >= schema.get("minLength", 0)
            return is_long_enough and re.fullmatch(pattern, value, re.DOTALL) is not None
        # True is an int in Python, but not in TOML.
        case "integer", int() if type(value) is int:
            return bool(schema["minimum"] <= value <= schema["maximum"])
        # TOML has inf, which JSON has not.
        case "number", int() | float() if type(value) is not bool:
            return bool(schema["exclusiveMinimum"] < value < math.inf)
        case "array", list():
            return all(fits_schema(item, schema["items"]) for item in value)
        case "object", dict():
            names_fit = all(fits_schema(name, schema["propertyNames"]) for name in value)
            values_schema = schema["additionalProperties"]
            return names_fit and all(fits_schema(item, values_schema) for item in value.values())
    return False
