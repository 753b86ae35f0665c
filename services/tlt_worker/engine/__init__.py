"""SGLang as the engine of a worker: kernels, plug-in, arms, capture, control."""
