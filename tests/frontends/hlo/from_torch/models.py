"""Small models in plain PyTorch, one of each kind that people split over cores."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Case:
    """A module, its arguments, and how two cores share its parameters and its arguments."""

    module: nn.Module
    args: tuple[Any, ...]
    params: dict[str, tuple[str | None, ...]] = field(default_factory=dict)
    """Pattern to the axis that each dimension is split over."""
    split_args: tuple[Any, ...] | None = None


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(16, 64), nn.Linear(64, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(functional.gelu(self.up(x)))


class ResidualBlock(nn.Module):
    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(outer), nn.BatchNorm2d(outer)
        self.short = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))

    def forward(self, x: Tensor) -> Tensor:
        hidden = functional.relu(self.bn1(self.conv1(x)))
        return functional.relu(self.bn2(self.conv2(hidden)) + self.short(x))


class ResNet(nn.Module):
    """In training mode: the batch statistics are results."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.bn = nn.Conv2d(3, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8)
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.blocks = nn.ModuleList([ResidualBlock(8, 8, 1), ResidualBlock(8, 16, 2)])
        self.head = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.pool(functional.relu(self.bn(self.stem(x))))
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(hidden.mean((2, 3)))


class SelfAttention(nn.Module):
    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.wq, self.wk = nn.Linear(width, width), nn.Linear(width, width)
        self.wv, self.wo = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape

        def split(each: Tensor) -> Tensor:
            return each.view(batch, length, self.heads, -1).transpose(1, 2)

        q, k, v = split(self.wq(x)), split(self.wk(x)), split(self.wv(x))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.wo(mixed.transpose(1, 2).reshape(batch, length, width))


class Layer(nn.Module):
    """Pre-normalised, as in GPT and ViT, or post-normalised, as in BERT."""

    def __init__(self, width: int, heads: int, *, causal: bool, first: bool = True) -> None:
        super().__init__()
        self.first = first
        self.attn = SelfAttention(width, heads, causal)
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        if self.first:
            x = x + self.attn(self.ln1(x))
            return x + self.down(functional.gelu(self.up(self.ln2(x)), approximate="tanh"))
        x = self.ln1(x + self.attn(x))
        return self.ln2(x + self.down(functional.gelu(self.up(x))))


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(64, 32), nn.Embedding(16, 32)
        self.layers = nn.ModuleList([Layer(32, 4, causal=True) for _ in range(2)])
        self.ln = nn.LayerNorm(32)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return self.ln(x) @ self.wte.weight.T


class BERT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places, self.kinds = nn.Embedding(64, 32), nn.Embedding(16, 32), nn.Embedding(2, 32)
        self.ln = nn.LayerNorm(32)
        self.layers = nn.ModuleList([Layer(32, 4, causal=False, first=False) for _ in range(2)])
        self.pooler = nn.Linear(32, 32)
        self.register_buffer("position_ids", torch.arange(16)[None])

    def forward(self, tokens: Tensor, kinds: Tensor, mask: Tensor) -> dict[str, Tensor]:
        places = self.places(self.position_ids[:, : tokens.shape[1]])
        x = self.ln(self.words(tokens) + self.kinds(kinds) + places)
        x = x.masked_fill(~mask[..., None], 0.0)
        for layer in self.layers:
            x = layer(x)
        return {"hidden": x, "pooled": torch.tanh(self.pooler(x[:, 0]))}


class LSTM(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.lstm, self.head = (
            nn.Embedding(32, 16),
            nn.LSTM(16, 16, 2, batch_first=True),
            nn.Linear(16, 32),
        )

    def forward(self, tokens: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        out, state = self.lstm(self.embed(tokens), state)
        return self.head(out), state


class RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat((-right, left), -1) * sin


class LlamaAttention(nn.Module):
    """Grouped queries, rotary positions, and a cache that is written in place at a given position."""

    def __init__(self, width: int, heads: int, kv: int, length: int, batch: int) -> None:
        super().__init__()
        self.heads, self.kv, self.dim = heads, kv, width // heads
        self.wq, self.wo = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.wk, self.wv = nn.Linear(width, kv * self.dim, bias=False), nn.Linear(width, kv * self.dim, bias=False)
        self.register_buffer("cache_k", torch.zeros(batch, length, kv, self.dim))
        self.register_buffer("cache_v", torch.zeros(batch, length, kv, self.dim))

    def forward(self, x: Tensor, place: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, steps, _ = x.shape
        q = rotate(self.wq(x).view(batch, steps, self.heads, self.dim), cos, sin)
        k = rotate(self.wk(x).view(batch, steps, self.kv, self.dim), cos, sin)
        v = self.wv(x).view(batch, steps, self.kv, self.dim)
        self.cache_k[:, place] = k
        self.cache_v[:, place] = v
        keys = self.cache_k.repeat_interleave(self.heads // self.kv, 2)
        values = self.cache_v.repeat_interleave(self.heads // self.kv, 2)
        score = torch.einsum("bshd,bthd->bhst", q, keys) / math.sqrt(self.dim)
        seen = torch.arange(keys.shape[1])[None, :] <= place[:, None]
        weight = score.masked_fill(~seen, -torch.inf).softmax(-1)
        return self.wo(torch.einsum("bhst,bthd->bshd", weight, values).reshape(batch, steps, -1))


class LlamaLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attn = LlamaAttention(32, 4, 2, 16, 2)
        self.norm1, self.norm2 = RMSNorm(32), RMSNorm(32)
        self.w1, self.w3 = nn.Linear(32, 64, bias=False), nn.Linear(32, 64, bias=False)
        self.w2 = nn.Linear(64, 32, bias=False)

    def forward(self, x: Tensor, place: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x), place, cos, sin)
        hidden = self.norm2(x)
        return x + self.w2(functional.silu(self.w1(hidden)) * self.w3(hidden))


class Llama(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(64, 32)
        self.layers = nn.ModuleList([LlamaLayer() for _ in range(2)])
        self.norm, self.head = RMSNorm(32), nn.Linear(32, 64, bias=False)
        angles = torch.outer(torch.arange(16.0), 10000.0 ** (-torch.arange(0, 8, 2.0) / 8))
        self.register_buffer("cos", torch.cat((angles, angles), -1).cos(), persistent=False)
        self.register_buffer("sin", torch.cat((angles, angles), -1).sin(), persistent=False)

    def forward(self, tokens: Tensor, place: Tensor) -> Tensor:
        x = self.embed(tokens)
        cos, sin = self.cos[place][:, None], self.sin[place][:, None]
        for layer in self.layers:
            x = layer(x, place, cos, sin)
        return self.head(self.norm(x))


class T5Attention(nn.Module):
    """Without scaling; the decoder's self-attention and the encoder's have a relative bias."""

    def __init__(self, relative: bool, causal: bool) -> None:
        super().__init__()
        self.causal = causal
        self.q, self.k, self.v, self.o = (nn.Linear(32, 32, bias=False) for _ in range(4))
        self.bias = nn.Embedding(8, 4) if relative else None

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        def split(each: Tensor) -> Tensor:
            return each.view(each.shape[0], each.shape[1], 4, 8).transpose(1, 2)

        q, k, v = split(self.q(x)), split(self.k(memory)), split(self.v(memory))
        score = q @ k.mT
        if self.bias is not None:
            apart = torch.arange(k.shape[2])[None] - torch.arange(q.shape[2])[:, None]
            score = score + self.bias((apart + 4).clamp(0, 7)).permute(2, 0, 1)
        if self.causal:
            score = score + torch.full(score.shape[-2:], -1e9).triu(1)
        return self.o((score.softmax(-1) @ v).transpose(1, 2).reshape(x.shape))


class T5(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.shared = nn.Embedding(64, 32)
        self.encoder, self.decoder = T5Attention(True, False), T5Attention(True, True)
        self.cross = T5Attention(False, False)
        self.norms = nn.ModuleList([RMSNorm(32) for _ in range(6)])
        self.wi, self.wo = nn.Linear(32, 64, bias=False), nn.Linear(64, 32, bias=False)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        x = self.shared(source)
        hidden = self.norms[0](x)
        x = x + self.encoder(hidden, hidden)
        x = self.norms[1](x + self.wo(functional.relu(self.wi(self.norms[2](x)))))
        y = self.shared(target)
        hidden = self.norms[3](y)
        y = y + self.decoder(hidden, hidden)
        y = y + self.cross(self.norms[4](y), x)
        return self.norms[5](y) @ self.shared.weight.T * 32**-0.5


class ViT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 32, 4, 4)
        self.cls, self.places = nn.Parameter(torch.randn(1, 1, 32)), nn.Parameter(torch.randn(1, 17, 32))
        self.layers = nn.ModuleList([Layer(32, 4, causal=False) for _ in range(2)])
        self.ln, self.head = nn.LayerNorm(32), nn.Linear(32, 10)

    def forward(self, image: Tensor) -> Tensor:
        x = self.patch(image).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls.expand(x.shape[0], -1, -1), x), 1) + self.places
        for layer in self.layers:
            x = layer(x)
        return self.head(self.ln(x)[:, 0])


class Mamba(nn.Module):
    """A selective state space; the recurrence is a loop over time."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.state = 32, 8
        self.proj_in, self.proj_out = nn.Linear(16, 64), nn.Linear(32, 16)
        self.conv = nn.Conv1d(32, 32, 4, groups=32, padding=3)
        self.proj_x, self.proj_dt = nn.Linear(32, 17, bias=False), nn.Linear(1, 32)
        self.a_log = nn.Parameter(torch.arange(1.0, 9.0).log().repeat(32, 1))
        self.skip = nn.Parameter(torch.ones(32))

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[1]
        x, gate = self.proj_in(x).chunk(2, -1)
        x = functional.silu(self.conv(x.mT)[..., :length].mT)
        dt, b, c = self.proj_x(x).split((1, 8, 8), -1)
        dt = functional.softplus(self.proj_dt(dt))
        decay = torch.exp(dt[..., None] * -torch.exp(self.a_log))
        drive = dt[..., None] * b[:, :, None] * x[..., None]
        out = self.scan(decay, drive, c) + self.skip * x
        return self.proj_out(out * functional.silu(gate))

    def scan(self, decay: Tensor, drive: Tensor, c: Tensor) -> Tensor:
        state = torch.zeros_like(decay[:, 0])
        rows = []
        for step in range(decay.shape[1]):
            state = decay[:, step] * state + drive[:, step]
            rows.append((state * c[:, step, None]).sum(-1))
        return torch.stack(rows, 1)


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2 = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, 2, 1)
        self.norm1, self.norm2 = nn.GroupNorm(2, 8), nn.GroupNorm(4, 16)
        self.middle = nn.Conv2d(16, 16, 3, padding=1)
        self.up = nn.ConvTranspose2d(16, 8, 2, 2)
        self.merge, self.out = nn.Conv2d(16, 8, 3, padding=1), nn.Conv2d(8, 3, 1)
        self.time = nn.Linear(8, 16)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        freqs = torch.exp(-torch.arange(4) * math.log(10000.0) / 4)
        angle = time[:, None] * freqs
        embed = self.time(torch.cat((angle.sin(), angle.cos()), -1))
        skip = functional.silu(self.norm1(self.down1(x)))
        hidden = functional.silu(self.norm2(self.down2(skip)) + embed[:, :, None, None])
        hidden = functional.interpolate(
            functional.avg_pool2d(self.middle(hidden), 2), scale_factor=2.0, mode="nearest"
        )
        return self.out(functional.silu(self.merge(torch.cat((self.up(hidden), skip), 1))))


class MoE(nn.Module):
    """The two best of four experts, by weights that are zero for the others."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(16, 4, bias=False)
        self.w1, self.w2 = nn.Parameter(torch.randn(4, 16, 32) / 4), nn.Parameter(torch.randn(4, 32, 16) / 6)

    def forward(self, x: Tensor) -> Tensor:
        weights, chosen = torch.topk(self.gate(x).softmax(-1), 2, -1)
        weights = torch.zeros(*x.shape[:-1], 4).scatter(-1, chosen, weights / weights.sum(-1, keepdim=True))
        hidden = functional.silu(torch.einsum("bd,edh->ebh", x, self.w1))
        return torch.einsum("ebd,be->bd", torch.einsum("ebh,ehd->ebd", hidden, self.w2), weights)


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape)


def tokens(high: int, *shape: int) -> Tensor:
    return torch.randint(0, high, shape)


_COLUMNS, _ROWS = ("x", None), (None, "x")
_LAYERS: dict[str, tuple[str | None, ...]] = {
    "layers.*.attn.w[qkv].weight": _COLUMNS,
    "layers.*.attn.w[qkv].bias": ("x",),
    "layers.*.attn.wo.weight": _ROWS,
    "layers.*.up.weight": _COLUMNS,
    "layers.*.up.bias": ("x",),
    "layers.*.down.weight": _ROWS,
}


def _llama() -> Case:
    params = {
        "layers.*.attn.w[qkv].weight": _COLUMNS,
        "layers.*.attn.wo.weight": _ROWS,
        "layers.*.attn.cache_?": (None, None, "x"),
        "layers.*.w[13].weight": _COLUMNS,
        "layers.*.w2.weight": _ROWS,
    }
    return Case(Llama(), (tokens(64, 2, 4), torch.arange(3, 7)), params)


CASES: dict[str, Callable[[], Case]] = {
    "mlp": lambda: Case(
        MLP(),
        (normal(4, 16),),
        {"up.weight": _COLUMNS, "up.bias": ("x",), "down.weight": _ROWS},
    ),
    "resnet": lambda: Case(ResNet().train(), (normal(4, 3, 16, 16),), split_args=(("x",),)),
    "gpt": lambda: Case(GPT(), (tokens(64, 2, 12),), _LAYERS),
    "bert": lambda: Case(
        BERT(), (tokens(64, 2, 12), tokens(2, 2, 12), torch.arange(24).reshape(2, 12) % 5 > 0), _LAYERS
    ),
    "lstm": lambda: Case(
        LSTM(),
        (tokens(32, 2, 5), (normal(2, 2, 16), normal(2, 2, 16))),
        split_args=(("x",), ((None, "x"), (None, "x"))),
    ),
    "llama": _llama,
    "t5": lambda: Case(T5(), (tokens(64, 2, 8), tokens(64, 2, 6)), {"*.[qkv].weight": _COLUMNS, "*.o.weight": _ROWS}),
    "vit": lambda: Case(ViT(), (normal(2, 3, 16, 16),), _LAYERS),
    "mamba": lambda: Case(Mamba(), (normal(2, 6, 16),), split_args=(("x",),)),
    "unet": lambda: Case(UNet(), (normal(2, 3, 16, 16), torch.tensor([3.0, 70.0])), split_args=(("x",), ("x",))),
    "moe": lambda: Case(MoE(), (normal(6, 16),), {"w1": ("x",), "w2": ("x",)}),
}


def case(name: str) -> Case:
    """The same numbers every time."""
    torch.manual_seed(sum(map(ord, name)))
    made = CASES[name]()
    if name != "resnet":
        made.module.eval()
    return made
