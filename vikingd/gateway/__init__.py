"""The HTTP gateway: REST, MCP and the browser page, each a client of the daemon."""
