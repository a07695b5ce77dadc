"""The snapshot of arrays that the kernels read: rows, tree, vectors, postings, filters."""
