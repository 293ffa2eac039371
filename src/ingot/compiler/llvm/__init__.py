"""From loop nests to LLVM's assembly language."""
