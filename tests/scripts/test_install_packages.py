from __future__ import annotations

import pytest

from scripts.install_packages import read_install_step


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("Collecting numpy>=2.4.6 (from kinetic==0.1.0)\n", "numpy>=2.4.6"),
        (
            "  Downloading tornado-6.6.1-cp39-abi3.whl (445 kB)\n",
            "tornado-6.6.1-cp39-abi3.whl",
        ),
        ("Processing /some/folder/h11-0.16.0.whl (from httpx)\n", "h11-0.16.0.whl"),
        ("Installing collected packages: a, b, c\n", "unpacking all of them"),
        ("Progress 2000000 of 4000000\n", "2 of 4 MB"),
        ("Requirement already satisfied: pip\n", None),
        ("\n", None),
    ],
)
def test_what_pip_is_at_is_read_from_its_output(line, step):
    assert read_install_step(line) == step
