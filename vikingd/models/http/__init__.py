"""Parts that the clients of embedders, planners and rerankers share over HTTP."""
