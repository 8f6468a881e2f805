#!/usr/bin/env python3
"""What the planner chooses for the models of pipedream2bw2021, section 5.2, on 64 V100s with the kernels and messages of
the paper's program: a table in Markdown.

    plan_decisions.py [PROGRAM] > results/virtual/plan-decisions.md     (half a minute)
"""

import json
import sys

from program import run

BEHAVIOUR = "pipedream-2bw-2021:time:messages"
#: What the paper's planner does not search.
PAPERS_SPACE = ["--tensor-parallel", "1", "--context-parallel", "1", "--recompute-modules", "core-attention", "--recompute-layers", "all",
                "--offload-modules", "none", "--shard", "none", "--stage-layers", "equal", "--validate-steps", "before"]
PAPERS_DEPTH = {"gpt-2.2b": 8, "gpt-3.8b": 16}


def plans(frugal, model, batch, recompute):
    printed = run(
        frugal, "plan", "--within", "1000", "--model", model, "--hardware", "v100-p3-16xlarge", "--devices", "64", "--batch", str(batch),
        "--schedule", "2bw", *PAPERS_SPACE, "--recompute", recompute, "--program", BEHAVIOUR, "--rows", "1000", "--format", "json")
    return json.loads(printed)["fitting"]


def said(plan):
    run = plan["config"]
    return (f"w {run['data_parallel_size']}, d {run['pipeline_parallel_size']}, b {run['microbatch_size']}, "
            f"{run['recompute']}: {plan['sequences_per_second']:.1f}")


def main(arguments):
    frugal = arguments[0] if arguments else "build/release/frugal"
    print("| model, batch | recompute | first choice, sequences/s | best with the paper's depth |\n|---|---|---|---|")
    for model, depth in PAPERS_DEPTH.items():
        for batch in (512, 2048):
            for recompute in ("searched", "full", "stage"):
                all_plans = plans(frugal, model, batch, recompute)
                papers = next((p for p in all_plans if p["config"]["pipeline_parallel_size"] == depth), None)
                print(f"| {model}, {batch} | {recompute} | {said(all_plans[0])} | {said(papers) if papers else 'none fits'} |")


if __name__ == "__main__":
    main(sys.argv[1:])
