"""What a command costs: time, memory and disk. Figures are those of the system, nothing is estimated."""

import os
import pathlib
import subprocess
import time


def run(command, **options):
    """Runs it to its end. Its exit status, seconds, the processor's seconds of all its processes, and the memory that
    the largest of them held, in bytes."""
    begin = time.monotonic()
    # pylint: disable=consider-using-with  # its end is waited for below, where the system says what it took
    process = subprocess.Popen([str(word) for word in command], **options)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return {"status": process.returncode,
            "seconds": round(time.monotonic() - begin, 2),
            "processor_seconds": round(usage.ru_utime + usage.ru_stime, 2),
            "largest_process_bytes": usage.ru_maxrss * 1024}


def disk(folder):
    """The bytes of a folder's files as the file system keeps them; a file of several names once."""
    blocks = {}
    for path in pathlib.Path(folder).rglob("*"):
        entry = path.lstat()
        blocks[entry.st_dev, entry.st_ino] = entry.st_blocks
    return 512 * sum(blocks.values())
