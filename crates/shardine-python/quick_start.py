"""Prints the quick start of README.md, the block of Python in its section "Python".

    python crates/shardine-python/quick_start.py > quick_start.py
"""

import re
import sys
from pathlib import Path

README = Path(__file__).resolve().parents[2] / "README.md"

section = README.read_text().split("\n## Python\n", 1)[1].split("\n## ", 1)[0]
blocks = re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)
if len(blocks) != 1 or "pip install ./crates/shardine-python" not in section:
    sys.exit("README.md: the section Python must have one block of Python and the line to install")
sys.stdout.write(blocks[0])
