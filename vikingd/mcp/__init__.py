"""The MCP server: tools, resources and a prompt for models, over the client of the daemon."""
