"""What every test shares: device, seeds, hypothesis profiles, what this machine can run."""

from __future__ import annotations

import importlib.util
import inspect
import os
from collections.abc import Iterator

import pytest
import torch

from iterlab.override import overridden

HAS_HYPOTHESIS = importlib.util.find_spec("hypothesis") is not None

# What a GPU machine may lack: hypothesis, expecttest, or torch 2.13's view of ATen's iterator.
collect_ignore_glob = [] if HAS_HYPOTHESIS else ["*_random.py"]
if (
    importlib.util.find_spec("expecttest") is None
):  # torch.testing._internal.common_utils asks for it
    collect_ignore_glob += ["test_dtensor.py", "test_opinfo*.py"]
if importlib.util.find_spec("torch._tensor_iterator") is None:
    collect_ignore_glob.append("test_plan_aten*.py")

if HAS_HYPOTHESIS:
    from hypothesis import HealthCheck, settings

    everyday = {
        "deadline": None,
        "suppress_health_check": [HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
        "print_blob": True,
    }
    settings.register_profile("ci", max_examples=300, derandomize=True, **everyday)
    settings.register_profile("long", max_examples=20_000, **everyday)
    settings.load_profile(os.environ.get("ITERLAB_HYPOTHESIS_PROFILE", "ci"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", default="cpu", help="where tensors live: cpu or cuda")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is about another device: a test that does not ask for one is the CPU's."""
    on_cuda = config.getoption("--device").startswith("cuda")

    def belongs(item: pytest.Item) -> bool:
        assert isinstance(item, pytest.Function)
        if item.get_closest_marker("cuda") is not None:
            return on_cuda
        # Not item.fixturenames: gpu_in_order brings the device to every test.
        return not on_cuda or "device" in inspect.signature(item.function).parameters

    config.hook.pytest_deselected(items=[item for item in items if not belongs(item)])
    items[:] = [item for item in items if belongs(item)]


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> str:
    """Where a test's tensors live."""
    return str(request.config.getoption("--device"))


@pytest.fixture
def drop_in_undone() -> Iterator[None]:
    """For tests of the drop-in: none of them leaves it on."""
    yield
    assert overridden() == ()


@pytest.fixture(autouse=True)
def gpu_in_order(device: str) -> Iterator[None]:
    """An error of a kernel is the test's that launched it, and spoils no other.

    Nothing else can run on the GPU in this process after one: it ends, and xdist starts a new one.
    """
    yield
    if not device.startswith("cuda"):
        return
    try:
        torch.cuda.synchronize()
    except RuntimeError as error:
        if "PYTEST_XDIST_WORKER" in os.environ:
            os._exit(1)
        pytest.exit(f"the GPU is lost to this process: {error}", returncode=1)


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    """Every test starts from the same random state and leaves torch's switches as they were."""
    torch.manual_seed(20)
    threads, default = torch.get_num_threads(), torch.get_default_dtype()
    yield
    if torch.get_num_threads() != threads:
        torch.set_num_threads(threads)
    torch.set_default_dtype(default)
