"""A check for ReFrame (4.0 or later): 1, 2 and 4 processes train what as many threads train, and how fast they do."""

import json

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import parameter, performance_function, run_before, sanity_function, variable

LAYOUTS = {
    1: "--micro-batch 4",
    2: "--micro-batch 4 --tensor-parallel 2",
    4: "--micro-batch 2 --tensor-parallel 2 --data-parallel 2",
}


@rfm.simple_test
class FrugalMeasure(rfm.RunOnlyRegressionTest):
    ranks = parameter(sorted(LAYOUTS))
    program = variable(str, value="frugal")
    model = variable(str, value="gpt-3m")
    steps = variable(int, value=20)
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    keep_files = ["threads", "processes"]  # the records

    @run_before("run")
    def train(self):
        training = f"measure --model {self.model} --on cpu {LAYOUTS[self.ranks]} --steps {self.steps}"
        self.num_tasks = self.ranks
        self.prerun_cmds = [f"{self.program} {training} --out threads"]
        self.executable = self.program
        self.executable_opts = f"{training} --out processes".split()

    def record(self, ranks):
        with open(f"{self.stagedir}/{ranks}/records.jsonl") as lines:
            return json.loads(list(lines)[-1])

    @sanity_function
    def trains_what_threads_train(self):
        threads, processes = self.record("threads"), self.record("processes")
        return sn.all([
            sn.assert_eq(processes["status"], "ok"),
            sn.assert_eq(len(processes["losses"]), self.steps),
            sn.assert_eq(len(processes["environment"].get("ranks", [0])), self.ranks, "{0} processes, not {1}"),
            sn.assert_eq(processes["losses"], threads["losses"], "losses differ from those of threads: {0}, {1}"),
        ])

    @performance_function("s")
    def step_time(self):
        return self.record("processes")["metrics"]["step_time"]["median"]

    @performance_function("tokens/s")
    def throughput(self):
        of = self.record("processes")["configuration"]
        return of["global_batch"] * of["model"]["sequence_length"] / self.step_time()

    @performance_function("1")
    def mfu(self):
        """Against the measured peak of the machine's matrix products."""
        return self.record("processes")["utilization"]["mfu"]["measured"]["value"]
