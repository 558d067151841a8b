"""How much memory the machine, or the group of the process, has left."""

from __future__ import annotations

import os


def free_memory() -> int:
    """Bytes of memory that can be used without swapping, cgroup limits included."""
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    try:
        with open("/proc/meminfo", encoding="ascii") as file:  # noqa: PTH123
            for line in file:
                if line.startswith("MemAvailable:"):
                    free = int(line.split()[1]) * 1024
    except OSError:
        pass
    return min(free, _cgroup_free(free))


def _cgroup_free(otherwise: int) -> int:
    try:
        with open("/sys/fs/cgroup/memory.max", encoding="ascii") as file:  # noqa: PTH123
            limit = file.read().strip()
        with open("/sys/fs/cgroup/memory.current", encoding="ascii") as file:  # noqa: PTH123
            used = int(file.read())
        return otherwise if limit == "max" else max(int(limit) - used, 0)
    except (OSError, ValueError):
        return otherwise
