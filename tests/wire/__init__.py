"""Tests of gRPC: requests, replies, limits, and the numbered promises."""
