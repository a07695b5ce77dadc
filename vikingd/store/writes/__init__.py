"""The writes of a store: each is a function on the open transaction of its group."""
