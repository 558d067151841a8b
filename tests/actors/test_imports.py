"""What deciding needs, and what it does not: the engine."""

import subprocess
import sys


def test_importing_the_scheduler_loads_no_engine():
    code = "import sys, kinetic.actors.scheduler; sys.exit('llama_cpp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
