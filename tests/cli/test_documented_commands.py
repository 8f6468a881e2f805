"""Every command of frugal that README and docs/ show runs as it stands there, or why it does not."""

import fnmatch
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

from program import FRUGAL, GPU, SOURCE, Cli

# What commands read, by the names that pages give: (name, text).
GIVEN = {
    "book.txt": "In the beginning was the word. " * 4000,
    "mine.json": '{"model": "gpt-tiny", "steps": 2}',
    "train.sh": "torchrun --nproc_per_node 8 --nnodes $NUM_NODES pretrain_gpt.py --tensor-model-parallel-size 8 "
                "--num-layers 4 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --max-position-embeddings 1024 "
                "--micro-batch-size 1 --global-batch-size 64 --bf16\n",
    "sweep.sh": "for TP in 1 2; do torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size $TP --num-layers 4 "
                "--hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --max-position-embeddings 1024 --vocab-size 32000 "
                "--micro-batch-size 1 --global-batch-size 64 --bf16; done\n",
    "arguments.txt": "--num-layers 4 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --max-position-embeddings "
                     "1024 --micro-batch-size 1 --global-batch-size 64 --vocab-size 32000 --bf16\n",
    "llama3_70b.toml": '[model]\nname = "llama3"\nflavor = "70B"\n[training]\nlocal_batch_size = 1\nseq_len = 8192\n'
                       '[activation_checkpoint]\nmode = "full"\n[parallelism]\ndata_parallel_shard_degree = 64\n',
    "ds_config.json": '{"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1, "bf16": {"enabled": true}, '
                      '"zero_optimization": {"stage": 1}}',
}
# Words of a command by smaller ones, so that it ends soon: what is trained, how often, on which text.
SMALLER = {"--steps 1500": "--steps 2", "--steps 200": "--steps 2", "--steps 20": "--steps 2", "--model gpt-3m": "--model gpt-tiny",
           "--eval-every 100": "--eval-every 2"}
# Commands that take minutes: each begins as it stands, and is interrupted.
LONG = ["frugal reproduce korthikanti2022", "frugal reproduce korthikanti2022 --format json*", "frugal reproduce pipedream2bw2021",
        "frugal reproduce mst2024/table3", "frugal explain mst2024/table3", "frugal bench gemm", "frugal bench gemm --case*",
        "frugal calibrate * --sensitivity", "frugal calibrate * --published", "frugal peak --machine *", "frugal validate*",
        "frugal reproduce mst2024 --on virtual", "frugal reproduce pipedream2bw2021 --on virtual*",
        "frugal operations --model gpt2-124m*", "frugal measure --model gpt2-124m*"]
# Commands that a page shows because they are refused.
REFUSED = ["frugal measure --model llama3-8b --layers 80 --hidden 8192 --heads 64"]
# Commands that are not run here, and why.
LEFT_OUT = {
    "*--on cuda*": "needs a GPU",
    "*...*": "is cut short on the page",
    "*[[]--*": "shows what may be left out",
    "frugal bench --read micro.json*": "reads what frugal_micro wrote; test_bench.py has it",
    "frugal compare old new*": "compares two programs; test_compare.py has it",
    "frugal report out/*": "reads what reproduce.sh made",
    "*--context ring,zigzag*": "trains 8192 tokens for minutes; test_context.py has it",
    "frugal calibrate --hardware my-machine.json*": "a machine of the reader's",
    "frugal schedule 1": "is the first line of a file",
    "frugal measure --model gpt2-124m --on virtual:./mine.json": "reads what the command before it measures in minutes",
}


def commands_of(page):
    """Those in code blocks that are not printed with their output, which page-outputs.py runs: without the words
    behind two spaces that explain them."""
    for block in re.findall(r"^```[a-z]*\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        if block.startswith("$ frugal"):
            continue
        for line in re.sub(r" *\\\n *", " ", block).splitlines():
            line = re.split(r"\s{2,}|\s#\s", line.strip())[0]
            if line.startswith(("frugal ", "jq ")):
                yield line


def pages():
    """Each page's commands in their order; cluster.md's are those of test_launchers.py and test_processes.py."""
    named = (SOURCE / "README.md", *sorted((SOURCE / "docs").glob("*.md")))
    return {page.name: list(commands_of(page)) for page in named if page.name not in ("cli.md", "cluster.md")}


def processor_seconds(process):
    """That it and children that have ended have taken so far; those of a process that has ended count as endless."""
    try:
        stat = pathlib.Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return math.inf
    return sum(map(int, stat.rpartition(")")[2].split()[11:15])) / os.sysconf("SC_CLK_TCK")


def matches(command, patterns):
    return next((pattern for pattern in patterns if fnmatch.fnmatchcase(command, pattern)), None)


class DocumentedCommands(Cli):
    def shell(self, command):
        return subprocess.Popen(["bash", "-c", f'frugal() {{ exec "{FRUGAL}" "$@"; }}; {command}'], cwd=self.folder, text=True,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
                                env={**os.environ, "FRUGAL_RUN_ONCE": "1"})

    def fresh(self, commands):
        """An empty folder but for what these commands read and none of them writes."""
        for path in self.folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        (self.folder / "results/mine").mkdir(parents=True)
        for name, text in GIVEN.items():
            if not any(re.search(rf"(--machine|>) {re.escape(name)}$", command) for command in commands):
                (self.folder / name).write_text(text)

    def ends_well(self, command):
        with self.shell(command) as program:
            said = program.communicate(timeout=300)[1]
            return None if program.returncode == (2 if command in REFUSED else 0) else f"status {program.returncode}: {said.strip().splitlines()[-1:]}"

    def begins_well(self, command):
        """It is not refused: after half a second of a processor, in which it read its flags, it can be interrupted, or
        has ended well."""
        with self.shell(command) as program:
            while program.poll() is None and processor_seconds(program.pid) < 0.5:
                time.sleep(0.05)
            if program.poll() is None:
                os.killpg(program.pid, signal.SIGINT)
            said = program.communicate(timeout=300)[1]
            return None if program.returncode in (0, 130, -signal.SIGINT) else f"status {program.returncode}: {said.strip()[-200:]}"

    def of_page(self, commands):
        """What went wrong of each that is run, in a folder of the page."""
        self.fresh(commands)
        for command in commands:
            if (why := matches(command, LEFT_OUT)) and not (GPU and LEFT_OUT[why] == "needs a GPU"):
                continue
            smaller = command
            for word, less in SMALLER.items():
                smaller = re.sub(rf"{re.escape(word)}(?= |$)", less, smaller)
            yield command, self.begins_well(command) if matches(command, LONG) else self.ends_well(smaller)

    maxDiff = None

    def test_each_runs(self):
        run = {(page, command): said for page, commands in pages().items() for command, said in self.of_page(commands)}
        self.assertEqual([f"{page}: {command}: {said}" for (page, command), said in run.items() if said], [])
        self.assertGreater(len(run), 40)

    def test_each_that_is_left_out_or_long_is_on_a_page(self):
        commands = [command for of_page in pages().values() for command in of_page]
        unused = [pattern for pattern in (*LEFT_OUT, *LONG) if not any(fnmatch.fnmatchcase(c, pattern) for c in commands)]
        self.assertEqual(unused, [])

    def test_a_command_that_fails_is_found(self):
        self.assertIn("status 2", self.ends_well("frugal measure --model gpt-tiny --steps none"))
        self.assertIn("status 2", self.begins_well("frugal reproduce korthikanti2022/table44"))
        self.assertIsNone(self.ends_well("frugal list"))
