#!/usr/bin/env python3
"""What a rank of PyTorch's FSDP2 holds in a training step on two processes, beside the same step in frugal.

    pytorch_fsdp.py OUT.json [--program FRUGAL]     (Python with PyTorch; five minutes, two cores, no GPU)

A GPT or a BERT of pytorch_models.py is trained by two processes of PyTorch on the processor, with gloo between them:
`fully_shard` on each layer and on the whole, AdamW, several microbatches in a step. Counted on each rank is every storage
that an operation returns, from then until PyTorch lets it go, as pytorch_memory.py does, and every storage that FSDP2
resizes. Not counted is the copy of its input that gloo makes to reduce it, which NCCL does not make; a rank says how many
bytes that had at most (`gloo`). The same step is executed by `frugal measure --on cpu --data-parallel 2 --shard weights` with the behaviours of
programs/pytorch.json, and its ledger's peak compared, in total and by what the bytes are for. Exit status 1 where a
total differs by more than 2 %.
"""

import argparse
import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.distributed.fsdp._fully_shard import _fsdp_param_group
from torch.distributed.tensor import DTensor

import pytorch_models
from pytorch_memory import LiveBytes
from pytorch_models import Step

ALLOWED = 0.02
RANKS = 2
STEPS = 2
LONGEST = 60  # seconds that gloo is waited for
MODELS = {"gpt": "gpt2-124m", "bert": "bert-355m"}
KINDS = ("weights' parts", "gradients' parts", "optimizer state", "whole weights and gradients", "the rest")
OURS = {"parameter": 0, "gradient": 1, "optimizer": 2, "communication": 3}  # of KINDS; others are the rest


@dataclasses.dataclass(frozen=True)
class Case:
    step: Step
    microbatches: int
    reshard: bool  # after forward


def case(family, layers, hidden, sequence, vocabulary=1024, batch=2, recompute="none", microbatches=2, reshard=True):
    size = 64
    return Case(Step(family=family, layers=layers, hidden=hidden, heads=hidden // size, key_value_heads=hidden // size,
                     head_size=size, intermediate=4 * hidden, vocabulary=vocabulary, sequence=sequence, batch=batch,
                     dropout=0.1, fused_attention=False, recompute=recompute, gradients="new", norm="layer", loss="narrow",
                     returned_logits=False), microbatches, reshard)


CASES = [
    case("gpt", 2, 256, 128),
    case("gpt", 4, 512, 128),
    case("gpt", 8, 256, 256),
    case("gpt", 4, 768, 64, vocabulary=8192),
    case("gpt", 4, 256, 128, vocabulary=32768),
    case("gpt", 12, 512, 256, recompute="other"),
    case("bert", 4, 512, 128, microbatches=3),
    case("bert", 8, 768, 64, batch=1),
]
CASES += [dataclasses.replace(one, reshard=False) for one in CASES[:4]]


class Timeline(LiveBytes):
    """When storages come, change and go; what each is for is often known later than it comes."""

    def __init__(self, table):
        """`table`: the shape of a tied one, of which autograd adds up gradients before anybody has them."""
        super().__init__()
        self.table, self.events, self.kinds, self.numbers, self.phase = table, [], [], {}, None
        self.gloo = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented  # it comes again, with the rank's own tensors
        return super().__torch_dispatch__(func, types, args, kwargs)

    def add(self, tensor):
        storage = tensor.untyped_storage()
        if (key := storage._cdata) not in self.known and self.phase == "gloo":
            self.gloo = max(self.gloo, storage.nbytes())
        elif key not in self.known:
            super().add(tensor)
            self.numbers[key] = len(self.kinds)
            self.kinds.append(self.phase or (KINDS[3] if tensor.shape == self.table else None))
            self.events.append((self.numbers[key], storage.nbytes()))

    def drop(self, key):
        self.events.append((self.numbers.pop(key), -self.known[key]))
        super().drop(key)

    def resized(self, storage):
        if (key := storage._cdata) in self.known:
            change = storage.nbytes() - self.known[key]
            self.known[key] += change
            self.now += change
            self.peak = max(self.peak, self.now)
            self.events.append((self.numbers[key], change))

    def is_for(self, kind, tensor):
        self.kinds[self.numbers[tensor.untyped_storage()._cdata]] = kind

    def during(self, kind, function):
        def called(*args, **kwargs):
            before, self.phase = self.phase, kind
            try:
                return function(*args, **kwargs)
            finally:
                self.phase = before
        return called

    def at_peak(self):
        """{kind: bytes}, when all together are the most."""
        held, now, most, found = dict.fromkeys(KINDS, 0), 0, 0, {}
        for number, change in self.events:
            held[self.kinds[number] or KINDS[4]] += change
            now += change
            if now > most:
                most, found = now, dict(held)
        assert most == self.peak, (most, self.peak)
        return found


def watch(live):
    """Has FSDP2 tell what its storages are."""
    resize = torch.UntypedStorage.resize_

    def resized(storage, size):
        resize(storage, size)
        live.resized(storage)
        return storage
    torch.UntypedStorage.resize_ = resized
    group = _fsdp_param_group.FSDPParamGroup
    for name in ("unshard", "wait_for_unshard", "post_backward"):
        setattr(group, name, live.during(KINDS[3], getattr(group, name)))
    dist.reduce_scatter_single = live.during("gloo", dist.reduce_scatter_single)
    reduce = _fsdp_param_group.foreach_reduce

    def reduced(params, gradients, *args, **kwargs):
        for gradient in gradients:
            live.is_for(KINDS[3], gradient)
        done = reduce(params, gradients, *args, **kwargs)
        for parameter in params:
            live.is_for(KINDS[1], parameter.sharded_param.grad._local_tensor)
        return done
    _fsdp_param_group.foreach_reduce = reduced
    let_go_of_buffers()


def let_go_of_buffers():
    """A thread of gloo's may hold a buffer for a moment after it has sent it. A rank waits until it does not, so that what is
    counted does not depend on when that is."""
    def shares(tensor):
        return torch._C._storage_Use_Count(tensor.untyped_storage()._cdata)
    alone = shares(torch.empty(1))

    def waiting(function, buffer_of):
        def called(*args, **kwargs):
            done = function(*args, **kwargs)
            until = time.monotonic() + LONGEST
            while shares(buffer_of(done)) > alone:
                if time.monotonic() > until:
                    raise SystemExit(f"pytorch_fsdp.py: gloo holds a buffer {LONGEST} s after it was sent")
                time.sleep(1e-4)
            return done
        return called
    module = _fsdp_param_group
    module.foreach_all_gather = waiting(module.foreach_all_gather, lambda done: done.all_gather_output)
    module.foreach_reduce = waiting(module.foreach_reduce, lambda done: done[0])


def local(tensor):
    return tensor._local_tensor if isinstance(tensor, DTensor) else tensor


def build(one):
    """The model, of which a rank has its parts."""
    torch.manual_seed(1)
    model = pytorch_models.Model(one.step)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.02) if parameter.dim() > 1 else torch.nn.init.ones_(parameter)
    for layer in model.layers:
        fully_shard(layer, reshard_after_forward=one.reshard)
    return fully_shard(model, reshard_after_forward=None if one.reshard else False)


def train(one, rank):
    """Bytes of a rank's peak over all steps, what they are for, and the loss of the first and the last."""
    pytorch_models.META.update(device="cpu", dtype=torch.float32)
    model = build(one)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    live = Timeline((one.step.vocabulary, one.step.hidden))
    watch(live)
    generator = torch.Generator().manual_seed(rank)
    ids = torch.randint(one.step.vocabulary, (one.step.sequence, one.step.batch), generator=generator)
    losses = []
    with live:
        for parameter in model.parameters():
            live.add(local(parameter))
            live.is_for(KINDS[0], local(parameter))
        for _ in range(STEPS):
            for _ in range(one.microbatches):
                loss, _ = model(ids, ids)
                losses.append(loss.item())
                (loss / one.microbatches).backward()
                del loss
            live.during(KINDS[2], optimizer.step)()
            optimizer.zero_grad()
    return {"peak": live.peak, "gloo": live.gloo, "at_peak": live.at_peak(), "losses": [losses[0], losses[-1]]}


def rank_main(rank, store, described):
    """One of the processes; prints a line of JSON."""
    described = json.loads(described)
    one = Case(Step(**described.pop("step")), **described)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    print(json.dumps(train(one, rank)))
    dist.destroy_process_group()


def counted(one):
    """What each rank says."""
    with tempfile.TemporaryDirectory() as folder:
        ranks = [subprocess.Popen([sys.executable, __file__, "--rank", str(rank), f"{folder}/store",
                                   json.dumps(dataclasses.asdict(one))], stdout=subprocess.PIPE, text=True)
                 for rank in range(RANKS)]
        said = [rank.communicate()[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        raise SystemExit("pytorch_fsdp.py: a rank failed; its message is above")
    return [json.loads(line) for line in said]


def command_of(one):
    step = one.step
    described = {"layers": step.layers, "hidden_size": step.hidden, "attention_heads": step.heads,
                 "vocabulary_size": step.vocabulary, "dropout": step.dropout}
    program = "pytorch" + "+recomputed-inputs" * (step.recompute != "none") + "+layer-weights-stay" * (not one.reshard)
    command = ["measure", "--model", MODELS[step.family], "--sequence", str(step.sequence), "--micro-batch", str(step.batch),
               "--microbatches", str(one.microbatches), "--on", "cpu", "--threads", "1", "--data-parallel", str(RANKS),
               "--shard", "weights", "--type", "f32", "--optimizer", "adamw", "--clip", "0", "--steps", str(STEPS),
               "--program", program, "--attention", "fused" if step.fused_attention else "separate",
               "--recompute", "none" if step.recompute == "none" else "full"]
    return command + [word for key, value in described.items() for word in ("--set", f"{key}={value}")]


def executed(frugal, one):
    """Bytes of a rank's peak, what they are for, and what a later reader runs again."""
    with tempfile.TemporaryDirectory() as folder:
        command = [frugal, *command_of(one), "--format", "json", "--out", folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"pytorch_fsdp.py: {' '.join(command)}: {done.stderr.strip()}")
    record = json.loads(done.stdout)
    at_peak = dict.fromkeys(KINDS, 0)
    for kind, count in record["memory"]["stages"][0]["at_peak"].items():
        at_peak[KINDS[OURS.get(kind, 4)]] += count
    return {"peak": record["memory"]["peak_total"], "at_peak": at_peak, "losses": record["losses"]}, record["command"]


def compared(frugal, one):
    ranks = counted(one)
    ours, command = executed(frugal, one)
    most = max(ranks, key=lambda rank: rank["peak"])
    error = ours["peak"] / most["peak"] - 1
    return {**dataclasses.asdict(one), "counted": ranks, "executed": ours, "error_percent": round(100 * error, 3),
            "agrees": abs(error) <= ALLOWED, "command": command}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--program", default="build/release/frugal")
    said = parser.parse_args()
    if said.out.exists():
        print(f"pytorch_fsdp.py: {said.out} exists; remove it or name another file", file=sys.stderr)
        return 2
    lines = []
    for one in CASES:
        lines.append(compared(said.program, one))
        print(f"[{len(lines)}/{len(CASES)}] {one.step.family} {lines[-1]['error_percent']:+.2f} %", file=sys.stderr)
    agree = sum(line["agrees"] for line in lines)
    said.out.write_text(json.dumps({"schema": "frugal.pytorch_fsdp/1", "pytorch": torch.__version__.split("+")[0],
                                    "source": "measured", "ranks": RANKS, "steps": STEPS, "within_percent": 100 * ALLOWED,
                                    "agree": agree, "cases": lines}, indent=1) + "\n", encoding="utf-8")
    print(f"{agree} of {len(lines)} peaks within {100 * ALLOWED:g} %")
    return 0 if agree == len(lines) else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        rank_main(int(sys.argv[2]), *sys.argv[3:])
    else:
        raise SystemExit(main())
