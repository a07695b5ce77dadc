"""The lanes of calls: the queues, threads and deadlines of their work."""
