"""Networks for `executorch_table.py` and its test, written for their shapes of graph: the weights are random.

Widths are divided; what matters is which tensors live together, and their ratios. `MODELS` has for each name a
function that returns the module and its inputs.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

Made = tuple[nn.Module, tuple[Tensor, ...]]


class Conv(nn.Sequential):
    """Convolution without bias, batch norm, ReLU."""

    def __init__(
        self, one: int, two: int, kernel: int | tuple[int, int], stride: int = 1, padding: object = 0
    ) -> None:
        super().__init__(
            nn.Conv2d(one, two, kernel, stride, padding, bias=False),  # type: ignore[arg-type]
            nn.BatchNorm2d(two),
            nn.ReLU(),
        )


class Branches(nn.Module):
    """All branches on one input, their results joined along the channels."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


def inception(divide: int = 4, side: int = 299) -> Made:
    """Inception v3: Szegedy et al., Rethinking the Inception Architecture, 2015; without the auxiliary classifier."""

    def width(channels: int) -> int:
        return max(1, channels // divide)

    def conv(one: int, two: int, kernel: int | tuple[int, int], stride: int = 1, padding: object = 0) -> nn.Module:
        return Conv(width(one), width(two), kernel, stride, padding)

    def pool(one: int, two: int) -> nn.Module:
        return nn.Sequential(nn.AvgPool2d(3, 1, 1), conv(one, two, 1))

    def block_a(one: int, pooled: int) -> nn.Module:
        return Branches(
            conv(one, 64, 1),
            nn.Sequential(conv(one, 48, 1), conv(48, 64, 5, padding=2)),
            nn.Sequential(conv(one, 64, 1), conv(64, 96, 3, padding=1), conv(96, 96, 3, padding=1)),
            pool(one, pooled),
        )

    def block_c(one: int, two: int) -> nn.Module:
        wide, tall = ((1, 7), (0, 3)), ((7, 1), (3, 0))
        return Branches(
            conv(one, 192, 1),
            nn.Sequential(conv(one, two, 1), conv(two, two, *wide_of(wide)), conv(two, 192, *wide_of(tall))),
            nn.Sequential(
                conv(one, two, 1),
                conv(two, two, *wide_of(tall)),
                conv(two, two, *wide_of(wide)),
                conv(two, two, *wide_of(tall)),
                conv(two, 192, *wide_of(wide)),
            ),
            pool(one, 192),
        )

    def wide_of(pair: tuple[tuple[int, int], tuple[int, int]]) -> tuple[tuple[int, int], int, tuple[int, int]]:
        return pair[0], 1, pair[1]

    def split(one: int) -> nn.Module:
        return Branches(conv(one, 384, (1, 3), 1, (0, 1)), conv(one, 384, (3, 1), 1, (1, 0)))

    def block_e(one: int) -> nn.Module:
        return Branches(
            conv(one, 320, 1),
            nn.Sequential(conv(one, 384, 1), split(384)),
            nn.Sequential(conv(one, 448, 1), conv(448, 384, 3, padding=1), split(384)),
            pool(one, 192),
        )

    net = nn.Sequential(
        Conv(3, width(32), 3, 2),
        conv(32, 32, 3),
        conv(32, 64, 3, padding=1),
        nn.MaxPool2d(3, 2),
        conv(64, 80, 1),
        conv(80, 192, 3),
        nn.MaxPool2d(3, 2),
        block_a(192, 32),
        block_a(256, 64),
        block_a(288, 64),
        Branches(
            conv(288, 384, 3, 2),
            nn.Sequential(conv(288, 64, 1), conv(64, 96, 3, padding=1), conv(96, 96, 3, 2)),
            nn.MaxPool2d(3, 2),
        ),
        block_c(768, 128),
        block_c(768, 160),
        block_c(768, 160),
        block_c(768, 192),
        Branches(
            nn.Sequential(conv(768, 192, 1), conv(192, 320, 3, 2)),
            nn.Sequential(
                conv(768, 192, 1),
                conv(192, 192, (1, 7), 1, (0, 3)),
                conv(192, 192, (7, 1), 1, (3, 0)),
                conv(192, 192, 3, 2),
            ),
            nn.MaxPool2d(3, 2),
        ),
        block_e(1280),
        block_e(2048),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(width(2048), 100),
    )
    return net, (torch.randn(1, 3, side, side),)


class Wired(nn.Module):
    """A directed graph of convolutions: a node adds up its inputs, activates and convolves.

    Xie et al., Exploring Randomly Wired Neural Networks, 2019: a ring lattice of `near` neighbours, whose edges are
    rewired with a probability (Watts and Strogatz), and directed from the smaller number to the larger one.
    """

    def __init__(self, seed: int, nodes: int, channels: int, near: int = 4, rewire: float = 0.75) -> None:
        super().__init__()
        drawn = random.Random(seed)
        pairs = set()
        for one in range(nodes):
            for step in range(1, near // 2 + 1):
                two = drawn.randrange(nodes) if drawn.random() < rewire else (one + step) % nodes
                if one != two:
                    pairs.add((min(one, two), max(one, two)))
        self.inputs = [sorted(one for one, two in pairs if two == node) for node in range(nodes)]
        read = {one for one, _ in pairs}
        self.last = [node for node in range(nodes) if node not in read]
        self.convs = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1, groups=channels) for _ in range(nodes))

    def forward(self, x: Tensor) -> Tensor:
        made: list[Tensor] = []
        for inputs, conv in zip(self.inputs, self.convs, strict=True):
            total = x
            for number, source in enumerate(inputs):
                total = made[source] if number == 0 else total + made[source]
            made.append(conv(functional.relu(total)))
        return torch.stack([made[node] for node in self.last]).mean(0)


def wired(seed: int, nodes: int = 32, channels: int = 16, side: int = 28) -> Made:
    """Two stages of randomly wired nodes."""
    net = nn.Sequential(
        Conv(3, channels, 3, 2, 1),
        Wired(seed, nodes, channels),
        Conv(channels, 2 * channels, 3, 2, 1),
        Wired(seed + 100, nodes, 2 * channels),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )
    return net, (torch.randn(1, 3, 2 * side, 2 * side),)


class Attention(nn.Module):
    """Heads of scaled products, written out as the published models have it."""

    def __init__(self, width: int, heads: int, joint: bool) -> None:
        super().__init__()
        self.heads = heads
        self.joint = joint
        self.qkv = nn.Linear(width, 3 * width) if joint else nn.ModuleList(nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        if self.joint:
            q, k, v = self.qkv(x).chunk(3, -1)
        else:
            q, k, v = (each(x) for each in self.qkv)  # type: ignore[union-attr]
        q, k, v = (each.reshape(batch, tokens, self.heads, -1).transpose(1, 2) for each in (q, k, v))
        scores = q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, tokens, width)
        return self.out(mixed)


class Layer(nn.Module):
    """A transformer's layer: norms before the blocks, or after the sums."""

    def __init__(
        self, width: int, heads: int, *, before: bool, joint: bool, attention: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.before = before
        self.attention = attention or Attention(width, heads, joint)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        for norm, block in zip(self.norms, (self.attention, self.mlp), strict=True):
            x = x + block(norm(x)) if self.before else norm(x + block(x))
        return x


class Bert(nn.Module):
    """Embeddings of words and places, layers with norms after the sums, a pooler."""

    def __init__(self, layers: int, width: int, heads: int, words: int, places: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Parameter(torch.randn(1, places, width))
        self.norm = nn.LayerNorm(width)
        self.layers = nn.Sequential(*(Layer(width, heads, before=False, joint=False) for _ in range(layers)))
        self.pooler = nn.Linear(width, width)

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        x = self.layers(self.norm(self.words(ids) + self.places))
        return x, torch.tanh(self.pooler(x[:, 0]))


def bert(layers: int = 4, width: int = 192, heads: int = 3, tokens: int = 128) -> Made:
    """Devlin et al., 2018."""
    return Bert(layers, width, heads, 1000, tokens), (torch.randint(0, 1000, (1, tokens)),)


class Vit(nn.Module):
    """Patches, a class token, layers with norms before the blocks."""

    def __init__(self, layers: int, width: int, heads: int, side: int, patch: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, (side // patch) ** 2 + 1, width))
        self.layers = nn.Sequential(*(Layer(width, heads, before=True, joint=True) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 100)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.norm(self.layers(x))[:, 0])  # type: ignore[no-any-return]


def vit(layers: int = 4, width: int = 192, heads: int = 3, side: int = 224, patch: int = 16) -> Made:
    """Dosovitskiy et al., 2020."""
    return Vit(layers, width, heads, side, patch), (torch.randn(1, 3, side, side),)


class Windowed(nn.Module):
    """Attention within windows, of an image that is shifted by half a window or not."""

    def __init__(self, width: int, heads: int, window: int, shift: int) -> None:
        super().__init__()
        self.inner = Attention(width, heads, joint=True)
        self.window, self.shift = window, shift

    def forward(self, x: Tensor) -> Tensor:
        batch, tall, wide, width = x.shape
        size = self.window
        if self.shift:
            x = torch.roll(x, (-self.shift, -self.shift), (1, 2))
        x = x.reshape(batch, tall // size, size, wide // size, size, width).permute(0, 1, 3, 2, 4, 5)
        x = self.inner(x.reshape(-1, size * size, width))
        x = x.reshape(batch, tall // size, wide // size, size, size, width).permute(0, 1, 3, 2, 4, 5)
        x = x.reshape(batch, tall, wide, width)
        return torch.roll(x, (self.shift, self.shift), (1, 2)) if self.shift else x


class Merge(nn.Module):
    """Half the sides, twice the channels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4 * width)
        self.out = nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        parts = [x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]]
        return self.out(self.norm(torch.cat(parts, -1)))  # type: ignore[no-any-return]


class Swin(nn.Module):
    """Stages of windowed layers, shifted in turn."""

    def __init__(self, width: int, depths: tuple[int, ...], window: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        blocks: list[nn.Module] = []
        for stage, depth in enumerate(depths):
            if stage:
                blocks.append(Merge(width))
                width *= 2
            for number in range(depth):
                attention = Windowed(width, 2 << stage, window, number % 2 * (window // 2))
                blocks.append(Layer(width, 0, before=True, joint=True, attention=attention))
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(self.patches(x).permute(0, 2, 3, 1))
        return self.norm(x).mean((1, 2))  # type: ignore[no-any-return]


def swin(width: int = 32, depths: tuple[int, ...] = (2, 2, 2), window: int = 7, side: int = 224) -> Made:
    """Liu et al., 2021; without biases of places and masks."""
    return Swin(width, depths, window), (torch.randn(1, 3, side, side),)


class Residual(nn.Module):
    """x plus its blocks; a projection where the shape changes."""

    def __init__(self, body: nn.Module, project: nn.Module | None = None) -> None:
        super().__init__()
        self.body, self.project = body, project

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.body(x) + (x if self.project is None else self.project(x)))


def _image(*layers: nn.Module, side: int = 64) -> Made:
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten()), (torch.randn(1, 3, side, side),)


def mlp() -> Made:
    """Four layers."""
    sizes = (64, 256, 256, 128, 10)
    parts = [part for one, two in pairwise(sizes) for part in (nn.Linear(one, two), nn.ReLU())]
    return nn.Sequential(*parts), (torch.randn(8, 64),)


def alexnet() -> Made:
    """Krizhevsky et al., 2012."""
    return _image(
        *(nn.Conv2d(3, 16, 11, 4, 2), nn.ReLU(), nn.MaxPool2d(3, 2), nn.Conv2d(16, 48, 5, padding=2), nn.ReLU()),
        *(nn.MaxPool2d(3, 2), nn.Conv2d(48, 96, 3, padding=1), nn.ReLU(), nn.Conv2d(96, 64, 3, padding=1), nn.ReLU()),
        side=128,
    )


def vgg() -> Made:
    """Simonyan, Zisserman, 2014."""
    layers: list[nn.Module] = []
    before = 3
    for width, count in ((16, 2), (32, 2), (64, 3)):
        for _ in range(count):
            layers += [nn.Conv2d(before, width, 3, padding=1), nn.ReLU()]
            before = width
        layers.append(nn.MaxPool2d(2))
    return _image(*layers)


def resnet() -> Made:
    """He et al., 2015: basic blocks."""
    layers: list[nn.Module] = [Conv(3, 16, 7, 2, 3), nn.MaxPool2d(3, 2, 1)]
    before = 16
    for width in (16, 32, 64):
        for number in range(2):
            stride = 2 if number == 0 and width > 16 else 1
            body = nn.Sequential(
                Conv(before, width, 3, stride, 1), nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width)
            )
            layers.append(Residual(body, None if before == width else nn.Conv2d(before, width, 1, stride)))
            before = width
    return _image(*layers, side=128)


def mobilenet() -> Made:
    """Howard et al., 2017: depthwise and pointwise convolutions."""
    layers: list[nn.Module] = [Conv(3, 8, 3, 2, 1)]
    before = 8
    for width, stride in ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2)):
        layers += [
            nn.Conv2d(before, before, 3, stride, 1, groups=before, bias=False),
            *(nn.BatchNorm2d(before), nn.ReLU(), Conv(before, width, 1)),
        ]
        before = width
    return _image(*layers, side=96)


def autoencoder() -> Made:
    """Convolutions down and up again."""
    down = [part for one, two in ((3, 8), (8, 16), (16, 32)) for part in (nn.Conv2d(one, two, 3, 2, 1), nn.ReLU())]
    up = [
        part for one, two in ((32, 16), (16, 8), (8, 3)) for part in (nn.ConvTranspose2d(one, two, 2, 2), nn.ReLU())
    ]
    return nn.Sequential(*down, *up), (torch.randn(1, 3, 64, 64),)


def keyword() -> Made:
    """A network of depthwise convolutions for keywords: Zhang et al., Hello Edge, 2017."""
    layers: list[nn.Module] = [nn.Conv2d(1, 16, (10, 4), 2, (5, 1)), nn.ReLU()]
    for _ in range(4):
        layers += [nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.ReLU(), nn.Conv2d(16, 16, 1), nn.ReLU()]
    net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 12))
    return net, (torch.randn(1, 1, 49, 10),)


MODELS: dict[str, Callable[[], Made]] = {
    "inception": inception,
    "wired-1": lambda: wired(1),
    "wired-2": lambda: wired(2),
    "wired-3": lambda: wired(3),
    "bert-4": bert,
    "vit": vit,
    "swin": swin,
    "mlp": mlp,
    "alexnet": alexnet,
    "vgg": vgg,
    "resnet": resnet,
    "mobilenet": mobilenet,
    "autoencoder": autoencoder,
    "keyword": keyword,
}
PLAIN = ("mlp", "alexnet", "vgg", "resnet", "mobilenet", "autoencoder", "keyword")
"""Networks whose greedy placement is already the smallest."""
