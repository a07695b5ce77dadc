"""Keys, tenants and quotas."""
