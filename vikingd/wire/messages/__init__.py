"""Conversions of requests to the domain and of answers to replies; a file for each kind."""
