"""Servicers: protobuf to domain and back, and the one table from errors to status."""
