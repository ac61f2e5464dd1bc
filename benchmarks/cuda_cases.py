"""The cases of the CUDA backend's bars: calls of iterlab, of ATen, and of CuPy and jiterator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

import iterlab  # noqa: F401  (loads torch.ops.iterlab)

Tensors = tuple[torch.Tensor, ...]
Call = Callable[..., object]


@dataclass
class Case:
    """One row: how inputs are made, our call and ATen's, and what the issue asks.

    `jit` is the formula for torch.cuda.jiterator, of x, y and z; `cupy` gets the inputs as arrays.
    """

    name: str
    make: Callable[[], Tensors]
    ours: Call
    aten: Call
    bar: float
    over_aten: float = 0.0
    jit: str | None = None
    cupy: Callable[..., Any] | None = None


def rand(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Random values of any dtype."""
    if dtype == torch.bool:
        return torch.rand(*shape, device="cuda") < 0.5
    if not dtype.is_floating_point:
        return torch.randint(0, 100, shape, dtype=dtype, device="cuda")
    return torch.rand(*shape, dtype=torch.float32, device="cuda").to(dtype)


# The activations for jiterator, in float.
FORMULAS = {
    "gelu": "x * T(0.5) * (T(1) + erf(x * T(0.70710678118654752)))",
    "tanh": "tanh(x)",
    "silu": "x / (T(1) + exp(-x))",
}


def _cupy() -> Any:
    import cupy

    return cupy


def axes_of(dims: list[int] | None) -> tuple[int, ...] | None:
    """Dims as CuPy takes them."""
    return None if dims is None else tuple(dims)


def odd_operands(n: int) -> dict[str, Callable[[torch.dtype], Tensors]]:
    """Operands of which nothing is a multiple of a vector."""
    odd, edge, heads = n - 1, max(n // 32, 8), max(n // 64, 4)

    def planes(channels: int, dtype: torch.dtype) -> Tensors:
        x = rand(64, channels, edge, edge, dtype=dtype)
        return x, rand(64, channels, edge, edge, dtype=dtype).contiguous(
            memory_format=torch.channels_last
        )

    return {
        "odd x + y.t()": lambda t: (rand(odd, odd, dtype=t), rand(odd, odd, dtype=t).t()),
        "odd sliced": lambda t: (rand(n, n, dtype=t)[:, :odd], rand(n, odd, dtype=t)),
        "3 planes + pixels": lambda t: planes(3, t),
        "pixels + 3 planes": lambda t: planes(3, t)[::-1],
        "heads of 65": lambda t: (
            rand(32, heads, 128, 65, dtype=t),
            rand(32, 128, heads, 65, dtype=t).transpose(1, 2),
        ),
        "rows of 31": lambda t: (rand(n * n // 32, 32, dtype=t)[:, 1:], rand(31, dtype=t)),
    }


def elementwise_cases(n: int) -> list[Case]:
    """The elementwise rows. `n` is the side of the square."""
    op = torch.ops.iterlab
    half, brain, byte = torch.float16, torch.bfloat16, torch.int8
    cases = []

    def add(name: str, make: Callable[[], Tensors], bar: float, over: float = 0.0) -> None:
        jit, cupy = "x + y", lambda x, y: x + y
        cases.append(Case(f"add {name}", make, op.add, torch.add, bar, over, jit, cupy))

    for dtype in (torch.float32, brain, byte):
        add(
            f"contiguous {str(dtype)[6:]}",
            lambda t=dtype: (rand(n, n, dtype=t), rand(n, n, dtype=t)),
            1.0,
            0.98,
        )
    for dtype in (torch.float32, brain):
        add(
            f"misaligned {str(dtype)[6:]}",
            lambda t=dtype: (rand(n * n, dtype=t), rand(n * n + 1, dtype=t)[1:]),
            1.0,
            0.98,
        )
    add("row", lambda: (rand(n, n), rand(n)), 0.97, 1.4)
    add("column", lambda: (rand(n, n), rand(n, 1)), 0.97, 1.4)
    add("row bfloat16", lambda: (rand(n, n, dtype=brain), rand(n, dtype=brain)), 0.97, 1.4)
    add("f32+bf16", lambda: (rand(n, n), rand(n, n, dtype=brain)), 0.97, 1.4)
    add("f32+int8", lambda: (rand(n, n), rand(n, n, dtype=byte)), 0.97, 1.4)
    add("f16+bf16", lambda: (rand(n, n, dtype=half), rand(n, n, dtype=brain)), 0.97, 1.4)
    add(
        "int64+int32",
        lambda: (rand(n, n // 2, dtype=torch.int64), rand(n, n // 2, dtype=torch.int32)),
        0.97,
    )
    add("inner 3 of 4", lambda: (rand(n * n // 4, 4)[:, :3], rand(n * n // 4, 3)), 0.97, 1.2)
    add(
        "inner 3 of 4 both",
        lambda: (rand(n * n // 4, 4)[:, :3], rand(n * n // 4, 4)[:, :3]),
        0.97,
        1.2,
    )
    add("x + y.t()", lambda: (rand(n, n), rand(n, n).t()), 0.97, 2.4)
    add(
        "x + y.t() bfloat16",
        lambda: (rand(n, n, dtype=brain), rand(n, n, dtype=brain).t()),
        0.97,
        2.4,
    )
    c, w = 64, max(n // 64, 8)
    add(
        "NCHW + channels_last",
        lambda: (
            rand(64, c, w, w),
            rand(64, c, w, w).contiguous(memory_format=torch.channels_last),
        ),
        0.97,
        2.4,
    )
    add("inner stride 2", lambda: (rand(n, n), rand(n, 2 * n)[:, ::2]), 0.78)
    add("inner 65 of 66", lambda: (rand(n * n // 65, 66)[:, :65], rand(n * n // 65, 65)), 0.9)
    for name, make in odd_operands(n).items():
        for dtype in (torch.float32, brain, byte):
            add(f"{name} {str(dtype)[6:]}", lambda t=dtype, f=make: f(t), 0.0, 1.0)

    def to(tensor: torch.Tensor) -> torch.Tensor:
        return op.to(tensor, tensor.dtype)

    def to_out(tensor: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        return op.to.out(tensor, tensor.dtype, out=out)

    for dtype in (torch.float32, brain, byte):
        cases.append(
            Case(
                f"transpose copy {str(dtype)[6:]}",
                lambda t=dtype: (
                    rand(n, n, dtype=t).t(),
                    torch.empty(n, n, dtype=t, device="cuda"),
                ),
                to_out,
                lambda x, out: out.copy_(x),
                0.93,
                3.2,
            )
        )
    cases += [
        Case(
            "copy float32",
            lambda: (rand(n, n),),
            to,
            lambda x: x.clone(),
            1.0,
            0.98,
            "x",
            lambda x: x.copy(),
        ),
        Case(
            "f32 to bf16",
            lambda: (rand(n, n),),
            lambda x: op.to(x, brain),
            lambda x: x.to(brain),
            0.97,
            1.0,
        ),
        Case(
            "where",
            lambda: (rand(n, n, dtype=torch.bool), rand(n, n), rand(n, n)),
            op.where,
            torch.where,
            1.0,
            0.98,
            None,
            lambda x, y, z: _cupy().where(x, y, z),
        ),
        Case(
            "eq",
            lambda: (rand(n, n), rand(n, n)),
            op.eq,
            torch.eq,
            1.0,
            0.98,
            None,
            lambda x, y: x == y,
        ),
        Case(
            "exp",
            lambda: (rand(n, n),),
            op.exp,
            torch.exp,
            1.0,
            0.98,
            "exp(x)",
            lambda x: _cupy().exp(x),
        ),
        Case(
            "exp bfloat16",
            lambda: (rand(n, n, dtype=brain),),
            op.exp,
            torch.exp,
            0.9,
            0.98,
            "exp(x)",
        ),
    ]
    for name in ("gelu", "tanh", "silu"):
        if not hasattr(op, name):
            continue
        twin = torch.tanh if name == "tanh" else getattr(torch.nn.functional, name)
        over = 1.2 if name == "gelu" else 0.98
        cases.append(
            Case(
                f"{name} bfloat16",
                lambda: (rand(n, n, dtype=brain),),
                getattr(op, name),
                twin,
                0.9,
                over,
                FORMULAS[name],
            )
        )
    return cases


def reduction_cases(n: int) -> list[Case]:
    """The rows of reductions."""
    op = torch.ops.iterlab
    cases = []

    def reduce(
        name: str,
        make: Callable[[], Tensors],
        ours: Call,
        aten: Call,
        bar: float,
        over: float = 0.0,
        cupy: Callable[..., Any] | None = None,
    ) -> None:
        cases.append(Case(name, make, ours, aten, bar, over, None, cupy))

    forms: list[tuple[str, tuple[int, ...], list[int] | None]] = [
        ("all", (n, n), None),
        ("inner", (n, n), [1]),
        ("outer", (n, n), [0]),
        ("middle", (64, n // 8, n // 8), [1]),
        ("(0, 2)", (64, n // 8, n // 8), [0, 2]),
    ]
    for dtype in (torch.float32, torch.bfloat16):
        for form, shape, dims in forms:
            for name in ("sum", "amax", "mean"):
                if name != "sum" and (dtype != torch.float32 or form == "(0, 2)"):
                    continue
                ours, aten = getattr(op, name), getattr(torch, name)
                given = tuple(range(len(shape))) if dims is None and name == "amax" else dims
                reduce(
                    f"{name} {form} {str(dtype)[6:]}",
                    lambda s=shape, t=dtype: (rand(*s, dtype=t),),
                    lambda x, f=ours, d=dims: f(x, d),
                    lambda x, f=aten, d=given: f(x) if d is None else f(x, d),
                    0.9,
                    0.0,
                    lambda x, f=name, d=dims: getattr(x, f.replace("amax", "max"))(axes_of(d)),
                )
    for dtype in (torch.int8, torch.bool, torch.int32):
        for form, dims in (("all", None), ("inner", [1]), ("outer", [0])):
            reduce(
                f"sum {form} {str(dtype)[6:]}",
                lambda t=dtype: (rand(n, n, dtype=t),),
                lambda x, d=dims: op.sum(x, d),
                lambda x, d=dims: torch.sum(x) if d is None else torch.sum(x, d),
                0.85,
                15 if dtype == torch.int8 else 0,
                lambda x, d=dims: x.sum(axes_of(d)),
            )
    for inner in (2, 3, 8, 32, 100):
        reduce(
            f"sum inner {inner}",
            lambda k=inner: (rand(n * n // k, k),),
            lambda x: op.sum(x, [1]),
            lambda x: torch.sum(x, 1),
            0.8,
            3 if inner == 8 else 0,
            lambda x: x.sum(1),
        )
    for dtype in (torch.float32, torch.bfloat16, torch.int8):
        for dim, length in ((1, 31), (1, 127), (1, 1001), (1, n - 1), (0, 57), (0, n - 1)):
            reduce(
                f"sum odd {'rows' if dim else 'columns'} {length} {str(dtype)[6:]}",
                lambda k=length, t=dtype: (rand(n * n // k, k, dtype=t),),
                lambda x, d=dim: op.sum(x, [d]),
                lambda x, d=dim: torch.sum(x, d),
                0.0,
                1.0,
            )
    reduce(
        "sum [8M, 8] dim 0",
        lambda: (rand(n * n // 8, 8),),
        lambda x: op.sum(x, [0]),
        lambda x: x.sum(0),
        0.8,
    )
    reduce(
        "sum [8, 8M] dim 1",
        lambda: (rand(8, n * n // 8),),
        lambda x: op.sum(x, [1]),
        lambda x: x.sum(1),
        0.8,
    )
    if hasattr(op, "argmax"):
        for form, dim in (("inner", [1]), ("outer", [0]), ("all", None)):
            reduce(
                f"argmax {form}",
                lambda: (rand(n, n),),
                lambda x, d=dim: op.argmax(x, d),
                lambda x, d=dim: torch.argmax(x) if d is None else torch.argmax(x, d[0]),
                0.85,
                1.5,
                lambda x, d=dim: x.argmax(None if d is None else d[0]),
            )
        reduce(
            "max dim 1",
            lambda: (rand(n, n),),
            lambda x: op.max.dim(x, [1]),
            lambda x: x.max(1),
            0.85,
            1.5,
        )
        for name in ("var", "norm", "logsumexp"):
            for form, dim in (("inner", [1]), ("outer", [0])):
                ours, aten = getattr(op, name), getattr(torch, name)
                reduce(
                    f"{name} {form}",
                    lambda: (rand(n, n),),
                    (lambda x, f=ours, d=dim: f(x, 2, d))
                    if name == "norm"
                    else (lambda x, f=ours, d=dim: f(x, d)),
                    (lambda x, f=aten, d=dim: f(x, 2, d))
                    if name == "norm"
                    else (lambda x, f=aten, d=dim: f(x, d)),
                    0.85,
                    1.7,
                )
        reduce(
            "any bool",
            lambda: (torch.zeros(n, n, dtype=torch.bool, device="cuda"),),
            lambda x: op.any(x, [1]),
            lambda x: torch.any(x, 1),
            0.85,
            1.7,
        )
    return cases
