"""From LLVM text to machine code in this process, by way of the disk cache."""
