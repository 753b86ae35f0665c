"""SGLang as the engine of a worker: launch, requests, weights, drafters."""
