"""The domain: contexts, queries, answers, errors. No wire, no database, no kernels."""
