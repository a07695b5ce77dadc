"""Messages: requests to the domain, answers to replies; a file for each kind."""
