"""Sources of imports: pages and sites, repositories, archives."""
