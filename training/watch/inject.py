"""Lets functions call ours before and after they run, by a change of their code.

A wrapper would be another object, with a frame in each traceback. So the code of the function is
compiled anew from its source, with calls before and after; it keeps its identity, name, file and
lines. Our functions have returned when anything else of it runs.
"""

from __future__ import annotations
import __future__

import ast
import inspect
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

Hook = Callable[[dict[str, Any]], None]
"""Gets the local variables of the function: its arguments, and those that it has set."""
_FUTURE = 0
for _name in __future__.all_feature_names:
    _FUTURE |= getattr(__future__, _name).compiler_flag


class CannotInject(Exception):
    """The function is not as it is expected to be; the text says why."""


def inject(
    function: Any,
    before: Hook | None = None,
    after: Hook | None = None,
    condition: object = None,
) -> None:
    """Call `before` and `after` with the function's local variables, `after` also where it raises;
    only while `condition` is true, if there is one. Neither may raise.

    Raises: CannotInject, OSError, SyntaxError.
    """
    function = inspect.unwrap(function)
    if not isinstance(function, types.FunctionType) or "<locals>" in function.__qualname__:
        raise CannotInject(f"{function!r} is not a function of a module or a class")
    names = []
    for thing in (before, after, condition):
        names.append("" if thing is None else f"_rankboard_{id(thing)}")
        if thing is not None:
            function.__globals__[names[-1]] = thing
    code = _compiled(function.__code__, function.__qualname__, names)
    if code.co_freevars != function.__code__.co_freevars:
        raise CannotInject(f"{function.__qualname__} is a closure")
    function.__code__ = code


def _compiled(code: types.CodeType, qualname: str, names: Sequence[str]) -> types.CodeType:
    """Compile a function anew, with calls of what has these global names: `before`, `after`,
    `condition`."""
    lines, first = inspect.getsourcelines(code)
    *outer, _ = qualname.split(".")
    # Within a class, lines keep their columns, and super() works.
    opening = f"class {outer[-1]}:\n" if outer else ""
    tree = ast.parse(opening + "".join(lines))
    ast.increment_lineno(tree, first - 1 - bool(opening))
    (definition,) = _definitions(tree)
    _change(definition, *names)
    flags = code.co_flags & _FUTURE
    module_code = compile(ast.fix_missing_locations(tree), code.co_filename, "exec", flags, True)
    new_code = next(inner for inner in _codes(module_code) if inner.co_name == code.co_name)
    if sys.version_info < (3, 11):
        return new_code
    return new_code.replace(co_qualname=code.co_qualname)


def _definitions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    for node in tree.body:
        for inner in node.body if isinstance(node, ast.ClassDef) else (node,):
            if isinstance(inner, ast.FunctionDef):
                yield inner


def _change(definition: ast.FunctionDef, before: str, after: str, condition: str) -> None:
    body = definition.body
    start = 1 if ast.get_docstring(definition, clean=False) is not None else 0
    rest = body[start:]
    if not rest:
        raise CannotInject(f"{definition.name} does nothing")
    place = rest[0]
    if after:
        attempt = ast.Try(rest, [], [], [_call(after, place, condition)])
        rest = [ast.copy_location(attempt, place)]
    if before:
        rest.insert(0, _call(before, place, condition))
    definition.body = body[:start] + rest


def _call(name: str, place: ast.AST, condition: str) -> ast.stmt:
    source = f"{name}(locals())"
    if condition:
        source = f"if {condition}: {source}"
    (statement,) = ast.parse(source).body
    for node in ast.walk(statement):
        ast.copy_location(node, place)
    return statement


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _codes(constant)
