"""The same work on Ortoo's server and on other queues: a producer process, a server, a consumer process, all durable."""
