"""Autocast: the operators that ATen casts are cast alike, and no others."""

from __future__ import annotations

import calls
import pytest
import sample_calls
import torch

from iterlab import OpEntry


def aten_overloads(entry: OpEntry) -> list[str]:
    """The functional overloads of the ATen operator of the same name, as "aten::exp"."""
    packet = getattr(torch.ops.aten, entry.name, None)
    if packet is None or entry.torch_name is None or entry.promotion == "to_argument":
        return []
    return [
        getattr(packet, name).name()
        for name in packet.overloads()
        if not getattr(packet, name)._schema.is_mutable
        and torch._C._dispatch_has_kernel(getattr(packet, name).name())  # else TorchScript's own
    ]


# ATen's function of that name has no rule of its own: it calls one that has.
CALLS = {"square": ["aten::pow.Tensor_Scalar"], "ldexp": ["aten::pow.Scalar"]}


def has_rule(name: str, key: str) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(name, key)


@pytest.mark.parametrize("key", ["AutocastCPU", "AutocastCUDA"])
@pytest.mark.parametrize("entry", sample_calls.TABLE, ids=calls.name_of)
def test_policies_are_atens(entry: OpEntry, key: str) -> None:
    twins = aten_overloads(entry)
    if not twins:
        pytest.skip("has no ATen twin")
    want = any(has_rule(name, key) for name in twins + CALLS.get(entry.name, []))
    functional = [o for o in calls.overloads(entry).values() if not o._schema.is_mutable]
    # Composites reach the rule of what they are made of.
    got = [
        has_rule(o.name(), key)
        for o in functional
        if str(o._schema.arguments[0].type) == "Tensor"
        and not has_rule(o.name(), "CompositeImplicitAutograd")
    ]
    assert all(rule == want for rule in got), (
        entry.name,
        "ATen has a rule" if want else "ATen has none",
    )


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
@pytest.mark.parametrize("entry", sample_calls.TABLE, ids=calls.name_of)
def test_result_dtypes_are_atens(entry: OpEntry, kind: str, device: str) -> None:
    if kind != device.partition(":")[0] or not aten_overloads(entry):
        pytest.skip("another device, or no ATen twin")
    low = torch.bfloat16
    operands = [
        x.to(low if i % 2 == 0 else x.dtype) if x.is_floating_point() else x
        for i, x in enumerate(sample_calls.operands(entry, device=device))
    ]
    with torch.autocast(kind, dtype=low):
        for values in (operands, [x.to(low) if x.is_floating_point() else x for x in operands]):
            try:
                want = calls.invoke(calls.twin(entry), entry, values, sample_calls.required(entry))
            except RuntimeError:
                continue
            got = sample_calls.call(entry, values)
            for mine, theirs in zip(calls.outputs_of(got), calls.outputs_of(want), strict=True):
                assert mine.dtype == theirs.dtype


def test_numbers_and_float64_are_left_alone() -> None:
    x = torch.randn(3, dtype=torch.float64)
    for kind in ("cpu", "cuda"):
        with torch.autocast(kind, dtype=torch.bfloat16, enabled=kind == "cpu"):
            assert torch.ops.iterlab.exp(x).dtype == torch.float64
            assert torch.ops.iterlab.add(x, 1).dtype == torch.float64
