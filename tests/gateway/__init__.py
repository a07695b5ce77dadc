"""Tests of the gateway: HTTP, the page, and Node."""
