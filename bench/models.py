"""The seven benchmark models: build(name) gives a torch module, an input and integer targets."""
import torch
import torch.nn.functional as F
from torch import nn

NAMES = ["mlp", "lenet", "gpt", "lstm", "resnet18", "mobilenetv2", "vit"]


class Lenet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2))
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(32 * 7 * 7, 128), nn.ReLU(), nn.Linear(128, 10))

    def forward(self, x):
        return self.head(self.features(x))


class Block(nn.Module):
    """A pre-norm transformer block with causal attention."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        split = [t.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
                 for t in self.qkv(self.norm1(x)).split(width, dim=2)]
        mixed = F.scaled_dot_product_attention(*split, is_causal=True)
        x = x + self.proj(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, vocabulary=512, width=256, layers=4, heads=4, length=128):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.register_buffer("steps", torch.arange(length))

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.token(x) + self.position(self.steps))))


class Lstm(nn.Module):
    def __init__(self, vocabulary=128, width=128, hidden=256):
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.rnn = nn.LSTM(width, hidden, num_layers=2, batch_first=True)
        self.head = nn.Linear(hidden, vocabulary)

    def forward(self, x):
        return self.head(self.rnn(self.token(x))[0])


def build(name):
    torch.manual_seed(0)
    if name == "mlp":
        module = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))
        return module, torch.randn(64, 784), torch.randint(0, 10, (64,))
    if name == "lenet":
        return Lenet(), torch.randn(64, 1, 28, 28), torch.randint(0, 10, (64,))
    if name == "gpt":
        return Gpt(), torch.randint(0, 512, (8, 128)), torch.randint(0, 512, (8, 128))
    if name == "lstm":
        return Lstm(), torch.randint(0, 128, (32, 64)), torch.randint(0, 128, (32, 64))
    import torchvision.models as vision
    if name == "resnet18":
        return vision.resnet18(num_classes=10), torch.randn(8, 3, 224, 224), torch.randint(0, 10, (8,))
    if name == "mobilenetv2":
        return vision.mobilenet_v2(num_classes=10), torch.randn(8, 3, 224, 224), torch.randint(0, 10, (8,))
    if name == "vit":
        module = vision.VisionTransformer(image_size=96, patch_size=16, num_layers=6, num_heads=3, hidden_dim=192,
                                          mlp_dim=768, num_classes=10)
        return module, torch.randn(16, 3, 96, 96), torch.randint(0, 10, (16,))
    raise SystemExit(f"unknown model {name}; known: {' '.join(NAMES)}")
