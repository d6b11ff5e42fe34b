"""Layers of torch.nn, alone or in a few lines: what exporters make of recurrence, attention, indexing and resampling."""
import torch
import torch.nn.functional as F
from torch import nn

from entry import Call, add, floats, image


def layer(name, build, inputs, loss="mse", **options):
    add(name, "torch", build, inputs, loss=loss, **options)


class Head(nn.Module):
    """Layers in a row, then a linear classifier on the mean over all positions."""

    def __init__(self, *layers, width):
        super().__init__()
        self.body, self.head = nn.Sequential(*layers), nn.Linear(width, 5)

    def forward(self, x):
        y = self.body(x)
        return self.head(y.flatten(2).mean(2))


class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.embed, self.rnn = nn.Embedding(11, 6), kind(6, 7, batch_first=True, **options)
        self.head = nn.Linear(14 if options.get("bidirectional") else 7, 11)

    def forward(self, ids):
        return self.head(self.rnn(self.embed(ids))[0])


def tokens(batch=2, length=5, high=11):
    return lambda: {"ids": torch.randint(0, high, (batch, length))}


for kind in (nn.LSTM, nn.GRU, nn.RNN):
    for label, options in {"": {}, "_bidirectional_2": dict(bidirectional=True, num_layers=2)}.items():
        layer("nn_" + kind.__name__.lower() + label, lambda kind=kind, options=options: Recurrent(kind, **options),
              tokens(), "cross_entropy", classes=11, fold=kind is not nn.RNN)
layer("nn_lstm_projection", lambda: Call(nn.LSTM(6, 8, proj_size=3, batch_first=True), lambda m, x: m(x)[0]), floats(2, 5, 6))
layer("nn_lstm_states", lambda: Call(nn.LSTM(6, 8, batch_first=True), lambda m, x, h, c: (lambda r: (r[0], *r[1]))(m(x, (h, c)))),
      lambda: {"x": torch.randn(2, 5, 6), "h": torch.randn(1, 2, 8), "c": torch.randn(1, 2, 8)},
      {"y": "mse", "y1": "mse*0.5", "y2": "sum*0.25"})


class Cells(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.gru, self.rnn = nn.LSTMCell(4, 6), nn.GRUCell(6, 6), nn.RNNCell(6, 5)

    def forward(self, x):
        h, c, g, r = (x.new_zeros(x.shape[0], n) for n in (6, 6, 6, 5))
        for step in x.unbind(1):
            h, c = self.lstm(step, (h, c))
            g = self.gru(h, g)
            r = self.rnn(g, r)
        return r


layer("nn_cells", Cells, floats(2, 4, 4))
layer("nn_transformer", lambda: nn.Transformer(16, 2, 1, 1, 32, dropout=0.0, batch_first=True),
      lambda: {"x": torch.randn(2, 5, 16), "memory": torch.randn(2, 4, 16)})
for activation in ("relu", "gelu"):
    layer("nn_transformer_encoder_" + activation, lambda activation=activation: nn.TransformerEncoder(nn.TransformerEncoderLayer(
        16, 2, 32, dropout=0.0, batch_first=True, activation=activation, norm_first=activation == "gelu"), 2,
        enable_nested_tensor=False), floats(2, 5, 16))
layer("nn_transformer_decoder", lambda: Call(nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 2, 32, dropout=0.0, batch_first=True), 2),
      lambda m, x, memory: m(x, memory, tgt_mask=nn.Transformer.generate_square_subsequent_mask(5))),
      lambda: {"x": torch.randn(2, 5, 16), "memory": torch.randn(2, 4, 16)})
layer("nn_attention_masked", lambda: Call(nn.MultiheadAttention(16, 4, batch_first=True, add_bias_kv=True, add_zero_attn=True),
      lambda m, x, keep: m(x, x, x, key_padding_mask=keep, need_weights=True)[0]),
      lambda: {"x": torch.randn(2, 5, 16), "keep": torch.tensor([[0, 0, 0, 0, 1], [0, 0, 0, 1, 1]]).bool()})
layer("nn_attention_cross", lambda: Call(nn.MultiheadAttention(16, 4, kdim=6, vdim=8, batch_first=True),
      lambda m, q, k, v: m(q, k, v)[0]),
      lambda: {"q": torch.randn(2, 3, 16), "k": torch.randn(2, 5, 6), "v": torch.randn(2, 5, 8)})
layer("nn_scaled_dot_product", lambda: Call(nn.Linear(8, 24), lambda m, x: F.scaled_dot_product_attention(
    *m(x).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4), is_causal=True)), floats(2, 5, 8))
layer("nn_conv_transpose", lambda: nn.Sequential(
    nn.ConvTranspose2d(3, 8, 3, 2, 1, output_padding=1), nn.ELU(), nn.ConvTranspose2d(8, 6, 3, padding=2, dilation=2, groups=2),
    nn.Softplus(), nn.Conv2d(6, 2, 1)), image(7))
layer("nn_conv_transpose_1d_3d", lambda: nn.Sequential(
    nn.ConvTranspose1d(3, 4, 4, 2, 1), nn.Unflatten(1, (1, 4)), nn.Unflatten(3, (4, 2)), nn.ConvTranspose3d(1, 2, 2, (1, 2, 1))),
    floats(2, 3, 4))
layer("nn_conv_same_circular", lambda: nn.Sequential(
    nn.Conv2d(3, 4, 3, padding="same", dilation=2), nn.SiLU(), nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular"), nn.Mish(),
    nn.Conv2d(4, 4, 3, padding=1, padding_mode="reflect"), nn.Hardswish(), nn.Conv2d(4, 2, 3, padding=1, padding_mode="replicate")),
    image(8))
layer("nn_weight_norm", lambda: nn.Sequential(
    nn.utils.parametrizations.weight_norm(nn.Conv1d(3, 6, 3)), nn.Tanh(), nn.utils.parametrizations.weight_norm(nn.Conv1d(6, 2, 3))),
    floats(2, 3, 9), fold=False)
layer("nn_spectral_norm", lambda: nn.Sequential(
    nn.utils.parametrizations.spectral_norm(nn.Linear(6, 8)), nn.Tanh(), nn.Linear(8, 2)), floats(3, 6), modes=("eval",))
layer("nn_bilinear", lambda: nn.Bilinear(4, 5, 3), lambda: {"a": torch.randn(3, 4), "b": torch.randn(3, 5)})
for mode in ("sum", "mean", "max"):
    layer("nn_embedding_bag_" + mode, lambda mode=mode: nn.Sequential(nn.EmbeddingBag(11, 6, mode=mode), nn.Linear(6, 5)),
          tokens(3, 4), "cross_entropy")
for mode, padding, corners in (("bilinear", "zeros", False), ("bicubic", "border", True), ("nearest", "reflection", False)):
    layer("nn_grid_sample_" + mode, lambda mode=mode, padding=padding, corners=corners: Call(
        nn.Conv2d(2, 3, 3, padding=1), lambda m, x, grid: F.grid_sample(m(x), grid.tanh() * 1.2, mode, padding, corners)),
        lambda: {"x": torch.randn(2, 2, 6, 7), "grid": torch.randn(2, 4, 5, 2)})
layer("nn_spatial_transformer", lambda: Call(nn.Sequential(nn.Flatten(), nn.Linear(48, 6), nn.Tanh()), lambda m, x: F.grid_sample(
    x, F.affine_grid(m(x).view(2, 2, 3), [2, 3, 4, 4], align_corners=False), align_corners=False)), floats(2, 3, 4, 4))
for mode in ("nearest", "bilinear", "bicubic"):
    options = {} if mode == "nearest" else dict(align_corners=mode == "bicubic")
    layer("nn_upsample_" + mode, lambda mode=mode, options=options: nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.Upsample(scale_factor=2, mode=mode, **options), nn.Conv2d(4, 2, 3)), image(6))
layer("nn_interpolate_antialias", lambda: Call(nn.Conv2d(3, 4, 3), lambda m, x: F.interpolate(
    m(x), (4, 5), mode="bilinear", antialias=True)), image(12))
layer("nn_pixel_shuffle", lambda: nn.Sequential(nn.PixelUnshuffle(2), nn.Conv2d(12, 8, 3, padding=1), nn.PReLU(8), nn.PixelShuffle(2),
                                                nn.ChannelShuffle(2), nn.Conv2d(2, 1, 3)), image(8))
layer("nn_fold", lambda: Call(nn.Linear(12, 12), lambda m, x: F.fold(m(F.unfold(x, 2, stride=2).transpose(1, 2)).transpose(1, 2), (8, 8), 2, stride=2)),
      image(8))
layer("nn_norms", lambda: Head(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.CELU(), nn.InstanceNorm2d(8, affine=True), nn.SELU(),
                               nn.LocalResponseNorm(3), nn.BatchNorm2d(8), nn.LeakyReLU(0.1), width=8), image(8), "cross_entropy")
layer("nn_norms_1d", lambda: nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.LayerNorm(8), nn.RMSNorm(8), nn.Hardsigmoid(),
                                           nn.Linear(8, 3)), floats(4, 6))
layer("nn_pools", lambda: Head(nn.Conv2d(3, 4, 3), nn.MaxPool2d(3, 2, 1, ceil_mode=True), nn.Conv2d(4, 6, 3), nn.AvgPool2d(3, 2, 1, ceil_mode=True,
               count_include_pad=False), nn.LPPool2d(2, 2), nn.AdaptiveAvgPool2d((2, 1)), width=6), image(20), "cross_entropy")
layer("nn_max_unpool", lambda: Call(nn.Conv2d(3, 4, 3, padding=1), lambda m, x: F.max_unpool2d(*F.max_pool2d(
    m(x), 2, return_indices=True), 2)), image(8))
layer("nn_activations", lambda: nn.Sequential(
    nn.Linear(6, 8), nn.GLU(), nn.Linear(4, 8), nn.Softsign(), nn.LogSigmoid(), nn.Tanhshrink(), nn.Softshrink(0.01), nn.Hardshrink(0.001),
    nn.Linear(8, 8), nn.GELU("tanh"), nn.Hardtanh(-0.5, 2.0), nn.Linear(8, 5), nn.LogSoftmax(-1)), floats(4, 6), "nll")
layer("nn_einsum", lambda: Call(nn.Linear(6, 8), lambda m, x: torch.einsum("bik,bjk,bjd->bid", m(x), m(x), x)), floats(2, 4, 6))
layer("nn_linear_algebra", lambda: Call(nn.Linear(4, 4), lambda m, x: torch.cat([
    torch.linalg.det(m(x) + 3 * torch.eye(4)).unsqueeze(1), m(x).triu(1).norm(dim=(1, 2)).unsqueeze(1),
    m(x).logsumexp((1, 2)).unsqueeze(1), m(x).flatten(1).cumsum(1)], 1)), floats(2, 4, 4))
layer("nn_sorting", lambda: Call(nn.Linear(6, 9), lambda m, x: torch.cat([
    m(x).sort(-1)[0][:, ::2], m(x).topk(3)[0], m(x).max(-1, keepdim=True)[0], m(x).median(-1, keepdim=True)[0]], 1)), floats(3, 6))
layer("nn_indexing", lambda: Call(nn.Linear(6, 8), lambda m, x, i: torch.cat([
    m(x)[i], m(x).index_select(0, i), torch.zeros_like(m(x)).index_add(0, torch.tensor([1, 3, 0, 2]), m(x)), m(x).gather(1, i[:, None].expand(-1, 8)),
    torch.zeros_like(m(x)).scatter_add(0, i[:, None].expand(-1, 8), m(x)), m(x).roll(2, 1), m(x).flip(0),
    m(x).masked_fill(i[:, None] == 0, 2.0)], 1)), lambda: {"x": torch.randn(4, 6), "i": torch.tensor([2, 0, 1, 1])})
layer("nn_cosine", lambda: Call(nn.Linear(6, 8), lambda m, a, b: torch.cat([F.cosine_similarity(m(a), m(b))[:, None], F.pairwise_distance(
    m(a), m(b))[:, None], torch.cdist(m(a), m(b)), F.normalize(m(a))], 1)), lambda: {"a": torch.randn(3, 6), "b": torch.randn(3, 6)})
layer("nn_fft", lambda: Call(nn.Linear(8, 8), lambda m, x: torch.view_as_real(torch.fft.rfft(m(x))).flatten(1)), floats(2, 8))
layer("nn_stft", lambda: Call(nn.Conv1d(1, 1, 3, padding=1), lambda m, x: torch.stft(m(x[:, None])[:, 0], 8, 4, window=torch.hann_window(8),
      return_complex=False)), floats(2, 32))
