"""Public functions spell out their parameters, and pass on every option of what they call."""

from __future__ import annotations

import importlib
import inspect

import pytest

import haulout
from haulout import api, runtime, sim

MODULES = ("", ".frontends.hlo", ".frontends.nki", ".jax", ".nki", ".packing", ".runtime", ".sim", ".tasks", ".torch")
OF_THE_KERNEL = {("haulout.nki.kernel_simulation", "simulate")}
"""Its keywords are the arguments of the kernel that it is given."""


@pytest.mark.parametrize("name", ["check", "compile", "load", "plan", "run", "simulate"])
def test_parameters_are_spelt_out(name: str) -> None:
    parameters = inspect.signature(getattr(haulout, name)).parameters.values()
    assert not [each.name for each in parameters if each.kind in (each.VAR_KEYWORD, each.VAR_POSITIONAL)]
    assert all(each.annotation is not each.empty for each in parameters)


@pytest.mark.parametrize("name", MODULES)
def test_no_public_function_takes_options_that_have_no_names(name: str) -> None:
    module = importlib.import_module("haulout" + name)
    functions = [each for each in (getattr(module, public) for public in module.__all__) if inspect.isfunction(each)]
    unnamed = {
        (each.__module__, each.__name__)
        for each in functions
        if any(parameter.kind is parameter.VAR_KEYWORD for parameter in inspect.signature(each).parameters.values())
    }
    assert unnamed <= OF_THE_KERNEL


@pytest.mark.parametrize(
    ("outer", "inner"), [(api.simulate, sim.simulate), (api.run, runtime.run), (api.check, api.check_source)]
)
def test_options_and_defaults_are_those_of_what_is_called(outer: object, inner: object) -> None:
    mine, theirs = (inspect.signature(each).parameters for each in (outer, inner))  # type: ignore[arg-type]
    options = {name: each.default for name, each in theirs.items() if each.kind is each.KEYWORD_ONLY}
    assert options
    assert {name: each.default for name, each in mine.items() if each.kind is each.KEYWORD_ONLY} == options
