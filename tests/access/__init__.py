"""Tests of keys, rights, quotas, tenants and attacks on them."""
