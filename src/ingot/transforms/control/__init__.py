"""Control flow in graphs: loops and branches whose bodies are traced once.

`scan`, `fori_loop`, `while_loop`, `cond` and `switch` each build one op, whose fields hold the
traced bodies. Its rules rewrite these, so loops can be differentiated, vectorised and nested like
any other op.
"""

from ingot.transforms.control.branch import cond, switch
from ingot.transforms.control.fori import fori_loop
from ingot.transforms.control.scan import scan
from ingot.transforms.control.while_loop import while_loop

__all__ = ["cond", "fori_loop", "scan", "switch", "while_loop"]
