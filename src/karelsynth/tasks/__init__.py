"""Tasks: values and arrays, streams of generated tasks, statistics, and files of tasks."""
