"""Turn a uint8 HWC photograph into normalised float32 CHW planes, without a copy in between."""

import torch

import iterlab  # noqa: F401  (registers torch.ops.iterlab)

photo = torch.randint(0, 256, (480, 640, 3), dtype=torch.uint8)
mean = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
deviation = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)

planes = torch.empty(3, 480, 640)
torch.ops.iterlab.mul.out(photo.permute(2, 0, 1), 1 / (255 * deviation), out=planes)
torch.ops.iterlab.add_(planes, -mean / deviation)

expected = (photo.permute(2, 0, 1) / 255 - mean) / deviation
torch.testing.assert_close(planes, expected, rtol=1e-5, atol=1e-5)
print(f"normalised to {list(planes.shape)}, mean {planes.mean():.3f}")
