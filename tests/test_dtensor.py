"""Operators on DTensors: which shards a call keeps, and that results are those of plain tensors."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import calls
import pytest
import sample_calls
import torch
from sample_calls import TABLE
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import (
    DTensor,
    Partial,
    Placement,
    Replicate,
    Shard,
    distribute_tensor,
)
from torch.distributed.tensor.placement_types import _StridedShard
from torch.testing._internal.common_distributed import (
    MultiThreadedTestCase,
    spawn_threads_and_init_comms,
)

from iterlab import OpEntry

pytestmark = calls.TORCH_WARNINGS
OPS = torch.ops.iterlab
R, S0, S1, P = Replicate(), Shard(0), Shard(1), Partial()


def on_ranks(body: Callable[[DeviceMesh], None], *sizes: int) -> None:
    """Run `body` on a mesh of so many threads, each of which stands for one process."""

    def one_rank(case: MultiThreadedTestCase) -> None:
        body(init_device_mesh("cpu", sizes))

    world = torch.Size(sizes).numel()
    spawn_threads_and_init_comms(one_rank, world_size=world)(MultiThreadedTestCase())


def full(value: torch.Tensor) -> torch.Tensor:
    return value.full_tensor() if isinstance(value, DTensor) else value


def check(got: Any, want: Any, *placements: Placement) -> None:
    """Compare results; those of the call have these placements, where any are given."""
    for mine, theirs in zip(calls.outputs_of(got), calls.outputs_of(want), strict=True):
        assert isinstance(mine, DTensor)
        assert not placements or mine.placements == placements
        assert (mine.shape, mine.dtype, mine.stride()) == (
            theirs.shape,
            theirs.dtype,
            theirs.stride(),
        )
        torch.testing.assert_close(full(mine), theirs, equal_nan=True)


@pytest.mark.parametrize("entry", calls.ELEMENTWISE, ids=calls.name_of)
def test_elementwise(entry: OpEntry) -> None:
    values = sample_calls.operands(entry, (4, 6))
    want = sample_calls.call(entry, values)

    def body(mesh: DeviceMesh) -> None:
        sharded = [distribute_tensor(v, mesh, [S0, S1]) for v in values]
        check(sample_calls.call(entry, sharded), want, S0, S1)
        others = [v.redistribute(mesh, [R, R]) for v in sharded[1:]]
        check(sample_calls.call(entry, [sharded[0], *others]), want, S0, S1)
        if "inplace" in entry.variants and want.dtype == values[0].dtype:
            check(sample_calls.call(entry, sharded, inplace=True), want, S0, S1)
            check(sharded[0], want, S0, S1)

    on_ranks(body, 2, 2)


@pytest.mark.parametrize("entry", calls.REDUCTIONS, ids=calls.name_of)
def test_reductions(entry: OpEntry) -> None:
    [value] = sample_calls.operands(entry, (4, 5, 6))
    packet = getattr(OPS, entry.name)
    takes = {one.name: one for one in packet.default._schema.arguments}
    by_dim = packet if "dim" in takes else packet.dim if "dim" in packet.overloads() else None
    all_dims = {} if "dim" not in takes else {"dim": None}

    def body(mesh: DeviceMesh) -> None:
        for placements in ([S0, S1], [S0, S0], [R, S1], [Shard(2), R]):
            sharded = distribute_tensor(value, mesh, placements)
            check(packet(sharded, **all_dims), packet(value, **all_dims))
            for dim in (0, -2) if by_dim is not None else ():
                for keepdim in (False, True):
                    given = {"dim": dim, "keepdim": keepdim}
                    check(by_dim(sharded, **given), by_dim(value, **given))

    on_ranks(body, 2, 2)


def test_what_a_reduction_leaves_to_add_up() -> None:
    value = torch.randn(4, 6, 8)

    def body(mesh: DeviceMesh) -> None:
        rows = distribute_tensor(value, mesh, [S1])
        check(OPS.sum(rows), value.sum(), P)
        check(OPS.sum(rows, dim=[1, 2]), value.sum([1, 2]), P)
        check(OPS.sum(rows, dim=0), value.sum(0), S0)  # what was remembered is for other dims
        check(OPS.sum(rows, dim=[2], keepdim=True), value.sum(2, keepdim=True), S1)
        check(OPS.sum(rows, dim=0, dtype=torch.float64), value.double().sum(0), S0)
        check(OPS.amax(rows, dim=[0, 1]), value.amax([0, 1]), Partial("max"))
        check(OPS.min(rows), value.min(), Partial("min"))
        check(OPS.mean(rows, dim=1), value.mean(1), Partial("avg"))
        check(OPS.any(rows > 2, dim=1), (value > 2).any(1), Partial("max"))
        check(OPS.all(rows > -2, dim=1), (value > -2).all(1), Partial("min"))
        check(OPS.count_nonzero(rows, dim=1), value.count_nonzero(1), P)
        check(OPS.var(rows, dim=1), value.var(1), R)
        check(OPS.argmax(rows, dim=1), value.argmax(1), R)
        check(OPS.max.dim(rows, 2), value.max(2), S1)
        total = OPS.sum(rows, dim=1)
        check(OPS.sum(total), value.sum(), P)
        check(OPS.nansum(total), value.sum(), R)
        check(OPS.amax(total), value.sum(1).amax(), R)

    on_ranks(body, 2)


def test_shards_of_no_elements() -> None:
    value = torch.arange(1.0, 6.0)

    def body(mesh: DeviceMesh) -> None:  # the fourth of four shards is empty
        sharded = distribute_tensor(value, mesh, [S0])
        check(OPS.sum(sharded), value.sum(), P)
        check(OPS.prod(sharded), value.prod(), Partial("product"))
        check(OPS.amax(sharded), value.amax(), R)
        check(OPS.mean(sharded), value.mean(), R)
        one = distribute_tensor(value[:1], mesh, [S0])
        check(OPS.exp_(one), value[:1].exp(), S0)

    on_ranks(body, 4)


def test_partial_sums() -> None:
    parts = torch.arange(6.0)

    def body(mesh: DeviceMesh) -> None:
        partial = DTensor.from_local(parts, mesh, [P])
        other = distribute_tensor(torch.full((6,), 2.0), mesh, [R])
        check(OPS.add(partial, partial), parts * 4, P)
        check(OPS.sub(partial, partial, alpha=3), parts * -4, P)
        check(OPS.neg(partial), parts * -2, P)
        check(OPS.mul(partial, 3), parts * 6, P)
        check(OPS.mul(3, partial), parts * 6, P)
        check(OPS.mul(other, partial), parts * 4, P)
        check(OPS.mul(partial, partial), parts * parts * 4)
        check(OPS.add(partial, 1), parts * 2 + 1, R)
        check(OPS.add(partial, other), parts * 2 + 2)
        check(OPS.exp(partial), (parts * 2).exp())

    on_ranks(body, 2)


def test_broadcast_operands_and_numbers() -> None:
    x, row, column = torch.randn(4, 6), torch.randn(6), torch.randn(4, 1)

    def body(mesh: DeviceMesh) -> None:
        wide = distribute_tensor(x, mesh, [S1])
        check(OPS.add(wide, distribute_tensor(row, mesh, [S0])), x + row, S1)
        check(OPS.mul(distribute_tensor(column, mesh, [R]), wide), x * column, S1)
        check(OPS.where(wide > 0, wide, distribute_tensor(row, mesh, [R])), x.where(x > 0, row), S1)
        check(OPS.atan2(distribute_tensor(x, mesh, [S0]), wide), torch.atan2(x, x))
        whole = distribute_tensor(torch.arange(4), mesh, [S0])
        check(OPS.add(whole, 2), torch.arange(4) + 2, S0)
        check(OPS.add(whole, 2.5), torch.arange(4) + 2.5, S0)  # of another dtype
        check(OPS.clamp(wide, -1, 1), x.clamp(-1, 1), S1)  # composed of another

    on_ranks(body, 2)


def test_shards_in_another_order() -> None:
    local = torch.arange(6.0).view(2, 3)

    def body(mesh: DeviceMesh) -> None:
        order = [_StridedShard(0, split_factor=2), S0]
        strided = DTensor.from_local(local.clone(), mesh, order)
        for got in (OPS.add(strided, strided), OPS.mul_(strided, 2)):
            assert list(got.placements) == order
            assert torch.equal(got.to_local(), local * 2)
        assert list(OPS.sum(strided, dim=1).placements) == order

    on_ranks(body, 2, 2)


def test_given_outputs() -> None:
    x, y = torch.randn(4, 6), torch.randn(4, 6)

    def body(mesh: DeviceMesh) -> None:
        dx, dy = (distribute_tensor(v, mesh, [S0]) for v in (x, y))
        out = distribute_tensor(torch.empty(4, 6), mesh, [S0])
        assert OPS.add(dx, dy, out=out) is out
        check(out, x + y, S0)
        kept = distribute_tensor(torch.empty(4), mesh, [S0])
        check(OPS.sum(dx, dim=1, out=kept), x.sum(1), S0)
        values, places = torch.empty(4), torch.empty(4, dtype=torch.int64)
        outs = [distribute_tensor(v, mesh, [S0]) for v in (values, places)]
        check(OPS.max(dx, 1, values=outs[0], indices=outs[1]), x.max(1), S0)

    on_ranks(body, 2)


def test_gradients() -> None:
    x, weight = torch.randn(4, 6), torch.randn(6)

    def loss(x: Any, weight: Any, ops: Any) -> Any:
        return ops.sum(ops.mul(ops.tanh(ops.add(x, weight)), ops.amax(x, [0])))

    plain = [v.clone().requires_grad_() for v in (x, weight)]
    want = torch.autograd.grad(loss(*plain, torch), plain)

    def body(mesh: DeviceMesh) -> None:
        mine = [
            distribute_tensor(x, mesh, [S0]).requires_grad_(),
            distribute_tensor(weight, mesh, [R]).requires_grad_(),
        ]
        for got, expected in zip(torch.autograd.grad(loss(*mine, OPS), mine), want, strict=True):
            torch.testing.assert_close(full(got), expected)

    on_ranks(body, 2)


def test_every_overload_has_a_strategy() -> None:
    known = DTensor._op_dispatcher.sharding_propagator.op_strategy_funcs
    for entry in TABLE:
        for name, overload in calls.overloads(entry).items():
            composed = torch._C._dispatch_has_kernel_for_dispatch_key(
                overload.name(), torch._C.DispatchKey.CompositeImplicitAutograd
            )
            assert (overload in known) != composed, name


@pytest.mark.parametrize("order", ["torch.distributed.tensor, iterlab", "iterlab"])
def test_rules_wait_for_the_import(order: str) -> None:
    script = f"""
        import sys, {order}
        assert ("torch.distributed.tensor" in sys.modules) == ("tensor" in {order!r})
        from torch.distributed.tensor import DTensor
        import torch
        strategies = DTensor._op_dispatcher.sharding_propagator.op_strategy_funcs
        assert torch.ops.iterlab.add.default in strategies
    """
    lines = "\n".join(line.strip() for line in script.splitlines())
    assert subprocess.run([sys.executable, "-c", lines], check=False).returncode == 0
