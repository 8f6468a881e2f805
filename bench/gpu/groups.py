"""What is run on a GPU, or predicted for one, and how long each part of it may take."""

import importlib.util
import sys

from parts import GRACE, Part

#: Seconds of calls of a lent machine's quarter of an hour, with the check before each. The first two leave time to start
#: it and to give it back at their limits; the third one is for what they leave where they end before that.
CALLS = {"first-call": 590, "second-call": 230, "third-call": 290}
LIMIT = 540  # seconds of a group with the check and the smoke group before it; a lent machine's call has 600

RANKS = 8  # GPUs of a node
#: What has NCCL run two ranks on a GPU: few blocks of each, and no multicast of NVLink's switches.
SHARED = {"NCCL_MULTI_RANK_GPU_ENABLE": "1", "NCCL_NVLS_ENABLE": "0", "NCCL_MAX_CTAS": "4"}
TWO = {"tensor-parallel": ["--tensor-parallel", "2", "--sequence-parallel"], "data-parallel": ["--data-parallel", "2"],
       "pipeline": ["--pipeline-parallel", "2", "--microbatches", "4"],
       "weights divided": ["--data-parallel", "2", "--shard", "weights"]}
# Of a node of eight GPUs.
GPT = ["--model", "gpt2-1.5b", "--type", "bf16", "--attention", "fused", "--dropout", "0"]
STAGES = [*GPT, "--clip", "0", "--micro-batch", "1", "--pipeline-parallel", "8", "--microbatches", "16"]
NODE = {"22B, tensor-parallel 8": ["--model", "22B", "--layers", "4", "--type", "bf16", "--micro-batch", "4",
                                   "--recompute", "selective", "--tensor-parallel", "8", "--sequence-parallel"],
        "1.5B, data-parallel 8": [*GPT, "--micro-batch", "4", "--data-parallel", "8"],
        "the same, sums overlapped": [*GPT, "--micro-batch", "4", "--data-parallel", "8", "--overlap-grad-reduce"],
        "llama3-8b, weights divided": ["--model", "llama3-8b", "--type", "bf16", "--attention", "fused", "--micro-batch", "1",
                                       "--data-parallel", "8", "--shard", "weights", "--head-chunks", "8"],
        "1.5B, 1F1B in 8 stages": STAGES, "the same, GPipe": [*STAGES, "--schedule", "gpipe"],
        "the same, 2BW": [*STAGES, "--schedule", "2bw"]}

FAILED = ("failed", "skipped")
CHECK = ["CudaDeviceTest.SaysWhatTheGpuIs", "CudaDeviceTest.TransfersToTheHostAndBack",
         "Rows/OnTheGpu.AgreesWithFloat64/gelu", "Rows/OnTheGpu.AgreesWithFloat64/gemm"]
LAYER = ["--model", "22B", "--layers", "1", "--type", "bf16", "--micro-batch", "4", "--recompute", "selective"]
# As mst2024 trains, at its length on an A100 of 80 GB.
LONG = ["--model", "llama3-8b", "--sequence", "60000", "--type", "bf16", "--precision", "pure", "--recompute", "full",
        "--mlp-chunks", "paper", "--head-chunks", "paper", "--step-in-backward"]
# A rank of eight that share a sequence, and divide what they would have copies of.
RANK = ["--model", "llama3-8b", "--sequence", "65536", "--context-parallel", "8", "--type", "bf16", "--head-chunks", "8",
        "--steps", "4"]
SHARDED = {"optimizer, recompute full": ["--shard", "optimizer", "--recompute", "full"],
           "gradients, recompute full": ["--shard", "gradients", "--recompute", "full"],
           "weights": ["--shard", "weights"],
           "weights, recompute norm+activation": ["--shard", "weights", "--recompute-modules", "norm+activation"],
           "weights, recompute full": ["--shard", "weights", "--recompute", "full"]}
# Of a step, as bench/compare_steps.py asks for one.
STEP = ["--type", "bf16", "--attention", "fused", "--dropout", "0", "--narrow-logits", "--overwrite-gradients"]
PROFILED = {"gpt2-124m": ["--model", "gpt2-124m", "--micro-batch", "16"],
            "gpt2-1.5b": ["--model", "gpt2-1.5b", "--micro-batch", "4"],
            "a layer of llama3-8b": ["--model", "llama3-8b", "--layers", "1", "--micro-batch", "1"],
            "a layer of 22B": ["--model", "22B", "--layers", "1", "--micro-batch", "4"]}
SEEDS, EACH = range(1, 5), 100  # of tests of combinations
#: The longest sequence with which it is predicted to fit an H100 of 80 GB.
LONGEST = [*LONG[:3], "104808", *LONG[4:]]
#: Rows of operations whose kernels changed since a GPU ran them last.
CHANGED = ["Rows/OnTheGpu.*adam*", "Rows/OnTheGpu.*momentum*", "Rows/OnTheGpu.*bias*", "Rows/OnTheGpu.*norm*",
           "LargeNormsOnTheGpu.*", "Rows/OnTheGpu.*gemm*"]
#: The paper's models as one GPU of theirs runs them. As many microbatches as fill the pipeline twice: memory is all theirs.
ALONE = ["--type", "bf16", "--tensor-parallel", "8", "--sequence-parallel", "--recompute", "selective", "--steps", "7"]
STAGES = {"22B": ["--model", "22B", "--micro-batch", "4", *ALONE],
          "175B": ["--model", "175B", "--schedule", "interleaved", "--pipeline-parallel", "8", "--chunks", "3",
                   "--microbatches", "16", *ALONE],
          "530B": ["--model", "530B", "--schedule", "interleaved", "--pipeline-parallel", "35", "--chunks", "3",
                   "--microbatches", "70", *ALONE[:-1], "3"],
          "1T": ["--model", "1T", "--pipeline-parallel", "64", "--microbatches", "128", *ALONE[:-1], "3"]}
#: Artifacts of korthikanti2022 that a GPU has in a minute or two; the others are of stages that run alone.
OF_LAYERS = ("table2", "section4.1", "figure7", "table4", "section5", "figure8")
OFFLOADED = ["--model", "gpt2-1.5b", "--type", "bf16", "--attention", "fused", "--micro-batch", "8", "--steps", "4",
             "--recompute", "full", "--offload"]


class Groups:
    """The parts of each group, of a build's programs, with results in `out`; `aside` is for what is not kept.
    Of a machine of hardware/ its virtual one takes the GPU's place: what is measured is predicted then."""

    def __init__(self, build, bench, out, aside, machine=None):
        self.aside, self.machine = aside, machine
        self.on = f"virtual:{machine}" if machine else "cuda"
        self.frugal, self.tests, self.bench, self.out = build / "frugal", build / "tests/tests_cuda", bench, out
        self.ranks = build / "tests/tests_nccl_real"
        self.nccl_library = next((folder / "nccl/libnccl.so.2" for folder in (build, build.parent)
                                  if (folder / "nccl/libnccl.so.2").exists()), None)
        self.all = {"smoke": self.smoke(), "correctness": self.correctness(), "combinations": self.combinations(),
                    "speed": self.speed(), "profile": self.profile(), "rivals": self.rivals(),
                    "long-rivals": self.long_rivals(), "papers": self.papers(), "techniques": self.techniques(),
                    "lone-stages": self.lone_stages(), "nccl": self.nccl(), "node": self.node(),
                    "first-call": self.first_call(), "second-call": self.second_call(),
                    "third-call": self.third_call()}

    def by_topic(self):
        """All but the calls, which have parts of the others, and what needs a node of eight GPUs."""
        return [name for name in self.all if name not in (*CALLS, "node")]

    def check(self):
        """Whether there is a GPU that transfers and computes: a kernel of ours and a product of the library's."""
        return self.tested("the GPU works", 30, CHECK)

    def smoke(self):
        """All at the same time: most of it is the host's work, and none of their times counts."""
        shows = ("ok", *FAILED)
        no_pytorch = "" if importlib.util.find_spec("torch") else "there is no PyTorch here"
        return [self.tested("norms at the edges of their widths", 52, ["*NormsOnTheGpu*"], shows),
                self.tested("each form of fused attention", 52, ["*FusedAttention*"], shows),
                self.tested("each form of product", 52, ["Rows/OnTheGpu.AgreesWithFloat64/gemm*"], shows),
                self.measured("22B, one layer alone", 52, *LAYER, "--steps", "2", out=self.aside / "alone"),
                self.measured("22B, one layer as one rank of 8", 52, *LAYER, "--steps", "2", "--tensor-parallel", "8",
                              "--sequence-parallel", "--lone-rank", "h200-hgx", out=self.aside / "rank"),
                self.beside_pytorch("gpt2-124m", 4, 52, "--rounds", "1", "--steps", "2")._replace(
                    output=None, skip=no_pytorch)]

    def correctness(self):
        """Several processes: an error that a GPU does not recover from ends one of them."""
        apart = {"Rows/*": ("operations", 180), "Small/*": ("small models", 30),
                 "TrainingOnTheGpu.*": ("training", 40)}
        sanitizers = [sys.executable, "-B", self.bench / "gpu/sanitize.py", self.tests, self.out / "sanitizer.csv"]
        return [*[self.tested(name, seconds, [tests]) for tests, (name, seconds) in apart.items()],
                self.tested("the device, norms, attention", 30,
                            ["-" + ":".join(apart) + ":CombinationsOnTheGpu.*"]),
                Part("compute-sanitizer", 160, [*sanitizers, str(160 - GRACE)])]

    def combinations(self):
        """Ranks that share the GPU beside one rank on it."""
        return [self.combination(seed, EACH, 100) for seed in SEEDS]

    def combination(self, seed, count, seconds):
        return Part(f"combinations from seed {seed}", seconds, ["env", f"FRUGAL_SEED={seed}", f"FRUGAL_COMBINATIONS={count}",
                    self.tests, "--gtest_filter=CombinationsOnTheGpu.*"], shows=FAILED)

    def predicted(self, wanted):
        """The parts that measure, and keep what they measured, of one GPU or of a node. Table 4 in a steady state is in
        the papers' own."""
        if wanted == ["node"]:
            return self.node()
        return [*self.speed(), *self.profile(), *self.rivals(), *self.long_rivals(), *self.papers(), *self.techniques(),
                *self.large(), *self.lone_stages()]

    def first_call(self):
        """What comes first where a machine is lent for a quarter of an hour; about 420 s on an H100."""
        steady = [self.frugal, "reproduce", "korthikanti2022/table4", "--on", self.on, "--steady", "--stop", "samples",
                  "--budget", "1", "--out", self.out]
        sustained = ["--sustained", "2", "--same-cudnn"]
        return [self.tested("rows of changed kernels", 45, CHANGED),
                self.combination(5, 40, 45),
                *(part._replace(seconds=14) for part in self.profile()),
                Part("table 4 in a steady state", 150, steady, resumes=True),
                self.beside_pytorch("gpt2-124m", 16, 90, *sustained), self.beside_pytorch("gpt2-1.5b", 4, 125, *sustained)]

    def second_call(self):
        """What comes next; about 130 s on an H100."""
        (*_, products) = self.speed()
        (*_, sanitizer) = self.correctness()
        command = [*sanitizer.command[:-1], str(25 - GRACE)]
        return [products._replace(seconds=65), *self.large(), sanitizer._replace(seconds=25, command=command)]

    def third_call(self):
        """What comes then, in what is left; of it lone stages take about 110 s, as predicted for an H100."""
        tests, divided, *_ = self.nccl()
        return [tests._replace(seconds=70), divided._replace(seconds=20),
                *(part for part in self.lone_stages() if part.name.startswith(("22B", "175B")))]

    def lone_stages(self):
        """One rank of each distinct stage, without its peers. What stands for a collective takes nothing of the GPU, and
        then all that one could: a virtual machine charges what it takes, and has it once."""
        parts = []
        for (model, flags), seconds in zip(STAGES.items(), (20, 60, 60, 100)):
            parts.append(self.measured(f"{model}, stages alone", seconds, *flags, "--lone-rank", self.machine or "h100-dgx"))
            if model in ("22B", "175B") and not self.machine:
                loaded = ["env", "FRUGAL_COLLECTIVE_LOAD=all", *parts[-1].command]
                parts.append(parts[-1]._replace(name=f"{model}, stages alone, loaded", command=loaded))
        return [*parts, self.reproduced("korthikanti2022", 60, 10, "figure9")]

    def large(self):
        """What fills the memory, and what leaves for the host's."""
        return [self.measured("llama3-8b, 104,808 tokens", 75, *LONGEST),
                self.measured("gpt2-1.5b, offload", 25, *OFFLOADED)]

    def nccl(self):
        """Two ranks of NCCL's on one GPU: whether they end, what they compute and what communicators take. Times mean
        nothing there."""
        variables = [f"{name}={value}" for name, value in SHARED.items()]
        if self.nccl_library:
            variables.append(f"LD_PRELOAD={self.nccl_library}")  # a program's own run path comes before LD_LIBRARY_PATH
        shared = ["env", *variables]
        parts = [self.measured(f"two ranks on a GPU, {name}", 25, "--ranks", "threads", "--model", "gpt2-124m", "--type",
                               "bf16", "--micro-batch", "4", "--steps", "4", *flags) for name, flags in TWO.items()]
        return [Part("NCCL's own tests, two ranks on a GPU", 120, [*shared, self.ranks], shows=FAILED),
                *(part._replace(command=[*shared, *part.command]) for part in parts)]

    def node(self):
        """Eight GPUs, a process each, but for table 4, whose cases one process runs; predicted where there is a machine."""
        together = [] if self.machine else [sys.executable, "-B", self.bench / "gpu/ranks.py", str(RANKS)]
        bench = [self.frugal, "bench", "collectives", "--on", self.on, "--samples", "10", "--budget", "1", "--out", self.out]
        measured = [self.measured(name, 35, *flags, "--steps", "6") for name, flags in NODE.items()]
        parts = [Part("collectives by size", 60, bench), *measured]
        parts = [part._replace(command=[*together, *part.command]) for part in parts]
        if self.machine:
            return [*parts, Part("table 4", 75, [self.frugal, "predict", "korthikanti2022/table4", "--hardware", self.machine,
                                                 "--out", self.out])]
        table = [self.frugal, "reproduce", "korthikanti2022/table4", "--on", self.on, "--ranks", "threads", "--stop",
                 "samples", "--budget", "5", "--out", self.out]
        return [Part("NCCL's own tests", 75, [self.ranks], shows=FAILED), *parts,
                Part("table 4 with all its ranks", 75, table, resumes=True)]

    def techniques(self):
        # Ranks of one node: an H200's has the same links.
        alone = [] if self.machine else ["--lone-rank", "h100-dgx"]
        # Not the small layer: it is float32, of which a GPU has no fused attention.
        by_turns = [self.frugal, "bench", "recompute", "--on", self.on, "--case", "*[bB]/*", "--samples", "20",
                    "--budget", "20", "--out", self.out]
        return [Part("a layer that recomputes", 90, by_turns, resumes=True),
                *(self.measured(f"65,536 tokens, rank of 8, shard {kind}", 45, *RANK, *flags, *alone)
                  for kind, flags in SHARDED.items())]

    def speed(self):
        """About 80 s on an H100."""
        against_copy = [self.frugal, "bench", "memory-bound", "--on", self.on, "--samples", "10", "--budget", "1",
                        "--out", self.out]
        products = [sys.executable, "-B", self.bench / "gpu/torch_products.py", self.frugal, "--on", self.on, "--rounds", "2"]
        return [Part("peak", 60, [self.frugal, "peak", "--on", self.on, "--format", "json"], "peak.json", whole=True),
                Part("memory-bound operations", 120, against_copy, resumes=True),
                Part("products and torch.mm", 100, products, "steps.jsonl")]

    def profile(self):
        """Every operation of a step by events; about 25 s on an H100."""
        return [Part(f"operations of {name}", 32, [self.frugal, "operations", "--on", self.on, *model, *STEP, "--steps", "10",
                                                   "--format", "line"], "profile.jsonl")
                for name, model in PROFILED.items()]

    def rivals(self):
        """Eager, compiled and with CUDA graphs, in short turns and in turns of 2 s; about 190 s on an H100."""
        sustained = ["--sustained", "2", "--same-cudnn"]
        return [self.beside_pytorch("gpt2-124m", 16, 180, *sustained), self.beside_pytorch("gpt2-1.5b", 4, 230, *sustained)]

    def long_rivals(self):
        """Others that take longer to compile or to make; about 220 s on an H100."""
        whole = ["--against", "transformers", "--weights", "bf16-alone", "--rounds", "2", "--steps", "3",
                 "--flags=--precision pure --step-in-backward --recompute full"]
        return [self.beside_pytorch("gpt2-1.5b", 4, 140, "--weights", "bf16", *modes("compiled", "reduce-overhead")),
                self.beside_pytorch("gpt2-124m", 16, 170, *modes("max-autotune")),
                self.beside_pytorch("llama3-8b", 1, 140, *whole, *modes("checkpointed"))]

    def papers(self):
        steps = [self.measured(f"gpt2-124m, recompute {kind}", 25, "--model", "gpt2-124m", "--type", "bf16",
                               "--micro-batch", "8", "--steps", "8", "--recompute", kind)
                 for kind in ("none", "selective", "full")]
        return [*steps,
                self.measured("gpt-3m, 200 steps", 20, "--model", "gpt-3m", "--type", "f32", "--steps", "200",
                              "--micro-batch", "8", "--dropout", "0", "--learning-rate", "0.002"),
                self.reproduced("korthikanti2022", 110, 10, *OF_LAYERS),
                self.measured("llama3-8b, 60,000 tokens", 60, *LONG),
                self.reproduced("mst2024", 130, 5)]

    def tested(self, name, seconds, tests, shows=FAILED):
        return Part(name, seconds, [self.tests, "--gtest_filter=" + ":".join(tests)], shows=shows)

    def measured(self, name, seconds, *options, out=None):
        return Part(name, seconds, [self.frugal, "measure", "--on", self.on, "--out", out or self.out, *options])

    def reproduced(self, paper, seconds, budget, *artifacts):
        names = [f"{paper}/{name}" for name in artifacts or "*"]
        title = ", ".join([paper, *artifacts[:len(artifacts) == 1]])
        if self.machine:
            return Part(title, seconds, [self.frugal, "predict", *names, "--hardware", self.machine, "--out", self.out])
        return Part(title, seconds, [self.frugal, "reproduce", *names, "--on", "cuda", "--stop", "samples", "--budget",
                                     str(budget), "--out", self.out], resumes=True)

    def beside_pytorch(self, model, micro_batch, seconds, *options):
        program = ["gpu/predict_pytorch.py", self.frugal, self.bench.parent / f"hardware/{self.machine}.json"] \
            if self.machine else ["compare_steps.py", self.frugal]
        command = [sys.executable, "-B", self.bench / program[0], *program[1:], "--model", model, "--micro-batch",
                   str(micro_batch), *options]
        name = "transformers" if "transformers" in options else "PyTorch"
        more = [word for word in options if word in ("bf16", "max-autotune")]
        return Part(", ".join([f"{model} and {name}", *more]), seconds, command, "steps.jsonl")


def modes(*names):
    """Of compare_steps.py."""
    return [word for name in names for word in ("--mode", name)]


def seconds_of(name, parts):
    """At most, of a group."""
    return max(part.seconds for part in parts) if name == "smoke" else sum(part.seconds for part in parts)
