"""Array creation and shape manipulation: views, joins, pads, slices."""
