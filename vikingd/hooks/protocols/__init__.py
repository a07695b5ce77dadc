"""The protocols of coding agents: one module for each agent, see `agent_events.AgentProtocol`."""
