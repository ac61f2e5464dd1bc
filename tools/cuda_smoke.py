"""A CUDA build in short: imports, adds on the CPU, has CUDA kernels; a GPU is not needed."""

from typing import Any

import torch

import iterlab  # noqa: F401  (loads torch.ops.iterlab)


def main() -> None:
    """Check the build; raise on the first thing that is not so."""
    add: Any = torch.ops.iterlab.add
    ones = torch.ones(2, 3)
    torch.testing.assert_close(add(ones, ones.t().contiguous().t()), ones * 2, rtol=0, atol=0)
    print("add on the CPU: right")

    overloads = [getattr(add, name).name() for name in add.overloads()]
    has_kernel = torch._C._dispatch_has_computed_kernel_for_dispatch_key
    without = [name for name in overloads if not has_kernel(name, "CUDA")]
    if without:
        raise SystemExit(f"no CUDA kernel is registered for {', '.join(without)}")
    print(f"CUDA kernels: registered for {', '.join(overloads)}")

    try:
        total = add(ones.cuda(), ones.cuda())
    except (RuntimeError, AssertionError) as error:
        if torch.cuda.is_available():
            raise
        print(f"add on CUDA: {str(error).splitlines()[0]}")
    else:
        torch.testing.assert_close(total.cpu(), ones * 2, rtol=0, atol=0)
        print(f"add on {torch.cuda.get_device_name()}: right")


if __name__ == "__main__":
    main()
