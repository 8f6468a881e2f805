#!/usr/bin/env python3
"""What bench/compare_steps.py should find on a GPU that a file of hardware/ describes: a step of frugal on
the virtual machine, and one of bench/pytorch_step.py. Products take what they take on the virtual machine,
on both sides. The other operations are those that PyTorch dispatches, on tensors without memory:

  eager     every operation reads its inputs and writes its outputs
  compiled  those between two products that are connected are one kernel, which reads what it needs of
            others once and writes once what others need: what no compiler of such kernels does better
  reduce-overhead, max-autotune
            the same, and the host launches nothing on its own
  checkpointed, checkpointed-compiled
            of Hugging Face's Llama, with the operations of each layer's forward pass twice

  predict_pytorch.py FRUGAL hardware/MACHINE.json [flags of compare_steps.py]

Sustained turns are predicted to be as short ones are. Records as compare_steps.py's are."""

import collections
import contextlib
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))  # in a bundle it is beside this file

import compare_steps  # noqa: E402  (the path comes first)
import pytorch_optimizers  # noqa: E402
import pytorch_step  # noqa: E402
import step_records  # noqa: E402
from machine import load  # noqa: E402

ATTENTION_FORWARD = "_scaled_dot_product_flash_attention_for_cpu"
ATTENTION_BACKWARD = ATTENTION_FORWARD + "_backward"
# Not read: the operand of which a kernel takes an element or a row of each, or nothing.
NOT_READ = {"nll_loss_forward": 0, "nll_loss_backward": 1, "embedding": 0}
MOVE_NOTHING = {"device", "detach", "empty", "empty_like", "new_empty_strided", "ones_like", "_record_function_enter_new",
                "_record_function_exit", "_local_scalar_dense"}
PRODUCTS = {"mm": (0, 1), "addmm": (1, 2), "bmm": (0, 1)}
Operation = collections.namedtuple("Operation", "name reads writes flops")


def storage(tensor):
    return tensor.untyped_storage()._cdata  # pylint: disable=protected-access


def tensors_of(tree):
    return [x for x in tree_leaves(tree) if isinstance(x, torch.Tensor)]


def is_same(name, inputs, outputs):
    """Whether an operation that may copy gave its operand back."""
    return name in ("_unsafe_view", "_to_copy") and storage(inputs[0]) == storage(outputs[0])


def flops_of(name, arguments):
    """Products only; of the scores that a causal mask hides, none."""
    if name in PRODUCTS:
        a, b = (arguments[i] for i in PRODUCTS[name])
        return 2 * a.numel() * b.shape[-1]
    if name in (ATTENTION_FORWARD, ATTENTION_BACKWARD):
        q = arguments[0] if name == ATTENTION_FORWARD else arguments[1]
        products = 2 if name == ATTENTION_FORWARD else 5
        return products * q.numel() * (q.shape[-2] + 1)
    return 0


class Recorder(TorchDispatchMode):
    """Every operation that moves bytes, in order. Storages are kept, so that no two have one identity."""

    def __init__(self):
        super().__init__()
        self.operations, self.kept = [], []

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        result = function(*arguments, **(options or {}))
        name = function.overloadpacket.__name__
        read = list(arguments)
        if name in NOT_READ:
            del read[NOT_READ[name]]
        inputs, outputs = tensors_of((read, options)), tensors_of(result)
        self.kept += [x.untyped_storage() for x in inputs + outputs]
        if not function.is_view and name not in MOVE_NOTHING and not is_same(name, inputs, outputs):
            written = outputs or inputs  # what changes its operands in place returns nothing
            self.operations.append(Operation(
                name, {storage(x): x.nbytes for x in inputs}, {storage(x): x.nbytes for x in written},
                flops_of(name, arguments)))
        return result


def bytes_of(tensors):
    return sum(tensors.values())


def eager(operations):
    """(FLOPs, bytes) of each kernel."""
    return [(o.flops, bytes_of(o.reads) + bytes_of(o.writes)) for o in operations]


def groups(operations):
    """Operations that are no products, by how many products stand before them; products alone."""
    depth, grouped = {}, collections.defaultdict(list)
    for o in operations:
        level = max((depth.get(s, 0) for s in o.reads), default=0)
        if o.flops:
            grouped[level, len(grouped)].append(o)
            level += 1
        else:
            grouped[level].append(o)
        for s in o.writes:
            depth[s] = level
    return list(grouped.values())


def compiled(operations, results):
    """The same of operations that are fused; `results` are the storages that somebody else reads."""
    kernels, all_groups = [], groups(operations)
    for i, group in enumerate(all_groups):
        written = {s: n for o in group for s, n in o.writes.items()}
        read = {s: n for o in group for s, n in o.reads.items()}
        elsewhere = {s for j, other in enumerate(all_groups) if j != i for o in other for s in o.reads}
        before = {s for j, other in enumerate(all_groups) if j != i for o in other for s in o.writes}
        outside = {s: n for s, n in read.items() if s not in written or s in before}
        needed = {s: n for s, n in written.items() if s in elsewhere or s in results}
        kernels.append((sum(o.flops for o in group), bytes_of(outside) + bytes_of(needed)))
    return kernels


def recorded(function, narrowed):
    """Operations of the forward and of the backward pass, and what outlives both; `narrowed` by autocast."""
    forward, backward = Recorder(), Recorder()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=narrowed), forward:
        result, inputs = function()
    with backward:
        torch.autograd.backward(result, torch.ones_like(result))
    outlive = {storage(x.grad) for x in inputs if x.grad is not None} | {storage(result)}
    return forward.operations, backward.operations, outlive


@contextlib.contextmanager
def typed(dtype):
    """What is made there has weights of this type: those without memory cannot be converted."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def type_of(row):
    """That of PyTorch's weights."""
    return torch.bfloat16 if row["weights"] else torch.float32


def parts(shape, row):
    """(count, operations forward, backward, storages that outlive them) of the parts that are compiled alone; the layers
    first."""
    dtype, ids = type_of(row), torch.zeros(shape.b, shape.s, dtype=torch.int64)
    with typed(dtype):
        layer, head, embedding = (transformers_parts if row["against"] else own_parts)(shape, dtype, ids)

    def hidden_state():
        return torch.empty(shape.b, shape.s, shape.h, requires_grad=True, dtype=dtype)

    def run(function, weights):
        x = hidden_state()
        return function(x), [x, *weights]
    return [(count, *recorded(lambda of=of: run(*of), not row["weights"])) for count, of in
            ((shape.layers, layer), (1, head), (1, embedding))]


def own_parts(shape, _, ids):
    """(function of a hidden state, its weights) of a layer, the head and the embedding of bench/pytorch_step.py."""
    layer, model = pytorch_step.Layer(shape), pytorch_step.Model(shape)
    turns, mask = pytorch_step.constants(shape, torch.bfloat16)

    def embed(_):
        x = model.tokens(ids)
        return x if model.positions is None else x + model.positions.weight
    return ((lambda x: layer(x, turns, mask), list(layer.parameters())),
            (lambda x: model.loss(x, ids), [*model.norm.parameters(), *(model.head or model.tokens).parameters()]),
            (embed, [table.weight for table in (model.tokens, model.positions) if table is not None]))


def transformers_parts(shape, dtype, ids):
    """The same of Hugging Face's Llama."""
    import hf_llama  # pylint: disable=import-outside-toplevel  # only these rows need transformers
    model = hf_llama.transformers.LlamaForCausalLM(hf_llama.configuration_of(shape, layers=1))
    (layer,), turns = model.model.layers, [torch.empty(1, shape.s, shape.d, dtype=dtype) for _ in range(2)]
    tables = [model.model.norm, model.lm_head]

    def head(x):
        logits = model.lm_head(model.model.norm(x))
        return model.loss_function(logits=logits, labels=ids, shift_labels=ids, vocab_size=shape.v)
    return ((lambda x: layer(x, position_embeddings=turns, attention_mask=None), list(layer.parameters())),
            (head, [weight for table in tables for weight in table.parameters()]),
            (lambda _: model.model.embed_tokens(ids), list(model.model.embed_tokens.parameters())))


def update(shape, row):
    """Operations of clipping and of the optimizer."""
    with typed(type_of(row)):
        model = pytorch_step.Model(shape)
    for p in model.parameters():
        p.grad = torch.empty_like(p)
    in_backward = row["weights"] == "bf16-alone"  # where it is at once for all, and nothing is clipped
    of_weights = torch.optim.AdamW if in_backward else pytorch_optimizers.OF_WEIGHTS[row["weights"]]
    optimizer = of_weights(model.parameters(), fused=True)
    optimizer.step()  # makes its state
    recorder = Recorder()
    with recorder:
        optimizer.step()
    return recorder.operations


def said_by(command):
    """What a program prints; this one ends with its word where it fails."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or ["nothing on stderr"]
        sys.exit(f"predict_pytorch.py: {command[0]} {command[1]} ended with {done.returncode}: {said[-1]}")
    return done.stdout


def frugal_step(program, row):
    """The record of a step on the virtual machine, and what its products took."""
    with tempfile.TemporaryDirectory() as folder:
        trace, flags = pathlib.Path(folder) / "trace.json", compare_steps.flags_of(row)
        shown = said_by([program, "measure", *flags, "--out", folder, "--format", "json"])
        said_by([program, "trace", *flags, "--out-file", trace])
        events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    products = [e["dur"] for e in events if e["ph"] == "X" and e["name"].startswith(("gemm", "fused-attention"))]
    return json.loads(shown), sum(products) * 1e-6


def seconds(kernels, products, device, launches=True):
    value = {key: entry["value"] for key, entry in device.items()}
    bandwidth = value["memory_bandwidth"] * value["memory_fraction"]
    others = [b for f, b in kernels if not f]
    on_device = products + sum(others) / bandwidth + len(others) * value["kernel_latency"]
    return max(on_device, len(kernels) * value["launch_overhead"]) if launches else on_device


def predicted(shape, products, device, row, sides):
    """{side: seconds}."""
    of_update = eager(update(shape, row))
    kernels = {side: list(of_update) for side in sides}
    for number, (count, forward, backward, outlive) in enumerate(parts(shape, row)):
        read_later = outlive | {s for o in backward for s in o.reads}
        for side in sides:
            is_eager = side in ("eager", "checkpointed")
            passes = [eager(forward), eager(backward)] if is_eager else [compiled(forward, read_later), compiled(backward, outlive)]
            again = passes[0] if side.startswith("checkpointed") and number == 0 else []
            kernels[side] += count * [*passes[0], *passes[1], *again]
    return {side: seconds(of_side, products, device, side not in ("reduce-overhead", "max-autotune"))
            for side, of_side in kernels.items()}


def records_of(row, sides, record, medians, products, command):
    """Those of a row, of short turns or of sustained ones."""
    measured = step_records.Measured(row, {"steps": 1}, sides, command=command)
    measured.begin(record)
    for side, of_side in medians.items():
        step_records.add(measured.record(by=side), "step_time", "s", of_side)
        measured.record(by=side)["options"]["torch"] = torch.__version__
    ours = measured.record(by="frugal")
    step_records.add(ours, "step_time", "s", record["metrics"]["step_time"]["median"])
    step_records.add(ours, "product_time", "s", products)
    return measured.records.values()


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    machine = load(pathlib.Path(sys.argv[2]))
    words = [sys.argv[1], *sys.argv[3:]]
    arguments = compare_steps.parse(words)
    (row,) = compare_steps.rows_of(arguments)
    row["on"], sides = f"virtual:{machine['name']}", compare_steps.sides_of(arguments)
    record, products = frugal_step(arguments.frugal, row)
    with FakeTensorMode():
        medians = predicted(pytorch_step.Shape(record["configuration"]), products, machine["device"], row, sides)
    command = shlex.join(["bench/gpu/predict_pytorch.py", "frugal", f"hardware/{machine['name']}.json", *words[1:]])
    for turns in ("", *["sustained"] * bool(arguments.sustained)):
        for each in records_of(row | {"turns": turns}, sides, record, medians, products, command):
            sys.stdout.write(step_records.line(each))


if __name__ == "__main__":
    sys.exit(main())
