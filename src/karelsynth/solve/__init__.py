"""Examples in, a checked program out."""
