"""A small language model trained in bfloat16, with tables and masks in float32 and a head that is
cast on every step.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

BATCH, LENGTH, WIDTH, HEADS, WORDS = 2, 64, 96, 4, 200


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * wide.to(x.dtype)


def rotate_half(x):
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x, cos, sin, causal, pad):
        split = self.qkv(x).view(BATCH, LENGTH, 3, HEADS, -1)
        q, k, v = split.permute(2, 0, 3, 1, 4)
        q = q * cos + rotate_half(q) * sin
        k = k * cos + rotate_half(k) * sin
        scores = q.to(v.dtype) @ k.to(v.dtype).transpose(-2, -1) / math.sqrt(q.size(-1))
        scores = scores.masked_fill(causal, float("-inf"))
        scores = scores.masked_fill(pad[:, None, None, :].expand_as(scores), -1e9)
        weights = F.softmax(scores, -1, dtype=torch.float32).to(v.dtype)
        mixed = weights @ v
        return self.out(mixed.transpose(1, 2).reshape(BATCH, LENGTH, WIDTH))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.attention, self.after = RMSNorm(WIDTH), Attention(), RMSNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, *tables):
        x = x + self.attention(self.before(x), *tables)
        return x + self.down(F.gelu(self.up(self.after(x))))


def main():
    torch.manual_seed(0)
    words = nn.Embedding(WORDS, WIDTH).bfloat16()
    blocks = nn.ModuleList(Block() for _ in range(2)).bfloat16()
    head = torch.randn(WORDS, WIDTH)  # float32
    speed = 10000 ** (-torch.arange(0, WIDTH // HEADS, 2) * HEADS / WIDTH)
    angles = (torch.arange(LENGTH)[:, None] * speed).repeat(1, 2)
    cos, sin = angles.cos(), angles.sin()
    causal = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
    pad = torch.zeros(BATCH, LENGTH, dtype=torch.bool)
    pad[:, 50:] = True
    parameters = [*words.parameters(), *blocks.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=1e-3)
    for _ in range(3):
        tokens = torch.randint(0, WORDS, (BATCH, LENGTH))
        x = words(tokens)
        for block in blocks:
            x = block(x, cos, sin, causal, pad)
        logits = F.linear(x, head.to(torch.bfloat16))
        loss = F.cross_entropy(logits.float().view(-1, WORDS), tokens.roll(-1, 1).view(-1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
