"""OpenAI's and vLLM's endpoints, with token ids and log-probabilities in requests and answers."""
