"""Tasks: sampling them, and reading and writing files of them."""
