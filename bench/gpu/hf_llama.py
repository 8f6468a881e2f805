#!/usr/bin/env python3
"""The training step of Hugging Face's LlamaForCausalLM, as bench/pytorch_step.py has that of a Llama of ours: the same
lines are read and answered. Beside "eager" and "compiled" it has "checkpointed", eager with gradient checkpointing of every
layer, and "checkpointed-compiled". bench/compare_steps.py --against transformers lets it and frugal take turns."""

import functools
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import torch  # noqa: E402  (the path comes first)
import transformers  # noqa: E402
import pytorch_step  # noqa: E402


def configuration_of(c, layers=None):
    """The library's, of a Shape; of all its layers or so many."""
    return transformers.LlamaConfig(
        vocab_size=c.v, hidden_size=c.h, intermediate_size=c.intermediate, num_hidden_layers=layers or c.layers,
        num_attention_heads=c.heads, num_key_value_heads=c.groups, head_dim=c.d, max_position_embeddings=c.s,
        rms_norm_eps=c.epsilon, rope_parameters={"rope_type": "default", "rope_theta": c.base},
        tie_word_embeddings=c.tied, use_cache=False, attn_implementation="sdpa" if c.fused else "eager")


class Steps(pytorch_step.Steps):
    def made(self, c, tensors, dtype):
        """On the device from the beginning: billions of weights take the host minutes."""
        if not c.llama:
            sys.exit(f"hf_llama.py: {c.name} is no Llama")
        if c.dropout:
            sys.exit("hf_llama.py: the library's Llama has no dropout; give --dropout 0")
        torch.set_default_dtype(dtype)
        with torch.device(self.on):
            model = transformers.LlamaForCausalLM(configuration_of(c))
        torch.set_default_dtype(torch.float32)
        if tensors:
            weights = {name: tensors[name] for name in model.state_dict() if name in tensors}
            lacking = set(model.state_dict()) - set(weights) - ({"lm_head.weight"} if c.tied else set())
            if lacking:
                sys.exit(f"hf_llama.py: the file of tensors lacks {min(lacking)}")
            model.load_state_dict(weights, strict=False)
            self.loss_of_tensors = tensors["loss"].item()
        return model.train()

    @functools.cached_property
    def runs(self):
        """Of few layers the whole is compiled, of many each by itself, as in bench/pytorch_step.py."""
        layers = self.model.model.layers
        whole = torch.compile(self.model) if len(layers) <= 4 else self.model
        if whole is self.model:
            for layer in layers:
                layer.compile()
        calls = [layer._compiled_call_impl for layer in layers]  # pylint: disable=protected-access
        now = []

        def become(compiled, checkpointed):
            """Changes nothing where it is so already: a checkpointing function that is made anew is compiled anew."""
            if now == [compiled, checkpointed]:
                return
            now[:] = compiled, checkpointed
            for layer, call in zip(layers, calls):
                layer._compiled_call_impl = call if compiled else None  # pylint: disable=protected-access
            if checkpointed:
                self.model.gradient_checkpointing_enable({"use_reentrant": False})
            else:
                self.model.gradient_checkpointing_disable()

        def run(compiled, checkpointed, ids, labels, *_):
            become(compiled, checkpointed)
            # Labels are those of the next tokens already.
            return (whole if compiled else self.model)(input_ids=ids, labels=labels, shift_labels=labels).loss
        kinds = {"eager": (False, False), "compiled": (True, False), "checkpointed": (False, True),
                 "checkpointed-compiled": (True, True)}
        return {kind: functools.partial(run, *how) for kind, how in kinds.items()}


if __name__ == "__main__":
    pytorch_step.serve(Steps, transformers=transformers.__version__)
