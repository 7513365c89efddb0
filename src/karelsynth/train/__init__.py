"""Training: recipes, batches, checkpoints and the one loop."""
