"""Small modules whose state goes through trainrt, and how PyTorch's two exporters write them."""
import copy
import io
import logging
import pathlib
import sys
import warnings

import onnx
import torch
import torch.nn.functional as F
from torch import nn

HERE = pathlib.Path(__file__).parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parent / "models"))
from modules import CharModel, Conv1d, Gpt, MobileNet, ResNet, UNet, Vit  # noqa: E402

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        # The exporters write the root of the heads' scale, here 1/2.
        self.embedding = nn.Embedding(11, 32)
        layer = nn.TransformerEncoderLayer(32, 2, 12, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, 3)

    def forward(self, ids):
        return self.head(self.encoder(self.embedding(ids)))


class Conv3d(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv3d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm3d(4)
        self.slope = nn.PReLU(4, 0.25)
        self.up = nn.ConvTranspose3d(4, 2, 2, 2)
        self.last = nn.LayerNorm([2, 4])

    def forward(self, x):
        return self.last(self.up(self.slope(self.norm(self.conv(x))))[:, :, 0, :2, :4])


# Activations are ReLU and the like: a file would hold constants such as sqrt(2) in float32.

def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel
    return GPT2LMHeadModel(GPT2Config(
        vocab_size=17, n_positions=8, n_embd=8, n_layer=2, n_head=2, activation_function="relu",
        attn_implementation="eager", use_cache=False))


def bert():
    from transformers import BertConfig, BertModel
    return BertModel(BertConfig(
        vocab_size=17, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, hidden_act="relu",
        intermediate_size=12, max_position_embeddings=8, attn_implementation="eager"))


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=17, hidden_size=8, intermediate_size=12, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=16,
        attn_implementation="eager", use_cache=False))


def first_output(module):
    """A transformers model whose forward takes ids and mask and returns one tensor."""
    base = type(module)
    options = {} if base.__name__ == "BertModel" else {"use_cache": False}

    def forward(self, ids, mask):
        result = base.forward(self, input_ids=ids, attention_mask=mask, **options)
        return result[0] if options else result[0] + result[1][:, None]  # BERT: with its pooler
    module.__class__ = type(base.__name__, (base,), {"forward": forward})
    return module


def ids(high, *shape):
    return torch.randint(1, high, shape)


def floats(*shape):
    return torch.randn(shape)


def text(count, length):
    return [ids(count, 2, length), torch.tensor([[1] * length, [1] * (length - 2) + [0, 0]])]


# Name -> (module, inputs, free dims of the inputs in the dynamo export, whether that folds).
# A folded export can take away what a name stands for: a class token expanded to the batch, the
# positions of one length, a BatchNormalization.
CASES = {
    "gpt": (lambda: Gpt(True), lambda: [ids(14, 2, 8)], 0, True),
    "gpt2": (lambda: first_output(gpt2()), lambda: text(17, 6), 2, True),
    "bert": (lambda: first_output(bert()), lambda: text(17, 6), 2, True),
    "llama": (lambda: first_output(llama()), lambda: text(17, 6), 2, True),
    "vit": (Vit, lambda: [floats(2, 3, 8, 8)], 1, True),
    "encoder": (Encoder, lambda: [ids(11, 2, 6)], 0, True),
    "resnet": (ResNet, lambda: [floats(2, 3, 9, 9)], 0, False),
    "mobilenet": (MobileNet, lambda: [floats(2, 3, 10, 10)], 0, False),
    "unet": (UNet, lambda: [floats(2, 2, 8, 8)], 0, True),
    "conv1d": (Conv1d, lambda: [floats(2, 2, 12)], 0, True),
    "conv3d": (Conv3d, lambda: [floats(2, 1, 4, 4, 4)], 0, False),
    "lstm": (lambda: CharModel(nn.LSTM, 5, num_layers=2, bidirectional=True),
             lambda: [ids(11, 2, 6)], 0, True),
    "rnn": (lambda: CharModel(nn.RNN, 5, bidirectional=True, nonlinearity="relu"),
            lambda: [ids(11, 2, 6)], 0, False),
    "gru": (lambda: CharModel(nn.GRU, 5, num_layers=2), lambda: [ids(11, 2, 6)], 0, True),
}

# Exports of ResNet in which BatchNormalization is gone.
FOLDED = "resnet_folded"


def shake(module, seed, scale):
    """Adds noise to all floats of a module's state; variances stay positive."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        seen = set()
        for name, tensor in module.state_dict().items():
            if tensor.is_floating_point() and tensor.data_ptr() not in seen:
                seen.add(tensor.data_ptr())
                tensor.add_(scale * torch.randn(tensor.shape, generator=generator))
                if name.endswith("running_var"):
                    tensor.abs_().add_(0.5)
    return module


def build(name, seed=0):
    torch.manual_seed(sum(map(ord, name)) + seed)
    return shake(CASES[name][0](), seed, 0.125)


def inputs(name):
    torch.manual_seed(sum(map(ord, name)))
    return CASES[name][1]()


def script(module, args, fold, opset=17):
    """The TorchScript exporter: folded inference export, or as it was written."""
    file = io.BytesIO()
    mode = torch.onnx.TrainingMode.EVAL if fold else torch.onnx.TrainingMode.TRAINING
    torch.onnx.export(copy.deepcopy(module).train(not fold), tuple(args), file, dynamo=False,
                      opset_version=opset, training=mode, do_constant_folding=fold,
                      input_names=[f"x{i}" for i in range(len(args))], output_names=["y"],
                      dynamic_axes={f"x{i}": {0: "n"} for i in range(len(args))})
    return onnx.load_from_string(file.getvalue())


def dynamo(module, args, free, fold):
    dims = [torch.export.Dim("n", min=2, max=64), torch.export.Dim("t", min=2, max=7)][:free]
    shapes = tuple(dict(enumerate(dims)) for _ in args) if free else None
    program = torch.onnx.export(copy.deepcopy(module).eval(), tuple(args), dynamo=True,
                                optimize=fold, dynamic_shapes=shapes, verbose=False,
                                input_names=[f"x{i}" for i in range(len(args))],
                                output_names=["y"])
    return program.model_proto


def exports(name, module, args):
    """Exporter -> model."""
    if name == FOLDED:
        return {"script": script(module, args, True), "dynamo": dynamo(module, args, 0, True)}
    _, _, free, fold = CASES[name]
    # Of the TorchScript exporter: positions fold too.
    plain = name in ("gpt", "resnet", "mobilenet", "conv3d")
    opset = 20 if name in ("gpt", "vit") else 17  # with an operator for GELU
    return {"script": script(module, args, not plain, opset),
            "dynamo": dynamo(module, args, free, fold)}
