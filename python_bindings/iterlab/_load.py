"""Loads the operator library, after a check that it was built for the torch that is running."""

from pathlib import Path

import torch


def minor(version: str) -> str:
    """Give the major and minor number of a version, such as "2.13" of "2.13.0+cpu"."""
    return ".".join(version.split("+")[0].split(".")[:2])


def check_torch(built_for: str, running: str) -> None:
    """Raise ImportError where iterlab was built for another minor version of torch.

    PyTorch's C++ interface changes between minor versions; without this check, the import ends in
    an undefined symbol.
    """
    if minor(built_for) != minor(running):
        raise ImportError(
            f"iterlab was built for torch {minor(built_for)} and cannot run with torch {running}: "
            "build it again with the torch that you use (pip install --no-build-isolation iterlab)."
        )


def load() -> None:
    """Register `torch.ops.iterlab`."""
    import iterlab._build_info as _build_info

    check_torch(_build_info.torch_version, torch.__version__)
    folder = Path(_build_info.__file__).parent
    torch.ops.load_library(folder / "libiterlab_ops.so")  # type: ignore[no-untyped-call]
    if _build_info.cuda_version is not None:
        torch.ops.load_library(folder / "libiterlab_cuda.so")  # type: ignore[no-untyped-call]
