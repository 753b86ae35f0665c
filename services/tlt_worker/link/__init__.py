"""The link between the worker process and SGLang's scheduler process: message types and sockets."""
