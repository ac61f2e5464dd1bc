"""An image classifier in channels_last on frames as a camera gives them: uint8, height by width by
channel. It has the faults that such programs have.
"""

import torch
import torch.nn.functional as F
from torch import nn

MEAN = torch.tensor([0.485, 0.456, 0.406])
STD = torch.tensor([0.229, 0.224, 0.225])


class ConvNormAct(nn.Module):
    def __init__(self, inputs, outputs, stride=1):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, x):
        return F.silu(self.norm(self.conv(x)))


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = ConvNormAct(channels, channels)
        self.norm = nn.LayerNorm(channels)
        self.register_buffer("scale", torch.ones(channels, 1, 1))

    def forward(self, x):
        y = self.conv(x)
        y = self.norm(y.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return x + self.scale * y


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = ConvNormAct(3, 16, 2)
        self.first = Block(16)
        self.down = ConvNormAct(16, 32, 2)
        self.second = Block(32)
        self.position = nn.Parameter(torch.randn(32, 24, 24))
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        x = self.first(self.stem(x))
        x = self.second(self.down(x))
        x = x + self.position  # contiguous, where x is channels_last
        x = x.contiguous()  # forgotten
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


def preprocess(frame):
    image = frame.float() / 255
    image = (image - MEAN) / STD
    return image.permute(2, 0, 1)


def main():
    torch.manual_seed(0)
    model = Net().eval().to(memory_format=torch.channels_last)
    with torch.inference_mode():
        for _ in range(3):
            frames = [torch.randint(0, 255, (96, 96, 3), dtype=torch.uint8) for _ in range(4)]
            batch = torch.stack([preprocess(frame) for frame in frames])
            model(batch)


if __name__ == "__main__":
    main()
