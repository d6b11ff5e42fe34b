"""Small modules of many kinds. Their numbers are exact in float32: see make.py."""
import torch
import torch.nn.functional as F
from torch import nn


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(6, 24)
        self.fc2 = nn.Linear(24, 16)
        self.slope = nn.PReLU(16, 0.25)
        self.fc3 = nn.Linear(16, 4)

    def forward(self, x):
        return self.fc3(self.slope(self.fc2(torch.tanh(self.fc1(x)))))


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 8, 5)
        self.fc1 = nn.Linear(32, 20)
        self.fc2 = nn.Linear(20, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.avg_pool2d(torch.sigmoid(self.conv2(x)), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


def batch_norm(channels):
    return nn.BatchNorm2d(channels, momentum=0.25)


class ResidualBlock(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = batch_norm(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = batch_norm(cout)
        self.down = nn.Identity()
        if stride != 1 or cin != cout:
            self.down = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), batch_norm(cout))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.down(x))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 3, 1, 1, bias=False)
        self.bn = batch_norm(6)
        self.layer1 = ResidualBlock(6, 6, 1)
        self.layer2 = ResidualBlock(6, 10, 2)
        self.fc = nn.Linear(10, 5)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn(self.stem(x))), 3, 2, 1)
        return self.fc(self.layer2(self.layer1(x)).mean((2, 3)))


class InvertedResidual(nn.Module):
    def __init__(self, cin, cout, stride, expand):
        super().__init__()
        hidden = cin * expand
        self.residual = stride == 1 and cin == cout
        self.layers = nn.Sequential(
            nn.Conv2d(cin, hidden, 1, bias=False), batch_norm(hidden), nn.ReLU6(),
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False), batch_norm(hidden),
            nn.ReLU6(), nn.Conv2d(hidden, cout, 1, bias=False), batch_norm(cout))

    def forward(self, x):
        return x + self.layers(x) if self.residual else self.layers(x)


class MobileNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1, bias=False), batch_norm(8), nn.ReLU6(),
            InvertedResidual(8, 8, 1, 2), InvertedResidual(8, 12, 2, 3))
        self.classifier = nn.Linear(12, 6)

    def forward(self, x):
        # Scaled so that both bounds of ReLU6 are crossed.
        return self.classifier(F.adaptive_avg_pool2d(self.features(4.0 * x), 1).flatten(1))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(2, 8, 3, padding=1)
        self.norm1 = nn.GroupNorm(4, 8)
        self.middle = nn.Conv2d(8, 8, 3, stride=2, padding=1)
        self.norm2 = nn.GroupNorm(2, 8)
        self.bottom = nn.Conv2d(8, 8, 3, stride=2, padding=1)
        self.up1 = nn.ConvTranspose2d(8, 8, 3, stride=2, padding=1, output_padding=1)
        self.up2 = nn.Conv2d(16, 6, 1)
        self.head = nn.Conv2d(14, 3, 3, padding=1)

    def forward(self, x):
        a = F.relu(self.norm1(self.down(x)))
        b = F.silu(self.norm2(self.middle(a)))
        c = F.elu(self.bottom(b))
        d = self.up2(torch.cat([b, self.up1(c)], 1))
        e = F.interpolate(d, scale_factor=2.0, mode="bilinear", align_corners=False)
        f = F.interpolate(F.interpolate(e, scale_factor=2.0, mode="nearest"), scale_factor=0.5,
                          mode="nearest")
        return self.head(torch.cat([a, f], 1))


class Conv1d(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv1d(2, 8, 3, dilation=2, padding=2)
        self.conv2 = nn.Conv1d(8, 12, 4, stride=2, padding=1, groups=2)
        self.norm = nn.InstanceNorm1d(12, affine=True)
        self.up = nn.ConvTranspose1d(12, 3, 4, stride=2, padding=1)

    def forward(self, x):
        x = F.leaky_relu(self.conv1(F.pad(x, (2, 2), mode="reflect")), 0.125)
        return self.up(F.softplus(self.norm(self.conv2(x))))[:, :, 2:-2]


class Conv3d(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv3d(1, 4, 3, padding=1)
        self.conv2 = nn.Conv3d(4, 6, (1, 3, 2), stride=(1, 2, 1))
        self.fc = nn.Linear(6, 1)

    def forward(self, x):
        x = F.max_pool3d(F.relu(self.conv1(x)), (1, 2, 2))
        return self.fc(F.relu(self.conv2(x)).mean((2, 3, 4))).squeeze(1)


class SelfAttention(nn.Module):
    """Heads of width 4, so that the scale is 1/2."""

    def __init__(self, width, causal=False):
        super().__init__()
        self.heads, self.causal = width // 4, causal
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, bias=None):
        n, t, c = x.shape
        q, k, v = self.qkv(x).view(n, t, 3, self.heads, 4).permute(2, 0, 3, 1, 4).unbind(0)
        scores = q @ k.transpose(-2, -1) * 0.5
        if self.causal:
            hidden = torch.ones(t, t, dtype=torch.bool).triu(1)
            scores = scores.masked_fill(hidden, float("-inf"))
        if bias is not None:
            scores = scores + bias
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(n, t, c))


class Block(nn.Module):
    """Pre-norm (GPT, ViT) or post-norm (BERT) transformer block."""

    def __init__(self, width, attention, post_norm=False):
        super().__init__()
        self.post_norm = post_norm
        self.ln1 = nn.LayerNorm(width)
        self.attn = attention
        self.ln2 = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)

    def mlp(self, x):
        return self.fc2(F.gelu(self.fc1(x)))

    def forward(self, x, *args):
        if self.post_norm:
            x = self.ln1(x + self.attn(x, *args))
            return self.ln2(x + self.mlp(x))
        x = x + self.attn(self.ln1(x), *args)
        return x + self.mlp(self.ln2(x))


class Gpt(nn.Module):
    """Tied: the output matrix is the token embedding."""

    def __init__(self, tied):
        super().__init__()
        self.wte = nn.Embedding(14, 12)
        self.wpe = nn.Embedding(8, 12)
        self.blocks = nn.ModuleList([Block(12, SelfAttention(12, causal=True)) for _ in range(2)])
        self.ln_f = nn.LayerNorm(12)
        self.head = nn.Linear(12, 14, bias=False)
        if tied:
            self.head.weight = self.wte.weight

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln_f(x))


class SdpaAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = (f(x).view(n, t, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, scale=0.25)
        return self.out(y.transpose(1, 2).reshape(n, t, c))


class Vit(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 12, 4, 4)
        self.cls = nn.Parameter(torch.zeros(1, 1, 12))
        self.position = nn.Parameter(torch.zeros(1, 5, 12))
        self.blocks = nn.Sequential(*[Block(12, SdpaAttention(12, 2)) for _ in range(2)])
        self.norm = nn.LayerNorm(12)
        self.head = nn.Linear(12, 5)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], 1) + self.position
        return self.head(self.norm(self.blocks(x))[:, 0])


class Bert(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(15, 12)
        self.positions = nn.Embedding(7, 12)
        self.kinds = nn.Embedding(2, 12)
        self.ln = nn.LayerNorm(12, eps=2.0**-40)
        self.layers = nn.ModuleList([Block(12, SelfAttention(12), post_norm=True) for _ in range(2)])
        self.transform = nn.Linear(12, 12)
        self.decoder = nn.Linear(12, 15)

    def forward(self, ids, mask, kinds):
        bias = (1.0 - mask[:, None, None, :].to(self.ln.weight.dtype)) * -10000.0
        x = self.words(ids) + self.positions(torch.arange(ids.shape[1])) + self.kinds(kinds)
        x = self.ln(x)
        for layer in self.layers:
            x = layer(x, bias)
        return self.decoder(torch.tanh(self.transform(x)))


class CharModel(nn.Module):
    def __init__(self, kind, hidden, **options):
        super().__init__()
        self.embedding = nn.Embedding(11, 6)
        self.rnn = kind(6, hidden, batch_first=True, **options)
        self.head = nn.Linear(hidden * (2 if options.get("bidirectional") else 1), 11)

    def forward(self, ids):
        return self.head(self.rnn(self.embedding(ids))[0])


class TwoOutputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(5, 16)
        self.classes = nn.Linear(16, 3)
        self.value = nn.Linear(16, 2)

    def forward(self, x):
        x = F.hardswish(self.body(x) * 2.0)
        return self.classes(x), self.value(x).clamp(-0.75, 0.75)


class EinsumAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.wq, self.wk, self.wv = (nn.Parameter(torch.randn(8, 2, 4) / 4) for _ in range(3))
        self.wo = nn.Parameter(torch.randn(2, 4, 8) / 4)
        self.bilinear = nn.Parameter(torch.randn(3, 8, 8) / 8)

    def forward(self, x, y):
        q = torch.einsum("btc,chd->bhtd", x, self.wq)
        k = torch.einsum("bsc,chd->bhsd", y, self.wk)
        v = torch.einsum("bsc,chd->bhsd", y, self.wv)
        a = torch.einsum("bhtd,bhsd->bhts", q, k).mul(0.5).softmax(-1)
        z = torch.einsum("bhts,bhsd,hdc->btc", a, v, self.wo)
        return torch.einsum("bti,oij,btj->bo", z, self.bilinear, x)


class OldCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 6, 3, stride=2)
        self.fc = nn.Linear(54, 7)

    def forward(self, x):
        x = F.pad(F.relu(self.conv(x)), (0, 1, 1, 0))
        x = F.max_pool2d(x, 2, stride=1)
        x = torch.cat([x[:, :2], x[:, 2:].abs().add(1.0).log()], 1)
        return F.log_softmax(self.fc(x.reshape(x.size(0), -1)), dim=1)
