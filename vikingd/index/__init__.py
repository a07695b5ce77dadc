"""The index: the arrays that kernels read, and the strings that replies show."""
