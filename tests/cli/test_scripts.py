"""Shell scripts, which frugal import has bash follow."""

import subprocess

from program import Cli
from test_exchange import LISTS, SMALL

SCRIPT = (LISTS / "conditions.sh").read_text(encoding="utf-8")
CHAINS = """[ "$KIND" = big ] && A="--hidden-size 9"
[ "$KIND" != big ] && A="--hidden-size 64"
[ -z "$TP" ] || B="--tensor-model-parallel-size 4"
[[ -n "$KIND" && $LAYERS -gt 1 ]] && { C="--swiglu"; D="--num-layers $LAYERS"; }
! [ "$KIND" = big ] && ( echo no ) && E="--micro-batch-size 2"
[ -f somewhere ] && F="--bf16"
cd / && G="--seq-length 32" || G="--seq-length 7"
torchrun --nproc_per_node 2 pretrain_gpt.py $A $B $C $D $E $F $G --num-attention-heads 4 --vocab-size 256
"""


class Scripts(Cli):
    def test_what_follows_a_condition_is_followed(self):
        report = self.imported(self.given(CHAINS, "chains.sh"), "--set", "KIND=small", "--set", "LAYERS=3")
        given = report["configuration"]
        self.assertEqual((given["hidden_size"], given["layers"], given["mlp"], given["microbatch_size"]), (64, 3, "swiglu", 2))
        self.assertEqual((given["sequence_length"], given["data_parallel_size"]), (32, 2))
        self.assertEqual(given.get("tensor_parallel_size", 1), 1)
        self.assertEqual([line[:7] for line in report["not_followed"]], ["line 6:"])
        self.assertEqual(given["type"], "f32")

    def script(self, before, launch, more="", after=""):
        """A script with a launcher, and behind it a model that is enough."""
        return self.given(f"{before}\n{launch} pretrain_gpt.py {' '.join(SMALL)} --bf16 {more}\n{after}\n", "a.sh")

    def test_a_script_is_followed_as_bash_does(self):
        for before, more, after, layers in [
                ("case $SIZE in\n small) L=4 ;;\n *) L=8 ;;\nesac", "--num-layers $L", "", 8),
                ("SIZES=(2 4)", "--num-layers ${SIZES[1]}", "", 4),
                ("X=a-7-b; Y=${X/a-/}; Y=${Y%-*}", "--num-layers $Y", "", 7),
                ("for i in 1 2 3; do N=$((N + i)); done", "--num-layers $N", "", 6),
                ("torchrun() { srun -n 8 \"$@\"; }", "--num-layers 3", "", 3)]:
            with self.subTest(before):
                given = self.imported(self.script(before, "torchrun --nproc_per_node 8", more, after))["configuration"]
                self.assertEqual((given["layers"], given["data_parallel_size"]), (layers, 8))
        function = "launch() { torchrun --nproc_per_node 8 pretrain_gpt.py \"$@\"; }\nlaunch " + " ".join(SMALL) + "\n"
        self.assertEqual(self.imported(self.given(function, "a.sh"))["configuration"]["data_parallel_size"], 8)

    def test_one_of_several_launches_is_chosen(self):
        words = " ".join([*SMALL, "--bf16 --tensor-model-parallel-size $TP --save $TP"])
        loop = self.given(f"for TP in 1 2; do\n  torchrun --nproc_per_node 8 pretrain_gpt.py {words}\ndone\n", "loop.sh")
        self.rejected("import", loop, says=["loop.sh", "2 launches", "--tensor-model-parallel-size (1, 2)", "--launch N"])
        self.rejected("import", loop, "--launch", "3", says=["loop.sh", "--launch is 3", "2"])
        for number in (1, 2):
            given = self.imported(loop, "--launch", str(number))["configuration"]
            self.assertEqual((given.get("tensor_parallel_size", 1), given["data_parallel_size"]), (number, 8 // number))
        alike = f"for TP in 1 2; do torchrun --nproc_per_node 8 pretrain_gpt.py {words}; done\n".replace("size $TP", "size 2")
        self.assertEqual(self.imported(self.given(alike, "a.sh"))["configuration"]["data_parallel_size"], 4)

    def test_how_many_ranks_a_launcher_starts(self):
        for before, launch, ranks in [
                ("", "deepspeed --num_gpus 8 --num_nodes 2", 16), ("", "deepspeed --num_gpus=4", 4),
                ("", "mpirun -np 4 -x A python", 4), ("", "mpiexec -n 4 python", 4), ("", "srun -n6 python", 6),
                ("", "srun --nodes=2 --ntasks-per-node 4 python", 8), ("#SBATCH --ntasks=12", "srun python", 12),
                ("#SBATCH -N 3\n#SBATCH --ntasks-per-node=2", "srun -u python", 6),
                ("", "accelerate launch --num_processes 6", 6), ("", "python -m torch.distributed.run --nproc-per-node=4", 4),
                ("", "srun -N 2 torchrun --nproc_per_node 8 --nnodes=2", 16),
                ("#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=1", "srun torchrun --nproc_per_node 8", 8),
                ("N=4", "srun -N $N --ntasks-per-node 1 bash -c 'torchrun --nproc_per_node 8 --nnodes '$N' x.py'; torchrun "
                 "--nproc_per_node 8 --nnodes $((N / 2))", 16)]:
            with self.subTest(launch):
                mapped = self.imported(self.script(before, launch))["mapped"]
                self.assertIn(f"{ranks} ranks", [part["said"] for part in mapped])
        for launch, says in [("deepspeed", "--num_gpus"), ("deepspeed --num_gpus 8 --hostfile x", "--num_nodes"),
                             ("mpirun python", "-n"), ("srun python", "--ntasks"), ("srun -N 2 python", "--ntasks-per-node"),
                             ("torchrun", "--nproc-per-node"), ("torchrun --nproc_per_node gpu", "gpu"),
                             ("torchrun --nproc_per_node 8 --nnodes 1:4", "1:4"), ("accelerate launch", "--num_processes"),
                             ("srun -N 2 --ntasks-per-node 1 torchrun --nproc_per_node 8", "--nnodes")]:
            with self.subTest(launch):
                self.rejected("import", self.script("", launch), says=["a.sh", says, "--world-size N"])
                self.assertEqual(self.imported(self.script("", launch), "--world-size", "4")
                                 ["configuration"]["data_parallel_size"], 4)

    def test_all_that_is_not_set_is_named_at_once(self):
        more = "--num-layers $DEPTH --hidden-size $WIDE --save $HERE --seed $(($A * B))"
        file = self.script("case $MODEL in\n x) L=1 ;;\nesac", "torchrun --nproc_per_node 8 --nnodes $HOW_MANY --master_addr $M",
                           more)
        line = self.rejected("import", file, says=["a.sh", "DEPTH (--num-layers)", "WIDE (--hidden-size)", "A (--seed)",
                                                   "B (--seed)", "HOW_MANY", "conditions ask for MODEL", "--world-size"])
        self.assertNotIn("HERE", line)
        self.assertNotIn("M (", line)
        self.assertNotIn("HOW_MANY", self.rejected("import", file, "--world-size", "8", says=["DEPTH"]))
        names = ["DEPTH=2", "WIDE=64", "A=2", "B=3", "HOW_MANY=2"]
        given = self.imported(file, *[word for name in names for word in ("--set", name)])["configuration"]
        self.assertEqual((given["layers"], given["seed"], given["data_parallel_size"]), (2, 6, 16))
        self.rejected("import", self.script("", "torchrun", "--num-layers $DEPTH --num-experts 8"),
                      says=["another model", "--num-experts 8"])

    def test_a_script_can_do_nothing(self):
        trace = self.folder / "trace"
        for text in [f"echo x > {trace}", f"/usr/bin/touch {trace}", f"(exec touch {trace})", f"command -p touch {trace}",
                     f"PATH=/usr/bin:/bin touch {trace}", f"cat <<EOF > {trace}\nx\nEOF", f"history -w {trace}"]:
            with self.subTest(text):
                self.imported(self.script(text, "torchrun --nproc_per_node 8"))
                self.assertFalse(trace.exists())
        self.rejected("import", self.script("N=$(</etc/hostname)", "torchrun --nproc_per_node $N"), says=["--world-size"])
        for text in ["while :; do :; done", ":(){ :|:& };:; wait; while :; do :; done"]:
            self.rejected("import", self.script(text, "torchrun --nproc_per_node 8"), says=["a.sh", "does not end"])

    def in_bash(self, script, **variables):
        """What a shell gives the program: the words behind it."""
        (self.folder / "bin").mkdir(exist_ok=True)
        torchrun = self.folder / "bin/torchrun"
        torchrun.write_text("#!/bin/bash\nwhile [[ $1 != *.py ]]; do shift; done; shift; printf '%s\\n' \"$@\" >&2\n")
        torchrun.chmod(0o755)
        done = subprocess.run(["bash", "-c", script.replace("2>&1", "")], check=True, capture_output=True, text=True,
                              env={"PATH": f"{self.folder / 'bin'}:/usr/bin:/bin", **variables})
        return [word for line in done.stderr.splitlines() for word in line.split()]

    def test_a_script_says_what_a_shell_makes_of_it(self):
        for variables in ({}, {"FLASH": "2"}, {"FLASH": "1", "GPUS": "4", "OUT": "there"}):
            words = self.in_bash(SCRIPT, SLURM_NNODES="3", EXTRA="--tensor-model-parallel-size 2", **variables)
            set_ = [word for name, value in {**variables, "EXTRA": "--tensor-model-parallel-size 2"}.items()
                    for word in ("--set", f"{name}={value}")]
            report = self.imported(self.given(SCRIPT, "a.sh"), *set_)
            said = [word for key in ("unknown", "missing", "mapped", "same") for part in report[key]
                    for word in part["said"].split() if key != "mapped" or not part["said"].endswith(" ranks")]
            self.assertEqual(sorted(set(words)), sorted(set(said)), variables)
            self.assertEqual(report["configuration"]["data_parallel_size"], 3 * int(variables.get("GPUS", "2")) // 2)
            self.assertEqual(report["configuration"]["layers"], 6)

    def test_a_variable_that_is_not_set(self):
        report = self.imported(self.given(SCRIPT, "a.sh"))
        self.assertIn("--bf16 ${EXTRA}", [part["said"] for part in report["mapped"]])
        text = SCRIPT.replace("--num-layers $LAYERS", "--num-layers $DEPTH")
        for more in ([], ["--set", "LAYERS=3"]):
            done = self.run_frugal("import", self.given(text, "a.sh"), *more, status=2)
            self.assertIn("not set: DEPTH (--num-layers); give --set DEPTH=VALUE", done.stderr)
        self.assertEqual(self.imported(self.given(text, "a.sh"), "--set", "DEPTH=3")["configuration"]["layers"], 3)
