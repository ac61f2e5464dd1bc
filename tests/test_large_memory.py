"""Memory of large new outputs: kept for the next one, bounded, never given out twice."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

import iterlab

MEBI = 2**20
LARGE = 8 * MEBI + 1000  # elements of float32

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel of Linux")


def test_the_next_output_takes_freed_memory() -> None:
    x = torch.rand(LARGE)
    first = iterlab.add(x, 1)
    address = first.data_ptr()
    del first
    second = iterlab.mul(x, 2)
    assert second.data_ptr() == address
    assert torch.equal(second, x * 2)


def test_outputs_that_live_at_once_lie_apart() -> None:
    x = torch.rand(LARGE)
    outputs = [iterlab.add(x, k) for k in range(4)]
    assert len({output.data_ptr() for output in outputs}) == 4
    for k, output in enumerate(outputs):
        assert torch.equal(output, x + k)


def test_strides_and_later_changes_of_size() -> None:
    x = torch.rand(3000, 2000).t()
    output = iterlab.neg(x)
    assert output.stride() == x.stride() and torch.equal(output, -x)
    kept = output.clone()
    output.resize_(4000, 3000)  # larger: other memory, the same values before
    assert torch.equal(output.view(-1)[: kept.numel()], kept.t().reshape(-1))
    output.resize_(2)
    assert torch.equal(iterlab.add(output, 1), output + 1)


def test_threads_allocate_and_free() -> None:
    x = torch.rand(2 * MEBI)

    def work(k: int) -> bool:
        return all(torch.equal(iterlab.add(x, k + i), x + (k + i)) for i in range(20))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(0, 800, 100)))


HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
OFFER = """
import re, torch, iterlab
x = torch.rand(8 * 2**20)  # 32 MiB
def offered():
    with open("/proc/self/smaps") as maps:
        return sum(int(kib) for kib in re.findall(r"LazyFree: *(\\d+) kB", maps.read())) >> 10
outputs = [iterlab.add(x, 1) for _ in range(6)]
del outputs[:4]
print(offered())
outputs.clear()
print(offered())
"""


@pytest.mark.skipif(not HUGE_PAGES.exists(), reason="Linux's memory map")
def test_the_latest_freed_memory_stays_warm() -> None:
    """Of 192 MiB that are freed, all but the latest 128 are offered to the system."""
    done = subprocess.run([sys.executable, "-c", OFFER], check=True, capture_output=True, text=True)
    few, many = map(int, done.stdout.split())
    assert few == 0
    assert 60 <= many <= 64


COUNT_FAULTS = """
import resource, torch, iterlab
torch.set_num_threads(1)
x = torch.rand(8 * 2**20)
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    iterlab.add(x, 1)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(faults())
"""


@pytest.mark.parametrize("mebi", (0, 16, 64))
def test_page_faults_of_a_second_output(mebi: int) -> None:
    """8192 pages of 4 KiB, of which a kept block of 32 MiB pays none."""
    settings = {"ITERLAB_KEPT_MEMORY": str(mebi), "ITERLAB_HUGE_PAGES": "0"}
    done = subprocess.run(
        [sys.executable, "-c", COUNT_FAULTS],
        env=os.environ | settings,
        check=True,
        capture_output=True,
        text=True,
    )
    faults = int(done.stdout)
    if mebi >= 32:
        assert faults < 100
    elif "[always]" not in HUGE_PAGES.read_text():  # else few pages are small, asked for or not
        assert faults > 8000


def test_a_setting_that_is_no_number_is_refused() -> None:
    code = "import torch, iterlab; iterlab.add(torch.ones(3), 1)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"ITERLAB_KEPT_MEMORY": "much"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "ValueError: iterlab: expected ITERLAB_KEPT_MEMORY to be a number of MiB, got much" in (
        done.stderr
    )


FORKS = """
import os, signal, threading, torch, iterlab

torch.set_num_threads(1)
x = torch.ones(1 << 20)
flags = [torch.ones((4 + i) << 20, dtype=torch.bool) for i in range(8)]
done = threading.Event()

def work():
    while not done.is_set():
        results = [iterlab.logical_not(one) for one in flags]

threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
failed = 0
for _ in range(60):
    child = os.fork()
    if child == 0:
        signal.alarm(30)  # kills it where it waits for a lock that nobody holds any more
        iterlab.add(x, x)
        os._exit(0)
    failed += os.waitpid(child, 0)[1] != 0
done.set()
for thread in threads:
    thread.join()
print("failed", failed)
"""


def test_a_process_is_forked_while_threads_allocate() -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKS]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=240)
    assert done.stdout.split()[-2:] == ["failed", "0"]
