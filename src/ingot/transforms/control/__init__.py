"""Control flow as values: loops and branches whose bodies are traced once.

`scan`, `fori_loop`, `while_loop`, `cond` and `switch` make one op each. Its fields hold the traced
bodies; its rules rewrite them, so that loops differentiate, vectorise and nest like other ops.
"""

from ingot.transforms.control.branch import cond, switch
from ingot.transforms.control.fori import fori_loop
from ingot.transforms.control.scan import scan
from ingot.transforms.control.while_loop import while_loop

__all__ = ["cond", "fori_loop", "scan", "switch", "while_loop"]
