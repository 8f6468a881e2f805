#!/usr/bin/env python3
"""What every CUDA kernel takes of a multiprocessor, from the built objects (sm_90), without a GPU.

    scripts/kernel-table.py BUILD            prints the table of all kernels
    scripts/kernel-table.py BUILD --write    keeps it: results/sm_90/kernels.json, docs/cuda.md
    scripts/kernel-table.py BUILD --check    fails if a kernel spills, if an object lacks the machine code of
                                             an architecture, or if what is kept is of other kernels (only
                                             with the nvcc that made it)

BUILD is a built folder, or one with objects. Machine code lies in them as ELF files, which tell
registers, shared memory and the stack. A thread's stack is what its registers did not hold: spills,
and arrays whose index the compiler does not know. All three are read here, with Python alone.

Bytes in flight, of a thread: a load of global memory names one of six scoreboards, and an instruction
that needs what it loads waits for it. Copies to shared memory make groups, and an instruction waits
for all but the last of these. Going through the code in the order in which it lies, from one
jump that is always taken to the next, this is the largest sum of bytes that were asked for and not yet
waited for. A load under a condition counts, so it is what a thread may have in flight, not what it must.
"""

import argparse
import collections
import json
import pathlib
import re
import struct
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
KEPT = ROOT / "results/sm_90/kernels.json"
BEFORE = ROOT / "results/sm_90/kernels-before.json"
PAGE = ROOT / "docs/cuda.md"
BEGIN, END = "<!-- kernels: scripts/kernel-table.py BUILD --write -->", "<!-- end of kernels -->"

ARCHITECTURE = 90
BUILT = 80, 90, 100  # for which cmake/Cuda.cmake has machine code made
# NVIDIA Hopper tuning guide, 1.4.1: of a multiprocessor.
REGISTERS, WARPS, BLOCKS, SHARED = 65536, 64, 32, 228 * 1024
RESERVED = 1024  # bytes of shared memory that CUDA takes of each block, part of the ELF's count
WARP = 32
UNBOUNDED = 256  # threads of a block of kernels without __launch_bounds__
# What a multiprocessor of an H200 needs in flight. NVIDIA/cccl, tuning_transform.cuh, counts as it is done
# here and found 48 KiB. Little's law asks for no less than bandwidth times the latency of a load that
# waits for no other: 690 clocks of 1.98 GHz (markdewing/AI_kernels, latency/README.md: GH200).
NEEDED, LATENCY = 48 * 1024, 690 / 1.98e9

Kernel = collections.namedtuple("Kernel", "name registers shared stack threads load flight")


def machines(data):
    """Where an object's ELF files for GPUs begin, and the architecture of each."""
    at = -1
    while (at := data.find(b"\x7fELF\x02\x01", at + 1)) >= 0:
        machine, flags = struct.unpack_from("<18xH28xI", data, at)
        if machine == 190:
            yield at, flags >> 8 & 0xFF


def elves(data):
    """The ELF files for ARCHITECTURE in an object, as {section name: bytes}, and their symbols."""
    for at, architecture in machines(data):
        if architecture != ARCHITECTURE:
            continue
        sections_at, = struct.unpack_from("<Q", data, at + 40)
        count, names = struct.unpack_from("<HH", data, at + 60)
        table = [struct.unpack_from("<IIQQQQIIQQ", data, at + sections_at + 64 * i) for i in range(count)]

        def text(section, offset):
            start = at + table[section][4] + offset
            return data[start:data.index(b"\0", start)].decode()

        sections = {}
        for name, kind, _, _, start, size, *_ in table:
            empty = kind == 8  # SHT_NOBITS: only its size counts
            sections[text(names, name)] = bytes(size) if empty else data[at + start:at + start + size]
        strings = [text(names, row[0]) for row in table].index(".strtab")
        symbols = [text(strings, name) for name, *_ in struct.iter_unpack("<IBBHQQ", sections[".symtab"])]
        yield sections, symbols


def attributes(section):
    """(code, words) of the attributes in a section .nv.info."""
    at = 0
    while at < len(section):
        form, code, size = struct.unpack_from("<BBH", section, at)
        at += 4
        if form == 4:  # the others hold their value in place of the size
            yield code, struct.unpack_from(f"<{size // 4}I", section, at)
            at += size


def loads(code):
    """Widest load of global memory, and bytes in flight, of a thread."""
    widest = most = 0
    flying = [0] * 8  # by scoreboard; number 7 is none
    groups, group = [], 0  # of copies to shared memory, and what is in none yet
    for low, high in struct.iter_unpack("<QQ", code):
        opcode, always = low & 0xFFF, low >> 12 & 0xF == 7
        control = high >> 41  # 4 bits stall, 1 yield, 3 + 3 scoreboards to write and read, 6 to wait for
        for board in range(6):
            if control >> 11 + board & 1:
                flying[board] = 0
        size = (1, 1, 2, 2, 4, 8, 16, 0)[high >> 9 & 7] if opcode in (0x981, 0xFAE) else 0  # LDG, LDGSTS
        if opcode == 0x981:
            flying[control >> 5 & 7] += size
        elif opcode == 0xFAE:
            group += size
        elif opcode == 0x9AF:  # LDGDEPBAR
            groups, group = groups + [group], 0
        elif opcode == 0x91A:  # DEPBAR, for all groups but the last ones
            groups = groups[max(0, len(groups) - (low >> 38 & 0x3F)):]
        elif always and opcode in (0x94D, 0x950) or always and opcode == 0x947 and high >> 23 & 0xF == 7:
            flying, groups, group = [0] * 8, [], 0  # EXIT, RET, BRA: what follows is reached from elsewhere
        widest, most = max(widest, size), max(most, sum(flying) + sum(groups) + group)
    return widest, most


def short(symbol):
    """A kernel's name without namespaces, parameters and what differs from build to build."""
    symbol = symbol.replace("(anonymous namespace)::", "")
    symbol = re.sub(r"\(.*", "", symbol.split(" ", 1)[1] if symbol.startswith("void ") else symbol)
    symbol = re.sub(r"(?:\w+::)+", "", symbol)
    return symbol.replace("Bf16", "bf16").replace(" >", ">")


def kernels_of(path):
    """Those in an object file."""
    found = []
    for sections, symbols in elves(path.read_bytes()):
        per_kernel = {0x2F: {}, 0x11: {}}  # registers, stack
        for code, words in attributes(sections[".nv.info"]):
            if code in per_kernel:
                per_kernel[code][symbols[words[0]]] = words[1]
        for section in sorted(name for name in sections if name.startswith(".text.")):
            symbol = section[len(".text."):]
            threads = [words[0] for code, words in attributes(sections[f".nv.info.{symbol}"]) if code == 5]
            shared = len(sections.get(f".nv.shared.{symbol}", b""))
            found.append(Kernel(symbol, per_kernel[0x2F][symbol], max(0, shared - RESERVED),
                                per_kernel[0x11].get(symbol, 0), threads[0] if threads else 0,
                                *loads(sections[section])))
    return found


def objects_in(build):
    return sorted(path for path in pathlib.Path(build).rglob("*.cu.o") if "emulated" not in str(path.relative_to(build)))


def absent(build):
    """What --check finds that is not built, a line each."""
    for path in objects_in(build):
        there = {architecture for _, architecture in machines(path.read_bytes())}
        if missing := [f"sm_{architecture}" for architecture in BUILT if architecture not in there]:
            yield f"{path.name} has no machine code for {', '.join(missing)}"


def kernels_in(build):
    """{file: kernels} of a folder's objects, sorted by name."""
    files = {path.name.removesuffix(".cu.o"): kernels_of(path) for path in objects_in(build)}
    if not any(files.values()):
        sys.exit(f"kernel-table.py: no machine code for sm_{ARCHITECTURE} in {build}, or compressed; "
                 "build with CUDA first: scripts/build.sh release")
    symbols = [kernel.name for kernels in files.values() for kernel in kernels]
    plain = subprocess.run(["c++filt"], input="\n".join(symbols), capture_output=True, text=True, check=True)
    names = dict(zip(symbols, map(short, plain.stdout.splitlines())))
    return {file: sorted(kernel._replace(name=names[kernel.name]) for kernel in kernels)
            for file, kernels in files.items()}


def warps_of(kernel):
    """Warps of it that a multiprocessor has at a time, without dynamic shared memory."""
    of_block = -(-(kernel["threads"] or UNBOUNDED) // WARP)
    registers = -(-kernel["registers"] * WARP // 256) * 256  # of a warp; a quarter of the file each
    by_registers = REGISTERS // 4 // registers * 4 // of_block
    by_shared = SHARED // (-(-(kernel["shared"] + RESERVED) // 128) * 128)
    return min(by_registers, by_shared, WARPS // of_block, BLOCKS) * of_block


def flying(kernel):
    """Bytes in flight of a multiprocessor."""
    return warps_of(kernel) * WARP * kernel["flight"]


def nvcc_of(build):
    """The version that is written in the objects."""
    for path in pathlib.Path(build).rglob("*.cu.o"):
        if found := re.search(rb"Cuda compilation tools, release [\d.]+, V([\d.]+)", path.read_bytes()):
            return found[1].decode()
    return "unknown"


def measure(build):
    return {"nvcc": nvcc_of(build), "architecture": f"sm_{ARCHITECTURE}",
            "kernels": {f"{file}: {kernel.name}": dict(zip(Kernel._fields[1:], kernel[1:]))
                        for file, kernels in kernels_in(build).items() for kernel in kernels}}


def row(name, kernel):
    return (name, kernel["registers"], kernel["stack"], kernel["shared"], kernel["threads"] or UNBOUNDED,
            warps_of(kernel), kernel["flight"], f"{flying(kernel) / 1024:.0f}")


HEAD = ("kernel", "registers", "spilled", "shared", "threads", "warps", "in flight", "KiB in flight")


def page_table(table, before):
    """Markdown of the kernels that move bf16 by 16 bytes, and one line about the others."""
    def is_shown(item):
        return "bf16" in item[0] and "double" not in item[0] and item[1]["load"] == 16

    shown = dict(filter(is_shown, table["kernels"].items()))
    lines = ["| " + " | ".join(HEAD + ("before",)) + " |", "|---|" + "---:|" * len(HEAD)]
    for name, kernel in shown.items():
        old = before["kernels"].get(name)
        was = "new" if old is None else "" if old == kernel else \
            f"{old['registers']} / {warps_of(old)} / {flying(old) / 1024:.0f}"
        file, _, rest = name.partition(": ")
        lines.append("| " + " | ".join(map(str, row(f"{file} `{rest}`", kernel) + (was,))) + " |")
    others = [kernel for name, kernel in table["kernels"].items() if name not in shown]
    spilling = [name for name, kernel in table["kernels"].items() if kernel["stack"]]
    lines += ["", f"nvcc {table['nvcc']}, {table['architecture']}. The other {len(others)} kernels take at most "
                  f"{max(kernel['registers'] for kernel in others)} registers. {len(spilling)} of all "
                  f"{len(table['kernels'])} spill{': ' if spilling else ''}"
                  + ", ".join(f"{name.replace(': ', ' `')}`" for name in spilling) + "."]
    return "\n".join(lines)


def page_with(table):
    """docs/cuda.md with the table in its place."""
    text = PAGE.read_text()
    head, _, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not end:
        sys.exit(f"kernel-table.py: {PAGE} has no lines '{BEGIN}' and '{END}'")
    return f"{head}{BEGIN}\n{page_table(table, json.loads(BEFORE.read_text()))}\n{END}{tail}"


def write(table):
    lines = (f"    {json.dumps(name)}: {json.dumps(kernel)}" for name, kernel in table["kernels"].items())
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_text(f'{{"nvcc": "{table["nvcc"]}", "architecture": "{table["architecture"]}",\n'
                    ' "kernels": {\n' + ",\n".join(lines) + "\n}}\n")
    PAGE.write_text(page_with(table))


def problems(table):
    """What --check finds, a line each."""
    kept = json.loads(KEPT.read_text())
    for name, kernel in table["kernels"].items():
        spilled = kept["kernels"].get(name, {"stack": 0})["stack"]
        if kernel["stack"] > spilled:
            yield f"{name} spills {kernel['stack']} bytes of a thread's registers, {spilled} before"
    if table["nvcc"] != kept["nvcc"]:
        return
    if table != kept:
        names = [name for name in {**table["kernels"], **kept["kernels"]}
                 if table["kernels"].get(name) != kept["kernels"].get(name)]
        yield f"{KEPT.relative_to(ROOT)} is of other kernels: {', '.join(names[:5])} ({len(names)} in all)"
    elif page_with(table) != PAGE.read_text():
        yield f"{PAGE.relative_to(ROOT)} has another table"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    table = measure(options.build)
    if options.write:
        write(table)
    elif options.check:
        found = [*absent(options.build), *problems(table)]
        print("\n".join(found), file=sys.stderr)
        if found:
            sys.exit(f"kernel-table.py: if that is meant, scripts/kernel-table.py {options.build} --write keeps it")
    else:
        for line in [HEAD, *(row(*item) for item in table["kernels"].items())]:
            print(f"{line[0]:72}" + "".join(f"{value:>14}" for value in line[1:]))


if __name__ == "__main__":
    main()
