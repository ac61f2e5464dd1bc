"""The dispatcher's layers in words: what a key's kernel does for a call, or why it is skipped."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack
from torch.utils._pytree import tree_leaves

from iterlab.planning import rehearse


@dataclass(frozen=True)
class Context:
    """What a layer's kernel sees: the overload, its tensors, and the level of the torch.func
    transform that it runs in (0: none). Outside transforms, `args` and `kwargs` are the call's.
    """

    overload: torch._ops.OpOverload[..., Any]
    tensors: tuple[torch.Tensor, ...]
    level: int
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def rehearsal(self) -> Any:
        """What the call gives for operands without data, as autograd sees them, or the error that
        it raises. None under transforms.
        """
        if torch._C._functorch.peek_interpreter_stack() is not None:
            return None
        try:
            return rehearse(self.overload, self.args, self.kwargs)
        except (RuntimeError, IndexError, ValueError, TypeError) as error:
            return error

    def fake_mode(self) -> str:
        """Name the mode that computes shapes only, "" where there is none."""
        from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

        modes = _get_current_dispatch_mode_stack()
        fake = any(isinstance(mode, FakeTensorMode) for mode in modes) or any(
            isinstance(tensor, FakeTensor) for tensor in self.tensors
        )
        return "FakeTensorMode" if fake else ""

    def python_handlers(self) -> str:
        """Name the modes and tensor subclasses whose `__torch_dispatch__` is asked, in order."""
        modes = [type(mode).__name__ for mode in reversed(_get_current_dispatch_mode_stack())]
        classes = [
            type(tensor).__name__
            for tensor in self.tensors
            if type(tensor) not in (torch.Tensor, torch.nn.Parameter)
        ]
        return ", ".join(dict.fromkeys(modes + classes)) or "a mode"


_FIXED = {
    "PythonTLSSnapshot": "notes the thread's state for the Python layer below",
    "PythonDispatcher": "hands the call to Python's own dispatcher, which goes on below",
    "PreDispatch": "hands the call to what traces before dispatch",
    "Conjugate": "resolves lazy conjugates: a copy of each such operand",
    "Negative": "resolves lazy negations: a copy of each such operand",
    "ZeroTensor": "fills in operands that stand for zeros",
    "Functionalize": "replaces writes by new values, for tracing",
    "Tracer": "records the call for torch.jit.trace",
    "Meta": "gives shape, dtype and strides; touches no data",
}


def _records(context: Context) -> bool:
    requires = context.level > 0 or any(one.requires_grad for one in context.tensors)
    return torch.is_grad_enabled() and requires


def _autograd(text: str, context: Context) -> str:
    if "[math kernel]" in text:
        return "composite: unfolds into other operators here, each with its own backward"
    if not torch.is_grad_enabled():
        return "grad mode is off: records nothing, calls on below"
    if not _records(context):
        return "no operand requires grad: records nothing, calls on below"
    results = [one for one in tree_leaves(context.rehearsal) if isinstance(one, torch.Tensor)]
    if any(type(one.grad_fn).__name__ == "NotImplemented" for one in results):
        return "there is no derivative: calls on below, backward through the result raises"
    if results and not any(one.requires_grad for one in results):
        return "the result has no derivative: records nothing, calls on below"
    return "records the node for backward, calls on below"


# Keys of tensors for which iterlab's kernel raises.
_OTHER_LAYOUTS = ("Sparse", "Quantized", "Mkldnn", "NestedTensor")

# The keys whose kernel gives the result.
_BACKENDS = re.compile(r"(Sparse|SparseCsr|Quantized|NestedTensor)?(CPU|CUDA|Meta|MPS|XPU)$")


def is_backend(key: str) -> bool:
    """Say whether a kernel of `key` gives the result, and calls none below."""
    return _BACKENDS.match(key) is not None


def refusal(key: str, text: str, context: Context) -> str:
    """Say which error a kernel raises for the call itself: autograd's for a write to a leaf that
    requires grad, or iterlab's for a tensor of another layout; "" where it raises none.
    """
    unfolds = "[math kernel]" in text
    if context.overload.namespace == "iterlab" and key.startswith(_OTHER_LAYOUTS) and not unfolds:
        return "NotImplementedError: iterlab takes dense tensors"
    if not key.startswith("Autograd") or unfolds or not _records(context):
        return ""
    error = context.rehearsal
    if not isinstance(error, RuntimeError) or isinstance(error, NotImplementedError):
        return ""
    first, _, _ = str(error).partition("\n")
    return f"{type(error).__name__}: {first}"


def _autocast(key: str) -> str:
    device = key.removeprefix("Autocast").lower()
    dtype = str(torch.get_autocast_dtype(device)).removeprefix("torch.")
    return f"casts operands by this operator's autocast policy (autocast is {dtype}), calls on"


def _backend(key: str, text: str, context: Context) -> str:
    if "[math kernel]" in text:
        return "composite: unfolds into other operators here"
    if "[default backend kernel]" in text:
        return "one kernel for every backend, written with other operators"
    loop = ": plans and runs the loop" if context.overload.namespace == "iterlab" else ""
    return f"the {key} kernel{loop}"


def purpose(key: str, text: str, context: Context) -> str:
    """Say what the kernel of `key` does for this call. `text` is the dispatcher's table entry."""
    if key in _FIXED:
        return _FIXED[key]
    if key == "Python":
        return f"asks __torch_dispatch__ of {context.python_handlers()}, which may call on below"
    if key == "FuncTorchBatched":
        return (
            "no batch rule: a loop over the batch"
            if "fallback" in text
            else "batch rule: one call on the tensors with the batch dim inside"
        )
    if key == "ADInplaceOrView":
        return "increments the version of what is written, calls on below"
    if key.startswith("Autograd"):
        return _autograd(text, context)
    if key.startswith("Autocast"):
        return _autocast(key)
    return _backend(key, text, context)


def skipped(key: str) -> str:
    """Say why the thread excludes a key."""
    if key.startswith("Autocast"):
        return f"autocast is off for {key.removeprefix('Autocast').lower()}"
    if key.startswith("Autograd") or key == "ADInplaceOrView":
        if torch.is_inference_mode_enabled():
            return "inference mode"
        return "the thread is below autograd already"
    return "excluded on this thread"


def functorch_text(transform: str, level: int) -> str:
    """Say which transform of torch.func takes the call."""
    return f"torch.func takes the call: {transform}, level {level}"
