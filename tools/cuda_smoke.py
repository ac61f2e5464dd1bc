"""A build against a CUDA torch in short: imports, and adds on the CPU; a GPU is not needed."""

from typing import Any

import torch

import iterlab  # noqa: F401  (loads torch.ops.iterlab)


def main() -> None:
    """Check the build; raise on the first thing that is not so."""
    add: Any = torch.ops.iterlab.add
    ones = torch.ones(2, 3)
    torch.testing.assert_close(add(ones, ones.t().contiguous().t()), ones * 2, rtol=0, atol=0)
    print("add on the CPU: right")

    # There are no CUDA kernels yet; a call must say so, and not crash.
    try:
        add(ones.cuda(), ones.cuda())
    except (RuntimeError, AssertionError) as error:
        print(f"add on CUDA: {str(error).splitlines()[0]}")
    else:
        raise SystemExit("add on CUDA ran: check its result here, now that there are kernels")


if __name__ == "__main__":
    main()
