"""Operands written as text: parse("f32[4096,4096].t()") makes the tensor.

A spec is a dtype, a shape, and a chain of view methods: `bf16[8,64,32,32].channels_last()`,
`f32[100,8][:, ::2]`, `u8[480,640,3].permute(2,0,1)`; a plain number stands for itself. Specs are
parsed, never evaluated: what is not in the tables below is an error.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from functools import cache

import torch

Operand = torch.Tensor | complex

DTYPES: dict[str, torch.dtype] = {
    "f32": torch.float32,
    "f64": torch.float64,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "u8": torch.uint8,
    "u16": torch.uint16,
    "u32": torch.uint32,
    "u64": torch.uint64,
    "bool": torch.bool,
    "c32": torch.complex32,
    "c64": torch.complex64,
    "c128": torch.complex128,
    "float8_e4m3fn": torch.float8_e4m3fn,
    "float8_e5m2": torch.float8_e5m2,
    "float8_e4m3fnuz": torch.float8_e4m3fnuz,
    "float8_e5m2fnuz": torch.float8_e5m2fnuz,
    "float8_e8m0fnu": torch.float8_e8m0fnu,
}

FULL_NAMES: dict[str, torch.dtype] = {
    str(dtype).removeprefix("torch."): dtype for dtype in DTYPES.values()
} | {
    "float": torch.float32,
    "double": torch.float64,
    "half": torch.float16,
    "long": torch.int64,
    "int": torch.int32,
}

View = Callable[..., torch.Tensor]

# Method: the function, and how many integers it takes (None: at least one).
METHODS: dict[str, tuple[View, int | None]] = {
    "t": (torch.Tensor.t, 0),
    "transpose": (torch.Tensor.transpose, 2),
    "permute": (torch.Tensor.permute, None),
    "contiguous": (torch.Tensor.contiguous, 0),
    "channels_last": (lambda x: x.contiguous(memory_format=torch.channels_last), 0),
    "expand": (torch.Tensor.expand, None),
    "unsqueeze": (torch.Tensor.unsqueeze, 1),
    "squeeze": (torch.Tensor.squeeze, None),
}
ATTRIBUTES: dict[str, View] = {
    "T": torch.Tensor.t,
    "mT": lambda x: x.transpose(-2, -1),
}

ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}

EXAMPLE = "'f32[4096,4096].t()', 'bf16[8,3,32,32].channels_last()' or 2.5"


class TooLarge(ValueError):
    """An operand that does not fit into memory."""


class _Reader:
    """Reads one spec. Every fault is a ValueError that names the spec and what was expected."""

    def __init__(self, text: str, device: str, filled: bool) -> None:
        self.text = text
        self.device = device
        self.filled = filled

    def fault(self, expected: str) -> ValueError:
        return ValueError(f"iterlab: operand '{self.text}': expected {expected}")

    def read(self) -> Operand:
        # Python has no empty subscript, but `f32[]` is what a 0-d tensor should look like.
        source = self.text.strip().replace("[]", "[()]", 1)
        try:
            tree = ast.parse(source, mode="eval").body
        except (SyntaxError, ValueError):
            raise self.fault(f"an operand such as {EXAMPLE}") from None
        try:
            number = ast.literal_eval(tree)
        except ValueError:
            return self.tensor(tree)
        if isinstance(number, bool | int | float | complex):
            return number
        raise self.fault(f"an operand such as {EXAMPLE}")

    def tensor(self, node: ast.expr) -> torch.Tensor:
        if isinstance(node, ast.Subscript):
            if isinstance(node.value, ast.Name):
                return values(
                    self.shape(node.slice), self.dtype(node.value.id), self.device, self.filled
                )
            return self.view(node, self.tensor(node.value), lambda x: x[self.index(node.slice)])
        if isinstance(node, ast.Attribute):
            if node.attr not in ATTRIBUTES:
                raise self.fault(f"one of {self.known()}, got '.{node.attr}'")
            return self.view(node, self.tensor(node.value), ATTRIBUTES[node.attr])
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            method = self.method(node, node.func.attr)
            return self.view(node, self.tensor(node.func.value), method)
        if isinstance(node, ast.Name):
            self.dtype(node.id)
            raise self.fault(
                f"a shape after the dtype, such as {node.id}[2,3], or {node.id}[] for 0-d"
            )
        raise self.fault(f"an operand such as {EXAMPLE}")

    def dtype(self, name: str) -> torch.dtype:
        try:
            return dtype(name)
        except ValueError:
            raise self.fault(f"a dtype ({' '.join(DTYPES)}), got '{name}'") from None

    def shape(self, node: ast.expr) -> list[int]:
        sizes = (
            [self.integer(size) for size in node.elts]
            if isinstance(node, ast.Tuple)
            else [self.integer(node)]
        )
        if any(size < 0 for size in sizes):
            raise self.fault(f"sizes of at least 0, got {sizes}")
        return sizes

    def integer(self, node: ast.expr) -> int:
        """Read an integer, or a sum, difference, product or quotient of integers."""
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self.integer(node.operand)
        if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
            left, right = self.integer(node.left), self.integer(node.right)
            if right != 0 or not isinstance(node.op, ast.FloorDiv):
                return ARITHMETIC[type(node.op)](left, right)
        raise self.fault(f"an integer, got '{ast.unparse(node)}'")

    def index(self, node: ast.expr) -> object:
        if isinstance(node, ast.Tuple):
            return tuple(self.index(one) for one in node.elts)
        if isinstance(node, ast.Slice):
            bounds = (node.lower, node.upper, node.step)
            return slice(*(None if bound is None else self.integer(bound) for bound in bounds))
        if isinstance(node, ast.Constant) and (node.value is None or node.value is Ellipsis):
            return node.value
        return self.integer(node)

    def method(self, call: ast.Call, name: str) -> View:
        if name not in METHODS:
            raise self.fault(f"one of {self.known()}, got '.{name}'")
        function, count = METHODS[name]
        wrong = count is not None and len(call.args) != count
        if call.keywords or wrong or (count is None and not call.args):
            takes = (
                "integers" if count is None else f"{count} integers" if count else "no arguments"
            )
            raise self.fault(f"{takes} in .{name}(), got '{ast.unparse(call).rpartition('.')[2]}'")
        numbers = [self.integer(argument) for argument in call.args]
        return lambda x: function(x, *numbers)

    def view(self, node: ast.expr, tensor: torch.Tensor, view: View) -> torch.Tensor:
        try:
            return view(tensor)
        except (IndexError, RuntimeError, ValueError, TypeError) as error:
            if str(error).startswith("iterlab: operand"):
                raise
            reason = str(error).splitlines()[0]
            raise self.fault(
                f"a view of a tensor of shape {list(tensor.shape)}: {reason}"
            ) from None

    @staticmethod
    def known() -> str:
        return ", ".join(
            [f".{name}()" for name in METHODS] + [f".{name}" for name in ATTRIBUTES] + ["[slices]"]
        )


@cache
def _pattern(dtype: torch.dtype) -> torch.Tensor:
    # A prime length, so that the rows of a matrix of round size are not all alike.
    generator = torch.Generator().manual_seed(0)
    if dtype.is_floating_point or dtype.is_complex:
        wide = torch.complex64 if dtype.is_complex else torch.float32
        return torch.randn(65537, dtype=wide, generator=generator).to(dtype)
    return torch.randint(0, 2 if dtype is torch.bool else 100, (65537,), generator=generator).to(
        dtype
    )


def values(
    shape: list[int], dtype: torch.dtype, device: str = "cpu", filled: bool = True
) -> torch.Tensor:
    """Make a contiguous tensor with the same values on every run.

    Floating and complex ones are normally distributed, integers are in [0, 100), a bool is a coin.
    On device "meta" it has no values and costs no memory; unless `filled`, its memory is left as it
    was. Raises TooLarge where memory does not suffice.
    """
    count = math.prod(shape)
    try:
        flat = torch.empty(count, dtype=dtype, device=device)
    except (RuntimeError, TypeError):  # not so much memory; a number that is no int64
        raise TooLarge(
            f"iterlab: expected a shape that fits into memory, got {shape} of {dtype}"
        ) from None
    if device == "meta" or not filled:
        return flat.view(shape)
    pattern = _pattern(dtype)
    whole = count // pattern.numel() * pattern.numel()
    flat[:whole].view(-1, pattern.numel()).copy_(pattern)
    flat[whole:] = pattern[: count - whole]
    return flat.view(shape)


def dtype(name: str) -> torch.dtype:
    """Give the dtype of a short name ("bf16") or torch's ("bfloat16"). Raises ValueError for
    another.
    """
    found = DTYPES.get(name) or FULL_NAMES.get(name.removeprefix("torch."))
    if found is None:
        raise ValueError(f"iterlab: expected a dtype ({' '.join(DTYPES)}), got '{name}'")
    return found


def short_name(dtype: torch.dtype) -> str:
    """Give the short name of a dtype: "bf16" for torch.bfloat16."""
    return next(
        (name for name, one in DTYPES.items() if one is dtype), str(dtype).removeprefix("torch.")
    )


def parse(text: str, device: str = "cpu", filled: bool = True) -> Operand:
    """Make the tensor or the number that `text` describes.

    The tensor has reproducible values (see `values`), or none on device "meta", which is enough to
    plan a call; unless `filled`, its values are whatever stood in memory. Raises ValueError, in one
    line, for anything that is not a dtype, a shape and a chain of known views; TooLarge, which is
    one, where memory does not suffice.

    >>> parse("f32[2,3].t()").stride()
    (1, 3)
    """
    return _Reader(text, device, filled).read()
