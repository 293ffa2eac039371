"""Reading and writing by arrays of indices, and by subscripts of any kind."""
