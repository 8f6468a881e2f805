"""scripts/kernel-table.py: what is in flight in code that is made up, and how many warps there are."""

import importlib.util
import os
import pathlib
import struct
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ.get("FRUGAL_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
SPEC = importlib.util.spec_from_file_location("kernel_table", SOURCE / "scripts/kernel-table.py")
table = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(table)

ALWAYS = 7 << 12
NO_BOARD = 7 << 46  # writes no scoreboard


def load(board, width, predicate=ALWAYS):
    """A load of 16, 8, 4 bytes or fewer."""
    code = {1: 0, 2: 2, 4: 4, 8: 5, 16: 6}[width]
    return struct.pack("<QQ", 0x981 | predicate, code << 9 | board << 46)


def use(*boards):
    """An addition that waits for them."""
    return struct.pack("<QQ", 0x210 | ALWAYS, NO_BOARD | sum(1 << 52 + board for board in boards))


def copy(width):
    """To shared memory."""
    return struct.pack("<QQ", 0xFAE | ALWAYS, {4: 4, 8: 5, 16: 6}[width] << 9 | NO_BOARD)


def end_group():
    return struct.pack("<QQ", 0x9AF | ALWAYS, NO_BOARD)


def wait_for_groups(but):
    return struct.pack("<QQ", 0x91A | ALWAYS | but << 38, NO_BOARD)


def jump(predicate=ALWAYS):
    return struct.pack("<QQ", 0x947 | predicate, 7 << 23 | NO_BOARD)


def elf(sections, architecture):
    """An object file of sections whose names end in .shstrtab's, with shared memory taking no room in it."""
    names = "\0".join(sections) + "\0"
    data, rows = bytearray(64), []
    for name, content in sections.items():
        content = names.encode() if name == ".shstrtab" else content
        empty = name.startswith(".nv.shared.")
        rows.append(struct.pack("<IIQQQQIIQQ", f"\0{names}".index(f"\0{name}\0"), 8 if empty else 1, 0, 0, len(data), len(content), 0, 0, 0, 0))
        data += b"" if empty else content
    struct.pack_into("<6s12xH20xQI", data, 0, b"\x7fELF\x02\x01", 190, len(data), architecture << 8)
    struct.pack_into("<HH", data, 60, len(rows), list(sections).index(".shstrtab"))
    return bytes(data) + b"".join(rows)


class InFlight(unittest.TestCase):
    def expect(self, widest, flight, *code):
        self.assertEqual(table.loads(b"".join(code)), (widest, flight))

    def test_loads_before_the_first_use_add_up(self):
        self.expect(16, 40, load(0, 16), load(1, 16), load(1, 8), use(0), use(1))

    def test_a_use_between_them_parts_them(self):
        self.expect(16, 16, load(0, 16), use(0), load(1, 16), use(1))

    def test_only_the_board_that_is_waited_for_ends(self):
        self.expect(16, 36, load(0, 16), load(1, 16), use(0), load(2, 16), load(2, 4), use(1, 2))

    def test_a_condition_counts_as_met(self):
        self.expect(4, 6, load(0, 4, 0 << 12), load(0, 2, 3 << 12), use(0))

    def test_what_follows_a_jump_is_reached_from_elsewhere(self):
        self.expect(16, 16, load(0, 16), jump(), load(1, 16), use(0, 1))
        self.expect(16, 32, load(0, 16), jump(2 << 12), load(1, 16), use(0, 1))

    def test_copies_to_shared_memory_are_waited_for_by_group(self):
        self.expect(16, 40, copy(16), copy(8), end_group(), copy(16), end_group(), wait_for_groups(0), copy(16))
        self.expect(16, 36, copy(16), end_group(), copy(4), end_group(), wait_for_groups(1), copy(16), copy(16), wait_for_groups(0))
        self.expect(16, 24, copy(8), end_group(), load(0, 16), use(0), wait_for_groups(0), load(1, 16))
        self.expect(16, 16, copy(16), end_group(), jump(), copy(16))

    def test_stores_and_arithmetic_are_not_loads(self):
        self.expect(0, 0, use(), jump())


class Warps(unittest.TestCase):
    def expect(self, warps, registers, threads, shared=0):
        self.assertEqual(table.warps_of({"registers": registers, "threads": threads, "shared": shared}), warps)

    def test_registers_come_by_eight_of_each_lane_and_four_warps(self):
        self.expect(64, 32, 256)
        self.expect(48, 33, 256)
        self.expect(16, 111, 128)
        self.expect(16, 111, 64)
        self.expect(28, 72, 896)

    def test_blocks_come_whole(self):
        self.expect(16, 80, 512)
        self.expect(24, 80, 256)

    def test_shared_memory_and_the_number_of_blocks_are_limits(self):
        self.expect(56, 32, 256, 31 * 1024)
        self.expect(56, 32, 256, 33280 - 1024)  # 7 of 33,280 bytes are in 228 KiB, and 7 of 33,408 are not
        self.expect(48, 32, 256, 33280 - 1023)
        self.expect(32, 16, 32)


class Table(unittest.TestCase):
    """A kernel whose numbers all differ: 8 blocks of 6 warps, of whose registers a quarter of the file holds 12 warps'."""
    KERNEL = {"registers": 40, "shared": 3000, "stack": 16, "threads": 192, "load": 16, "flight": 24}

    def test_a_row(self):
        self.assertEqual(table.HEAD, ("kernel", "registers", "spilled", "shared", "threads", "warps", "in flight", "KiB in flight"))
        self.assertEqual(table.row("k", self.KERNEL), ("k", 40, 16, 3000, 192, 48, 24, f"{48 * 32 * 24 // 1024}"))
        self.assertEqual(table.row("k", {**self.KERNEL, "threads": 0})[4:6], (256, 48))

    def test_of_a_page(self):
        kernels = {"a: f<bf16>": self.KERNEL, "b: g<bf16>": {**self.KERNEL, "load": 8, "registers": 77}, "b: h<float>": {**self.KERNEL, "stack": 0},
                   "c: i<bf16, double>": self.KERNEL, "c: j<bf16>": {**self.KERNEL, "stack": 0}}
        before = {"kernels": {"a: f<bf16>": {**self.KERNEL, "registers": 64, "flight": 12}}}
        *rows, _, said = table.page_table({"nvcc": "13", "architecture": "sm_90", "kernels": kernels}, before).splitlines()
        self.assertEqual(rows[2:], ["| a `f<bf16>` | 40 | 16 | 3000 | 192 | 48 | 24 | 36 | 64 / 30 / 11 |",
                                    "| c `j<bf16>` | 40 | 0 | 3000 | 192 | 48 | 24 | 36 | new |"])
        self.assertEqual(said, "nvcc 13, sm_90. The other 3 kernels take at most 77 registers. 3 of all 5 spill: a `f<bf16>`, b `g<bf16>`, "
                               "c `i<bf16, double>`.")
        kept = table.json.loads(table.KEPT.read_text())
        self.assertEqual(table.page_with(kept), table.PAGE.read_text())
        spilling = {**kept, "kernels": {**kept["kernels"], "device_kernels: idle": {**kept["kernels"]["device_kernels: idle"], "stack": 24}}}
        self.assertEqual(list(table.problems(spilling)), [
            "device_kernels: idle spills 24 bytes of a thread's registers, 0 before",
            "results/sm_90/kernels.json is of other kernels: device_kernels: idle (1 in all)"])

    def test_what_an_object_has(self):
        section = struct.pack("<BBHII", 4, 0x2F, 8, 3, 40) + struct.pack("<BBH", 3, 0x1B, 255) + struct.pack("<BBHI", 4, 5, 4, 192)
        self.assertEqual(list(table.attributes(section)), [(0x2F, (3, 40)), (5, (192,))])
        self.assertEqual(table.short("void a::(anonymous namespace)::f<true, a::b::Bf16 >(a::View, int)"), "f<true, bf16>")

    def test_objects_have_code_for_each_architecture(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, architectures in (("all", (80, 90, 100)), ("old", (80, 90)), ("none", ())):
                sections = {".shstrtab": b""}
                (pathlib.Path(folder) / f"{name}.cu.o").write_bytes(b"".join(elf(sections, a) for a in architectures))
            self.assertEqual(list(table.absent(folder)), ["none.cu.o has no machine code for sm_80, sm_90, sm_100",
                                                          "old.cu.o has no machine code for sm_100"])

    def test_shared_memory_is_without_what_cuda_reserves(self):
        """Kernels with 3000 bytes of their own, with none, and with no section of it; the same for another architecture."""
        sizes = {"own": 3000 + 1024, "none": 1024}
        sections = {"": b"", ".symtab": b"".join(struct.pack("<IBBHQQ", at, 0, 0, 0, 0, 0) for at in (0, 1, 5, 10)),
                    ".nv.info": b"".join(struct.pack("<BBHII", 4, code, 8, number, value + number) for number in (1, 2, 3)
                                         for code, value in ((0x2F, 40), (0x11, 15)))}
        for name in ("own", "none", "bare"):
            sections[f".text.{name}"] = load(0, 16)
            sections[f".nv.info.{name}"] = struct.pack("<BBHI", 4, 5, 4, 192) if name == "own" else b""
        sections |= {f".nv.shared.{name}": bytes(size) for name, size in sizes.items()}
        sections |= {".strtab": b"\0own\0none\0bare\0", ".shstrtab": b""}
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"before" + elf(sections, 80) + elf(sections, 90) + b"behind")
            file.flush()
            self.assertEqual(table.kernels_of(pathlib.Path(file.name)), [
                ("bare", 43, 0, 18, 0, 16, 16), ("none", 42, 0, 17, 0, 16, 16), ("own", 41, 3000, 16, 192, 16, 16)])
