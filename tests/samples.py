"""Sample values of every dtype: the special ones first, then ordinary random ones."""

from __future__ import annotations

import math

import numpy as np
import torch

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
FLOAT8 = (
    torch.float8_e5m2,
    torch.float8_e4m3fn,
    torch.float8_e5m2fnuz,
    torch.float8_e4m3fnuz,
    torch.float8_e8m0fnu,
)
COMPLEX = (torch.complex32, torch.complex64, torch.complex128)
SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)
WIDE_UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)
INTEGERS = (torch.uint8, *SIGNED, *WIDE_UNSIGNED)
ALL_DTYPES = (torch.bool, *INTEGERS, *FLOATS, *FLOAT8, *COMPLEX)

REAL_OF = {torch.complex32: torch.float16, torch.complex64: torch.float32}
REAL_OF[torch.complex128] = torch.float64

# What one dtype is computed in when torch itself lacks the operator for it.
WIDER = dict.fromkeys(WIDE_UNSIGNED, torch.int64)
WIDER |= {torch.complex32: torch.complex64, torch.float16: torch.float32}
WIDER |= {torch.bfloat16: torch.float32} | dict.fromkeys(FLOAT8, torch.float32)

# The input that ATen's kernel reads at its own precision beside half types, where it is a number.
WIDE_INPUTS = {"mul": 1, "true_divide": 1, "div": 1, "floor_divide": 1, "ldexp": 1, "lerp": 2}


def dtype_of(name: str) -> torch.dtype:
    dtype = getattr(torch, name)
    assert isinstance(dtype, torch.dtype)
    return dtype


def short_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def is_integral(dtype: torch.dtype) -> bool:
    return not dtype.is_floating_point and not dtype.is_complex


def special_values(dtype: torch.dtype) -> torch.Tensor:
    """Values that go wrong easily: signed zero, nan, inf, extremes, denormals, halves."""
    if dtype == torch.bool:
        return torch.tensor([True, False, False, True])
    if dtype.is_complex:
        real = special_values(REAL_OF[dtype])[:12]
        parts = torch.stack([real.repeat_interleave(12), real.repeat(12)], dim=-1)
        return torch.view_as_complex(parts)
    if dtype.is_floating_point:
        info = torch.finfo(dtype)
        small = [info.tiny, -info.tiny, info.smallest_normal / 2, -info.smallest_normal / 4]
        large = [info.max, -info.max, info.max / 2]
        values = [0.0, -0.0, 1.0, -1.0, math.nan, math.inf, -math.inf, 0.5, -2.5, 1.5, *small]
        values += [*large, info.eps, 1 + info.eps, math.pi, -20.0, 88.7, 88.8, -87.4, -103.9]
        return torch.tensor(values, dtype=torch.float64).to(dtype)
    info = torch.iinfo(dtype)
    values = [0, 1, info.max, info.min, info.max - 1, info.min + 1, 2, 3, 7, 8, 63, 64, 100]
    if info.min < 0:
        values += [-1, -2, -3, -7]
    return from_integers(values, dtype)


def from_integers(values: list[int], dtype: torch.dtype) -> torch.Tensor:
    return torch.from_numpy(np.array(values, dtype=short_name(dtype)))


def ordinary_values(dtype: torch.dtype, count: int, seed: int = 0) -> torch.Tensor:
    """Random values on which every operator is defined and nothing overflows: 1 to 9, or 0.25 to 2.

    Conversions between any two dtypes keep within range, so no result is left to the compiler.
    """
    rng = np.random.default_rng(seed)
    if dtype == torch.bool:
        return torch.from_numpy(rng.integers(0, 2, count).astype(bool))
    if is_integral(dtype):
        return torch.from_numpy(rng.integers(1, 10, count).astype(short_name(dtype)))
    real = torch.from_numpy(rng.uniform(0.25, 2.0, count))
    if dtype.is_complex:
        imaginary = torch.from_numpy(rng.uniform(-2.0, 2.0, count))
        return torch.complex(real, imaginary).to(dtype)
    return real.to(dtype)


def full_range_values(dtype: torch.dtype, count: int, seed: int = 0) -> torch.Tensor:
    """Special values, then random ones over the whole range of an integer or normal floats."""
    rng = np.random.default_rng(seed)
    if dtype == torch.bool:
        return ordinary_values(dtype, count, seed)
    special = special_values(dtype)[:count]
    rest = count - special.numel()
    if is_integral(dtype):
        info = torch.iinfo(dtype)
        drawn = rng.integers(info.min, info.max, rest, dtype=short_name(dtype), endpoint=True)
        return torch.cat([special, torch.from_numpy(drawn)])
    drawn = torch.from_numpy(rng.normal(0, 3, rest))
    if dtype.is_complex:
        drawn = torch.complex(drawn, torch.from_numpy(rng.normal(0, 3, rest)))
    if dtype in FLOAT8:  # torch.cat does not take all of them
        return torch.cat([special.float(), drawn.float()]).to(dtype)
    return torch.cat([special, drawn.to(dtype)])


def seeded_values(
    shape: tuple[int, ...], dtype: torch.dtype, special: bool = False, device: str = "cpu"
) -> torch.Tensor:
    """The same random elements of a shape on every device; `special` strews NaN and infinities."""
    return _drawn(shape, dtype, special).to(device)


def _drawn(shape: tuple[int, ...], dtype: torch.dtype, special: bool) -> torch.Tensor:
    generator = torch.Generator().manual_seed(len(shape) + sum(shape))
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) > 0.5
    if not dtype.is_floating_point and not dtype.is_complex:
        return torch.randint(-5 if dtype.is_signed else 0, 9, shape, generator=generator).to(dtype)
    if dtype.is_complex:
        return torch.randn(shape, dtype=torch.complex128, generator=generator).to(dtype)
    x = torch.randn(shape, dtype=torch.float64, generator=generator)
    if special:
        where = torch.rand(shape, generator=generator)
        x = x.masked_fill(where < 0.02, math.nan).masked_fill(where > 0.98, math.inf)
    return x.to(dtype)


def on_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor with its strides, on the CPU."""
    flat = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(tensor.untyped_storage())
    return flat.cpu().as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


def widest(tensor: torch.Tensor) -> torch.Tensor:
    """Complex numbers in complex128, floats in float64."""
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.double() if tensor.is_floating_point() else tensor
