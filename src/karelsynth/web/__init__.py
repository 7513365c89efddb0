"""The playground: an HTTP service around a solver, with a bounded queue, and the page's files."""
