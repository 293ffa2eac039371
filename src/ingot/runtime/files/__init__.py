"""Files of arrays: .npy, .npz, .safetensors and .gguf, and how files are opened and replaced."""
