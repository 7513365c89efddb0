"""The playground's HTTP service: FastAPI around a solver, a bounded queue before it, and the page's files."""
