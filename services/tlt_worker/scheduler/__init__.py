"""Code that runs inside SGLang's scheduler processes and is not imported by the worker process."""
