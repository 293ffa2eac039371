"""Files of arrays: .npy, .npz and .safetensors, and how files are opened and replaced."""
