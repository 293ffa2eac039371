"""From loop nests to instructions: where every value lives, and for how long."""
