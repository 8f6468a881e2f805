#!/usr/bin/env python3
"""The engine's Llama, Mistral, Qwen2 and Gemma-2 once more, in PyTorch, to compare the two.

    pytorch_llama.py FILE                        compare what `frugal measure --save-tensors FILE` wrote
    pytorch_llama.py FILE --transformers         the same by Hugging Face's own model
    pytorch_llama.py --make-golden FILE --model llama|qwen|gemma2
                                                 write a small model with its results, all from PyTorch

Nothing here is derived from the engine, and the gradients come from PyTorch's autograd. Weights have
Hugging Face's names, and the file's metadata the model's config.json. Files and exit status:
comparison.py. --transformers needs the Python package transformers.
"""

import dataclasses
import json
import math
import sys

import torch
import torch.nn.functional as F

import comparison


@dataclasses.dataclass(frozen=True)
class Llama:
    """`config` is a config.json; h hidden, d head size, I intermediate, v vocabulary, s sequence,
    b microbatch."""

    config: dict
    micro_batch: int
    transformers: bool = False

    @property
    def sequence(self):
        return self.config["max_position_embeddings"]

    @property
    def vocabulary(self):
        return self.config["vocab_size"]

    @property
    def gemma(self):
        return self.config["model_type"] == "gemma2"

    def metadata(self):
        return {"config": json.dumps(self.config), "micro_batch": str(self.micro_batch)}

    def parameter_shapes(self):
        """Every parameter by name. Weights of linear layers are [out, in]."""
        c = self.config
        h, intermediate = c["hidden_size"], c["intermediate_size"]
        queries = c["num_attention_heads"] * c["head_dim"]
        keys = c["num_key_value_heads"] * c["head_dim"]
        shapes = {"model.embed_tokens.weight": (self.vocabulary, h), "model.norm.weight": (h,)}
        if not c["tie_word_embeddings"]:
            shapes["lm_head.weight"] = (self.vocabulary, h)
        for i in range(c["num_hidden_layers"]):
            layer = {
                "self_attn.q_proj.weight": (queries, h),
                "self_attn.k_proj.weight": (keys, h),
                "self_attn.v_proj.weight": (keys, h),
                "self_attn.o_proj.weight": (h, queries),
                "mlp.gate_proj.weight": (intermediate, h),
                "mlp.up_proj.weight": (intermediate, h),
                "mlp.down_proj.weight": (h, intermediate),
                "input_layernorm.weight": (h,),
                "post_attention_layernorm.weight": (h,),
            }
            if c["model_type"] == "qwen2":
                layer |= {f"self_attn.{name}_proj.bias": (size,)
                          for name, size in (("q", queries), ("k", keys), ("v", keys))}
            if self.gemma:
                layer |= {f"{place}_feedforward_layernorm.weight": (h,) for place in ("pre", "post")}
            shapes.update({f"model.layers.{i}.{name}": shape for name, shape in layer.items()})
        return shapes

    def forward(self, weights, tokens):
        """Logits [s*b, v] of tokens [s, b]."""
        forward = by_transformers if self.transformers else by_hand
        return forward(self, weights, tokens.long().T).transpose(0, 1).flatten(0, 1)


def frequencies(config):
    """Radians per position of each of d/2 pairs."""
    d, scaling = config["head_dim"], config.get("rope_scaling")
    plain = config["rope_theta"] ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    if scaling is None:
        return plain
    slow = plain / scaling["factor"]
    if scaling["rope_type"] == "linear":
        return slow
    # Llama 3.1: slow below `low` turns within the original length, as they were above `high`.
    turns = scaling["original_max_position_embeddings"] * plain / (2 * math.pi)
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    kept = ((turns - low) / (high - low)).clamp(0, 1)
    return kept * plain + (1 - kept) * slow


def rotated(x, turns):
    """x [b, heads, s, d], whose pairs (i, i + d/2) are complex numbers; turns [s, d/2]."""
    real, imaginary = x.chunk(2, -1)
    turned = torch.complex(real, imaginary) * turns
    return torch.cat((turned.real, turned.imag), -1)


def softcap(x, cap):
    return cap * torch.tanh(x / cap) if cap else x


def sees(config, layer):
    """Which of s positions [query, key] a layer sees."""
    s, window = config["max_position_embeddings"], config.get("sliding_window")
    types = config.get("layer_types")
    if types and types[layer] == "full_attention":
        window = None
    distance = torch.arange(s)[:, None] - torch.arange(s)[None, :]
    return (distance >= 0) & (distance < (window or s))


def by_hand(model, weights, tokens):
    """Logits [b, s, v] of tokens [b, s]; activations are [b, s, h] throughout."""
    c = model.config
    h, d, groups = c["hidden_size"], c["head_dim"], c["num_key_value_heads"]
    b, s = tokens.shape
    scale = c.get("query_pre_attn_scalar", d) ** -0.5
    angles = torch.outer(torch.arange(s, dtype=torch.float64), frequencies(c))
    turns = torch.polar(torch.ones_like(angles), angles)

    def norm(x, name):
        gain = weights[f"{name}.weight"] + (1 if model.gemma else 0)
        return F.rms_norm(x, (h,), gain, c["rms_norm_eps"])

    def linear(x, name):
        return F.linear(x, weights[f"{name}.weight"], weights.get(f"{name}.bias"))

    def heads(x, name):
        return linear(x, name).view(b, s, -1, d).transpose(1, 2)  # [b, heads, s, d]

    def attention(x, layer):
        name = f"model.layers.{layer}.self_attn"
        turn = turns.to(torch.complex128 if x.dtype == torch.float64 else torch.complex64)
        q = rotated(heads(x, f"{name}.q_proj"), turn).unflatten(1, (groups, -1))
        k = rotated(heads(x, f"{name}.k_proj"), turn)
        scores = softcap(torch.einsum("bgqsd,bgtd->bgqst", q, k) * scale,
                         c.get("attn_logit_softcapping"))
        shares = scores.masked_fill(~sees(c, layer), -torch.inf).softmax(-1)
        context = torch.einsum("bgqst,bgtd->bsgqd", shares, heads(x, f"{name}.v_proj"))
        return linear(context.flatten(2), f"{name}.o_proj")

    def mlp(x, name):
        gate = linear(x, f"{name}.gate_proj")
        gate = F.gelu(gate, approximate="tanh") if model.gemma else F.silu(gate)
        return linear(gate * linear(x, f"{name}.up_proj"), f"{name}.down_proj")

    x = F.embedding(tokens, weights["model.embed_tokens.weight"])
    if model.gemma:
        x = x * h**0.5
    for i in range(c["num_hidden_layers"]):
        name = f"model.layers.{i}"
        y = attention(norm(x, f"{name}.input_layernorm"), i)
        if model.gemma:
            x = x + norm(y, f"{name}.post_attention_layernorm")
            y = mlp(norm(x, f"{name}.pre_feedforward_layernorm"), f"{name}.mlp")
            x = x + norm(y, f"{name}.post_feedforward_layernorm")
        else:
            x = x + y
            x = x + mlp(norm(x, f"{name}.post_attention_layernorm"), f"{name}.mlp")
    table = weights.get("lm_head.weight", weights["model.embed_tokens.weight"])
    return softcap(F.linear(norm(x, "model.norm"), table), c.get("final_logit_softcapping"))


def by_transformers(model, weights, tokens):
    """The same by Hugging Face's library, with these weights in the place of its own."""
    from transformers import AutoConfig, AutoModelForCausalLM

    # Its embedding has no gradient at a token for padding, and Gemma-2's is 0 unless it is said.
    config = AutoConfig.for_model(**(model.config | {"pad_token_id": None}))
    theirs = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    theirs = theirs.to(weights["model.norm.weight"].dtype)
    return torch.func.functional_call(theirs, weights, (tokens,), {"use_cache": False}).logits


def golden_config(kind):
    """Small, with as much of its family as fits. Every size is divisible by 2, to be divided."""
    config = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
              "max_position_embeddings": 16, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
              "rope_scaling": None, "tie_word_embeddings": False}
    small = {"hidden_size": 16, "intermediate_size": 24, "vocab_size": 32}
    if kind == "llama":
        # Pairs turn 10, 1, 0.1 and 0.01 times within 64 positions: all three bands are there.
        bands = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 0.5,
                 "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
        return config | {"architectures": ["LlamaForCausalLM"], "model_type": "llama",
                         "hidden_size": 32, "head_dim": 8, "intermediate_size": 48,
                         "vocab_size": 64, "hidden_act": "silu", "rope_scaling": bands}
    if kind == "qwen":
        return config | small | {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2",
                                 "head_dim": 4, "hidden_act": "silu", "rope_theta": 100.0}
    return config | small | {"architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2",
                             "head_dim": 8, "hidden_activation": "gelu_pytorch_tanh",
                             "rms_norm_eps": 1e-6, "tie_word_embeddings": True,
                             "query_pre_attn_scalar": 10, "sliding_window": 6,
                             "layer_types": ["sliding_attention", "full_attention"],
                             "attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0}


def make_golden(path, kind):
    model = Llama(golden_config(kind), micro_batch=2)
    torch.manual_seed(20240722)
    weights = {}
    for name, shape in model.parameter_shapes().items():
        # Large enough that no operation is close to linear and no bias or gain is without effect.
        weights[name] = (1.5 / shape[-1] ** 0.5 if len(shape) == 2 else 0.3) * torch.randn(shape)
        if "norm" in name and not model.gemma:
            weights[name] += 1
    tokens, labels = comparison.random_tokens(model, counted=0.75)
    comparison.write_golden(path, model, weights, tokens, labels)


def main():
    parser = comparison.parser(__doc__)
    parser.add_argument("--model", choices=("llama", "qwen", "gemma2"), default="llama",
                        help="of the golden file; default llama")
    parser.add_argument("--transformers", action="store_true",
                        help="compare with Hugging Face's own model")
    arguments = parser.parse_args()
    if arguments.make_golden:
        make_golden(arguments.make_golden, arguments.model)
        return 0

    def model_of(metadata):
        return Llama(json.loads(metadata["config"]), int(metadata["micro_batch"]),
                     arguments.transformers)

    return comparison.compare_file(arguments, model_of)


if __name__ == "__main__":
    sys.exit(main())
