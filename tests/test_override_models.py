"""Models under the drop-in: the same losses, with torch's own machinery around them."""

from __future__ import annotations

import threading
from collections.abc import Callable

import calls
import pytest
import torch
from torch import nn

from iterlab import override_aten

pytestmark = [*calls.TORCH_WARNINGS, pytest.mark.usefixtures("drop_in_undone")]


class Perceptron(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(
            nn.Linear(12, 16),
            nn.LayerNorm(16),
            nn.GELU(),
            nn.Linear(16, 16),
            nn.Dropout(0.1),
            nn.SiLU(),
            nn.Linear(16, 5),
        )


class Convolutional(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(
            nn.Unflatten(1, (3, 2, 2)),
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.AvgPool2d(2),
            nn.Flatten(),
            nn.Hardswish(),
            nn.Linear(8, 5),
        )


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.embed = nn.Linear(4, 8)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(self.embed(x.view(-1, 3, 4))).mean(1))


MODELS = [Perceptron, Convolutional, Attention]


def losses(
    make: Callable[[], nn.Module],
    optimizer: type[torch.optim.Optimizer] = torch.optim.AdamW,
    wrap: Callable[[nn.Module], Callable[[torch.Tensor], torch.Tensor]] = lambda model: model,
) -> list[float]:
    torch.manual_seed(0)
    model = make()
    call = wrap(model)
    # Small steps: a large one of RMSprop makes a difference in the last bit one of the loss.
    steps = optimizer(model.parameters(), lr=0.002)  # type: ignore[call-arg]
    x, y = torch.randn(24, 12), torch.randint(0, 5, (24,))
    found = []
    for _ in range(8):
        steps.zero_grad()
        loss = nn.functional.cross_entropy(call(x), y, label_smoothing=0.1)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        steps.step()
        found.append(loss.item())
    return found


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("optimizer", [torch.optim.AdamW, torch.optim.SGD, torch.optim.RMSprop])
def test_training(make: Callable[[], nn.Module], optimizer: type[torch.optim.Optimizer]) -> None:
    want = losses(make, optimizer)
    with override_aten():
        got = losses(make, optimizer)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    assert got[-1] < got[0]
    assert losses(make, optimizer) == want  # undone


@pytest.mark.parametrize("make", MODELS)
def test_autocast(make: Callable[[], nn.Module]) -> None:
    def wrap(model: nn.Module) -> Callable[[torch.Tensor], torch.Tensor]:
        def call(x: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", torch.bfloat16):
                return model(x)

        return call

    want = losses(make, wrap=wrap)
    with override_aten():
        got = losses(make, wrap=wrap)
    torch.testing.assert_close(got, want, rtol=5e-2, atol=2e-2)


def test_compile() -> None:
    want = losses(Perceptron)
    with override_aten():
        got = losses(Perceptron, wrap=lambda m: torch.compile(m, backend="aot_eager"))
        torch.compiler.reset()
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


def test_transforms() -> None:
    torch.manual_seed(0)
    x, w = torch.randn(5, 3), torch.randn(3)

    def loss(w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return ((w * x).sigmoid().log() / (x * x + 1)).sum().exp()

    def found() -> list[torch.Tensor]:
        per_sample = torch.func.vmap(torch.func.grad(loss), (None, 0))(w, x)
        _, tangent = torch.func.jvp(lambda w: loss(w, x[0]), (w,), (torch.ones(3),))
        return [per_sample, tangent, torch.func.hessian(loss)(w, x[0])]

    want = found()
    with override_aten():
        got = found()
    torch.testing.assert_close(got, want)


def test_inference_mode() -> None:
    torch.manual_seed(0)
    model, x = Attention().eval(), torch.randn(6, 12)
    with torch.inference_mode():
        want = model(x)
        with override_aten():
            got = model(x)
    torch.testing.assert_close(got, want)


def test_many_threads() -> None:
    results: dict[int, list[torch.Tensor]] = {}
    start = threading.Barrier(16)

    def work(index: int) -> None:
        generator = torch.Generator().manual_seed(index)
        x = torch.randn(65, 33, generator=generator)
        start.wait()
        found = []
        for _ in range(20):
            y = (x * 2 + x.t().contiguous().t()).exp_().clamp_(max=10)
            found.append(torch.stack([y.sum(0)[0], y.amax(), (y > 1).sum().float()]))
        results[index] = found

    def run() -> dict[int, list[torch.Tensor]]:
        results.clear()
        threads = [threading.Thread(target=work, args=(i,)) for i in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return dict(results)

    want = run()
    with override_aten(), override_aten(only=["mul", "add", "exp", "sum", "amax", "gt"]):
        got = run()
    assert sorted(got) == list(range(16))
    for index in range(16):
        torch.testing.assert_close(got[index], want[index])
        assert all(torch.equal(one, got[index][0]) for one in got[index])


def test_a_thread_that_started_before_sees_it() -> None:
    before, after = threading.Event(), threading.Event()
    seen: list[float] = []

    def work() -> None:
        half = torch.tensor([0.1]).half()
        before.wait()
        seen.append((half + half).item())
        after.set()

    thread = threading.Thread(target=work)
    thread.start()
    with override_aten(only=["add"]):
        before.set()
        assert after.wait(30)
    thread.join()
    torch.testing.assert_close(seen, [0.2], rtol=1e-3, atol=0)
