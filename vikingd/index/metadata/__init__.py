"""The metadata of nodes in columns, and the filters that read them."""
