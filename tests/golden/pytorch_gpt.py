#!/usr/bin/env python3
"""The engine's GPT and BERT once more, in PyTorch, so that the two can be compared.

    pytorch_gpt.py FILE                         compare what `frugal measure --save-tensors FILE` wrote
    pytorch_gpt.py --make-golden FILE [--bert]  write a small model with its results, all from PyTorch

Nothing here is derived from the engine: attention, layer norm, GELU and cross-entropy are PyTorch's
own, and the gradients come from its autograd. Files and exit status: comparison.py.
"""

import dataclasses
import sys

import torch
import torch.nn.functional as F

import comparison

EPSILON = 1e-5  # of layer norm


@dataclasses.dataclass(frozen=True)
class Gpt:
    """h hidden, v vocabulary, s sequence, b microbatch. The fields are the file's metadata."""

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
        for field in dataclasses.fields(Gpt):
            if field.name not in metadata:
                raise ValueError(f'metadata has no "{field.name}"')
            text = metadata[field.name]
            values[field.name] = text in ("true", "1") if field.type is bool else int(text)
        return Gpt(**values)

    def metadata(self):
        return {name: str(value).lower() for name, value in dataclasses.asdict(self).items()}

    def parameter_shapes(self):
        """Every parameter by name. Weights of linear layers are [out, in]."""
        h = self.hidden
        shapes = {
            "embedding.token": (self.vocabulary, h),
            "embedding.position": (self.sequence, h),
            "final_norm.gamma": (h,),
            "final_norm.beta": (h,),
        }
        for i in range(self.layers):
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

    def forward(self, weights, tokens):
        """Logits [s*b, v] of tokens [s, b]; activations are [s, b, h] throughout."""

        def norm(x, name):
            gamma, beta = weights[f"{name}.gamma"], weights[f"{name}.beta"]
            return F.layer_norm(x, (self.hidden,), gamma, beta, EPSILON)

        def linear(x, name):
            return F.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

        def attention(x, name):
            s, b, h = x.shape
            qkv = linear(x, f"{name}.qkv").view(s, b, self.heads, 3, h // self.heads)
            q, k, v = qkv.permute(3, 1, 2, 0, 4)  # each [b, heads, s, d]
            context = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
            return linear(context.permute(2, 0, 1, 3).reshape(s, b, h), f"{name}.projection")

        def mlp(x, name):
            return linear(F.gelu(linear(x, f"{name}.up"), approximate="tanh"), f"{name}.down")

        x = F.embedding(tokens.long(), weights["embedding.token"])
        x = x + weights["embedding.position"].unsqueeze(1)
        for i in range(self.layers):
            x = x + attention(norm(x, f"layers.{i}.attention_norm"), f"layers.{i}.attention")
            x = x + mlp(norm(x, f"layers.{i}.mlp_norm"), f"layers.{i}.mlp")
        return F.linear(norm(x, "final_norm"), weights["embedding.token"]).flatten(0, 1)


def make_golden(path, bert):
    """A BERT sees both ways, and a quarter of its labels count."""
    model = Gpt(16, 4, 1, 16, 2, 64, False) if bert else Gpt(32, 4, 2, 16, 2, 64, True)
    torch.manual_seed(20220510)
    weights = {}
    for name, shape in model.parameter_shapes().items():
        # Large enough that no operation is close to linear and no bias or gain is without effect.
        deviation = 1.5 / model.hidden**0.5 if name.endswith("weight") else 0.3
        weights[name] = deviation * torch.randn(shape) + (1 if name.endswith("gamma") else 0)
    tokens, labels = comparison.random_tokens(model, counted=0.25 if bert else 1)
    comparison.write_golden(path, model, weights, tokens, labels)


def main():
    parser = comparison.parser(__doc__)
    parser.add_argument("--bert", action="store_true", help="make a BERT and not a GPT")
    arguments = parser.parse_args()
    if arguments.make_golden:
        make_golden(arguments.make_golden, arguments.bert)
        return 0
    return comparison.compare_file(arguments, Gpt.from_metadata)


if __name__ == "__main__":
    sys.exit(main())
