"""Code that runs inside SGLang's scheduler processes. The worker process does not import it."""
