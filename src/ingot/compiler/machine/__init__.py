"""From LLVM text to machine code in this process, through the disk cache."""
