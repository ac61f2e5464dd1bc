"""A CUDA build in short: imports, adds on the CPU, and on a GPU or says that there is none."""

from __future__ import annotations

from typing import Any

import torch

import iterlab  # noqa: F401  (loads torch.ops.iterlab)


def check_add(device: str) -> None:
    """Add two layouts; raise unless the sum is right."""
    add: Any = torch.ops.iterlab.add
    ones = torch.ones(2, 3, device=device)
    torch.testing.assert_close(add(ones, ones.t().contiguous().t()), ones * 2, rtol=0, atol=0)
    print(f"add on {device}: right")


def main() -> None:
    """Check the build; raise on the first thing that is not so."""
    check_add("cpu")
    if torch.cuda.is_available():
        check_add("cuda")
        return
    try:
        check_add("cuda")
    except (RuntimeError, AssertionError) as error:
        print(f"add on cuda: {str(error).splitlines()[0]}")
    else:
        raise SystemExit("add on cuda ran without a GPU")


if __name__ == "__main__":
    main()
