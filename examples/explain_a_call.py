"""Ask which loop a call gets, follow the advice, and see the path change."""

import torch

import iterlab

x = torch.randn(2048, 2048)
y = torch.randn(2048, 2048).bfloat16().t()

explanation = iterlab.explain(torch.ops.iterlab.add, x, y)
print(explanation)
assert explanation.plan.path == "tiled"

dense = y.contiguous()
print("\nafter y.contiguous():", iterlab.explain("add", x, dense).summary)
assert torch.equal(torch.ops.iterlab.add(x, y), torch.ops.iterlab.add(x, dense))
