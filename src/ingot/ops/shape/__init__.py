"""Making arrays, and changing their shapes: views, joins, pads, slices."""
