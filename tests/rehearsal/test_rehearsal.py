"""What is run on a GPU, run on an emulated one that does not compute (tests/emulator): whether everything
is issued, allocated, timed, written and refused as it should be. CTest sets EMULATED (the program)."""

import json
import os
import shutil
import subprocess

from sources import InFolder

PROGRAM = os.environ["EMULATED"]
LLAMA = ["--model", "llama3-8b", "--type", "bf16", "--precision", "pure", "--recompute", "full", "--step-in-backward"]
MINI_SEQUENCES = ["--mlp-chunks", "paper", "--head-chunks", "paper"]


class Rehearsal(InFolder):
    gpus = 1

    def run_program(self, *arguments, status=0, program=PROGRAM, **variables):
        environment = {**os.environ, "FRUGAL_EMULATED_COMPUTE": "0", "FRUGAL_EMULATED_GPUS": str(self.gpus),
                       "FRUGAL_CACHE": "", **variables}
        done = subprocess.run([program, *arguments], cwd=self.folder, capture_output=True, text=True, check=False,
                              env=environment)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def measured(self, *arguments, program=PROGRAM):
        return json.loads(self.run_program("measure", *arguments, "--format", "json", program=program).stdout)


class Peaks(Rehearsal):
    def test_shapes(self):
        peaks = json.loads(self.run_program("peak", "--on", "cuda", "--format", "json").stdout)
        self.assertIn("emulated GPU", peaks["device"])
        shapes = {(rate["m"], rate["n"], rate["k"]) for rate in peaks["gemm"]}
        self.assertIn((8192, 8192, 8192), shapes)


class Algorithms(Rehearsal):
    def test_are_timed_by_the_first_process_alone(self):
        def counts(out, **variables):
            self.run_program("measure", "--on", "cuda", "--model", "gpt-3m", "--out", out, **variables)
            return json.loads((self.folder / out / "records.jsonl").read_text())["environment"]["gemm_algorithms"]

        cache = str(self.folder / "cache")
        first = counts("first", FRUGAL_CACHE=cache)
        self.assertGreater(first["timed"], 20)
        self.assertEqual(first["cached"], 0)
        self.assertEqual(counts("second", FRUGAL_CACHE=cache), {"timed": 0, "cached": first["timed"]})
        self.assertEqual(counts("third"), first)


class LostGpu(Rehearsal):
    ARTIFACT = ["reproduce", "korthikanti2022/table4", "--on", "cuda", "--scale", "1/32", "--out", "out", "--budget", "0"]

    def statuses(self):
        lines = (self.folder / "out/records.jsonl").read_text().splitlines()
        return [(record["case"], record["status"], record["reason"]) for record in map(json.loads, lines)]

    def test_ends_the_run_and_another_process_goes_on(self):
        for work in ("50", "300"):  # while an algorithm is chosen, and while a case is timed
            with self.subTest(work=work):
                self.lost_at(work)
                shutil.rmtree(self.folder / "out")

    def lost_at(self, work):
        done = self.run_program(*self.ARTIFACT, status=7, FRUGAL_EMULATED_COMPUTE="1", FRUGAL_EMULATED_FAILURE=work)
        self.assertEqual(done.stderr.strip().splitlines()[-1].split(":")[:2], ["frugal", " GPU 0 is lost to this process"])
        failed = [(case, reason) for case, status, reason in self.statuses() if status == "failed"]
        self.assertEqual(len(failed), 1, failed)
        self.assertIn("an illegal memory access", failed[0][1])
        self.assertRegex(failed[0][1], "or an operation before it|, issued after ")
        self.assertFalse(any(status == "ok" for _, status, _ in self.statuses()))
        before = len(self.statuses())
        self.run_program(*self.ARTIFACT, status=6)
        later = self.statuses()[before:]
        self.assertNotIn(failed[0][0], [case for case, _, _ in later])
        self.assertTrue(any(status == "ok" for _, status, _ in later))
        self.assertFalse(any(status == "failed" for _, status, _ in later))


class Memory(Rehearsal):
    def test_is_the_virtual_machines_to_the_byte(self):
        for more in ([*LLAMA, *MINI_SEQUENCES, "--sequence", "60000"],
                     ["--model", "22B", "--layers", "1", "--type", "bf16", "--micro-batch", "4", "--recompute", "selective"],
                     ["--model", "gpt2-124m", "--microbatches", "3", "--stored-masks"]):
            ours = self.measured("--on", "cuda", *more)["memory"]
            virtual = self.measured("--on", "virtual:h200-hgx", *more)["memory"]
            self.assertEqual(ours["peak"], virtual["peak"], more)
            self.assertEqual(ours["peak_total"], virtual["peak_total"], more)
            self.assertGreaterEqual(ours["reserved"], ours["peak_total"])
            # Products' workspace has 32 MiB.
            self.assertLessEqual(ours["reserved"], 1.01 * ours["peak_total"] + 48 * 2**20, more)

    def test_of_a_lone_rank_too(self):
        shape = ["--model", "22B", "--layers", "1", "--type", "bf16", "--micro-batch", "4", "--tensor-parallel", "8",
                 "--sequence-parallel"]
        ours = self.measured("--on", "cuda", "--lone-rank", "h200-hgx", *shape)
        virtual = self.measured("--on", "virtual:h200-hgx", *shape)
        self.assertEqual(ours["communication"]["kind"], "modelled")
        self.assertEqual(ours["memory"]["peak"], virtual["memory"]["peak"])

    def test_a_lone_ranks_record_says_what_its_collectives_take(self):
        run = ["measure", "--on", "cuda", "--lone-rank", "h200-hgx", "--model", "gpt-tiny", "--tensor-parallel", "2",
               "--format", "json"]
        nothing = json.loads(self.run_program(*run).stdout)
        everything = json.loads(self.run_program(*run, FRUGAL_COLLECTIVE_LOAD="all").stdout)
        self.assertEqual(nothing["options"]["collective_load"], "none")
        self.assertTrue(nothing["command"].startswith("frugal measure"))
        self.assertEqual(everything["options"]["collective_load"], "all")
        self.assertTrue(everything["command"].startswith("FRUGAL_COLLECTIVE_LOAD=all frugal measure"))
        self.assertNotEqual(everything["fingerprint"], nothing["fingerprint"])
        self.assertEqual(everything["memory"]["peak"], nothing["memory"]["peak"])
        more = everything["memory"]["reserved"] - nothing["memory"]["reserved"]
        self.assertGreaterEqual(more, 128 << 20)
        # Both bounds of one case stand in columns of their own.
        for load in ("none", "all"):
            self.run_program("reproduce", "korthikanti2022/table2", "--on", "cuda", "--scale", "1/32", "--budget", "0",
                             "--out", "out", FRUGAL_COLLECTIVE_LOAD=load, FRUGAL_EMULATED_NAME="NVIDIA H200")
        cells = json.loads(self.run_program("report", "out", "--format", "json").stdout)["cells"]
        self.assertLessEqual({"cuda, lone rank on h200-hgx", "cuda, lone rank on h200-hgx, loaded"},
                             {cell["on"] for cell in cells})
        wrong = self.run_program(*run, status=2, FRUGAL_COLLECTIVE_LOAD="some")
        self.assertIn('FRUGAL_COLLECTIVE_LOAD is "some"; it must be all or none', wrong.stderr)

    def test_of_lone_stages_too(self):
        model = ["--model", "175B", "--layers", "24", "--type", "bf16", "--tensor-parallel", "8", "--sequence-parallel",
                 "--pipeline-parallel", "8", "--microbatches", "16", "--recompute", "selective", "--steps", "2"]
        for more in (["--schedule", "interleaved", "--chunks", "3"], ["--schedule", "zb-h1"], ["--schedule", "2bw"]):
            ours = self.measured("--on", "cuda", "--lone-rank", "h200-hgx", *model, *more)
            virtual = self.measured("--on", "virtual:h200-hgx", *model, *more)
            self.assertEqual(ours["lone_stages"]["stages"], [0, 1, 7])
            for stage, memory in zip(ours["lone_stages"]["stages"], ours["memory"]["stages"], strict=True):
                for key in ("peak", "at_peak", "peak_per_kind"):
                    self.assertEqual(memory[key], virtual["memory"]["stages"][stage][key], (more, stage))
            self.assertEqual(ours["flops"], virtual["flops"])
            times = [ours["metrics"][part]["median"] for part in ours["lone_stages"]["parts"]]
            self.assertAlmostEqual(sum(times), ours["metrics"]["step_time"]["median"])

    def test_of_figures_from_lone_stages(self):
        """Stage by stage what the whole virtual pipeline has, and times in three parts."""
        def records(*command):
            shutil.rmtree(self.folder / "out", ignore_errors=True)
            self.run_program("reproduce", *command, "--format", "json", "--out", "out",
                             FRUGAL_EMULATED_NAME="NVIDIA H200")
            return [json.loads(line) for line in (self.folder / "out/records.jsonl").read_text().splitlines()]

        figures = ["korthikanti2022/figure1", "korthikanti2022/figure9", "--scale", "1/32", "--programs", "frugal"]
        whole = {(record["artifact"], record["case"]): record for record in records(*figures, "--on", "virtual")}
        ours = records(*figures, "--on", "cuda")
        self.assertEqual(len(ours), len(whole))
        alone = 0
        for record in ours:
            stages = whole[record["artifact"], record["case"]]["memory"]["stages"]
            ran = record.get("lone_stages", {"stages": [0]})["stages"]
            alone += len(ran)
            for stage, memory in zip(ran, record["memory"]["stages"], strict=True):
                self.assertEqual(memory, stages[stage], (record["case"], stage))
            self.assertEqual(record.get("lone_stages", {"parts": {}})["parts"], {})
        self.assertEqual(alone, 2 * (1 + 3 + 3 + 3) + 2 * 3)
        for record in records("pipedream2bw2021/figure6a", "--scale", "1/8", "--on", "cuda"):
            self.assertEqual(record["status"], "ok", record["reason"])
            if "lone_stages" not in record:
                self.assertEqual(record["configuration"]["pipeline_parallel_size"], 1)
                continue
            self.assertEqual(record["lone_stages"]["stages"], [0, 1, 7])
            samples = {name: metric["samples"] for name, metric in record["metrics"].items()}
            self.assertEqual(len(samples["step_time"]), 6)
            self.assertIn("interval", record["metrics"]["bubble_time"])

    def test_what_does_not_fit_is_a_result(self):
        done = self.run_program("measure", "--on", "cuda", *LLAMA, "--sequence", "400000", "--out", "out", status=3)
        self.assertRegex(done.stderr, "needs [0-9.]+ GiB of [0-9.]+ GiB on each rank .* counted on virtual:")
        record = json.loads((self.folder / "out/records.jsonl").read_text())
        self.assertEqual(record["status"], "oom")
        self.assertGreater(record["needed"]["memory"]["peak_total"], record["needed"]["capacity"])


class SeveralGpus(Rehearsal):
    gpus = 8

    def test_their_memory_is_the_virtual_machines_to_the_byte(self):
        gpt = ["--model", "22B", "--layers", "4", "--type", "bf16", "--sequence-parallel"]
        llama = ["--model", "llama3-8b", "--layers", "4", "--type", "bf16", "--attention", "fused"]
        for more in ([*gpt, "--tensor-parallel", "8", "--recompute", "selective"],
                     [*gpt, "--tensor-parallel", "2", "--pipeline-parallel", "2", "--data-parallel", "2",
                      "--microbatches", "4"],
                     [*gpt[:-1], "--pipeline-parallel", "4", "--microbatches", "8", "--schedule", "zb-h1"],
                     [*gpt[:-1], "--pipeline-parallel", "4", "--microbatches", "4", "--schedule", "2bw", "--steps", "3"],
                     [*gpt, "--tensor-parallel", "4", "--pipeline-parallel", "2", "--microbatches", "8",
                      "--schedule", "interleaved", "--chunks", "2"],
                     [*llama, "--context-parallel", "8", "--sequence", "32768", "--recompute", "full", *MINI_SEQUENCES],
                     [*llama, "--context-parallel", "4", "--context", "ring", "--data-parallel", "2"]):
            ours = self.measured("--on", "cuda", "--ranks", "threads", *more)
            virtual = self.measured("--on", "virtual:h200-hgx", *more)
            self.assertEqual(ours["communication"]["kind"], "real")
            # A ring's ranks keep statistics of different lengths for a moment; the virtual one is the last.
            keys = ["peak", "at_peak"] if "ring" in more else ["peak", "at_peak", "peak_per_kind", "peak_in_layers"]
            for stage, of_virtual in zip(ours["memory"]["stages"], virtual["memory"]["stages"], strict=True):
                for key in keys:
                    self.assertEqual(stage[key], of_virtual[key], more)

    def test_collectives_are_timed(self):
        peaks = json.loads(self.run_program("peak", "--on", "cuda", "--format", "json").stdout)
        self.assertEqual({rate["collective"] for rate in peaks["collectives"]},
                         {"all-reduce", "all-gather", "reduce-scatter"})
        self.assertEqual({rate["ranks"] for rate in peaks["collectives"]}, {8})

    def test_the_longest_sequence_leaves_room_for_nccl(self):
        """A group of eight, and as much as its blocks take at most."""
        def memory(*more):
            found = json.loads(self.run_program("longest", "--on", "cuda", "--model", "llama-tiny", "--layers", "1",
                                                *more, "--format", "json").stdout)
            self.assertTrue(found["confirmed"])
            return found["memory"]

        taken = memory() - memory("--tensor-parallel", "2", "--ranks", "threads")
        self.assertAlmostEqual(taken / 2**20, 832, delta=8)

    def test_artifacts_have_all_ranks_where_threads_are_named(self):
        for more in (["--ranks", "threads"], []):
            self.run_program("reproduce", "korthikanti2022/table4", "--on", "cuda", "--scale", "1/32", "--budget", "0",
                             "--out", "out", *more)
            records = [json.loads(line) for line in (self.folder / "out/records.jsonl").read_text().splitlines()]
            divided = [record for record in records if record["configuration"]["tensor_parallel_size"] == 8]
            asked_for = [record for record in divided if "with --ranks threads" in record["reason"]]
            self.assertEqual(len(asked_for), 0 if more else len(divided))
            self.assertEqual(sum(record["status"] == "ok" for record in divided), 5 if more else 0)
            self.assertTrue(all(record["command"].endswith(" ".join(more)) for record in records))
            shutil.rmtree(self.folder / "out")

    def test_more_ranks_than_gpus_are_refused(self):
        done = self.run_program("measure", "--on", "cuda", "--model", "gpt2-124m", "--data-parallel", "9", status=2)
        self.assertIn("need a GPU each, and there are 8", done.stderr)


class LongestSequence(Rehearsal):
    def test_fits(self):
        found = json.loads(self.run_program("longest", "--on", "cuda", *LLAMA, *MINI_SEQUENCES, "--format",
                                            "json").stdout)
        self.assertTrue(found["confirmed"])
        self.assertGreater(found["longest_sequence"], 250000)
