"""vikingctl, the admin command line: a client only."""
