"""The seven benchmark models and a sample of others: build(name) gives a torch module, an input and integer targets."""
import torch
import torch.nn.functional as F
from torch import nn

NAMES = ["mlp", "lenet", "gpt", "lstm", "resnet18", "mobilenetv2", "vit"]
VISION = ["alexnet", "vgg11_bn", "resnet50", "resnext50_32x4d", "densenet121", "googlenet", "inception_v3", "squeezenet1_1",
          "shufflenet_v2_x1_0", "mnasnet0_5", "mobilenet_v3_small", "efficientnet_b0", "regnet_y_400mf", "convnext_tiny",
          "swin_t"]
SAMPLE = VISION + ["encoder", "gru", "unet", "tcn", "mixer"]


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


class Encoder(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, activation="gelu", batch_first=True)
        self.token, self.layers = nn.Embedding(256, width), nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(width, 256)

    def forward(self, x):
        return self.head(self.layers(self.token(x)))


class Gru(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.GRU(40, 128, num_layers=2, batch_first=True), nn.Linear(128, 30)

    def forward(self, x):
        return self.head(self.rnn(x)[0])


def conv_block(channels_in, channels):
    return nn.Sequential(nn.Conv2d(channels_in, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(),
                         nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU())


class Unet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.a, self.b, self.c = conv_block(3, width), conv_block(width, 2 * width), conv_block(2 * width, 4 * width)
        self.up1, self.up2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, 2), nn.ConvTranspose2d(2 * width, width, 2, 2)
        self.d, self.e, self.head = conv_block(4 * width, 2 * width), conv_block(2 * width, width), nn.Conv2d(width, 8, 1)

    def forward(self, x):
        a = self.a(x)
        b = self.b(F.max_pool2d(a, 2))
        c = self.up1(self.c(F.max_pool2d(b, 2)))
        d = self.up2(self.d(torch.cat([b, c], 1)))
        return self.head(self.e(torch.cat([a, d], 1))).mean((2, 3))


class Tcn(nn.Module):
    """Dilated convolutions over time."""

    def __init__(self, width=64):
        super().__init__()
        layers = [nn.Conv1d(1, width, 3, padding=1), nn.ReLU()]
        for i in range(5):
            layers += [nn.Conv1d(width, width, 3, padding=2 ** i, dilation=2 ** i), nn.BatchNorm1d(width), nn.ReLU()]
        self.layers, self.head = nn.Sequential(*layers), nn.Linear(width, 10)

    def forward(self, x):
        return self.head(self.layers(x).mean(2))


class Mixer(nn.Module):
    class Layer(nn.Module):
        def __init__(self, tokens, width):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.tokens = nn.Sequential(nn.Linear(tokens, 2 * tokens), nn.GELU(), nn.Linear(2 * tokens, tokens))
            self.channels = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x):
            x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
            return x + self.channels(self.norm2(x))

    def __init__(self, width=128):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 8, 8)
        self.layers = nn.Sequential(*[Mixer.Layer(64, width) for _ in range(4)])
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        return self.head(self.layers(self.stem(x).flatten(2).transpose(1, 2)).mean(1))


def build_sample(name):
    classes = torch.randint(0, 10, (8,))
    if name == "encoder":
        return Encoder(), torch.randint(0, 256, (8, 64)), torch.randint(0, 256, (8, 64))
    if name == "gru":
        return Gru(), torch.randn(16, 50, 40), torch.randint(0, 30, (16, 50))
    if name == "unet":
        return Unet(), torch.randn(8, 3, 64, 64), torch.randint(0, 8, (8,))
    if name == "tcn":
        return Tcn(), torch.randn(8, 1, 512), classes
    if name == "mixer":
        return Mixer(), torch.randn(8, 3, 64, 64), classes
    import torchvision.models as vision
    options = {"aux_logits": False, "init_weights": False} if name in ("googlenet", "inception_v3") else {}
    size = {"inception_v3": 139, "alexnet": 224, "vgg11_bn": 224}.get(name, 96)
    return getattr(vision, name)(num_classes=10, **options), torch.randn(8, 3, size, size), classes


def build(name):
    torch.manual_seed(0)
    if name in SAMPLE:
        return build_sample(name)
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
    raise SystemExit(f"unknown model {name}; known: {' '.join(NAMES + SAMPLE)}")
