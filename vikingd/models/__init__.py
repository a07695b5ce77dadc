"""Models: embedders, planners, rerankers, and their shared HTTP and file handling."""
