"""Functions in an exercise's released text files that earn the points of a function that students are
asked for.
"""

import ast
import contextlib
import inspect
import math
import types
import warnings

import nbformat

from autograder.authoring import loader
from autograder.checking import Suite, machine

SEED = 1


DEFINES = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign)


def accepts(function):
    """Return the least and the greatest number of positional arguments that a function, or a
    class, takes.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # of what is written in C nobody knows
        return 0, math.inf
    positional = [
        parameter
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    least = sum(parameter.default is parameter.empty for parameter in positional)
    any_number = any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters)
    return least, math.inf if any_number else len(positional)


def defined_in(notebook):
    """Return what the code cells of a notebook define, other than by running a student's
    functions.
    """
    names = {"__name__": "notebook"}
    for cell in notebook.cells:
        if cell.cell_type != "code" or "import checks" in cell.source:
            continue
        for statement in ast.parse(cell.source).body:
            if isinstance(statement, DEFINES):
                with warnings.catch_warnings(action="ignore"), contextlib.suppress(Exception):
                    # What fails needs what a student has yet to write.
                    exec(compile(ast.Module([statement], []), "notebook", "exec"), names)
    return names


def functions_of(names, module):
    """Return the functions and classes of a namespace that are this module's own, those in its
    tables too.
    """
    functions = []
    for value in names.values():
        parts = [value]
        if isinstance(value, dict):
            parts = value.values()
        elif isinstance(value, (list, tuple)):
            parts = value
        functions += [
            part for part in parts if callable(part) and getattr(part, "__module__", "") == module
        ]
    return functions


def share(suite, subject, answer):
    """Return the share of a function's points that an answer earns, of those that can be verified
    here.

    Each check is graded by itself, and no more once half of the points are lost.
    """
    checks, lacking = [], set()
    for check in suite.checks_of(subject):
        if machine.lacks(check.on) or lacking.intersection(check.needs):
            lacking.add(check.__name__)
        else:
            checks.append(check)
    total = possible = sum(check.weight for check in checks)
    alone, passed = Suite(suite.module, {}), set()
    alone.answer_modules = [types.ModuleType("none")]  # nobody is told what was likely meant
    for check in checks:
        if possible <= total / 2:
            break
        alone.checks = [check]
        if passed.issuperset(check.needs) and alone.examine(subject, answer, seed=SEED).score:
            passed.add(check.__name__)
        else:
            possible -= check.weight
    return possible / total if total else 0


def answers_in_text(exercise):
    """Return, in words, each function in a released text file that earns more than half of a
    function's points.
    """
    loaded = loader.load(exercise.solution)
    notebook = defined_in(nbformat.read(exercise.notebook, as_version=4))
    sentences = []
    for subject in loaded.subjects:
        least, most = accepts(notebook[subject])
        offered = {"checks.py": functions_of(vars(loaded.checks), "checks")}
        offered["the notebook"] = functions_of(notebook, "notebook")
        for file, functions in offered.items():
            for function in functions:
                fewest, greatest = accepts(function)
                if fewest > most or greatest < least:  # it cannot be called as this one is
                    continue
                if share(loaded.suite, subject, function) > 0.5:
                    sentences.append(f"{function.__qualname__} in {file} is an answer to {subject}")
    return list(dict.fromkeys(sentences))  # a function that is also in a table is found twice
