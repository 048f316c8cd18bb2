"""`haulout.torch`: what is refused and how, names, gradients, control flow, element types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch", reason="needs the extra `torch`")
pytest.importorskip("torchax", reason="needs the extra `torch`")

from tests.frontends.hlo.from_torch.models import GPT, MLP, case

import haulout
import haulout.jax
import haulout.torch
from haulout.ir.paths import location_paths, result_paths
from haulout.support.diagnostics import Diagnostic, HauloutError

pytestmark = pytest.mark.torch


def refused(*args: Any, **options: Any) -> tuple[Diagnostic, ...]:
    with pytest.raises(HauloutError) as caught:
        haulout.torch.lower(*args, **options)
    return caught.value.diagnostics


def run(module: Any, *args: Any, **options: Any) -> dict[str, Any]:
    """Results of core 0 by name, of a program that is proved."""
    program, inputs, _ = haulout.torch.lower(module, args, **options)
    result = haulout.compile(program)
    assert result.proved
    outputs = haulout.simulate(result.program, inputs).outputs
    return {
        str(path): outputs[f"nc0/{name}"]
        for name, path in zip(program.output_names, result_paths(program), strict=True)
    }


def module_of(function: Any, **buffers: Any) -> Any:
    class Plain(torch.nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, *args: Any) -> Any:
            return function(self, *args)

    made = Plain()
    for name, value in buffers.items():
        made.register_buffer(name, value)
    return made


def test_shardings_that_do_not_fit() -> None:
    from jax.sharding import PartitionSpec

    model, x = MLP(), torch.randn(4, 16)
    mesh = {"x": 3}
    (found,) = refused(model, (x,), mesh=mesh, param_shardings={"up.wieght": PartitionSpec()})
    assert "'up.wieght' matches no parameter or buffer" in found.message
    assert "up.weight" in found.help[0]
    (found,) = refused(model, (x,), mesh=mesh, param_shardings={"up.weight": PartitionSpec("x")})
    assert "up.weight of shape (64, 16) cannot be cut into 3 equal parts along dimension 0" in found.message
    (found,) = refused(model, (x,), mesh=mesh, param_shardings={"up.weight": PartitionSpec("y")})
    assert "'y', which is no axis: the mesh has x" in found.message
    (found,) = refused(model, (x,), param_shardings={"up.weight": PartitionSpec("x")})
    assert "the mesh is not given" in found.message
    (found,) = refused(model, (x,), mesh=mesh, param_shardings={"up.weight": ("x", None)})
    assert "not a PartitionSpec" in found.message
    (found,) = refused(model, (x,), mesh=mesh, arg_shardings=(PartitionSpec(), PartitionSpec()))
    assert "an element for each of the 1 arguments" in found.message
    (found,) = refused(model, (x,), mesh=mesh, arg_shardings=([PartitionSpec()],))
    assert "does not have its structure" in found.message
    (found,) = refused(model, (x,), mesh=mesh, arg_shardings={"y": PartitionSpec()})
    assert "'y' matches no argument" in found.message


def test_modules_that_cannot_be_exported() -> None:
    assert "not a torch.nn.Module" in refused(torch.relu, (torch.ones(2),))[0].message
    assert "args of MLP is a Tensor" in refused(MLP(), torch.ones(2, 16))[0].message
    assert "PyTorch cannot export MLP" in refused(MLP(), (torch.ones(2, 3),))[0].message
    branchy = module_of(lambda _, x: x + 1 if x.sum() > 0 else x - 1)
    assert "PyTorch cannot export Plain" in refused(branchy, (torch.ones(2),))[0].message


def test_operations_without_a_lowering_are_all_named_with_their_places() -> None:
    def forward(_: Any, x: Any) -> Any:
        kept = torch.nn.functional.dropout(x, 0.5, training=True)
        return torch.special.airy_ai(kept) + torch.special.airy_ai(x)

    found = refused(module_of(forward), (torch.ones(4),))
    assert len(found) == 2
    airy = next(each for each in found if "airy_ai" in each.message)
    assert "2 times" in airy.message and "torchax has no lowering" in airy.message
    assert airy.span is not None and airy.span.file == __file__
    random = next(each for each in found if "random" in each.message)
    assert "module.eval()" in random.help[0]


def test_instructions_come_from_lines_of_the_module() -> None:
    def forward(_: Any, x: Any) -> Any:
        y = torch.softmax(x, -1)
        return y.tanh()

    program = haulout.torch.lower(module_of(forward), (torch.ones(2, 3),)).program
    first = forward.__code__.co_firstlineno
    lines = {program.strings[int(loc)] for loc in program.instructions.loc if loc >= 0}
    assert {f"{__file__}:{first + 1}", f"{__file__}:{first + 2}"} >= lines
    assert lines


def test_types_of_64_bits_and_16_bits_stay() -> None:
    def forward(module: Any, x: Any, n: Any, b: Any) -> Any:
        return {"f64": x * module.scale, "s64": n + 2**40, "bf16": b * 2, "none": None}

    args = (torch.ones(3), torch.arange(3), torch.tensor([1.5, 2.5], dtype=torch.bfloat16))
    found = run(module_of(forward, scale=torch.tensor([1.0, 2.0, 1 / 3], dtype=torch.float64)), *args)
    assert set(found) == {"result['f64']", "result['s64']", "result['bf16']"}
    assert found["result['f64']"].dtype == np.float64 and found["result['f64']"][2] == 1 / 3
    assert found["result['s64']"].tolist() == [2**40, 2**40 + 1, 2**40 + 2]
    assert str(found["result['bf16']"].dtype) == "bfloat16"


def test_names_that_clash_are_told_apart() -> None:
    class Clash(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("x", torch.ones(2))
            self.register_buffer("result", torch.zeros(2))

        def forward(self, x: Any, scale: float) -> Any:
            self.result += x * scale
            x.mul_(2)
            return self.x + self.result

    program, inputs, _ = haulout.torch.lower(Clash(), (torch.tensor([3.0, 4.0]), 10.0))
    assert set(inputs) == {"x", "result", "args[0]"}
    assert sorted(map(str, result_paths(program))) == ["args[0]", "result", "returned"]
    found = run(Clash(), torch.tensor([3.0, 4.0]), 10.0)
    assert found["result"].tolist() == [30, 40]
    assert found["args[0]"].tolist() == [6, 8]
    assert found["returned"].tolist() == [31, 41]


def test_shared_parameters_are_one() -> None:
    model = GPT()
    head = module_of(lambda module, tokens: module.gpt(tokens))
    head.gpt, head.also = model, model.wte
    inputs = haulout.torch.lower(head, (torch.zeros(1, 4, dtype=torch.long),)).inputs
    assert [name for name in inputs if "wte" in name or "also" in name] == ["gpt.wte.weight"]


def test_control_flow_is_that_of_jax() -> None:
    from torch._higher_order_ops.scan import scan
    from torch._higher_order_ops.while_loop import while_loop

    def looped(_: Any, x: Any) -> Any:
        def body(n: Any, y: Any) -> Any:
            return n + 1, y * 2 + n

        count, last = while_loop(lambda n, _: n < 5, body, (torch.tensor(0), x))
        chosen = torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (last,))
        return count, chosen

    def scanned(_: Any, x: Any) -> Any:
        return scan(lambda state, row: (state * 0.5 + row, state * 2), torch.zeros(3), x)

    def by_hand(x: Any) -> tuple[Any, Any]:
        for n in range(5):
            x = x * 2 + n
        return 5, x + 1 if x.sum() > 0 else x - 1

    x = np.arange(12, dtype="f4").reshape(4, 3)
    for given in (x[0], -10 * x[1]):
        found = run(module_of(looped), torch.tensor(given))
        count, last = by_hand(given)
        assert found["result[0]"] == count
        np.testing.assert_allclose(found["result[1]"], last, rtol=1e-6)
    states = [np.zeros(3, "f4")]
    for row in x:
        states.append(states[-1] * np.float32(0.5) + row)
    found = run(module_of(scanned), torch.tensor(x))
    np.testing.assert_allclose(found["result[0]"], states[-1], rtol=1e-6)
    np.testing.assert_allclose(found["result[1]"], np.stack(states[:-1]) * 2, rtol=1e-6)


@pytest.mark.long("20 s")
@pytest.mark.parametrize("cores", [1, 2])
def test_a_training_step_gives_the_gradients_of_pytorch(cores: int) -> None:
    import jax
    from jax.sharding import PartitionSpec

    made = case("mlp")
    (x,) = made.args
    target = torch.randn(4, 8)
    jaxed = haulout.torch.to_jax(made.module, made.args)

    def step(params: Any, x: Any, target: Any) -> Any:
        def loss(params: Any) -> Any:
            found, _ = jaxed.apply(params, jaxed.buffers, x)
            return ((found - target) ** 2).mean()

        value, gradients = jax.value_and_grad(loss)(params)
        return {"loss": value, "gradients": gradients}

    specs = jax.tree.map(
        lambda each: jax.ShapeDtypeStruct(each.shape, each.dtype), (jaxed.params, x.numpy(), target.numpy())
    )
    options: dict[str, Any] = {}
    if cores == 2:
        split = haulout.torch.match(
            {"up.*": PartitionSpec("x"), "down.weight": PartitionSpec(None, "x")}, jaxed.params
        )
        options = {"mesh": {"x": 2}, "in_shardings": (split, None, None), "out_shardings": PartitionSpec()}
    program = haulout.jax.lower(step, *specs, **options)
    result = haulout.compile(program)
    assert result.proved
    given = {"x": x.numpy(), "target": target.numpy()}
    for name, value in jaxed.params.items():
        axis = {"up.weight": 0, "up.bias": 0, "down.weight": 1}.get(name)
        if cores == 1 or axis is None:
            given[f"params['{name}']"] = value
        else:
            given |= {f"nc{at}/params['{name}']": part for at, part in enumerate(np.split(value, 2, axis))}
    outputs = haulout.simulate(result.program, given).outputs
    found = {
        path: outputs[f"nc0/{name}"] for name, path in zip(program.output_names, result_paths(program), strict=True)
    }
    made.module.zero_grad()
    wanted = ((made.module(x) - target) ** 2).mean()
    wanted.backward()
    assert np.allclose(found["result['loss']"], wanted.item(), rtol=1e-6)
    for name, parameter in made.module.named_parameters():
        theirs = parameter.grad.numpy()
        ours = found[f"result['gradients']['{name}']"]
        assert np.abs(ours - theirs).max() <= 5e-7 * np.abs(theirs).max(), name


def test_buffers_are_given_back_by_the_function_of_jax() -> None:
    model = torch.nn.BatchNorm1d(3).train()
    jaxed = haulout.torch.to_jax(model, (torch.ones(4, 3),))
    x = torch.randn(4, 3)
    returned, buffers = jaxed.apply(jaxed.params, jaxed.buffers, x.numpy())
    wanted = model(x)
    np.testing.assert_allclose(returned, wanted.detach().numpy(), rtol=1e-5, atol=1e-6)
    for name, value in model.named_buffers():
        np.testing.assert_allclose(buffers[name], value.numpy(), rtol=1e-6)
    with pytest.raises(HauloutError, match="was exported for arguments"):
        jaxed.apply(jaxed.params, jaxed.buffers)
    with pytest.raises(HauloutError, match=r"changes args\[0\] in place"):
        haulout.torch.to_jax(module_of(lambda _, x: x.mul_(2)), (torch.ones(2),))


def test_cores_divide_the_work_without_a_mesh() -> None:
    made = case("mlp")
    program, inputs, _ = haulout.torch.lower(made.module, made.args, lnc=2)
    assert program.lnc == 2
    result = haulout.compile(program)
    assert result.proved
    outputs = haulout.simulate(result.program, inputs).outputs
    for value in outputs.values():
        np.testing.assert_allclose(value, made.module(*made.args).detach().numpy(), rtol=1e-5, atol=1e-6)
    assert "up.weight" in location_paths(program)
