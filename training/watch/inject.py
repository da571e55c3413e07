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


_injected: dict[types.FunctionType, tuple[Hook | None, Hook | None]] = {}
"""What is called before and after functions."""


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

    What was injected into it before, without a condition, is called first.

    Raises: CannotInject, OSError, SyntaxError.
    """
    function = inspect.unwrap(function)
    if not isinstance(function, types.FunctionType) or "<locals>" in function.__qualname__:
        raise CannotInject(f"{function!r} is not a function of a module or a class")
    if condition is None:
        # The code is compiled from its source, which knows nothing of an earlier change.
        earlier_before, earlier_after = _injected.get(function, (None, None))
        before = _call_both(earlier_before, before)
        after = _call_both(earlier_after, after)
        _injected[function] = (before, after)
    global_names = []
    for injected in (before, after, condition):
        global_names.append("" if injected is None else f"_rankboard_{id(injected)}")
        if injected is not None:
            function.__globals__[global_names[-1]] = injected
    code = _compile_anew(function.__code__, function.__qualname__, global_names)
    if code.co_freevars != function.__code__.co_freevars:
        raise CannotInject(f"{function.__qualname__} is a closure")
    function.__code__ = code


def _call_both(first: Hook | None, second: Hook | None) -> Hook | None:
    if first is None or second is None:
        return first or second

    def call(variables: dict[str, Any]) -> None:
        first(variables)
        second(variables)

    return call


def _compile_anew(
    code: types.CodeType, qualname: str, global_names: Sequence[str]
) -> types.CodeType:
    """Compile a function anew, with calls of what has these global names: `before`, `after`,
    `condition`."""
    lines, first_line = inspect.getsourcelines(code)
    *outer, _ = qualname.split(".")
    # Within a class, lines keep their columns, and super() works.
    outer_line = f"class {outer[-1]}:\n" if outer else ""
    if not outer and lines[0][0].isspace():
        outer_line = "if True:\n"  # as of a function that only some builds of torch have
    tree = ast.parse(outer_line + "".join(lines))
    ast.increment_lineno(tree, first_line - 1 - bool(outer_line))
    (definition,) = _list_definitions(tree)
    _add_calls(definition, *global_names)
    # With the features of its module's `from __future__`, or it might mean something else.
    future_flags = code.co_flags & _FUTURE
    module_code = compile(
        ast.fix_missing_locations(tree), code.co_filename, "exec", future_flags, True
    )
    new_code = next(inner for inner in _inner_codes(module_code) if inner.co_name == code.co_name)
    if sys.version_info < (3, 11):
        return new_code
    # Only the innermost class was compiled, so names of outer ones are missing.
    return new_code.replace(co_qualname=code.co_qualname)


def _list_definitions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    for node in tree.body:
        for inner in node.body if isinstance(node, (ast.ClassDef, ast.If)) else (node,):
            if isinstance(inner, ast.FunctionDef):
                yield inner


def _add_calls(definition: ast.FunctionDef, before: str, after: str, condition: str) -> None:
    body = definition.body
    body_start = 1 if ast.get_docstring(definition, clean=False) is not None else 0
    later_statements = body[body_start:]
    if not later_statements:
        raise CannotInject(f"{definition.name} does nothing")
    first_statement = later_statements[0]
    if after:
        try_statement = ast.Try(
            later_statements, [], [], [_make_call(after, first_statement, condition)]
        )
        later_statements = [ast.copy_location(try_statement, first_statement)]
    if before:
        later_statements.insert(0, _make_call(before, first_statement, condition))
    definition.body = body[:body_start] + later_statements


def _make_call(name: str, near_node: ast.AST, condition: str) -> ast.stmt:
    call_source = f"{name}(locals())"
    if condition:
        call_source = f"if {condition}: {call_source}"
    (statement,) = ast.parse(call_source).body
    for node in ast.walk(statement):
        ast.copy_location(node, near_node)
    return statement


def _inner_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _inner_codes(constant)
