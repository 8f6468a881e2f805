#!/usr/bin/env python3
"""What bench/compare_steps.py should find on a GPU that a file of hardware/ describes: a step of frugal on
the virtual machine, and one of bench/pytorch_step.py. Products take what they take on the virtual machine,
on both sides. The other operations are those that PyTorch dispatches, on tensors without memory:

  eager     every operation reads its inputs and writes its outputs
  compiled  those between two products that are connected are one kernel, which reads what it needs of
            others once and writes once what others need: what no compiler of such kernels does better

Records as compare_steps.py's are."""

import argparse
import collections
import json
import pathlib
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


def recorded(function):
    """Operations of the forward and of the backward pass, and what outlives both."""
    forward, backward = Recorder(), Recorder()
    with torch.autocast("cpu", dtype=torch.bfloat16), forward:
        result, inputs = function()
    with backward:
        torch.autograd.backward(result, torch.ones_like(result))
    outlive = {storage(x.grad) for x in inputs if x.grad is not None} | {storage(result)}
    return forward.operations, backward.operations, outlive


def parts(shape):
    """(count, operations forward, backward, storages that outlive them) of the parts that are compiled alone."""
    ids = torch.zeros(shape.b, shape.s, dtype=torch.int64)
    layer, model = pytorch_step.Layer(shape), pytorch_step.Model(shape)
    turns, mask = pytorch_step.constants(shape, torch.bfloat16)

    def hidden_state():
        return torch.empty(shape.b, shape.s, shape.h, requires_grad=True)

    def one_layer():
        x = hidden_state()
        return layer(x, turns, mask), [x, *layer.parameters()]

    def head():
        x = hidden_state()
        return model.loss(x, ids), [x, *model.norm.parameters(), *(model.head or model.tokens).parameters()]

    def embedding():
        x = model.tokens(ids)
        return x if model.positions is None else x + model.positions.weight, \
            [table.weight for table in (model.tokens, model.positions) if table is not None]

    return [(shape.layers, *recorded(one_layer)), (1, *recorded(head)), (1, *recorded(embedding))]


def update(shape):
    """Operations of clipping and of the optimizer."""
    model = pytorch_step.Model(shape)
    for p in model.parameters():
        p.grad = torch.empty_like(p)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    optimizer.step()  # makes its state
    recorder = Recorder()
    with recorder:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return recorder.operations


def frugal_step(program, row):
    """The record of a step on the virtual machine, and what its products took."""
    with tempfile.TemporaryDirectory() as folder:
        trace = pathlib.Path(folder) / "trace.json"
        flags = [str(flag) for flag in compare_steps.flags_of(row)]
        shown = subprocess.run([program, "measure", *flags, "--out", folder, "--format", "json"], check=True,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
        subprocess.run([program, "trace", *flags, "--out-file", trace], check=True, capture_output=True)
        events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    products = [e["dur"] for e in events if e["ph"] == "X" and e["name"].startswith(("gemm", "fused-attention"))]
    return json.loads(shown), sum(products) * 1e-6


def seconds(kernels, products, device):
    value = {key: entry["value"] for key, entry in device.items()}
    bandwidth = value["memory_bandwidth"] * value["memory_fraction"]
    others = [b for f, b in kernels if not f]
    on_device = products + sum(others) / bandwidth + len(others) * value["kernel_latency"]
    return max(on_device, len(kernels) * value["launch_overhead"])


def predicted(shape, products, device):
    """{side: seconds}."""
    kernels = {"eager": eager(update(shape)), "compiled": eager(update(shape))}
    for count, forward, backward, outlive in parts(shape):
        kernels["eager"] += count * eager(forward + backward)
        read_later = outlive | {s for o in backward for s in o.reads}
        kernels["compiled"] += count * (compiled(forward, read_later) + compiled(backward, outlive))
    return {side: seconds(of_side, products, device) for side, of_side in kernels.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("frugal", help="the program")
    parser.add_argument("machine", type=pathlib.Path, help="a file of hardware/")
    parser.add_argument("--model", required=True)
    parser.add_argument("--micro-batch", type=int, required=True)
    arguments = parser.parse_args()
    machine = load(arguments.machine)
    row = {"on": f"virtual:{machine['name']}", "model": arguments.model, "type": "bf16", "attention": "fused",
           "dropout": 0.0, "micro_batch": arguments.micro_batch, "flags": ""}
    record, products = frugal_step(arguments.frugal, row)
    with FakeTensorMode():
        medians = predicted(pytorch_step.Shape(record["configuration"]), products, machine["device"])
    command = f"bench/gpu/predict_pytorch.py frugal hardware/{machine['name']}.json --model={arguments.model}"
    measured = step_records.Measured(row, {"steps": 1}, command=f"{command} --micro-batch={arguments.micro_batch}")
    measured.begin(record)
    ours = measured.record(by="frugal")
    for side, of_side in medians.items():
        step_records.add(measured.record(by=side), "step_time", "s", of_side)
        measured.record(by=side)["options"]["torch"] = torch.__version__
    step_records.add(ours, "step_time", "s", record["metrics"]["step_time"]["median"])
    step_records.add(ours, "product_time", "s", products)
    for each in measured.records.values():
        sys.stdout.write(step_records.line(each))


if __name__ == "__main__":
    sys.exit(main())
