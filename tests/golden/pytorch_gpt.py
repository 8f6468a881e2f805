#!/usr/bin/env python3
"""The engine's GPT and BERT once more, in PyTorch, so that the two can be compared.

    pytorch_gpt.py FILE                         compare what `frugal measure --save-tensors FILE` wrote
    pytorch_gpt.py --make-golden FILE [--bert]  write a small model with its results, all from PyTorch

Nothing here is derived from the engine: attention, layer norm, GELU and cross-entropy are PyTorch's
own, and the gradients come from its autograd. Needs the Python packages torch and safetensors.

The file is a safetensors file. Symbols: s sequence, b microbatch, h hidden, v vocabulary.
  tokens, labels             int32   [s, b]; a label of -100 is not counted
  logits                     float32 [s*b, v], rows in the order of tokens
  loss                       float32 [1], the mean cross-entropy over the labels that count
  weight/NAME, gradient/NAME float32, NAME and shape as in parameter_shapes()
  metadata                   the fields of Config, as strings
Exit status: 0 all agree, 1 some tensor does not, 2 the file cannot be used.
"""

import argparse
import dataclasses
import sys

import torch
import torch.nn.functional as F
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

EPSILON = 1e-5  # of layer norm


@dataclasses.dataclass(frozen=True)
class Config:
    hidden: int
    heads: int
    layers: int
    sequence: int
    micro_batch: int
    vocabulary: int
    causal: bool

    @staticmethod
    def from_metadata(metadata):
        values = {}
        for field in dataclasses.fields(Config):
            if field.name not in metadata:
                raise ValueError(f'metadata has no "{field.name}"')
            text = metadata[field.name]
            values[field.name] = text in ("true", "1") if field.type is bool else int(text)
        return Config(**values)

    def metadata(self):
        return {name: str(value).lower() for name, value in dataclasses.asdict(self).items()}


def parameter_shapes(config):
    """Every parameter by name. Weights of linear layers are [out, in]."""
    h = config.hidden
    shapes = {
        "embedding.token": (config.vocabulary, h),
        "embedding.position": (config.sequence, h),
        "final_norm.gamma": (h,),
        "final_norm.beta": (h,),
    }
    for i in range(config.layers):
        layer = {
            "attention_norm.gamma": (h,),
            "attention_norm.beta": (h,),
            "attention.qkv.weight": (3 * h, h),  # rows ordered (head, {q, k, v}, d)
            "attention.qkv.bias": (3 * h,),
            "attention.projection.weight": (h, h),
            "attention.projection.bias": (h,),
            "mlp_norm.gamma": (h,),
            "mlp_norm.beta": (h,),
            "mlp.up.weight": (4 * h, h),
            "mlp.up.bias": (4 * h,),
            "mlp.down.weight": (h, 4 * h),
            "mlp.down.bias": (h,),
        }
        shapes.update({f"layers.{i}.{name}": shape for name, shape in layer.items()})
    return shapes


def forward(config, weights, tokens):
    """Logits [s*b, v] of tokens [s, b]; activations are [s, b, h] throughout."""

    def norm(x, name):
        gamma, beta = weights[f"{name}.gamma"], weights[f"{name}.beta"]
        return F.layer_norm(x, (config.hidden,), gamma, beta, EPSILON)

    def linear(x, name):
        return F.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

    def attention(x, name):
        s, b, h = x.shape
        qkv = linear(x, f"{name}.qkv").view(s, b, config.heads, 3, h // config.heads)
        q, k, v = qkv.permute(3, 1, 2, 0, 4)  # each [b, heads, s, d]
        context = F.scaled_dot_product_attention(q, k, v, is_causal=config.causal)
        return linear(context.permute(2, 0, 1, 3).reshape(s, b, h), f"{name}.projection")

    def mlp(x, name):
        return linear(F.gelu(linear(x, f"{name}.up"), approximate="tanh"), f"{name}.down")

    x = F.embedding(tokens.long(), weights["embedding.token"])
    x = x + weights["embedding.position"].unsqueeze(1)
    for i in range(config.layers):
        x = x + attention(norm(x, f"layers.{i}.attention_norm"), f"layers.{i}.attention")
        x = x + mlp(norm(x, f"layers.{i}.mlp_norm"), f"layers.{i}.mlp")
    return F.linear(norm(x, "final_norm"), weights["embedding.token"]).flatten(0, 1)


def results(config, weights, tokens, labels, dtype):
    """Logits, loss and gradients, computed in dtype and returned as float32."""
    weights = {name: w.detach().to(dtype).requires_grad_() for name, w in weights.items()}
    logits = forward(config, weights, tokens)
    loss = F.cross_entropy(logits, labels.long().flatten())
    loss.backward()
    tensors = {"logits": logits.detach(), "loss": loss.detach().reshape(1)}
    tensors.update({f"gradient/{name}": w.grad for name, w in weights.items()})
    return {name: t.to(torch.float32).contiguous() for name, t in tensors.items()}


def make_golden(path, bert):
    """Computed in float64, so that the file is right to the last bits of its float32. A BERT sees
    both ways, and a quarter of its labels count."""
    config = Config(16, 4, 1, 16, 2, 64, False) if bert else Config(32, 4, 2, 16, 2, 64, True)
    torch.manual_seed(20220510)
    weights = {}
    for name, shape in parameter_shapes(config).items():
        # Large enough that no operation is close to linear and no bias or gain is without effect.
        deviation = 1.5 / config.hidden**0.5 if name.endswith("weight") else 0.3
        weights[name] = deviation * torch.randn(shape) + (1 if name.endswith("gamma") else 0)
    size = (config.sequence, config.micro_batch)
    tokens = torch.randint(config.vocabulary, size, dtype=torch.int32)
    labels = torch.randint(config.vocabulary, size, dtype=torch.int32)
    if bert:
        labels[torch.rand(size) >= 0.25] = -100
    tensors = {"tokens": tokens, "labels": labels}
    tensors.update({f"weight/{name}": w for name, w in weights.items()})
    tensors.update(results(config, weights, tokens, labels, torch.float64))
    made_by = {"made_by": f"PyTorch {torch.__version__}, float64 arithmetic"}
    save_file(tensors, path, metadata=config.metadata() | made_by)
    print(f"wrote {path} with {made_by['made_by']}")


def read(path):
    """Config and tensors of a file; ValueError where it is not what the docstring above says."""
    with safe_open(path, framework="pt") as file:
        config = Config.from_metadata(file.metadata() or {})
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    tokens = config.sequence * config.micro_batch
    parameters = parameter_shapes(config)
    shapes = {name: (config.sequence, config.micro_batch) for name in ("tokens", "labels")}
    shapes |= {"logits": (tokens, config.vocabulary), "loss": (1,)}
    shapes |= {f"{kind}/{n}": s for kind in ("weight", "gradient") for n, s in parameters.items()}
    if shapes.keys() != tensors.keys():
        raise ValueError(f"missing {sorted(shapes.keys() - tensors.keys())}, "
                         f"unknown {sorted(tensors.keys() - shapes.keys())}")
    for name, shape in shapes.items():
        if tuple(tensors[name].shape) != shape:
            raise ValueError(f"{name} is {list(tensors[name].shape)}, expected {list(shape)}")
    return config, tensors


def compare(path, tolerance, dtype):
    """Prints the error of every tensor; true when all are within the tolerance."""
    config, tensors = read(path)
    weights = {name: tensors[f"weight/{name}"] for name in parameter_shapes(config)}
    expected = results(config, weights, tensors["tokens"], tensors["labels"], dtype)
    print(f"{'tensor':<48} {'shape':>12} {'largest':>10} {'error':>10}")
    failed = []
    for name, want in expected.items():
        largest = want.abs().max().item()
        difference = (tensors[name].to(torch.float32) - want).abs().max().item()
        error = difference / largest if largest else difference
        if not error <= tolerance:  # written so that a NaN fails
            failed.append(name)
        shape = "x".join(map(str, want.shape))
        print(f"{name:<48} {shape:>12} {largest:10.3g} {error:10.2e}"
              + (" FAILED" if name in failed else ""))
    print(f"{len(expected) - len(failed)} of {len(expected)} tensors agree with PyTorch "
          f"{torch.__version__} within {tolerance:g} of their largest magnitude")
    return not failed


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("file", nargs="?", help="what to compare")
    what.add_argument("--make-golden", metavar="FILE", help="write the golden file of the tests")
    parser.add_argument("--bert", action="store_true", help="make a BERT and not a GPT")
    parser.add_argument("--tolerance", type=float, default=1e-4, help="default 1e-4")
    parser.add_argument("--float64", action="store_true", help="let PyTorch compute in float64")
    arguments = parser.parse_args()
    if arguments.make_golden:
        make_golden(arguments.make_golden, arguments.bert)
        return 0
    try:
        dtype = torch.float64 if arguments.float64 else torch.float32
        return 0 if compare(arguments.file, arguments.tolerance, dtype) else 1
    except (OSError, ValueError, SafetensorError) as error:
        print(f"{arguments.file}: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
