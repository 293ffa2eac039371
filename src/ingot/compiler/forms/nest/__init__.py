"""The loop nest: its data, builder, printer, verifier, interpreter."""
