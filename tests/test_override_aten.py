"""The drop-in: ATen's operators run iterlab's kernels while it is on, and ATen's own afterwards."""

from __future__ import annotations

import calls
import pytest
import sample_calls
import torch
from sample_calls import TABLE

import iterlab
from iterlab import OpEntry, override_aten
from iterlab.override import overridden

pytestmark = [*calls.TORCH_WARNINGS, pytest.mark.usefixtures("drop_in_undone")]


def kernel(name: str) -> str:
    """What the dispatcher has for an overload on the CPU."""
    lines = torch._C._dispatch_dump_table(name).splitlines()
    return next(line for line in lines if line.startswith("CPU"))


def test_what_is_overridden() -> None:
    before = kernel("aten::add.Tensor")
    assert "iterlab" not in before
    with override_aten():
        names = set(overridden())
        assert {"aten::add.Tensor", "aten::add.out", "aten::add_.Tensor"} <= names
        assert {
            "aten::sum.dim_IntList",
            "aten::exp",
            "aten::mul_.Tensor",
            "aten::where.self",
        } <= names
        # What parameters with defaults and numbers as operands have overloads for in ATen.
        assert {
            "aten::div.Tensor",
            "aten::div_.Tensor_mode",
            "aten::round",
            "aten::round.decimals_out",
            "aten::eq.Scalar",
            "aten::gt_.Scalar",
            "aten::pow.Tensor_Scalar",
            "aten::lerp.Scalar_out",
            "aten::fill_.Scalar",
            "aten::masked_fill_.Scalar",
        } <= names
        # What takes its arguments in another order in ATen, or a bound that may be missing.
        assert {
            "aten::clamp",
            "aten::clamp.Tensor_out",
            "aten::clamp_.Tensor",
            "aten::clamp_max.out",
            "aten::elu_backward.grad_input",
            "aten::polygamma",
        } <= names
        assert "iterlab" in kernel("aten::add.Tensor")
    assert kernel("aten::add.Tensor") == before


def test_only() -> None:
    with override_aten(only=["mul"]):
        assert {name.split(".")[0].rstrip("_") for name in overridden()} == {"aten::mul"}
    with override_aten(only=["polygamma"]):
        assert set(overridden()) == {"aten::polygamma", "aten::polygamma.out"}
    with override_aten(only=["clamp"]):  # torch's name of it
        assert {name.split(".")[0].rstrip("_") for name in overridden()} == {"aten::clamp"}
    with pytest.raises(ValueError, match="expected the name of an operator"):
        override_aten(only=["nope"])
    for wrong in ("add", test_only):
        with pytest.raises(TypeError, match="expected a list"):
            override_aten(only=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["square", "bitwise_and_reduce", "nn.functional.selu"])
def test_only_what_aten_has_no_kernel_for(name: str) -> None:
    with override_aten(only=["mul"]):
        on = set(overridden())
        with pytest.raises(ValueError, match=rf"'{name}'\]\) would override nothing.*call iterlab"):
            override_aten(only=["add", name])
        assert set(overridden()) == on
        assert "iterlab" in kernel("aten::mul.Tensor")
        assert "iterlab" not in kernel("aten::add.Tensor")


def test_only_nothing() -> None:
    with override_aten(only=[]):
        assert overridden() == ()
        assert "iterlab" not in kernel("aten::add.Tensor")
    with override_aten(only=["mul"]):
        with override_aten(only=[]):
            assert overridden() == ()
        assert overridden() != ()


def test_decorates_functions() -> None:
    @override_aten(only=["mul"])
    def product(n: int) -> int:
        """Multiply down."""
        assert all(name.startswith("aten::mul") for name in overridden()) and overridden()
        return 1 if n == 0 else n * product(n - 1)

    for _ in range(2):
        assert product(3) == 6
        assert overridden() == ()
    assert (product.__name__, product.__doc__) == ("product", "Multiply down.")


def test_enable_disable_and_nesting() -> None:
    outer = override_aten(only=["add"])
    outer.enable()
    with override_aten(only=["mul"]):
        assert all(name.startswith("aten::mul") for name in overridden())
    assert all(name.startswith("aten::add") for name in overridden())
    outer.disable()
    outer.disable()
    assert overridden() == ()


def test_an_error_inside_undoes_it() -> None:
    with pytest.raises(KeyError), override_aten():
        raise KeyError
    assert overridden() == ()


@pytest.mark.parametrize("entry", [e for e in TABLE if e.torch_name], ids=calls.name_of)
def test_results_are_iterlabs(entry: OpEntry) -> None:
    values = sample_calls.operands(entry)
    parameters = sample_calls.required(entry)
    if parameters.get("dim") == []:
        parameters["dim"] = [0, 1]  # torch.logsumexp refuses an empty list
    want = calls.invoke(calls.function(entry), entry, values, parameters)
    with override_aten():
        got = calls.invoke(calls.twin(entry), entry, values, parameters)
    for mine, theirs in zip(calls.outputs_of(got), calls.outputs_of(want), strict=True):
        torch.testing.assert_close(mine, theirs, equal_nan=True)


def test_numbers_stay_weak_in_promotion() -> None:
    x, half = torch.arange(3), torch.ones(3, dtype=torch.half)
    want = [(x + 1).dtype, (x * 2.5).dtype, (half + 1.5).dtype, (half * torch.tensor(2.0)).dtype]
    with override_aten():
        got = [(x + 1).dtype, (x * 2.5).dtype, (half + 1.5).dtype, (half * torch.tensor(2.0)).dtype]
    assert got == want


def test_errors_and_rare_calls_are_atens() -> None:
    x, y = torch.ones(3), torch.ones(4)
    with pytest.raises(RuntimeError) as plain:
        x + y
    conjugate = torch.tensor([1 + 2j]).conj()
    with override_aten():
        with pytest.raises(RuntimeError) as overriding:
            x + y
        assert (conjugate * conjugate).resolve_conj().tolist() == [(-3 - 4j)]
        assert (x.to_sparse() + x.to_sparse()).to_dense().tolist() == [2, 2, 2]
    assert str(plain.value) == str(overriding.value)


def test_a_model_trains() -> None:
    def losses() -> list[float]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = torch.randn(32, 8)
        y = x.sum(1, keepdim=True) * 0.5
        found = []
        for _ in range(20):
            optimizer.zero_grad()
            error = model(x) - y
            loss = (error * error).sum() / 32
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    want = losses()
    with override_aten():
        got = losses()
    torch.testing.assert_close(got, want)
    assert got[-1] < got[0] / 2


def test_in_place_and_out() -> None:
    x = torch.ones(3)
    with override_aten():
        y = x.clone()
        y += 1
        y.mul_(3)
        torch.add(y, x, out=x)
    assert (y.tolist(), x.tolist()) == ([6] * 3, [7] * 3)


def test_iterlab_itself_is_not_changed() -> None:
    x = torch.rand(5)
    with override_aten():
        torch.testing.assert_close(iterlab.add(x, x), x * 2)
