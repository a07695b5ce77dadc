"""The snapshot: the arrays that the kernels read, and what a reply shows of their rows."""
