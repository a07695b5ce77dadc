"""Parts of HTTP clients that embedders, planners and rerankers share."""
