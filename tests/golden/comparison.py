"""What pytorch_gpt.py and pytorch_llama.py share: files, gradients, comparing; nothing of a model.

The files are safetensors files. Symbols: s sequence, b microbatch, v vocabulary.
  tokens, labels             int32   [s, b]; a label of -100 is not counted
  logits                     float32 [s*b, v], rows in the order of tokens
  loss                       float32 [1], the mean cross-entropy over the labels that count
  weight/NAME, gradient/NAME float32, NAME and shape as in the model's parameter_shapes()
  metadata                   what the model is made from, as strings

A model has sequence, micro_batch, vocabulary, parameter_shapes(), metadata() and
forward(weights, tokens), which gives logits. Needs the Python packages torch and safetensors.
"""

import argparse
import sys

import torch
import torch.nn.functional as F
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file


def results(model, weights, tokens, labels, dtype):
    """Logits, loss and gradients, computed in dtype and returned as float32."""
    weights = {name: w.detach().to(dtype).requires_grad_() for name, w in weights.items()}
    logits = model.forward(weights, tokens)
    loss = F.cross_entropy(logits, labels.long().flatten())
    loss.backward()
    tensors = {"logits": logits.detach(), "loss": loss.detach().reshape(1)}
    tensors.update({f"gradient/{name}": w.grad for name, w in weights.items()})
    return {name: t.to(torch.float32).contiguous() for name, t in tensors.items()}


def random_tokens(model, counted):
    """Tokens, and labels of which this part counts."""
    size = (model.sequence, model.micro_batch)
    tokens = torch.randint(model.vocabulary, size, dtype=torch.int32)
    labels = torch.randint(model.vocabulary, size, dtype=torch.int32)
    if counted < 1:
        labels[torch.rand(size) >= counted] = -100
    return tokens, labels


def write_golden(path, model, weights, tokens, labels):
    """Computed in float64, so that the file is right to the last bits of its float32."""
    tensors = {"tokens": tokens, "labels": labels}
    tensors.update({f"weight/{name}": w for name, w in weights.items()})
    tensors.update(results(model, weights, tokens, labels, torch.float64))
    made_by = {"made_by": f"PyTorch {torch.__version__}, float64 arithmetic"}
    save_file(tensors, path, metadata=model.metadata() | made_by)
    print(f"wrote {path} with {made_by['made_by']}")


def read(path, model_of):
    """Model and tensors of a file; ValueError where it is not what the docstring above says."""
    with safe_open(path, framework="pt") as file:
        model = model_of(file.metadata() or {})
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    parameters = model.parameter_shapes()
    shapes = {name: (model.sequence, model.micro_batch) for name in ("tokens", "labels")}
    shapes |= {"logits": (model.sequence * model.micro_batch, model.vocabulary), "loss": (1,)}
    shapes |= {f"{kind}/{n}": s for kind in ("weight", "gradient") for n, s in parameters.items()}
    if shapes.keys() != tensors.keys():
        raise ValueError(f"missing {sorted(shapes.keys() - tensors.keys())}, "
                         f"unknown {sorted(tensors.keys() - shapes.keys())}")
    for name, shape in shapes.items():
        if tuple(tensors[name].shape) != shape:
            raise ValueError(f"{name} is {list(tensors[name].shape)}, expected {list(shape)}")
    return model, tensors


def compare(model, tensors, tolerance, dtype):
    """Prints the error of every tensor; true when all are within the tolerance."""
    weights = {name: tensors[f"weight/{name}"] for name in model.parameter_shapes()}
    expected = results(model, weights, tensors["tokens"], tensors["labels"], dtype)
    print(f"{'tensor':<56} {'shape':>12} {'largest':>10} {'error':>10}")
    failed = []
    for name, want in expected.items():
        largest = want.abs().max().item()
        difference = (tensors[name].to(torch.float32) - want).abs().max().item()
        error = difference / largest if largest else difference
        if not error <= tolerance:  # written so that a NaN fails
            failed.append(name)
        shape = "x".join(map(str, want.shape))
        print(f"{name:<56} {shape:>12} {largest:10.3g} {error:10.2e}"
              + (" FAILED" if name in failed else ""))
    print(f"{len(expected) - len(failed)} of {len(expected)} tensors agree with PyTorch "
          f"{torch.__version__} within {tolerance:g} of their largest magnitude")
    return not failed


def parser(description):
    """What every script takes; it adds its own."""
    arguments = argparse.ArgumentParser(description=description,
                                        formatter_class=argparse.RawDescriptionHelpFormatter)
    what = arguments.add_mutually_exclusive_group(required=True)
    what.add_argument("file", nargs="?", help="what to compare")
    what.add_argument("--make-golden", metavar="FILE", help="write a golden file of the tests")
    arguments.add_argument("--tolerance", type=float, default=1e-4, help="default 1e-4")
    arguments.add_argument("--float64", action="store_true", help="let PyTorch compute in float64")
    return arguments


def compare_file(arguments, model_of):
    """The exit status: 0 all agree, 1 some tensor does not, 2 the file cannot be used."""
    try:
        model, tensors = read(arguments.file, model_of)
        dtype = torch.float64 if arguments.float64 else torch.float32
        return 0 if compare(model, tensors, arguments.tolerance, dtype) else 1
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        print(f"{arguments.file}: {error}", file=sys.stderr)
        return 2
